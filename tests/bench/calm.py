"""How much a run was disturbed: how long its processes were ready and got no processor."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path

_LOOK_S = 0.05


def waited_s(pid: int) -> float:
    """Return how long a process waited for a processor so far; 0 where the system cannot say."""
    total_ns = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total_ns += int(task.read_text().split()[1])
    return total_ns / 1e9


class Waiting:
    """Adds up how long some processes waited, as long as they live."""

    def __init__(self, pids: Callable[[], Iterable[int]]) -> None:
        """`pids` says which processes there are now."""
        self._pids = pids
        self._before_s: dict[int, float] = {}
        self._latest_s: dict[int, float] = {}

    @property
    def total_s(self) -> float:
        """How long they waited together since they were first seen."""
        return sum(self._latest_s.values()) - sum(self._before_s.values())

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            for pid in self._pids():
                seen_s = waited_s(pid)
                self._before_s.setdefault(pid, seen_s)
                self._latest_s[pid] = max(seen_s, self._latest_s.get(pid, 0.0))
            await asyncio.sleep(_LOOK_S)
