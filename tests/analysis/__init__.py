"""The analysis, held to sums made in plain Python."""
