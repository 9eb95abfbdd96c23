"""The recorder: a sink that never blocks, and a thread that writes, also after disk errors.

recording ──(any OSError)──▶ failing ──(a write succeeds)──▶ recording, with a Gap

Each second it checks whether the folder exists and is writable, whether the clock was set, and
whether the minute is over.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path

from msgspec import Struct

from natstui.clock import steady_us, wall_us
from natstui.defects import report_defects
from natstui.errors import SessionError
from natstui.model.clients.watch import ClientsRead, ConnectionsRead
from natstui.model.findings.evaluate import RECORDS_THAT_CHANGE_FINDINGS, evaluate_findings
from natstui.model.findings.recorded import FindingsRecorder
from natstui.model.findings.rules.account import CHECKED_EVENTS_COUNT
from natstui.model.live.history import CONSUMER_COLUMNS, STREAM_COLUMNS, WINDOWS_S, History, Tier
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State, apply_records
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
from natstui.session.files.entry import RecordSplitter
from natstui.session.files.info import DroppedSegments, updated_info, without_userinfo
from natstui.session.files.keyframe import Keyframe, KeyframeBuilder
from natstui.session.files.marks import clock_step_text
from natstui.session.write.recording_folder import RecordingFolder
from natstui.session.write.settings import RecorderSettings
from natstui.units import bytes_text, counted, moment_text
from natstui.values import replace

MAX_EVALUATED_CONSUMERS = 60
"""Limit of consumers whose findings are evaluated after one poll; the others are evaluated after
the next polls. One evaluation costs as much as recording ten samples, and recording must stay
cheap if thousands of consumers have a backlog.
"""
_MAX_BATCH_RECORDS = 500
"""Maximum number of queued records; folding them into the state together costs a tenth."""


class FindingsEvaluator:
    """Updates a state with records, and returns which findings changed."""

    def __init__(self, records: Iterable[Record]) -> None:
        """Start with the state that `records` lead to."""
        # Rules need some minutes of history; longer histories are for charts.
        recent_tiers = tuple(map(Tier, WINDOWS_S[:2]))
        state = State(
            stream_history=History(STREAM_COLUMNS, recent_tiers),
            consumer_history=History(CONSUMER_COLUMNS, recent_tiers),
        )
        state = apply_records(state, records)
        # The findings at the start are evaluated, too, although a recording has them.
        findings = replace(state.findings, are_from_recording=False)
        self._state = replace(state, findings=findings)
        self._queued_records: list[Record] = []
        self._needs_evaluation = False
        self._findings_recorder = FindingsRecorder()
        self._findings_recorder.mark_as_recorded(findings, state.now_at_us)

    def add(self, record: Record) -> None:
        """Queue a record for the next update of the state."""
        self._queued_records.append(record)
        self._needs_evaluation = self._needs_evaluation or isinstance(
            record, RECORDS_THAT_CHANGE_FINDINGS
        )
        if len(self._queued_records) >= _MAX_BATCH_RECORDS:
            self._update_state()

    def find_changes(self) -> FindingsChanged | None:
        """Evaluate the current state; return the findings that changed since the last call, None
        if no record requires an evaluation.

        If polls come faster than they can be evaluated, some are not evaluated: recording does not
        wait for findings.
        """
        if not self._needs_evaluation:
            return None
        self._update_state()
        self._needs_evaluation = False
        self._state = evaluate_findings(self._state, MAX_EVALUATED_CONSUMERS)
        return self._findings_recorder.find_changes(self._state.findings, self._state.now_at_us)

    def _update_state(self) -> None:
        state = apply_records(self._state, self._queued_records)
        self._queued_records = []
        # The other events are on the disk: in memory, thousands would pile up over days.
        newest_events = state.recent_events[-CHECKED_EVENTS_COUNT:]
        self._state = replace(state, recent_events=newest_events, ack_samples=())


_MIN_CLOCK_STEP_US = 500_000
"""Minimum step of the wall clock that is recorded; a smaller one is a usual correction."""


class Clock(Struct, frozen=True):
    """The wall clock and the steady clock, which a test can replace."""

    wall_us: Callable[[], int] = wall_us
    steady_us: Callable[[], int] = steady_us


class ClockStepDetector:
    """Detects that the wall clock was set, by comparing it with the steady clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wall_offset_us = clock.wall_us() - clock.steady_us()

    def detect_step_us(self) -> int:
        """Return by how many µs the wall clock was set since the last call; 0 if it was not."""
        offset_us = self._clock.wall_us() - self._clock.steady_us()
        step_us = offset_us - self._wall_offset_us
        self._wall_offset_us = offset_us
        return step_us if abs(step_us) > _MIN_CLOCK_STEP_US else 0


