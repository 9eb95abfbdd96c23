"""What receivers saw, by publisher: an exact set of sequences, repeats, and wrong order."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable

import numpy as np

from natstui.bench.job.digits import Int64s

_CHUNK = 1 << 16
FOREIGN = -1
"""Stands for the publishers of other runs; its sequences are those of the stream."""


class SeenSeqs:
    """The sequences of one publisher that arrived. Full chunks cost next to nothing."""

    def __init__(self) -> None:
        self._chunks: dict[int, np.ndarray] = {}
        self._full: set[int] = set()

    def add(self, seqs: Int64s) -> int:
        """Take sequences in any order; return how many of them were new."""
        if not len(seqs):
            return 0
        first, last = int(seqs[0]), int(seqs[-1])
        if last - first == len(seqs) - 1 and (len(seqs) == 1 or bool((np.diff(seqs) == 1).all())):
            return self._add_range(first, last + 1)
        fresh = 0
        for chunk in np.unique(seqs >> 16).tolist():
            inside = seqs[(seqs >> 16) == chunk] & (_CHUNK - 1)
            fresh += self._add_inside(chunk, inside)
        return fresh

    def _add_range(self, start: int, end: int) -> int:
        fresh = 0
        while start < end:
            chunk, offset = start >> 16, start & (_CHUNK - 1)
            stop = min(end - start + offset, _CHUNK)
            if chunk not in self._full:
                bits = self._bits(chunk)
                fresh += stop - offset - int(np.count_nonzero(bits[offset:stop]))
                bits[offset:stop] = True
                self._seal(chunk, stop)
            start += stop - offset
        return fresh

    def _add_inside(self, chunk: int, inside: Int64s) -> int:
        if chunk in self._full:
            return 0
        bits = self._bits(chunk)
        unique = np.unique(inside)
        fresh = len(unique) - int(np.count_nonzero(bits[unique]))
        bits[unique] = True
        self._seal(chunk, _CHUNK)
        return fresh

    def _bits(self, chunk: int) -> np.ndarray:
        bits = self._chunks.get(chunk)
        if bits is None:
            bits = self._chunks[chunk] = np.zeros(_CHUNK, np.bool_)
        return bits

    def _seal(self, chunk: int, upto: int) -> None:
        if upto == _CHUNK and bool(self._chunks[chunk].all()):
            del self._chunks[chunk]
            self._full.add(chunk)

    @property
    def seen_count(self) -> int:
        """How many different sequences arrived."""
        partial = sum(int(np.count_nonzero(bits)) for bits in self._chunks.values())
        return partial + len(self._full) * _CHUNK

    def merge(self, other: SeenSeqs) -> None:
        """Add everything another set has."""
        for chunk in other._full:
            self._chunks.pop(chunk, None)
            self._full.add(chunk)
        for chunk, bits in other._chunks.items():
            if chunk not in self._full:
                mine = self._bits(chunk)
                mine |= bits
                self._seal(chunk, _CHUNK)

    def missing_below(self, end: int) -> int:
        """Return how many of the sequences 0 … end-1 did not arrive."""
        inside = 0
        for chunk, bits in self._chunks.items():
            inside += int(np.count_nonzero(bits[: max(min(end - (chunk << 16), _CHUNK), 0)]))
        for chunk in self._full:
            inside += max(min(end - (chunk << 16), _CHUNK), 0)
        return end - inside

    def dump(self) -> dict[str, str]:
        """Return it as text: chunk → packed bits; an empty text is a full chunk."""
        packed = {str(chunk): "" for chunk in self._full}
        for chunk, bits in self._chunks.items():
            packed[str(chunk)] = base64.b64encode(
                zlib.compress(np.packbits(bits).tobytes())
            ).decode()
        return packed

    @classmethod
    def load(cls, packed: dict[str, str]) -> SeenSeqs:
        """Return the set a `dump` describes."""
        seen = cls()
        for chunk, text in packed.items():
            if text:
                raw = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
                seen._chunks[int(chunk)] = np.unpackbits(raw).astype(np.bool_)
            else:
                seen._full.add(int(chunk))
        return seen


class ReceivedSequences:
    """What one receiver saw, by publisher; finds repeats and wrong order as messages come."""

    def __init__(self) -> None:
        self.by_publisher: dict[int, SeenSeqs] = {}
        self._highest: dict[int, int] = {}

    def add(self, publishers: Int64s, seqs: Int64s) -> tuple[int, int]:
        """Take messages as they arrived; return (new ones, ones behind a later one)."""
        first = int(publishers[0])
        if bool((publishers == first).all()):
            return self._add_one(first, seqs)
        fresh = late = 0
        for publisher in np.unique(publishers).tolist():
            more_fresh, more_late = self._add_one(publisher, seqs[publishers == publisher])
            fresh, late = fresh + more_fresh, late + more_late
        return fresh, late

    def _add_one(self, publisher: int, seqs: Int64s) -> tuple[int, int]:
        seen = self.by_publisher.setdefault(publisher, SeenSeqs())
        highest = np.maximum.accumulate(np.maximum(seqs, self._highest.get(publisher, -1)))
        self._highest[publisher] = int(highest[-1])
        return seen.add(seqs), int(np.count_nonzero(seqs < highest))

    def dump(self) -> dict[str, dict[str, str]]:
        """Return it as text, by publisher."""
        return {str(publisher): seen.dump() for publisher, seen in self.by_publisher.items()}


def union(dumps: Iterable[dict[str, dict[str, str]]]) -> dict[int, SeenSeqs]:
    """Return what several receivers saw together, by publisher."""
    together: dict[int, SeenSeqs] = {}
    for dump in dumps:
        for publisher, packed in dump.items():
            together.setdefault(int(publisher), SeenSeqs()).merge(SeenSeqs.load(packed))
    return together
