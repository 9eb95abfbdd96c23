"""The state of a server over time: snapshots, tables, history, rates and the fold of records.

May be imported by every room. Knows `records`, `assets` and `bench` of the model.
"""
