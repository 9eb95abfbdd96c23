"""What is wrong or risky: rules over counters and their trend, with words and evidence.

Live screens, `watch` and the analysis speak from here.
"""
