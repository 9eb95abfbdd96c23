"""The gold layer: each file has tables with their queries, findings and sections of the report.

`build` finds and computes the tables; `gold_table` has their type.
"""