def prepare_for_recording(record: Record, *, payloads: bool) -> Record | None:
    """Return a record without secrets, without a body unless `payloads`, and with at most
    `MAX_RECORDED_ACCOUNTS` accounts; None for a record that is never written.
    """
    if isinstance(record, NEVER_RECORDED):
        return None
    match record:
        case Outcome() if not payloads and record.body_json is not None:
            return replace(record, body_json=None)
        case LinkChanged() if record.server_url and "@" in record.server_url:
            return replace(record, server_url=without_userinfo(record.server_url))
        case EngineStarted() if "@" in record.target:
            return replace(record, target=without_userinfo(record.target))
        case ServersRead() if len(record.servers.accounts) > MAX_RECORDED_ACCOUNTS:
            accounts = record.servers.accounts[:MAX_RECORDED_ACCOUNTS]
            return replace(record, servers=replace(record.servers, accounts=accounts))
        case _:
            return record


MAX_RECORDED_ACCOUNTS = 200
"""Limit of accounts of a system that are written; more than a screen lists."""
SERVERS_WRITE_INTERVAL_US = 10_000_000
_MAX_SERVERS_READING_INTERVAL_US = 2_000_000
"""Maximum time between two readings of the servers."""


class ServersReadingFilter:
    """Selects the readings of the servers that are written: one in 10 s, and each change at
    once.
    """

    def __init__(self) -> None:
        self._written_at_us = 0
        self._last_servers: object = None

    def should_write(self, reading: ServersRead) -> bool:
        """Return whether a reading must be written; the caller writes it then."""
        servers = reading.servers
        replying_servers = (
            tuple((row.name, row.server_id) for row in servers.rows),
            tuple((meta.cluster, meta.leader) for meta in servers.metas),
            reading.leaving,
        )
        since_written_us = reading.at_us - self._written_at_us
        # A reading that comes a moment before the 10 s are over is written, not the next reading.
        is_before_next_write = (
            0
            <= since_written_us
            < SERVERS_WRITE_INTERVAL_US - _MAX_SERVERS_READING_INTERVAL_US // 2
        )
        if is_before_next_write and replying_servers == self._last_servers:
            return False
        self._written_at_us, self._last_servers = reading.at_us, replying_servers
        return True


_QUEUE_POLL_S = 0.5
_SEAL_RETRY_US = 5_000_000
_WRITE_THRESHOLD_BYTES = 1 << 20
_MAX_UNWRITTEN_BYTES = 64 << 20
"""Limit of lines that are kept in memory while the disk is full."""
_STOP_TIMEOUT_S = 60.0


MAX_QUEUED_ROWS = 4_000_000
"""Limit of queued rows: some minutes of the largest server."""


def _count_rows(record: Record) -> int:
    if isinstance(record, Snapshot):
        return 1 + len(record.streams.name) + len(record.consumers.name)
    if isinstance(record, ConnectionsRead):
        return 1 + len(record.connections.rows)
    return 1


