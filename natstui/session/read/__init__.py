"""Reading of a recording, also while it is being written: open it, seek in it, replay it.

Import `recording` to read and `player` to replay.
"""
