"""Findings: one catalogue, rules over counters, trends and evidence, and advice.

`catalogue` has the texts, `thresholds` the limits, `causes` and `rules` the conditions.
`evaluate` makes findings of them from poll to poll; `verdict` is the status of a table's row. Live
screens, `watch` and the analysis use them.
"""
