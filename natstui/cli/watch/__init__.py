"""`natstui watch`: rows of the state as JSON lines or as tables.

The fields of streams and consumers are columns of `model.columns`; the fields of other rows are in
`server` and `events`. The command is registered in `cli.root`.
"""
