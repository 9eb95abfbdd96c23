"""The big table: rows behind a protocol, only visible lines are drawn.

Import `big_table.BigTable` and `rows`.
"""
