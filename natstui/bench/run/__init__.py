"""One run of a benchmark: assets made, workers started, watched, counted and ended.

Import `controller`.
"""
