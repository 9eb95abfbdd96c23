"""The clients of an account: their connections, subscriptions and requests.

May be imported by every package. Of the model, it imports `assets`, `traffic` and
`live.permissions`.
"""
