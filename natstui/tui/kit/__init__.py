"""Widgets without features: text, styles, fields, prompt, table, chart, raw view, terminal."""
