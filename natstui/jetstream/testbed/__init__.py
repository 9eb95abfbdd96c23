"""Embedded servers and clusters for the demo and for tests, and in `shop` the demo's content.

Import `broker.Broker` or `cluster.Cluster`; only the demo and tests do.
"""
