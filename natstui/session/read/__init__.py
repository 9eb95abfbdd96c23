"""Any moment of a recording: open it, seek in it, replay it, also while it is being written.

Import `recording` to read and `player` to replay.
"""
