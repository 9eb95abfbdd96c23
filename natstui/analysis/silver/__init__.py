"""Lines → bronze → silver: read with a schema, checked, and flattened into typed tables.

`build` makes the tables, `layer` reads them; imports go to `spark` and `tables` only.
"""
