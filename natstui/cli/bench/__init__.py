"""`natstui bench …`: scenarios, short forms and saved runs.

`command` has every command, `options` their flags; `run` runs a plan with `bench.run`.
"""
