"""Recordings for tests: made in one thread, so that segments end where a test wants."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.record import Record
from natstui.session.files.entry import RecordSplitter
from natstui.session.files.info import updated_info
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.write.recording_folder import RecordingFolder
from natstui.session.write.settings import RecorderSettings
from tests.session.scenario import START_US


class Maker:
    """Writes records as the recorder does, a segment after so many polls."""

    def __init__(
        self,
        sessions: Path,
        polls_per_segment: int = 60,
        name: str = "test",
        keyframes: KeyframeBuilder | None = None,
    ) -> None:
        self._keyframes = keyframes or KeyframeBuilder()
        self.disk = RecordingFolder(
            RecorderSettings(sessions, name), self._keyframes.keyframe(START_US), START_US
        )
        self._polls_per_segment = polls_per_segment
        self._begin()

    def _begin(self) -> None:
        self._splitter, self._lines, self._polls = RecordSplitter(), 0, 0

    def rotate(self, at_us: int = START_US) -> None:
        """Begin the next segment, with all that is known at a time."""
        self.disk.rotate(self._keyframes.keyframe(at_us, is_first=False))
        self.disk.seal()
        self._begin()

    def add(self, record: Record) -> None:
        if self._polls == self._polls_per_segment:
            self.rotate()
        self._polls += isinstance(record, Snapshot)
        self._keyframes.add(record)
        self.disk.update_info(updated_info(self.disk.info, record))
        self._lines += 1
        self.disk.append(b"".join(self._splitter.lines(record, self._lines)))


def made(sessions: Path, records: Iterable[Record], polls_per_segment: int = 60) -> Path:
    """Write a finished session and return its folder."""
    maker = Maker(sessions, polls_per_segment)
    for record in records:
        maker.add(record)
    maker.disk.finish(START_US)
    return maker.disk.folder


def fold(records: Iterable[Record]) -> State:
    """Return the state after records."""
    state = State()
    for record in records:
        state = state.after(record)
    return state


def wait_until(true: Callable[[], object], timeout_s: float = 20) -> None:
    """Wait for something to become true."""
    end_s = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < end_s, "it did not happen in time"
        time.sleep(0.01)
