"""The limits of polling on the server and the link.

`shares` has the rules, and knows no clock; `asking` applies them to real requests.
"""
