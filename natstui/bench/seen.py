"""What receivers saw, by publisher: repeats and wrong order as messages come, and unions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from natstui.bench.digits import Int64s
from natstui.bench.seen_seqs import SeenSeqs


class Seen:
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
