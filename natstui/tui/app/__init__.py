"""The app and its parts: engines, replay, recording, polling, export; keys, commands, palette.

Only this folder imports every feature. `app.py` creates the `AppParts`; each one with its own keys
is an `AppPart`; no part imports `app.py`.
"""
