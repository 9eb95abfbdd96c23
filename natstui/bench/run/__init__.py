"""One run of a benchmark: creates assets, starts workers, counts their messages, and cleans up.

`controller` has its entry point.
"""
