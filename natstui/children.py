"""How natstui starts its own modules as processes."""

from __future__ import annotations

import sys


def own_program(module: str, *words: str) -> list[str]:
    """Return the command line that runs a module of natstui, or any other installed one.

    `-P` keeps the current folder off the module search path: a `natstui.py` or `json.py` that
    lies there would else run in place of the real one.
    """
    return [sys.executable, "-P", "-m", module, *words]