class RecordQueue:
    """A bounded queue of records for the recorder's thread; `add` never waits."""

    def __init__(self, max_queued_rows: int = MAX_QUEUED_ROWS) -> None:
        self._queue: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._max_queued_rows = max_queued_rows
        # One thread writes each of these counters, the other only reads it.
        self._added_rows = 0
        self._removed_rows = 0
        self._written_rows = 0
        self._lost_records_count = 0
        self._reported_lost_records_count = 0

    def add(self, record: Record) -> None:
        """Queue a record; if the queue is full, count it as lost."""
        rows_count = _count_rows(record)
        if self._added_rows - self._removed_rows + rows_count > self._max_queued_rows:
            self._lost_records_count += 1
            return
        self._added_rows += rows_count
        self._queue.put(record)

    @property
    def is_behind(self) -> bool:
        """Return whether a queued record is not written yet."""
        return self._added_rows > self._written_rows

    def mark_written(self) -> None:
        """Mark all records of the last `get_all` as written."""
        self._written_rows = self._removed_rows

    def wake(self) -> None:
        """Make a waiting `get_all` return now."""
        self._queue.put(None)

    def get_all(self, timeout_s: float) -> list[Record]:
        """Remove and return all queued records; waits up to `timeout_s` for the first one."""
        records: list[Record] = []
        try:
            record = self._queue.get(timeout=timeout_s)
            while True:
                if record is not None:
                    self._removed_rows += _count_rows(record)
                    records.append(record)
                record = self._queue.get_nowait()
        except queue.Empty:
            return records

    def count_newly_lost(self) -> int:
        """Return how many records were lost since the last call because the queue was full."""
        newly_lost_count = self._lost_records_count - self._reported_lost_records_count
        self._reported_lost_records_count += newly_lost_count
        return newly_lost_count


_REPORT_INTERVAL_US = 1_000_000
_DROPPED_REPORT_INTERVAL_US = 3_600_000_000
"""Minimum time between two reports of deleted segments: one is deleted each minute."""


class Reporter:
    """Reports size and errors of the recording: an error at once, the size once a second.

    A report that equals the previous one is not sent.
    """

    def __init__(
        self, folder: Path, on_change: Callable[[RecordingChanged], None], clock: Clock
    ) -> None:
        self._folder = folder
        self._on_change = on_change
        self._clock = clock
        self._last_size_and_error: tuple[int, str | None] | None = None
        self._last_report_us = 0
        self.write_error: str | None = None
        """Why nothing can be written now; None while records are written."""
        self._reported_drop: DroppedSegments | None = None
        """The deleted segments of the last report."""
        self._last_drop_report_us = 0
        self.seal_error: str | None = None
        """Why a segment could not be sealed, or an old one not deleted."""

    def report_failure(self, error: OSError | SessionError, size_bytes: int) -> None:
        """Report at once that nothing can be written, unless the reason is unchanged."""
        reason = f"not recording: {error_text(error)}"
        if reason != self.write_error:
            self.write_error = reason
            self.report(size_bytes)

    def report(self, size_bytes: int, reason: str | None = None) -> None:
        """Report the size, and `reason` or the current error."""
        self._last_report_us = self._clock.steady_us()
        reason = self.write_error or reason or self.seal_error
        if self._last_size_and_error == (size_bytes, reason):
            return
        self._last_size_and_error = (size_bytes, reason)
        at_us = self._clock.wall_us()
        self._on_change(RecordingChanged(at_us, True, str(self._folder), size_bytes, reason))

    def report_when_due(self, size_bytes: int) -> None:
        """Report the size and the current error, at most once a second."""
        if self._clock.steady_us() - self._last_report_us > _REPORT_INTERVAL_US:
            self.report(size_bytes)

    def report_dropped(
        self, size_bytes: int, dropped: DroppedSegments | None, *, is_at_end: bool = False
    ) -> None:
        """Report how many segments a limit deleted so far: the first time at once, then once an
        hour.
        """
        steady_us = self._clock.steady_us()
        is_report_due = (
            self._reported_drop is None
            or steady_us - self._last_drop_report_us > _DROPPED_REPORT_INTERVAL_US
        )
        if dropped is None or dropped == self._reported_drop or not (is_report_due or is_at_end):
            return
        self._reported_drop, self._last_drop_report_us = dropped, steady_us
        count_text = counted(f"{dropped.segments_count:,}", "segment")
        notice = (
            f"{dropped.reason} has deleted {count_text} so far, of before "
            f"{moment_text(dropped.until_at_us)}Z"
        )
        reason = self._last_size_and_error[1] if self._last_size_and_error else None
        self._on_change(
            RecordingChanged(
                self._clock.wall_us(), True, str(self._folder), size_bytes, reason, notice
            )
        )

    def report_defect(self, size_bytes: int, sentence: str) -> None:
        """Report that the recording ended by a defect, with the sentence about it."""
        at_us = self._clock.wall_us()
        self._on_change(RecordingChanged(at_us, False, str(self._folder), size_bytes, sentence))

    def report_end(self, size_bytes: int, error: OSError | SessionError | None) -> None:
        """Report that the recording ended, and `error` if it could not be sealed."""
        reason = self.write_error
        if error is not None:
            reason = f"the recording could not be sealed: {error_text(error)}"
        at_us = self._clock.wall_us()
        self._on_change(RecordingChanged(at_us, False, str(self._folder), size_bytes, reason))


