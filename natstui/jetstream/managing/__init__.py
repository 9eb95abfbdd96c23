"""Changes streams, consumers, keys and objects: read, change, write, read back, undo.

Import `apply` and `undo`; `configure` creates and edits, `losses` counts what is deleted. Every
write uses `connection.writer`.
"""
