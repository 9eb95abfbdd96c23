"""Benchmarks as values: plan, counts, latency, result, and the view of a run.

May be imported by every package; `natstui.bench` produces them.
"""
