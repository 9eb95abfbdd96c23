"""Silver: flat, typed tables, one row per sample or event, made from the columns of bronze.

`build` writes the tables, `layer` reads them.
"""
