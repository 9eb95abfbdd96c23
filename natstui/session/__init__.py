"""Recordings: folders of lines, written without blocking the engine, and read at any moment.

`files` is used by `write` and `read`, these by `share`, and all of them by `library`.
"""
