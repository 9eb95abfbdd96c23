"""Streams: table, detail, form.

A new column is one entry in `cells.py`.
"""
