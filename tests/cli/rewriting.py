"""Wires to a server: one exchanges words of one length both ways, one acts before a request."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.accounts import through
from tests.server_versions import version_under_test


@contextmanager
def speaking(url: str, here: bytes, there: bytes) -> Iterator[str]:
    """Say `there` to clients where the server says `here`, and the other way round."""
    assert len(here) == len(there)
    with _wire(
        url,
        lambda data: data.replace(there, here),
        lambda data: data.replace(here, there),
    ) as speaking_url:
        yield speaking_url


@contextmanager
def just_before(
    url: str, request: bytes, act: Callable[[], None], *, nth: int = 1, after: bytes = b""
) -> Iterator[str]:
    """Act once when the `nth` piece with `request` is on its way to the server.

    Counted are those that follow a piece with `after`.
    """
    acts, requests, earlier = [act], list[bytes](), [] if after else [b""]

    def up(data: bytes) -> bytes:
        if request in data and acts and earlier:
            requests.append(data)
            if len(requests) == nth:
                acts.pop()()
        elif after and after in data:
            earlier.append(data)
        return data

    with _wire(url, up, bytes) as wire_url:
        yield wire_url
    assert not acts, f"{request!r} was not sent"


Rewrite = Callable[[bytes], bytes]


@contextmanager
def _wire(url: str, up: Rewrite, down: Rewrite) -> Iterator[str]:
    """Listen, and pass on what clients and the server send, as it is rewritten."""
    address = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                server = socket.create_connection((address.hostname or "", address.port or 0))
                for one, other, rewrite in ((client, server, up), (server, client, down)):
                    threading.Thread(target=_pass, args=(one, other, rewrite), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield through(listening.getsockname()[1], url)


@contextmanager
def too_old(url: str) -> Iterator[tuple[str, str]]:
    """Name a version that natstui does not support in the server's greeting; yield both."""
    version = version_under_test()
    assert version is not None
    real = ".".join(map(str, version))
    old = "2.9." + "9" * (len(real) - len("2.9."))
    with speaking(url, f'"version":"{real}"'.encode(), f'"version":"{old}"'.encode()) as older:
        yield older, old


def _pass(one: socket.socket, other: socket.socket, rewrite: Rewrite) -> None:
    try:
        while data := one.recv(1 << 20):
            other.sendall(rewrite(data))
    except TimeoutError:
        # Of what is done on the way: a wire that only ends would not say so.
        raise
    except OSError:
        pass
    finally:
        for end in (one, other):
            end.close()
