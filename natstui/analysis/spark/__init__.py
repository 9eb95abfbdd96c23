"""Spark itself: session, store, check of Java, its errors as sentences, cancelling.

Knows no table of ours but `analysis.tables`.
"""
