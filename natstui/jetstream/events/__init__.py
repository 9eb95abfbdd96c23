"""Messages that the server publishes itself: advisories and sampled acknowledgements.

Import `subscriptions`; `advisories` decodes each and formats its sentence.
"""
