"""Gold: every answer, one file each with its tables, queries, findings and place in the report.

`answers` lists them, `build` computes them; `answer` says what an answer consists of.
"""
