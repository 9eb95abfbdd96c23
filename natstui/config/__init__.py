"""What the user wants: settings (`settings.py`, `load.py`) and a connection they resolve to.

Importing this package is cheap; only `settings` and `load` import pydantic.
"""

from natstui.config.connection import Connection, Secret

__all__ = ["Connection", "Secret"]
