"""A publisher that sends what no client library would let through."""

from __future__ import annotations

import json
import socket
from types import TracebackType
from urllib.parse import urlsplit


class RawPublisher:
    """Speaks the protocol by hand: any bytes as subject, headers and payload."""

    def __init__(self, url: str, identity: bytes = b"") -> None:
        address = urlsplit(url)
        self._socket = socket.create_connection((address.hostname, address.port), timeout=20)
        self._socket.recv(65536)
        words = b'"verbose":false,"pedantic":false,"headers":true' + identity
        if address.username:
            user = {"user": address.username, "pass": address.password}
            words += b"," + json.dumps(user).encode()[1:-1]
        self.send(b"CONNECT {%s}\r\n" % words)

    def send(self, line: bytes) -> None:
        """Send a line of the protocol."""
        self._socket.sendall(line)

    def publish(self, subject: bytes, payload: bytes, headers: bytes = b"") -> None:
        """Send one message."""
        if headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(payload))
            self._socket.sendall(b"HPUB %s %s\r\n%s%s\r\n" % (subject, sizes, headers, payload))
        else:
            self._socket.sendall(b"PUB %s %d\r\n%s\r\n" % (subject, len(payload), payload))

    def settle(self) -> None:
        """Wait until the server has taken everything; fail when it hung up."""
        self._socket.sendall(b"PING\r\n")
        answer = b""
        while b"PONG\r\n" not in answer:
            more = self._socket.recv(65536)
            assert more, answer
            answer += more

    def __enter__(self) -> RawPublisher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
