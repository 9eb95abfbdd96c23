"""`natstui watch`: rows of the state as JSON lines or as tables.

A new field belongs into the file of its row: `streams`, `consumers`, `server` or `happened`.
`root` names the command.
"""
