"""The catalogue: every kind of finding with its words, and the words while nothing is wrong.

Imports nothing of ours but itself, so that the smallest part of the analysis can have it.
"""
