"""`natstui watch`: rows of the state as JSON lines or as tables.

A new field goes into `rows` and `build`. `root` names the command.
"""
