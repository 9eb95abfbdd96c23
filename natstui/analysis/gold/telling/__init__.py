"""Harm and advice of findings, forecasts, recorded findings, and the data of charts."""
