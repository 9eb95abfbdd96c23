"""Everything that connects to NATS: connections, requests, their replies, and changes.

Each folder may import `connection`, but no other one; `testbed` is for the demo and the tests.
`bench`, `engine` and `cli` import this package, `tui` never does; only this package and `bench`
import nats-py.
"""

import sys
from importlib import import_module

if "nats" not in sys.modules and "aiohttp" not in sys.modules:
    # nats-py imports aiohttp if it is installed, for WebSockets, which natstui opens itself.
    # Without aiohttp, `natstui stream ls` takes 0.65 s of CPU instead of 0.89 s (medians of 12
    # paired runs). None makes the import fail like that of a package that is not installed.
    sys.modules["aiohttp"] = None  # type: ignore[assignment]
    try:
        import_module("nats.aio.transport")
    finally:
        del sys.modules["aiohttp"]
