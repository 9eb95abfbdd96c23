"""What polling may use of the server and of the link.

`shares` and `window` are the rules, and know no clock; `asking` applies them to real requests.
"""
