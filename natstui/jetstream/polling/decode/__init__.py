"""Converts raw JSON of the JetStream API to rows, columns and configurations of the model.

A renamed field of the server is changed here.
"""
