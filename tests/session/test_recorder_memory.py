"""A recorder takes no more memory after many hours than after one."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import pytest

from benchmarks.recording import PollClock
from natstui.model.records.record import Noted
from natstui.session.files.folder import folder_size_bytes, list_segments
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.write.recorder import Clock, Recorder
from natstui.session.write.settings import RecorderSettings
from tests.session.making import wait_until
from tests.session.scenario import START_US, Scenario

STEP_S = 15
HOUR_S = 3600
_NOT_ITS_OWN = (ModuleType, type, FunctionType, threading.Thread)


def held_bytes(root: object) -> int:
    """Return the memory of everything that an object leads to."""
    seen: set[int] = set()
    todo, total_bytes = [root], 0
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, _NOT_ITS_OWN):
            continue
        seen.add(id(one))
        total_bytes += sys.getsizeof(one)
        todo += parts_of(one)
    return total_bytes


def parts_of(one: Any) -> Iterator[object]:
    """Yield what a container holds, and the attributes of anything else."""
    if isinstance(one, dict):
        yield from one.keys()
        yield from one.values()
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from one
    yield getattr(one, "__dict__", None)
    names = {name for cls in type(one).__mro__ for name in getattr(cls, "__slots__", ())}
    # Of a method and a partial: its object, and what it is called with.
    for name in (*names, "__self__", "func", "args", "keywords"):
        yield getattr(one, name, None)


def recording(folder: Path, retain_s: int | None) -> tuple[Recorder, Callable[[int, int], None]]:
    """Return a recorder, and what has it record from one hour to another."""
    scenario, clock = Scenario(), PollClock()
    recorder = Recorder(
        RecorderSettings(folder, "days", retain_s=retain_s),
        KeyframeBuilder().keyframe(0),
        lambda change: None,
        Clock(clock.now_us, clock.now_us),
    )

    def record(first_hour: int, last_hour: int) -> None:
        for second in range(first_hour * HOUR_S + STEP_S, last_hour * HOUR_S + 1, STEP_S):
            clock.passed_us = second * 1_000_000
            at_us = START_US + clock.passed_us
            for one in (scenario.poll(second), *scenario.events(second, at_us)):
                recorder.add(one)
            recorder.add(Noted(at_us, f"at {second}"))
            if second % 60 == 0:
                wait_until(lambda: not recorder.is_behind)

    for one in scenario.beginning():
        recorder.add(one)
    return recorder, record


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("retain_s", [None, HOUR_S])
def test_hours_of_recording_take_no_more_memory_than_the_first(
    tmp_path: Path, retain_s: int | None
) -> None:
    recorder, record = recording(tmp_path, retain_s)
    try:
        record(0, 1)
        first_bytes = held_bytes(recorder)
        record(1, 2)
        # Each segment was an entry of a list, each event one of thousands. What was wrong and is
        # over is kept still, up to a number that takes a day to reach.
        assert held_bytes(recorder) < first_bytes + 30_000
    finally:
        recorder.stop()
    kept = [one for one in list_segments(recorder.folder) if one.sealed]
    assert len(kept) >= 55 if retain_s else len(kept) >= 110
    assert folder_size_bytes(recorder.folder) >= sum(one.path.stat().st_size for one in kept)
