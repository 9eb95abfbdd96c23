"""Converts raw JSON of the JetStream API to rows, columns and configurations of the model.

If a server renames a field, only these modules change.
"""
