"""Events that the server publishes itself: advisories and sampled acknowledgements.

Import `subscriptions`; `advisories` decodes each event and formats its sentence.
"""
