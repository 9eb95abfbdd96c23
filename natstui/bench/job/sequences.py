"""Exact sets of the received sequences by publisher, which detect repeats and wrong order."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable

import numpy as np

from natstui.bench.job.digits import Int64s

_CHUNK_SEQS = 1 << 16
FOREIGN_PUBLISHER = -1
"""Publisher id of all senders of other runs; its sequences are stream sequences."""


class SequenceSet:
    """The received sequences of one publisher, as bits in chunks of 65,536 sequences.

    A full chunk needs hardly any memory.
    """

    def __init__(self) -> None:
        self._partial_chunks: dict[int, np.ndarray] = {}
        self._full_chunks: set[int] = set()

    def add(self, seqs: Int64s) -> int:
        """Add sequences in any order; return how many of them were new."""
        if not len(seqs):
            return 0
        first_seq, last_seq = int(seqs[0]), int(seqs[-1])
        if last_seq - first_seq == len(seqs) - 1 and (
            len(seqs) == 1 or bool((np.diff(seqs) == 1).all())
        ):
            return self._add_range(first_seq, last_seq + 1)
        new_count = 0
        for chunk in np.unique(seqs >> 16).tolist():
            offsets = seqs[(seqs >> 16) == chunk] & (_CHUNK_SEQS - 1)
            new_count += self._add_to_chunk(chunk, offsets)
        return new_count

    def _add_range(self, start: int, end: int) -> int:
        new_count = 0
        while start < end:
            chunk, offset = start >> 16, start & (_CHUNK_SEQS - 1)
            end_offset = min(end - start + offset, _CHUNK_SEQS)
            if chunk not in self._full_chunks:
                bits = self._chunk_bits(chunk)
                new_count += end_offset - offset - int(np.count_nonzero(bits[offset:end_offset]))
                bits[offset:end_offset] = True
                self._store_if_full(chunk, end_offset)
            start += end_offset - offset
        return new_count

    def _add_to_chunk(self, chunk: int, offsets: Int64s) -> int:
        if chunk in self._full_chunks:
            return 0
        bits = self._chunk_bits(chunk)
        unique_offsets = np.unique(offsets)
        new_count = len(unique_offsets) - int(np.count_nonzero(bits[unique_offsets]))
        bits[unique_offsets] = True
        self._store_if_full(chunk, _CHUNK_SEQS)
        return new_count

    def _chunk_bits(self, chunk: int) -> np.ndarray:
        bits = self._partial_chunks.get(chunk)
        if bits is None:
            bits = self._partial_chunks[chunk] = np.zeros(_CHUNK_SEQS, np.bool_)
        return bits

    def _store_if_full(self, chunk: int, end: int) -> None:
        if end == _CHUNK_SEQS and bool(self._partial_chunks[chunk].all()):
            del self._partial_chunks[chunk]
            self._full_chunks.add(chunk)

    @property
    def count(self) -> int:
        """Return how many different sequences were received."""
        partial_count = sum(int(np.count_nonzero(bits)) for bits in self._partial_chunks.values())
        return partial_count + len(self._full_chunks) * _CHUNK_SEQS

    def merge(self, other_set: SequenceSet) -> None:
        """Add the sequences of another set to this one."""
        for chunk in other_set._full_chunks:
            self._partial_chunks.pop(chunk, None)
            self._full_chunks.add(chunk)
        for chunk, bits in other_set._partial_chunks.items():
            if chunk not in self._full_chunks:
                own_bits = self._chunk_bits(chunk)
                own_bits |= bits
                self._store_if_full(chunk, _CHUNK_SEQS)

    def missing_below(self, end: int) -> int:
        """Return how many of the sequences 0 … end-1 were not received."""
        received_count = 0
        for chunk, bits in self._partial_chunks.items():
            bits_limit = max(min(end - (chunk << 16), _CHUNK_SEQS), 0)
            received_count += int(np.count_nonzero(bits[:bits_limit]))
        for chunk in self._full_chunks:
            received_count += max(min(end - (chunk << 16), _CHUNK_SEQS), 0)
        return end - received_count

    def dump(self) -> dict[str, str]:
        """Return number of a chunk → its compressed bits in Base64; "" for a full chunk."""
        bits_by_chunk = {str(chunk): "" for chunk in self._full_chunks}
        for chunk, bits in self._partial_chunks.items():
            bits_by_chunk[str(chunk)] = base64.b64encode(
                zlib.compress(np.packbits(bits).tobytes())
            ).decode()
        return bits_by_chunk

    @classmethod
    def load(cls, bits_by_chunk: dict[str, str]) -> SequenceSet:
        """Return the set whose `dump` returned `bits_by_chunk`."""
        seqs = cls()
        for chunk, chunk_text in bits_by_chunk.items():
            if chunk_text:
                chunk_bytes = np.frombuffer(
                    zlib.decompress(base64.b64decode(chunk_text)), np.uint8
                )
                seqs._partial_chunks[int(chunk)] = np.unpackbits(chunk_bytes).astype(np.bool_)
            else:
                seqs._full_chunks.add(int(chunk))
        return seqs


class ReceivedSequences:
    """The sequences received by one receiver, by publisher; detects repeats and wrong order."""

    def __init__(self) -> None:
        self.sequences_by_publisher: dict[int, SequenceSet] = {}
        self._highest_seq_by_publisher: dict[int, int] = {}

    def add(self, publishers: Int64s, seqs: Int64s) -> tuple[int, int]:
        """Add received messages; return how many are new, and how many are out of order.

        `publishers` and `seqs` have one number per message. A message is out of order if a higher
        sequence of its publisher was received before.
        """
        first_publisher = int(publishers[0])
        if bool((publishers == first_publisher).all()):
            return self._add_of_publisher(first_publisher, seqs)
        new_count = out_of_order_count = 0
        for publisher in np.unique(publishers).tolist():
            added_count, added_out_of_order_count = self._add_of_publisher(
                publisher, seqs[publishers == publisher]
            )
            new_count, out_of_order_count = (
                new_count + added_count,
                out_of_order_count + added_out_of_order_count,
            )
        return new_count, out_of_order_count

    def _add_of_publisher(self, publisher: int, seqs: Int64s) -> tuple[int, int]:
        sequences = self.sequences_by_publisher.setdefault(publisher, SequenceSet())
        highest_seqs = np.maximum.accumulate(
            np.maximum(seqs, self._highest_seq_by_publisher.get(publisher, -1))
        )
        self._highest_seq_by_publisher[publisher] = int(highest_seqs[-1])
        return sequences.add(seqs), int(np.count_nonzero(seqs < highest_seqs))

    def dump(self) -> dict[str, dict[str, str]]:
        """Return the received sequences by publisher, as text of `SequenceSet.dump`."""
        return {
            str(publisher): seqs.dump() for publisher, seqs in self.sequences_by_publisher.items()
        }


def merge_dumps(dumps: Iterable[dict[str, dict[str, str]]]) -> dict[int, SequenceSet]:
    """Return the sequences that any of several receivers received, by publisher.

    `dumps` are those of `ReceivedSequences`, one per receiver.
    """
    seqs_by_publisher: dict[int, SequenceSet] = {}
    for dump in dumps:
        for publisher, bits_by_chunk in dump.items():
            seqs_by_publisher.setdefault(int(publisher), SequenceSet()).merge(
                SequenceSet.load(bits_by_chunk)
            )
    return seqs_by_publisher
