"""The app and its parts: engines, replay, recording, polling, export; keys, commands, palette.

The only folder that knows every feature. `app.py` makes the `Parts`; one with keys of its own is a
`Part`; none of them imports `app.py`.
"""
