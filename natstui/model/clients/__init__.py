"""The clients of an account: their connections, subscriptions and requests.

May be imported by every room. Knows only `assets` of the model.
"""
