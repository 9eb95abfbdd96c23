"""The programs of the load patterns: they write and parse blocks of protocol as arrays.

A new pattern is one file here, and its row in `worker`.
"""
