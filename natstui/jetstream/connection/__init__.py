"""One connection to NATS: opening, failure reasons, keeping it alive, reading and writing.

Import `client.Client` to send requests and `writer.Writer` to change; it imports no other folder
of `jetstream`.
"""
