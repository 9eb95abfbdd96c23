"""One connection to NATS: opened, explained when it fails, kept alive, used to read and to write.

Import `client.Client` to ask and `writer.Writer` to change; imports `sockets` only.
"""
