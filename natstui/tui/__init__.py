"""The terminal: state in, text out, typed messages back.

`app` composes features; features use `frame`, and `frame` uses `kit`; no feature uses another.
"""
