"""Recorded sessions through Spark: runs without the other rooms.

`job` is the program; `silver` makes tables of lines, `gold` answers, `report` shows them.
"""
