"""A server of the future or the past: a proxy that exchanges words of one length both ways."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.accounts import through
from tests.server_versions import version_under_test


@contextmanager
def speaking(url: str, here: bytes, there: bytes) -> Iterator[str]:
    """Say `there` to clients where the server says `here`, and the other way round."""
    assert len(here) == len(there)
    address = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            while True:
                try:
                    client, _ = listening.accept()
                except OSError:
                    return
                server = socket.create_connection((address.hostname or "", address.port or 0))
                for one, other, words in ((client, server, (there, here)),
                                          (server, client, (here, there))):  # fmt: skip
                    threading.Thread(target=_pass, args=(one, other, *words), daemon=True).start()

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


def _pass(one: socket.socket, other: socket.socket, word: bytes, instead: bytes) -> None:
    try:
        while data := one.recv(1 << 20):
            other.sendall(data.replace(word, instead))
    except OSError:
        pass
    finally:
        for end in (one, other):
            end.close()
