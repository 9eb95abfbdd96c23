"""The recorder: a sink that never blocks, and a thread that writes, also after disk errors.

recording ──(any OSError)──▶ failing ──(a write succeeds)──▶ recording, with a Gap

Each second it checks whether the folder exists and is writable, whether the clock was set, and
whether the minute is over.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

from natstui.clock import steady_us, wall_us
from natstui.errors import SessionError
from natstui.model.clients.watch import ClientsRead, ConnectionsRead
from natstui.model.findings.evaluate import JUDGED_AFTER, judged
from natstui.model.findings.recorded import Teller
from natstui.model.findings.rules.account import CHECKED_EVENTS_COUNT
from natstui.model.live.history import CONSUMER_COLUMNS, STREAM_COLUMNS, WINDOWS_S, History, Tier
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State, folded
from natstui.model.records.findings import FindingsChanged, FindingsSoFar
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import (
    NEVER_RECORDED,
    EngineStarted,
    Outcome,
    Record,
)
from natstui.model.records.recording import ClockStepped, Gap, RecordingChanged
from natstui.model.servers.watch import ServersRead
from natstui.session.files.entry import Splitter
from natstui.session.files.info import DroppedSegments, info_after, without_userinfo
from natstui.session.files.keyframe import Keyframe, KeyframeMaker
from natstui.session.files.marks import step_text
from natstui.session.write.disk import Disk
from natstui.session.write.settings import RecorderSettings
from natstui.units import counted, moment_text

MOST_JUDGED_ROWS = 60
"""Limit of consumers that are judged after one poll; more are judged in turns. Judging costs as
much as recording ten samples, and recording must stay cheap where thousands have a backlog.
"""
_TOGETHER_COUNT = 500
"""Number of announcements that are folded at once while no poll comes: a tenth of the cost."""


class Judge:
    """Folds records, and returns which findings changed."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Create with the state of `records`."""
        # Rules look back some minutes; longer histories are for charts.
        recent = tuple(map(Tier, WINDOWS_S[:2]))
        state = State(
            stream_history=History(STREAM_COLUMNS, recent),
            consumer_history=History(CONSUMER_COLUMNS, recent),
        )
        state = folded(state, records)
        # What it begins with goes on to be judged.
        findings = replace(state.findings, recorded=False)
        self._state = replace(state, findings=findings)
        self._waiting: list[Record] = []
        self._is_due = False
        self._teller = Teller()
        self._teller.know(findings, state.now_at_us)

    def add(self, record: Record) -> None:
        """Fold a record."""
        self._waiting.append(record)
        self._is_due = self._is_due or isinstance(record, JUDGED_AFTER)
        if len(self._waiting) >= _TOGETHER_COUNT:
            self._fold()

    def changes(self) -> FindingsChanged | None:
        """Evaluate the current state; return which findings changed since the last call.

        Where polls come faster than they can be judged, some are skipped: nothing waits for
        findings.
        """
        if not self._is_due:
            return None
        self._fold()
        self._is_due = False
        self._state = judged(self._state, MOST_JUDGED_ROWS)
        return self._teller.changes(self._state.findings, self._state.now_at_us)

    def _fold(self) -> None:
        state = folded(self._state, self._waiting)
        self._waiting = []
        # What a screen would list is on the disk: in memory thousands would pile up over days.
        newest = state.happenings[-CHECKED_EVENTS_COUNT:]
        self._state = replace(state, happenings=newest, ack_samples=())


_STEP_US = 500_000
"""Smallest step of the wall clock that is recorded; a smaller one is a usual slow correction."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The source of the time."""

    wall_us: Callable[[], int] = wall_us
    steady_us: Callable[[], int] = steady_us


