"""The app and its parts: engines, replay, recording, polling, export; keys, commands, palette.

Only this folder imports every feature. `app.py` creates the `Parts`; each one with its own keys is
a `Part`; no part imports `app.py`.
"""
