"""The engine process: joins sources, recorder and stdout, executes commands on stdin.

`process` serves a live server, `replay` a recording; `record_server` and `benchmark_recording`
record without a viewer. Only `cli` imports this package; it imports jetstream, bench and session,
never `tui` or `analysis`.
"""
