"""`natstui record|replay|sessions|export|analyze`: work on recordings.

A module per command; `root` names them.
"""