class StepWatch:
    """Detects that the wall clock was set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_us = clock.wall_us() - clock.steady_us()

    def step_us(self) -> int:
        """Return how far the clock was set since the last call; 0 when it was not."""
        offset_us = self._clock.wall_us() - self._clock.steady_us()
        step_us = offset_us - self._offset_us
        self._offset_us = offset_us
        return step_us if abs(step_us) > _STEP_US else 0


def recordable(record: Record, *, payloads: bool) -> Record | None:
    """Return the part of a record that may be written; None for records about recordings."""
    if isinstance(record, NEVER_RECORDED):
        return None
    match record:
        case Outcome() if not payloads and record.body_json is not None:
            return replace(record, body_json=None)
        case LinkChanged() if record.server_url and "@" in record.server_url:
            return replace(record, server_url=without_userinfo(record.server_url))
        case EngineStarted() if "@" in record.target:
            return replace(record, target=without_userinfo(record.target))
        case ServersRead() if len(record.servers.accounts) > MOST_ACCOUNTS:
            accounts = record.servers.accounts[:MOST_ACCOUNTS]
            return replace(record, servers=replace(record.servers, accounts=accounts))
        case _:
            return record


MOST_ACCOUNTS = 200
"""Limit of accounts of a system that are written; more than a screen lists."""
SERVERS_EVERY_US = 10_000_000
_BEAT_US = 2_000_000
"""Maximum time between two readings of the servers."""


class ServersDue:
    """Chooses which readings of the servers are written: one in 10 s, and changes at once."""

    def __init__(self) -> None:
        self._at_us = 0
        self._answering: object = None

    def is_due(self, reading: ServersRead) -> bool:
        """Return whether a reading is due; the caller must write it then."""
        servers = reading.servers
        answering = (
            tuple((row.name, row.server_id) for row in servers.rows),
            tuple((meta.cluster, meta.leader) for meta in servers.metas),
            reading.leaving,
        )
        passed_us = reading.at_us - self._at_us
        # A reading that comes a moment before its time is not put off to the next one.
        waits = 0 <= passed_us < SERVERS_EVERY_US - _BEAT_US // 2
        if waits and answering == self._answering:
            return False
        self._at_us, self._answering = reading.at_us, answering
        return True


_TICK_S = 0.5
_SEAL_AGAIN_US = 5_000_000
_WRITE_AT_BYTES = 1 << 20
_UNWRITTEN_BYTES = 64 << 20
"""Limit of lines that are kept in memory while the disk is full."""
_STOP_TIMEOUT_S = 60.0


MOST_ROWS = 4_000_000
"""Limit of queued rows: some minutes of the largest server."""


def _weight(record: Record) -> int:
    if isinstance(record, Snapshot):
        return 1 + len(record.streams.name) + len(record.consumers.name)
    if isinstance(record, ConnectionsRead):
        return 1 + len(record.connections.rows)
    return 1


class RecordQueue:
    """A bounded queue of records for the recorder's thread; adding never waits."""

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._queue: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._most_rows = most_rows
        # One thread writes each of these counters, the other only reads it.
        self._added_rows = 0
        self._taken_rows = 0
        self._done_rows = 0
        self._lost_count = 0
        self._reported_count = 0

    def add(self, record: Record) -> None:
        """Queue a record; count it as lost when the queue is full."""
        weight = _weight(record)
        if self._added_rows - self._taken_rows + weight > self._most_rows:
            self._lost_count += 1
            return
        self._added_rows += weight
        self._queue.put(record)

    @property
    def is_behind(self) -> bool:
        """Return whether a queued record is not written yet."""
        return self._added_rows > self._done_rows

    def done(self) -> None:
        """Mark all records of the last `take` as written."""
        self._done_rows = self._taken_rows

    def wake(self) -> None:
        """Let a waiting `take` return now."""
        self._queue.put(None)

    def take(self, timeout_s: float) -> list[Record]:
        """Return all queued records, waiting for the first at most `timeout_s`."""
        records: list[Record] = []
        try:
            record = self._queue.get(timeout=timeout_s)
            while True:
                if record is not None:
                    self._taken_rows += _weight(record)
                    records.append(record)
                record = self._queue.get_nowait()
        except queue.Empty:
            return records

    def lost_count(self) -> int:
        """Return how many records were lost since the last call because the queue was full."""
        lost_count = self._lost_count - self._reported_count
        self._reported_count += lost_count
        return lost_count


