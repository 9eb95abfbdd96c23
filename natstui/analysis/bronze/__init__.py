"""Bronze: a row per recorded line, with a column for each kind of record that silver uses.

`build` reads, parses and writes new segments, `records` validates lines.
"""
