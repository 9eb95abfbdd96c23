"""The newest messages, kept as the blocks in which they came: taken apart only when looked at."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from natstui.jetstream.connection.wire_parser import Piece
from natstui.jetstream.messages.decode import headers_of
from natstui.jetstream.messages.listening.tally import Wanted, text_of
from natstui.model.records.listening import HEARD_KEPT_MSGS, Heard
from natstui.model.records.messages import StoredMessage

_MOST_BYTES = 32 * 1024 * 1024


class _Block(NamedTuple):
    at_us: int
    numbers: range | list[int]
    data: bytes
    run: list[Piece]


class _Kept:
    """Blocks with at least the newest so many messages, as far as there is room."""

    def __init__(self) -> None:
        self.blocks: deque[_Block] = deque()
        self._count = self._bytes = 0

    def add(self, block: _Block) -> None:
        self.blocks.append(block)
        self._count += len(block.run)
        self._bytes += len(block.data)
        while len(self.blocks) > 1 and (
            self._count - len(self.blocks[0].run) >= HEARD_KEPT_MSGS or self._bytes > _MOST_BYTES
        ):
            gone = self.blocks.popleft()
            self._count -= len(gone.run)
            self._bytes -= len(gone.data)

    def newest(self) -> Iterator[tuple[int, int, bytes, Piece]]:
        """Yield number, time, data and piece of each message, the newest first."""
        for at_us, numbers, data, run in reversed(self.blocks):
            for number, piece in zip(reversed(numbers), reversed(run), strict=True):
                yield number, at_us, data, piece


class Newest:
    """The newest messages of all, and the newest of those that are wanted."""

    def __init__(self, wanted: Wanted) -> None:
        self._all, self._chosen = _Kept(), _Kept()
        self._wanted = wanted
        self._came_msgs = 0

    def add(self, data: bytes, run: list[Piece], at_us: int) -> None:
        """Take the messages of a block."""
        begin, self._came_msgs = self._came_msgs, self._came_msgs + len(run)
        block = _Block(at_us, range(begin + 1, self._came_msgs + 1), data, run)
        self._all.add(block)
        self._choose(block)

    def want(self, wanted: Wanted) -> None:
        """Keep others from now on; of those that came, the newest are looked through."""
        self._wanted, self._chosen = wanted, _Kept()
        for block in self._all.blocks:
            self._choose(block)

    def told(self, preview_bytes: int) -> tuple[Heard, ...]:
        """Return the newest that are wanted, oldest first."""
        found = list[Heard]()
        for number, at_us, data, piece in self._chosen.newest():
            found.append(_heard(number, at_us, data, piece, preview_bytes))
            if len(found) == HEARD_KEPT_MSGS:
                break
        return tuple(reversed(found))

    def find(self, number: int) -> Heard | None:
        """Return a message with its whole payload; None when it is no longer kept."""
        for kept in (self._chosen, self._all):
            for one, at_us, data, piece in kept.newest():
                if one == number:
                    return _heard(number, at_us, data, piece, None)
        return None

    def _choose(self, block: _Block) -> None:
        if self._wanted.is_everything:
            self._chosen.add(block)
            return
        fits = self._wanted.fits
        pairs = [(n, p) for n, p in zip(block.numbers, block.run, strict=True) if fits(p[0])]
        if pairs:
            numbers, run = map(list, zip(*pairs, strict=True))
            self._chosen.add(_Block(block.at_us, numbers, block.data, run))


def _heard(number: int, at_us: int, data: bytes, piece: Piece, preview_bytes: int | None) -> Heard:
    subject, reply, start, header_bytes, size_bytes = piece
    begin, end = start + header_bytes, start + size_bytes
    shown = data[begin : end if preview_bytes is None else min(end, begin + preview_bytes)]
    message = StoredMessage(
        None,
        text_of(subject),
        at_us,
        headers_of(data[start:begin]) if header_bytes else (),
        base64.b64encode(shown).decode(),
        end - begin,
    )
    return Heard(number, text_of(reply), message)
