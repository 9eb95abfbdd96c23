"""The terminal interface: screens show the state of the engine, and send it commands.

`app` composes features; features use `frame`, and `frame` uses `kit`; no feature uses another.
"""
