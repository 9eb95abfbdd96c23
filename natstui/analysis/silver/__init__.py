"""The silver layer: flat, typed tables, one row per sample or event, from the lines of bronze.

`build` writes the tables, `layer` reads them.
"""
