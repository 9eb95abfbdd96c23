"""What a controller and the machines that joined it say to each other over NATS.

A worker there is told, and tells, the same lines as one here; long lines go in pieces. Everything
a worker needs to connect stays on its machine: orders travel without a connection.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from natstui.bench.job.protocol import Orders

_PREFIX = "_NATSTUI.BENCH"
WHO = f"{_PREFIX}.WHO"
"""Asked of everybody: who is there?"""
ALIVE = b""
"""A message without anything in it: whoever sends it is still there."""
ALIVE_EVERY_S = 0.5
GONE_AFTER_S = 6.0
"""A machine, or a controller, that is silent for so long is gone."""
_PIECE_BYTES = 1 << 18
_MORE, _LAST, _ENDED = b"+", b".", b"!"


class About(msgspec.Struct, frozen=True, kw_only=True):
    """A machine that joined."""

    agent: str
    host: str
    version: str


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """Start a worker."""

    orders: Orders
    """Without a connection: it is that of the machine."""
    up: str
    """Where its lines go …"""
    down: str
    """… and where lines for it come."""
    cleanup: tuple[str, ...]
    """What the machine removes when the controller is gone without a word."""


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the process, or why there is none."""

    pid: int = 0
    refused: str = ""


def subject_of(agent: str, what: str) -> str:
    """Return where one machine listens, as for `CLOCK`."""
    return f"{_PREFIX}.{agent}.{what}"


def new_subject(run_id: str, number: int, what: str) -> str:
    """Return where the lines of one worker go."""
    return f"{_PREFIX}.RUN.{run_id}.{number}.{what}"


def pieces(line: bytes) -> Iterator[bytes]:
    """Yield the messages that carry a line."""
    for start in range(0, len(line), _PIECE_BYTES):
        mark = _LAST if start + _PIECE_BYTES >= len(line) else _MORE
        yield mark + line[start : start + _PIECE_BYTES]


def ended(text: str) -> bytes:
    """Return the message that says how a process ended."""
    return _ENDED + text.encode()[:1000]


class Lines:
    """Puts the pieces of lines together again."""

    def __init__(self) -> None:
        self._rest = b""
        self.ended: str | None = None
        """How the process ended; None: it has not."""

    def take(self, message: bytes) -> bytes | None:
        """Return the line that a message completes."""
        mark, rest = message[:1], message[1:]
        if mark == _ENDED:
            self.ended = rest.decode("utf-8", "replace")
        elif mark == _MORE:
            self._rest += rest
        elif mark == _LAST:
            line, self._rest = self._rest + rest, b""
            return line
        return None
