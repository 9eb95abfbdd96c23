"""The load as arrays: entire blocks of protocol, one file per load pattern.

A new pattern is one file here and its row in `worker.programs`.
"""
