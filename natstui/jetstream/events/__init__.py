"""What the server announces by itself: advisories and sampled acknowledgements.

Import `subscriptions`; `advisories` decodes each and words its sentence.
"""
