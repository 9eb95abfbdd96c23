"""A recording as files: its folder, segments, lines, keyframes, index, marks and `session.json`.

Used by `write`, `read` and `share`; imports only the model and modules directly in `natstui`.
"""
