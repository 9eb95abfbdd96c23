"""Configurations of streams and consumers: options, rules, defaults, texts, differences.

A new option of the server is one row in `stream_fields.py` or `consumer_fields.py`.
"""
