"""The form of a benchmark: a scenario file as the fields people fill in, and back.

`fields` has the fields, `document` reads and writes the file, `preview` says what it will do.
"""
