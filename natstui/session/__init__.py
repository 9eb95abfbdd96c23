"""Recordings: folders of lines, written without blocking the engine, and read at any time.

`files` is used by `write` and `read`, these by `share`, and all of them by `library`.
"""
