"""Received sequences by publisher: an exact set, with repeats and wrong order."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable

import numpy as np

from natstui.bench.job.digits import Int64s

_CHUNK = 1 << 16
FOREIGN = -1
"""Represents the publishers of other runs; its sequences are those of the stream."""


class SeenSeqs:
    """The received sequences of one publisher. Full chunks need hardly any memory."""

    def __init__(self) -> None:
        self._chunks: dict[int, np.ndarray] = {}
        self._full: set[int] = set()

    def add(self, seqs: Int64s) -> int:
        """Add sequences in any order; return how many of them were new."""
        if not len(seqs):
            return 0
        first, last = int(seqs[0]), int(seqs[-1])
        if last - first == len(seqs) - 1 and (len(seqs) == 1 or bool((np.diff(seqs) == 1).all())):
            return self._add_range(first, last + 1)
        new_count = 0
        for chunk in np.unique(seqs >> 16).tolist():
            inside = seqs[(seqs >> 16) == chunk] & (_CHUNK - 1)
            new_count += self._add_inside(chunk, inside)
        return new_count

    def _add_range(self, start: int, end: int) -> int:
        new_count = 0
        while start < end:
            chunk, offset = start >> 16, start & (_CHUNK - 1)
            stop = min(end - start + offset, _CHUNK)
            if chunk not in self._full:
                bits = self._bits(chunk)
                new_count += stop - offset - int(np.count_nonzero(bits[offset:stop]))
                bits[offset:stop] = True
                self._seal(chunk, stop)
            start += stop - offset
        return new_count

    def _add_inside(self, chunk: int, inside: Int64s) -> int:
        if chunk in self._full:
            return 0
        bits = self._bits(chunk)
        unique = np.unique(inside)
        new_count = len(unique) - int(np.count_nonzero(bits[unique]))
        bits[unique] = True
        self._seal(chunk, _CHUNK)
        return new_count

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
        """Return how many different sequences were received."""
        partial_count = sum(int(np.count_nonzero(bits)) for bits in self._chunks.values())
        return partial_count + len(self._full) * _CHUNK

    def merge(self, other_set: SeenSeqs) -> None:
        """Add the sequences of another set to this one."""
        for chunk in other_set._full:
            self._chunks.pop(chunk, None)
            self._full.add(chunk)
        for chunk, bits in other_set._chunks.items():
            if chunk not in self._full:
                own_bits = self._bits(chunk)
                own_bits |= bits
                self._seal(chunk, _CHUNK)

    def missing_below(self, end: int) -> int:
        """Return how many of the sequences 0 … end-1 were not received."""
        inside = 0
        for chunk, bits in self._chunks.items():
            inside += int(np.count_nonzero(bits[: max(min(end - (chunk << 16), _CHUNK), 0)]))
        for chunk in self._full:
            inside += max(min(end - (chunk << 16), _CHUNK), 0)
        return end - inside

    def dump(self) -> dict[str, str]:
        """Return the set as text: chunk → packed bits; an empty text is a full chunk."""
        bits_by_chunk = {str(chunk): "" for chunk in self._full}
        for chunk, bits in self._chunks.items():
            bits_by_chunk[str(chunk)] = base64.b64encode(
                zlib.compress(np.packbits(bits).tobytes())
            ).decode()
        return bits_by_chunk

    @classmethod
    def load(cls, bits_by_chunk: dict[str, str]) -> SeenSeqs:
        """Return the set that `dump` returned as text."""
        seqs = cls()
        for chunk, text in bits_by_chunk.items():
            if text:
                raw = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
                seqs._chunks[int(chunk)] = np.unpackbits(raw).astype(np.bool_)
            else:
                seqs._full.add(int(chunk))
        return seqs


class ReceivedSequences:
    """The sequences received by one receiver, by publisher; detects repeats and wrong order."""

    def __init__(self) -> None:
        self.by_publisher: dict[int, SeenSeqs] = {}
        self._highest: dict[int, int] = {}

    def add(self, publishers: Int64s, seqs: Int64s) -> tuple[int, int]:
        """Add received messages; return how many were new, and how many came after a later one.

        `publishers` and `seqs` have one number per message.
        """
        first = int(publishers[0])
        if bool((publishers == first).all()):
            return self._add_one(first, seqs)
        new_count = late_count = 0
        for publisher in np.unique(publishers).tolist():
            added_count, more_late = self._add_one(publisher, seqs[publishers == publisher])
            new_count, late_count = new_count + added_count, late_count + more_late
        return new_count, late_count

    def _add_one(self, publisher: int, seqs: Int64s) -> tuple[int, int]:
        seen = self.by_publisher.setdefault(publisher, SeenSeqs())
        highest = np.maximum.accumulate(np.maximum(seqs, self._highest.get(publisher, -1)))
        self._highest[publisher] = int(highest[-1])
        return seen.add(seqs), int(np.count_nonzero(seqs < highest))

    def dump(self) -> dict[str, dict[str, str]]:
        """Return the received sequences by publisher, as text of `SeenSeqs.dump`."""
        return {str(publisher): seqs.dump() for publisher, seqs in self.by_publisher.items()}


def union(dumps: Iterable[dict[str, dict[str, str]]]) -> dict[int, SeenSeqs]:
    """Return the sequences that any of several receivers got, by publisher; from their dumps."""
    together: dict[int, SeenSeqs] = {}
    for dump in dumps:
        for publisher, bits_by_chunk in dump.items():
            together.setdefault(int(publisher), SeenSeqs()).merge(SeenSeqs.load(bits_by_chunk))
    return together
