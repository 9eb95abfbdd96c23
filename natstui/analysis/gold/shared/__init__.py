"""Modules for several gold tables: harm and advice, recorded findings, forecasts, families."""