def error_text(error: OSError | SessionError) -> str:
    """Return the message of an error, with the file if it names one."""
    if isinstance(error, SessionError):
        return str(error)
    text = error.strerror or str(error)
    return f"{text}: {error.filename}" if error.filename else text


def _add_empty_findings(keyframe: Keyframe) -> Keyframe:
    """Return the keyframe with empty findings if it has none, so that readers know findings are
    recorded.
    """
    return replace(keyframe, findings=keyframe.findings or FindingsSoFar(keyframe.at_us, ()))


class Recorder:
    """Writes a keyframe, then every added record, until `stop`."""

    def __init__(
        self,
        settings: RecorderSettings,
        keyframe: Keyframe,
        on_change: Callable[[RecordingChanged], None],
        clock: Clock | None = None,
        continued_folder: Path | None = None,
    ) -> None:
        """Create the folder and start; `on_change` is called in the recorder's own thread.

        `continued_folder` is the folder of a killed recorder, to continue in. Raises SessionError
        if the recording cannot start.
        """
        self._settings = settings
        self._clock = clock or Clock()
        self._evaluator = FindingsEvaluator(keyframe.records())
        keyframe = _add_empty_findings(keyframe)
        self._servers_filter = ServersReadingFilter()
        self._keyframe_builder = KeyframeBuilder()
        for record in keyframe.records():
            self._keyframe_builder.add(record)
        self._server_records: list[Record] = keyframe.base_records()
        try:
            self._disk = RecordingFolder(
                settings, keyframe, self._clock.wall_us(), continued_folder, self._clock.steady_us
            )
        except OSError as error:
            raise SessionError(
                f"cannot record into {settings.sessions}: {error_text(error)}"
            ) from error
        self.folder: Path = self._disk.folder
        self._reporter = Reporter(self.folder, on_change, self._clock)
        self._queue = RecordQueue()
        self._stop_requested = threading.Event()
        self._step_detector = ClockStepDetector(self._clock)
        self._reset_segment()
        if self._disk.continued_from_us is not None:
            self._record_continuation(keyframe.started, self._disk.continued_from_us)
        self._next_seal_steady_us = 0
        """The earliest time of the next sealing, on the steady clock: later after an error."""
        self._last_record_written_us = self._clock.wall_us()
        self._is_finished = False
        """Whether the thread has ended the recording; it ends without that by a defect."""
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Queue a record; returns at once. A record after the end of the recording is dropped."""
        # After a defect nothing removes records from the queue, which would fill the memory.
        if self._thread.is_alive():
            self._queue.add(record)

    @property
    def is_behind(self) -> bool:
        """Return whether a queued record is not written yet."""
        return self._queue.is_behind

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> str:
        """Write the queued records, seal all segments and end the recording; return a sentence
        with its size and folder.

        Raises SessionError if that takes longer than `timeout_s`, or if a defect ended the
        recorder's thread.
        """
        self._stop_requested.set()
        self._queue.wake()
        self._thread.join(timeout_s)
        reason = None
        if self._thread.is_alive():
            reason = f"its disk did not finish within {timeout_s:g} s"
        elif not self._is_finished:
            reason = "it ended by a defect"
        if reason is not None:
            raise SessionError(
                f"the recording is not complete: {reason}. "
                f"The next recording completes {self.folder}"
            )
        return f"recorded {bytes_text(self._disk.size_bytes)} into {self.folder}"

    def _reset_segment(self) -> None:
        self._splitter = RecordSplitter()
        self._segment_records_count = 0
        self._unwritten_lines: list[bytes] = []
        self._unwritten_bytes = 0
        self._lost_records_count = 0
        self._segment_started_us = self._clock.steady_us()

    def _run(self) -> None:
        with report_defects("recording", self._end_by_defect):
            self._write_until_stopped()
            self._finish()
            self._is_finished = True

    def _end_by_defect(self, sentence: str) -> None:
        # Without the lock nobody takes it for a recording in progress.
        self._disk.abandon()
        self._reporter.report_defect(self._disk.size_bytes, sentence)

    def _write_until_stopped(self) -> None:
        self._reporter.report(self._disk.size_bytes)
        is_stopping = False
        while not is_stopping:
            is_stopping = self._stop_requested.is_set()
            records = self._queue.get_all(0 if is_stopping else _QUEUE_POLL_S)
            self._record_clock_step()
            for record in records:
                self._add_unwritten_record(record)
                if (
                    self._unwritten_bytes > _WRITE_THRESHOLD_BYTES
                    and not self._reporter.write_error
                ):
                    self._write_lines()
                    self._rotate_when_due()
            self._lost_records_count += self._queue.count_newly_lost()
            self._write_lines()
            self._write_findings()
            self._run_due_tasks()
            self._queue.mark_written()

    def _add_unwritten_record(self, record: Record) -> None:
        """Add the lines of a record to the unwritten lines; pass the record to the evaluator."""
        written_record = prepare_for_recording(record, payloads=self._settings.payloads)
        # Connections may not be written, but findings about them are.
        if written_record is not None or isinstance(record, ClientsRead):
            self._evaluator.add(record if written_record is None else written_record)
        if isinstance(written_record, ServersRead) and not self._servers_filter.should_write(
            written_record
        ):
            return
        if written_record is not None:
            self._add_lines(written_record)

    def _record_continuation(self, started: EngineStarted | None, from_us: int) -> None:
        """Record the gap since `from_us`, the new engine, and the end of the findings left open.

        This recorder reports no end of what only the killed one knew: its unavailable data end
        with the new engine, its findings with the last record.
        """
        now_us = self._clock.wall_us()
        self._add_unwritten_record(Gap(now_us, from_us, 0, "the recording engine was killed"))
        if started is not None:
            self._add_unwritten_record(started)
        ended_findings = tuple(
            replace(finding, until_at_us=max(from_us, finding.since_at_us))
            for finding in self._disk.findings_left_open
        )
        if ended_findings:
            # Not for the evaluator, which evaluates from the start.
            self._add_lines(FindingsChanged(now_us, ended_findings))

    def _write_findings(self) -> None:
        """Write which findings changed; called only after all queued records are written."""
        changes = self._evaluator.find_changes()
        if changes is not None:
            self._add_lines(changes)
            self._write_lines()

    def _add_lines(self, record: Record) -> None:
        self._keyframe_builder.add(record)
        if isinstance(record, EngineStarted | LinkChanged):
            self._server_records.append(record)
        if self._unwritten_bytes > _MAX_UNWRITTEN_BYTES:
            self._lost_records_count += 1
            return
        self._segment_records_count += 1
        lines = self._splitter.lines(record, self._segment_records_count)
        self._unwritten_lines.extend(lines)
        self._unwritten_bytes += sum(map(len, lines))

    def _write_lines(self) -> None:
        """Write the queued lines; if that fails, keep them and report the error."""
        try:
            if self._reporter.write_error and self._disk.restore(self._build_keyframe()):
                self._lost_records_count += self._segment_records_count
                lost_records_count = self._lost_records_count
                self._reset_segment()
                self._lost_records_count = lost_records_count
            self._append_unwritten()
        except (OSError, SessionError) as error:
            self._reporter.report_failure(error, self._disk.size_bytes)
            return
        if self._reporter.write_error or self._lost_records_count:
            self._start_segment_after_failure()
        self._last_record_written_us = self._clock.wall_us()

    def _append_unwritten(self) -> None:
        """Append the unwritten lines to the open segment; raises OSError and keeps them then."""
        if self._unwritten_lines:
            self._disk.append(b"".join(self._unwritten_lines))
            self._unwritten_lines, self._unwritten_bytes = [], 0

    def _start_segment_after_failure(self) -> None:
        """Start a segment with a Gap after a failure or lost records: readers continue with the
        keyframe of this segment.
        """
        try:
            self._disk.check_writable()
            reason = self._reporter.write_error or "records came faster than they could be written"
            gap = Gap(
                self._clock.wall_us(),
                self._last_record_written_us,
                self._lost_records_count,
                reason,
            )
            self._start_next_segment(gap)
        except OSError as error:
            self._reporter.report_failure(error, self._disk.size_bytes)
            return
        self._reporter.write_error = None
        self._reporter.report(self._disk.size_bytes)

    def _start_next_segment(self, first_record: Record | None = None) -> None:
        """Start the next segment, with `first_record` as its first record.

        Raises OSError if it cannot be created, or the lines before it cannot be written.
        """
        # A gap that was noted just now would be lost.
        self._append_unwritten()
        self._disk.rotate(self._build_keyframe())
        self._reset_segment()
        if first_record is not None:
            self._add_unwritten_record(first_record)

    def _rotate_when_due(self) -> None:
        """Start the next segment if the current one is old or large enough."""
        if self._reporter.write_error or not self._is_segment_over():
            return
        try:
            self._start_next_segment()
        except OSError as error:
            self._reporter.report_failure(error, self._disk.size_bytes)

    def _build_keyframe(self) -> Keyframe:
        return self._keyframe_builder.keyframe(self._clock.wall_us(), is_first=False)

    def _record_clock_step(self) -> None:
        """If the wall clock was set, record that and start a segment with the new time."""
        step_us = self._step_detector.detect_step_us()
        if not step_us:
            return
        clock_step = ClockStepped(self._clock.wall_us(), step_us)
        self._write_lines()
        try:
            if self._reporter.write_error:
                self._add_unwritten_record(clock_step)
            else:
                self._start_next_segment(clock_step)
        except OSError as error:
            self._add_unwritten_record(clock_step)
            self._reporter.report_failure(error, self._disk.size_bytes)
        notice = "the recording continues"
        if self._settings.retain_s is not None:
            notice += ", and --retain deletes nothing sooner because of it"
        self._reporter.report(self._disk.size_bytes, f"{clock_step_text(step_us)}; {notice}")

    def _run_due_tasks(self) -> None:
        """Update session.json, start, seal and delete segments, and report the size, each when
        due.
        """
        try:
            if not self._reporter.write_error:
                self._disk.check_writable()
                self._disk.update_info(reduce(updated_info, self._server_records, self._disk.info))
                self._server_records = []
        except (OSError, SessionError) as error:
            self._reporter.report_failure(error, self._disk.size_bytes)
        self._rotate_when_due()
        if self._clock.steady_us() >= self._next_seal_steady_us:
            self._seal_and_delete()
        self._reporter.report_when_due(self._disk.size_bytes)

    def _seal_and_delete(self) -> None:
        """Seal closed segments and delete those above the limits; retried after an error."""
        try:
            try:
                self._disk.seal()
            finally:
                # Also on a full disk: this makes room for the next attempt.
                self._disk.delete_above_limits(self._clock.wall_us())
            self._reporter.report_dropped(self._disk.size_bytes, self._disk.info.dropped)
            self._reporter.seal_error = None
        except OSError as error:
            self._reporter.seal_error = f"a segment stays unsealed: {error_text(error)}"
            self._next_seal_steady_us = self._clock.steady_us() + _SEAL_RETRY_US

    def _is_segment_over(self) -> bool:
        age_us = self._clock.steady_us() - self._segment_started_us
        return self._segment_records_count > 0 and (
            age_us >= self._settings.segment_s * 1_000_000
            or self._disk.segment_records_bytes >= self._settings.segment_bytes
        )

    def _finish(self) -> None:
        # A gap that was noted last is not written yet.
        self._write_lines()
        failure = None
        try:
            # The lines that could not be written are missing at the end, without a gap.
            cut_off = self._reporter.write_error is not None
            self._disk.finish(self._clock.wall_us(), cut_off=cut_off)
        except (OSError, SessionError) as error:
            failure = error
        dropped = self._disk.info.dropped
        self._reporter.report_dropped(self._disk.size_bytes, dropped, is_at_end=True)
        self._reporter.report_end(self._disk.size_bytes, failure)
