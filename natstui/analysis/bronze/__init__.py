"""Bronze: every recorded line, parsed once, with a column for each kind of record.

`lines` reads and parses, `records` tells which lines are records, `build` writes what is new.
"""
