"""Changes to streams and consumers: read, change, write, read back, take back.

Import `apply` and `undo`; `configure` makes and edits, `losses` counts what is removed. Every
write goes through `connection.writer`.
"""
