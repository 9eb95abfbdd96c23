"""Bronze: every recorded line, parsed once, with a column for each kind of record.

`build` reads, parses and writes new segments, `records` validates lines.
"""