_REPORT_EVERY_US = 1_000_000
_DROPPED_EVERY_US = 3_600_000_000
"""Least time between two sentences about deleted segments: one is deleted each minute."""


class Reporter:
    """Reports size and errors of the recording: an error at once, the rest once a second.

    Nothing is reported twice in a row.
    """

    def __init__(
        self, folder: Path, on_change: Callable[[RecordingChanged], None], clock: Clock
    ) -> None:
        self._folder = folder
        self._on_change = on_change
        self._clock = clock
        self._reported: tuple[int, str | None] | None = None
        self._reported_us = 0
        self.trouble: str | None = None
        """Why nothing can be written now; None while records are written."""
        self._dropped: DroppedSegments | None = None
        """What was deleted, as reported last."""
        self._dropped_us = 0
        self.seal_error: str | None = None
        """Why a segment could not be sealed, or an old one not deleted."""

    def fail(self, error: OSError | SessionError, size_bytes: int) -> None:
        """Report at once that nothing can be written, unless the reason is unchanged."""
        reason = f"not recording: {reason_of(error)}"
        if reason != self.trouble:
            self.trouble = reason
            self.report(size_bytes)

    def report(self, size_bytes: int, reason: str | None = None) -> None:
        """Report the size, and the error if any."""
        self._reported_us = self._clock.steady_us()
        reason = self.trouble or reason or self.seal_error
        if self._reported == (size_bytes, reason):
            return
        self._reported = (size_bytes, reason)
        at_us = self._clock.wall_us()
        self._on_change(RecordingChanged(at_us, True, str(self._folder), size_bytes, reason))

    def report_when_due(self, size_bytes: int) -> None:
        """Report the size, and the error if any, at most once a second."""
        if self._clock.steady_us() - self._reported_us > _REPORT_EVERY_US:
            self.report(size_bytes)

    def report_dropped(
        self, size_bytes: int, dropped: DroppedSegments | None, *, at_end: bool = False
    ) -> None:
        """Report which segments a limit deleted so far: the first at once, then once an hour."""
        steady_us = self._clock.steady_us()
        is_due = self._dropped is None or steady_us - self._dropped_us > _DROPPED_EVERY_US
        if dropped is None or dropped == self._dropped or not (is_due or at_end):
            return
        self._dropped, self._dropped_us = dropped, steady_us
        count_text = counted(f"{dropped.segments_count:,}", "segment")
        notice = (
            f"{dropped.reason} has deleted {count_text} so far, of before "
            f"{moment_text(dropped.until_at_us)}Z"
        )
        reason = self._reported[1] if self._reported else None
        self._on_change(
            RecordingChanged(
                self._clock.wall_us(), True, str(self._folder), size_bytes, reason, notice
            )
        )

    def report_end(self, size_bytes: int, error: OSError | SessionError | None) -> None:
        """Report that the recording ended, and whether it could be sealed."""
        reason = self.trouble
        if error is not None:
            reason = f"the recording could not be sealed: {reason_of(error)}"
        at_us = self._clock.wall_us()
        self._on_change(RecordingChanged(at_us, False, str(self._folder), size_bytes, reason))


def reason_of(error: OSError | SessionError) -> str:
    """Return the message of the system, with the file."""
    if isinstance(error, SessionError):
        return str(error)
    text = error.strerror or str(error)
    return f"{text}: {error.filename}" if error.filename else text


def _with_findings(keyframe: Keyframe) -> Keyframe:
    """Return the keyframe with empty findings where it has none, so that readers know they are
    recorded.
    """
    return replace(keyframe, findings=keyframe.findings or FindingsSoFar(keyframe.at_us, ()))


