"""The big table: rows behind a protocol, only visible lines drawn.

Import `big_table.BigTable` and `rows`.
"""
