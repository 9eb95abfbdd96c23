"""The limits of polling on the server and the link.

`shares` computes the limits without a clock; `requests` applies them to requests.
"""
