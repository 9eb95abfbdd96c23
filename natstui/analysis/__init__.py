"""Analysis of recorded sessions with Spark; it runs without the rooms above the model.

`job` is the program; `bronze` parses lines, `silver` makes tables, `gold` answers, `report` pages.
"""
