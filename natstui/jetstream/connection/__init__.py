"""One connection to NATS: opening, failure reasons, keeping it alive, reading and writing.

Import `client.Client` to send requests, and `writer.Writer` to change the server. This package
imports no other folder of `jetstream`.
"""
