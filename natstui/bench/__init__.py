"""Load: worker processes, the protocol between them, and honest statistics.

`run` and `worker` stand on `wire`, that on `job`, all on `plan`; `result` judges.
"""
