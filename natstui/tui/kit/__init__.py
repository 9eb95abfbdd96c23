"""Widgets that know no feature: text, looks, fields, prompt, table, chart, raw view, terminal."""
