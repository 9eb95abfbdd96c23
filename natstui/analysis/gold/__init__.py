"""Gold: the answers; a file each has tables, queries, findings and the place in the report.

`build` finds and computes the answers; `answer` has their type.
"""
