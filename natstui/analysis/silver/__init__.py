"""The silver layer: flat, typed tables, one row per sample or event, from the lines of bronze.

Only findings of recordings without any are computed, by the rules of the live screen.

`build` writes the tables, `layer` reads them.
"""
