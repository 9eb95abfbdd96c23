"""Analysis of recorded sessions with Spark; imports no package above `model`.

`job` is the program; `bronze` parses lines, `silver` has flat tables, `gold` the results, `report`
texts and pages of them.
"""
