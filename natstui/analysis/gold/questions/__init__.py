"""Answers computed from other answers: forecasts, worst hours, effects of changes, delays."""
