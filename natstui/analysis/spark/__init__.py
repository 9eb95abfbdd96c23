"""Spark: its session, the storage of tables, the search for Java, errors and cancelling.

Of the analysis, it imports no tables, only their types in `analysis.tables`.
"""
