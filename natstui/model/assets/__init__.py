"""Streams and consumers as configurations: their options, rules, defaults, texts, differences.

A new option of the server is one row in `stream_fields.py` or `consumer_fields.py`.
"""
