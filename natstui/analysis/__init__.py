"""Analysis of recorded sessions with Spark; imports `model` and, for old recordings, `session`.

`job` is the program; `bronze` parses lines, `silver` has flat tables, `gold` the results, `report`
texts and pages of them.
"""
