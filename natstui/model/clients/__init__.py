"""Who is connected: the connections of an account, and which of them ask for what.

May be imported by every room. Knows only `assets` of the model.
"""
