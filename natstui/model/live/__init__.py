"""The state of a server over time: snapshots, tables, history, rates and the fold of records.

May be imported by every package. `state` combines them with findings, servers and
clients.
"""
