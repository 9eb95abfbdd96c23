"""What is wrong or risky: ONE catalogue, rules over counters, trend and evidence, and advice.

`catalogue` has the words, `thresholds` the numbers, `rules` says when each holds. `evaluate` makes
findings of them from poll to poll; `verdict` is what a row of a table says. Live screens, `watch`
and the analysis speak from here.
"""
