"""Load: worker processes, the protocol between them, and honest statistics.

`run` and `worker` import `wire`, which imports `job`; all import `plan`. `result` has verdicts.
"""
