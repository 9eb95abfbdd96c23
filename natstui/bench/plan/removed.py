"""Sentences about removed features of benchmarks, which name the replacements."""

CLIENT_OPTION_REMOVED_TEXT = (
    "natstui measures with its own client only: `python -m benchmarks clients`, in a checkout of"
    " natstui, compares it with nats bench and nats-py"
)
REMOTE_WORKERS_REMOVED_TEXT = (
    "other machines cannot join a benchmark: start natstui bench on each of"
    " them with --at, and add up the saved runs with natstui bench merge"
)
