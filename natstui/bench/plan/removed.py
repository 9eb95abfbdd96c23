"""Removed features of benchmarks, each with the sentence that names the replacement."""

ONE_CLIENT = (
    "natstui measures with its own client only: `python -m benchmarks clients`, in a checkout of"
    " natstui, compares it with nats bench and nats-py"
)
NO_MACHINES = (
    "other machines cannot join a benchmark: start natstui bench on each of"
    " them with --at, and add up the saved runs with natstui bench merge"
)
