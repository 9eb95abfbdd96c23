"""One run of a benchmark: assets created, workers started, watched, counted and ended.

Import `controller`.
"""