class Recorder:
    """Records added records, starting with a keyframe, until `stop`."""

    def __init__(
        self,
        settings: RecorderSettings,
        keyframe: Keyframe,
        on_change: Callable[[RecordingChanged], None],
        clock: Clock | None = None,
        unfinished: Path | None = None,
    ) -> None:
        """Create the folder and start; `on_change` is called in the recorder's own thread.

        `unfinished` is the folder of a killed recorder, to continue in. Raises SessionError when
        the recording cannot begin.
        """
        self._settings = settings
        self._clock = clock or Clock()
        self._judge = Judge(keyframe.records())
        keyframe = _with_findings(keyframe)
        self._servers_due = ServersDue()
        self._keyframes = KeyframeMaker()
        for record in keyframe.records():
            self._keyframes.add(record)
        self._server_facts: list[Record] = keyframe.facts()
        try:
            self._disk = Disk(
                settings, keyframe, self._clock.wall_us(), unfinished, self._clock.steady_us
            )
        except OSError as error:
            raise SessionError(
                f"cannot record into {settings.sessions}: {reason_of(error)}"
            ) from error
        self.folder: Path = self._disk.folder
        self._reporter = Reporter(self.folder, on_change, self._clock)
        self._queued = RecordQueue()
        self._stopping = threading.Event()
        self._steps = StepWatch(self._clock)
        self._begin_segment()
        if self._disk.continued_from_us is not None:
            now_us, reason = self._clock.wall_us(), "the recording engine was killed"
            self._take(Gap(now_us, self._disk.continued_from_us, 0, reason))
        self._seal_again_us = 0
        self._last_written_us = self._clock.wall_us()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Queue a record; returns at once."""
        self._queued.add(record)

    @property
    def is_behind(self) -> bool:
        """Return whether a queued record is not written yet."""
        return self._queued.is_behind

    def stop(self) -> None:
        """Write the queued records, seal all segments, and end; returns when that is done."""
        self._stopping.set()
        self._queued.wake()
        self._thread.join(_STOP_TIMEOUT_S)

    def _begin_segment(self) -> None:
        self._splitter = Splitter()
        self._line_count = 0
        self._unwritten: list[bytes] = []
        self._unwritten_bytes = 0
        self._lost_count = 0
        self._segment_since_us = self._clock.steady_us()

    def _run(self) -> None:
        self._reporter.report(self._disk.size_bytes)
        stopping = False
        while not stopping:
            stopping = self._stopping.is_set()
            records = self._queued.take(0 if stopping else _TICK_S)
            self._check_clock()
            for record in records:
                self._take(record)
                if self._unwritten_bytes > _WRITE_AT_BYTES and not self._reporter.trouble:
                    self._write()
            self._lost_count += self._queued.lost_count()
            self._write()
            self._find()
            self._each_tick()
            self._queued.done()
        self._finish()

    def _take(self, record: Record) -> None:
        """Turn a record into lines to be written."""
        written_record = recordable(record, payloads=self._settings.payloads)
        # Not each of these is written, and what is found of them is.
        if written_record is not None or isinstance(record, ClientsRead):
            self._judge.add(record if written_record is None else written_record)
        if isinstance(written_record, ServersRead) and not self._servers_due.is_due(
            written_record
        ):
            return
        if written_record is not None:
            self._line(written_record)

    def _find(self) -> None:
        """Write which findings changed; only after all queued records are written."""
        changes = self._judge.changes()
        if changes is not None:
            self._line(changes)
            self._write()

    def _line(self, record: Record) -> None:
        self._keyframes.add(record)
        if isinstance(record, EngineStarted | LinkChanged):
            self._server_facts.append(record)
        if self._unwritten_bytes > _UNWRITTEN_BYTES:
            self._lost_count += 1
            return
        self._line_count += 1
        lines = self._splitter.lines(record, self._line_count)
        self._unwritten.extend(lines)
        self._unwritten_bytes += sum(map(len, lines))

    def _write(self) -> None:
        """Write the lines, or keep them and report the error."""
        try:
            if self._reporter.trouble and self._disk.restore(self._keyframe()):
                self._lost_count += self._line_count
                lost_count = self._lost_count
                self._begin_segment()
                self._lost_count = lost_count
            if self._unwritten:
                self._disk.append(b"".join(self._unwritten))
        except (OSError, SessionError) as error:
            self._reporter.fail(error, self._disk.size_bytes)
            return
        self._unwritten, self._unwritten_bytes = [], 0
        if self._reporter.trouble or self._lost_count:
            self._recover()
        self._last_written_us = self._clock.wall_us()

    def _recover(self) -> None:
        """Write a Gap into a new segment after a failure: readers start again from its
        keyframe.
        """
        try:
            self._disk.check()
            reason = self._reporter.trouble or "records came faster than they could be written"
            gap = Gap(self._clock.wall_us(), self._last_written_us, self._lost_count, reason)
            self._rotate(gap)
        except OSError as error:
            self._reporter.fail(error, self._disk.size_bytes)
            return
        self._reporter.trouble = None
        self._reporter.report(self._disk.size_bytes)

    def _rotate(self, first: Record | None = None) -> None:
        """Begin another segment; `first` is its first record."""
        self._disk.rotate(self._keyframe())
        self._begin_segment()
        if first is not None:
            self._take(first)

    def _keyframe(self) -> Keyframe:
        return self._keyframes.keyframe(self._clock.wall_us(), first=False)

    def _check_clock(self) -> None:
        """Record a step of the wall clock, and begin a segment with the new time."""
        step_us = self._steps.step_us()
        if not step_us:
            return
        step = ClockStepped(self._clock.wall_us(), step_us)
        self._write()
        try:
            if self._reporter.trouble:
                self._take(step)
            else:
                self._rotate(step)
        except OSError as error:
            self._take(step)
            self._reporter.fail(error, self._disk.size_bytes)
        continues = "the recording continues"
        if self._settings.retain_s is not None:
            continues += ", and --retain deletes nothing sooner because of it"
        self._reporter.report(self._disk.size_bytes, f"{step_text(step_us)}; {continues}")

    def _each_tick(self) -> None:
        """Run the due tasks: write session.json, begin, seal and delete segments, and report."""
        try:
            if not self._reporter.trouble:
                self._disk.check()
                self._disk.update_info(reduce(info_after, self._server_facts, self._disk.info))
                self._server_facts = []
                if self._segment_is_over():
                    self._rotate()
        except (OSError, SessionError) as error:
            self._reporter.fail(error, self._disk.size_bytes)
        if self._clock.steady_us() >= self._seal_again_us:
            self._seal_and_delete()
        self._reporter.report_when_due(self._disk.size_bytes)

    def _seal_and_delete(self) -> None:
        """Seal finished segments and delete those that are too old; retried after an error."""
        try:
            self._disk.seal()
            self._disk.keep_within_limits(self._clock.wall_us())
            self._reporter.report_dropped(self._disk.size_bytes, self._disk.info.dropped)
            self._reporter.seal_error = None
        except OSError as error:
            self._reporter.seal_error = f"a segment stays unsealed: {reason_of(error)}"
            self._seal_again_us = self._clock.steady_us() + _SEAL_AGAIN_US

    def _segment_is_over(self) -> bool:
        age_us = self._clock.steady_us() - self._segment_since_us
        return self._line_count > 0 and (
            age_us >= self._settings.segment_s * 1_000_000
            or self._disk.segment_bytes >= self._settings.segment_bytes
        )

    def _finish(self) -> None:
        # A gap that was noted last is not written yet.
        self._write()
        failure = None
        try:
            # What could not be written is missing at its end: no gap tells of it.
            cut_off = self._reporter.trouble is not None
            self._disk.finish(self._clock.wall_us(), cut_off=cut_off)
        except (OSError, SessionError) as error:
            failure = error
        dropped = self._disk.info.dropped
        self._reporter.report_dropped(self._disk.size_bytes, dropped, at_end=True)
        self._reporter.report_end(self._disk.size_bytes, failure)
