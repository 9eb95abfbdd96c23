"""Silver: flat, typed tables, one row per sample or event, made of the columns of bronze.

`build` makes the tables, `layer` reads them.
"""
