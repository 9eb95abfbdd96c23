"""Benchmarks: their plans, the worker processes that put load on a server, and their results.

`worker` imports `wire`, and both import `job`, as do `run` and `result`. `run` imports `plan`.
`result` has verdicts.
"""
