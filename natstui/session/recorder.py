"""The recorder: a sink that never blocks, and a thread that writes whatever the disk does.

recording ──(any OSError)──▶ in trouble ──(a write succeeds)──▶ recording, with a Gap noted
    each second: is the folder there, may we write, was the clock set, is the minute over?
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import reduce
from pathlib import Path

from natstui.errors import SessionError
from natstui.model.record import EngineStarted, LinkChanged, Record
from natstui.model.recording import ClockStepped, Gap, RecordingChanged
from natstui.session.clock import Clock, StepWatch
from natstui.session.disk import Disk, RecorderSettings
from natstui.session.entry import Splitter
from natstui.session.info import learned
from natstui.session.keyframe import Keyframe, Memory
from natstui.session.marks import step_text
from natstui.session.privacy import recordable
from natstui.session.reporter import Reporter, why
from natstui.session.waiting import Waiting

_TICK_S = 0.5
_TIDY_AGAIN_US = 5_000_000
_AT_ONCE_BYTES = 1 << 20
_UNWRITTEN_BYTES = 64 << 20
"""Lines that may wait for a disk that has no room."""
_LAST_WORDS_S = 60.0


class Recorder:
    """Records what it is given, from a keyframe on, until `stop`."""

    def __init__(
        self,
        settings: RecorderSettings,
        keyframe: Keyframe,
        on_change: Callable[[RecordingChanged], None],
        clock: Clock | None = None,
    ) -> None:
        """Make the folder and begin; `on_change` is called in the recorder's own thread.

        Raises SessionError when the recording cannot begin.
        """
        self._settings = settings
        self._clock = clock or Clock()
        self._memory = Memory()
        for record in keyframe.records():
            self._memory.add(record)
        self._introductions: list[Record] = keyframe.facts()
        try:
            self._disk = Disk(settings, keyframe, self._clock.wall_us())
        except OSError as error:
            raise SessionError(f"cannot record into {settings.sessions}: {why(error)}") from error
        self.folder: Path = self._disk.folder
        self._reporter = Reporter(self.folder, on_change, self._clock)
        self._waiting = Waiting()
        self._stopping = threading.Event()
        self._steps = StepWatch(self._clock)
        self._begin_segment()
        self._tidy_again_us = 0
        self._last_written_us = self._clock.wall_us()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Take one record; returns at once."""
        self._waiting.add(record)

    @property
    def is_behind(self) -> bool:
        """Tell whether something added is not written yet."""
        return self._waiting.is_behind

    def stop(self) -> None:
        """Write what waits, seal, and end; waits for it."""
        self._stopping.set()
        self._waiting.wake()
        self._thread.join(_LAST_WORDS_S)

    def _begin_segment(self) -> None:
        self._splitter = Splitter()
        self._line_count = 0
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._lost_count = 0
        self._segment_since_us = self._clock.steady_us()

    def _run(self) -> None:
        self._reporter.tell(self._disk.size_bytes)
        stopping = False
        while not stopping:
            stopping = self._stopping.is_set()
            records = self._waiting.take(0 if stopping else _TICK_S)
            self._follow_clock()
            for record in records:
                self._take(record)
                if self._unwritten_bytes > _AT_ONCE_BYTES and not self._reporter.trouble:
                    self._write()
            self._lost_count += self._waiting.lost_count()
            self._write()
            self._keep_house()
            self._waiting.done()
        self._finish()

    def _take(self, record: Record) -> None:
        """Turn a record into lines that wait to be written."""
        kept = recordable(record, payloads=self._settings.payloads)
        if kept is None:
            return
        self._memory.add(kept)
        if isinstance(kept, EngineStarted | LinkChanged):
            self._introductions.append(kept)
        if self._unwritten_bytes > _UNWRITTEN_BYTES:
            self._lost_count += 1
            return
        self._line_count += 1
        lines = self._splitter.lines(kept, self._line_count)
        self._unwritten.extend(lines)
        self._unwritten_bytes += sum(map(len, lines))

    def _write(self) -> None:
        """Write the waiting lines, or keep them and say why."""
        try:
            if self._reporter.trouble and self._disk.restore(self._keyframe()):
                self._lost_count += self._line_count
                lost_count = self._lost_count
                self._begin_segment()
                self._lost_count = lost_count
            if self._unwritten:
                self._disk.append(b"".join(self._unwritten))
        except (OSError, SessionError) as error:
            self._reporter.worry(error, self._disk.size_bytes)
            return
        self._unwritten, self._unwritten_bytes = [], 0
        if self._reporter.trouble or self._lost_count:
            self._recover()
        self._last_written_us = self._clock.wall_us()

    def _recover(self) -> None:
        """Note what is missing, in a segment of its own: readers start again from its keyframe."""
        try:
            self._disk.check()
            reason = self._reporter.trouble or "records came faster than they could be written"
            gap = Gap(self._clock.wall_us(), self._last_written_us, self._lost_count, reason)
            self._rotate(gap)
        except OSError as error:
            self._reporter.worry(error, self._disk.size_bytes)
            return
        self._reporter.trouble = None
        self._reporter.tell(self._disk.size_bytes)

    def _rotate(self, first: Record | None = None) -> None:
        """Begin another segment, in which `first` waits to be written."""
        self._disk.rotate(self._keyframe())
        self._begin_segment()
        if first is not None:
            self._take(first)

    def _keyframe(self) -> Keyframe:
        return self._memory.keyframe(self._clock.wall_us(), first=False)

    def _follow_clock(self) -> None:
        """When the clock was set, say so and begin a segment with the new time."""
        step_us = self._steps.step_us()
        if not step_us:
            return
        stepped = ClockStepped(self._clock.wall_us(), step_us)
        self._write()
        try:
            if self._reporter.trouble:
                self._take(stepped)
            else:
                self._rotate(stepped)
        except OSError as error:
            self._take(stepped)
            self._reporter.worry(error, self._disk.size_bytes)
        self._reporter.tell(self._disk.size_bytes, f"{step_text(step_us)}; the recording goes on")

    def _keep_house(self) -> None:
        """Describe, seal, delete and report whatever is due; trouble is told and tried again."""
        try:
            if not self._reporter.trouble:
                self._disk.check()
                self._disk.tell(reduce(learned, self._introductions, self._disk.info))
                self._introductions = []
                if self._segment_is_over():
                    self._rotate()
        except (OSError, SessionError) as error:
            self._reporter.worry(error, self._disk.size_bytes)
        if self._clock.steady_us() >= self._tidy_again_us:
            self._tidy()
        self._reporter.tell_when_due(self._disk.size_bytes)

    def _tidy(self) -> None:
        """Seal what is finished and delete what is too old; a full disk makes it wait."""
        try:
            self._disk.seal()
            self._disk.keep_within_limits(self._clock.wall_us())
            self._reporter.untidy = None
        except OSError as error:
            self._reporter.untidy = f"a segment stays unsealed: {why(error)}"
            self._tidy_again_us = self._clock.steady_us() + _TIDY_AGAIN_US

    def _segment_is_over(self) -> bool:
        age_us = self._clock.steady_us() - self._segment_since_us
        return self._line_count > 0 and (
            age_us >= self._settings.segment_s * 1_000_000
            or self._disk.segment_bytes >= self._settings.segment_bytes
        )

    def _finish(self) -> None:
        # A gap noted last waits to be written.
        self._write()
        trouble = None
        try:
            self._disk.finish(self._clock.wall_us())
        except (OSError, SessionError) as error:
            trouble = error
        self._reporter.tell_end(self._disk.size_bytes, trouble)
