"""Looking up a host without ever waiting for it at the end of the program."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from typing import Any

_Answer = list[tuple[Any, ...]]


async def lookup(host: str, port: int) -> list[str]:
    """Return the IP addresses of a host, best first; raises socket.gaierror.

    Runs in a thread of its own that dies with the program: asyncio would wait for it at the end,
    and a resolver that does not answer takes its time.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[_Answer] = loop.create_future()

    def deliver(found: _Answer | OSError) -> None:
        if answer.done():
            return
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look() -> None:
        found = _look(host, port)
        # The program may have ended meanwhile, and its loop with it.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(deliver, found)

    threading.Thread(target=look, name="lookup", daemon=True).start()
    addresses = [str(entry[4][0]) for entry in await answer]
    if not addresses:
        raise socket.gaierror(socket.EAI_NONAME, "no address")
    return list(dict.fromkeys(addresses))


def _look(host: str, port: int) -> _Answer | OSError:
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except OSError as error:
        return error
    except UnicodeError:
        return socket.gaierror(socket.EAI_NONAME, "not a valid name")
