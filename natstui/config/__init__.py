"""Settings, contexts and flags, and the one `Connection` that they resolve to.

Import `Connection` and `Secret` from here, `load.load` for settings, `resolve.resolve` for the
connection. This package imports the model only, and never nats-py. Importing it is cheap: pydantic
comes with `settings`, `load` and `resolve`.
"""

from natstui.config.connection import Connection, Secret

__all__ = ["Connection", "Secret"]
