"""Runs a plan as often as requested, shows progress, saves and checks the results."""

from __future__ import annotations

import asyncio
import csv
import io
import math
import sys
import time
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from natstui.bench.plan.flags import with_changes
from natstui.bench.result import library
from natstui.bench.result.assertions import FigureCheck, parse_checks
from natstui.bench.result.environment import read_environment
from natstui.bench.result.text import LABEL_WIDTH_CELLS, summary_text
from natstui.bench.run.controller import Benchmark, refuse_read_only
from natstui.clean import clean_json, clean_line
from natstui.cli.bench.options import RunOptions
from natstui.cli.manage.writing import confirm_preview
from natstui.cli.text_table import stdout_width, wrap_hanging
from natstui.config import Connection
from natstui.engine.stopping import ending_signals
from natstui.errors import (
    AssertionFailed,
    Interrupted,
    NatstuiError,
    SessionError,
    UsageError,
)
from natstui.files import check_replaceable, open_atomic_file, translate_write_errors
from natstui.jetstream.connection.writer import MissingConfirmation
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import BenchmarkResult, WorkerResult
from natstui.model.bench.timeline import Timeline
from natstui.model.records.benchmark import (
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkProgress,
    BenchmarkSummed,
)
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import Record
from natstui.units import count_text, duration_text
from natstui.values import replace

if TYPE_CHECKING:
    from natstui.engine.benchmark_recording import BenchmarkRecorder


_MIN_PREPARATION_S, _PREPARATION_PER_WORKER_S = 10.0, 0.5
"""Time from the start of the workers to the start time of --at: a minimum, plus one per worker."""


class _Repetition(NamedTuple):
    """The result of one repetition of a plan, and its timeline."""

    result: BenchmarkResult
    timeline: Timeline
    confirmation: Confirmation | None
    """The confirmation of the messages that the repetition consumed."""


class ProgressLine:
    """A sink of records that shows the progress of a benchmark on stderr.

    On a terminal, one line is rewritten; elsewhere only titles, phases and logs are printed.
    """

    def __init__(self, *, shows_progress: bool = True) -> None:
        """Create a line without text; without `shows_progress`, no progress is shown on a terminal
        either.
        """
        self.link: LinkChanged | None = None
        """The server that the benchmark used."""
        self._is_rewriting = shows_progress and sys.stderr.isatty()
        self._is_line_unfinished = False

    def add(self, record: Record) -> None:
        """Print titles, logs and phases, on a terminal also progress; ignore other records."""
        match record:
            case BenchmarkPlanned():
                self._print_line(record.plan.title)
            case BenchmarkLog():
                worker_text = f"{record.worker}: " if record.worker else ""
                self._print_line(clean_line(f"{worker_text}{record.text}"))
            case BenchmarkPhase() if record.phase in ("ramp", "warmup", "steady", "drain"):
                self._print_line(f"phase {record.phase}")
            case BenchmarkProgress() if self._is_rewriting:
                self._rewrite_line(_progress_text(record))
            case _:
                pass

    async def count_down(self, start_at_us: int) -> None:
        """Show the remaining time until `start_at_us` (UTC µs), then return.

        On a terminal the text is rewritten each second, elsewhere it is printed each minute.
        """
        start_text = f"{datetime.fromtimestamp(start_at_us / 1e6, UTC):%Y-%m-%dT%H:%M:%SZ}"
        interval_s = 1 if self._is_rewriting else 60
        while (remaining_s := start_at_us / 1e6 - time.time()) > 0:
            text = f"starts at {start_text}, in {duration_text(math.ceil(remaining_s))}"
            if self._is_rewriting:
                self._rewrite_line(text)
            else:
                self._print_line(text)
            await asyncio.sleep(remaining_s % interval_s or interval_s)

    def end(self) -> None:
        """End the line, so that further output starts on its own line."""
        if self._is_line_unfinished:
            _echo_stderr("\n")
            self._is_line_unfinished = False

    def _print_line(self, text: str) -> None:
        self.end()
        _echo_stderr(f"{text}\n")

    def _rewrite_line(self, text: str) -> None:
        _echo_stderr(f"\r\x1b[2K{text}")
        self._is_line_unfinished = True


def _echo_stderr(text: str) -> None:
    """Print on stderr; ignores a closed terminal or pipe, so that the result is still saved."""
    with suppress(OSError):
        click.echo(text, nl=False, err=True)


def _progress_text(progress: BenchmarkProgress) -> str:
    percent_text = "" if progress.done_ratio is None else f"{progress.done_ratio:4.0%}  "
    remaining_text = "" if progress.left_s is None else f"  {duration_text(progress.left_s)} left"
    counts = progress.counts
    return (
        f"{percent_text}{progress.phase}  sent {count_text(counts.sent_msgs)}"
        f"  acked {count_text(counts.acked_msgs)}"
        f"  received {count_text(counts.received_msgs)}{remaining_text}"
    )


def run_benchmark(plan: BenchmarkPlan, connection: Connection, options: RunOptions) -> None:
    """Run a plan, save and print its result, and check the assertions of plan and flags.

    SIGINT, SIGTERM and SIGHUP stop it early with a partial result. Raises ActionRefusal in
    read-only mode, UsageError for invalid flags, AssertionFailed for a failed check or messages
    that are not accounted for, and the error of a run after its partial result was saved and
    printed.
    """
    refuse_read_only(connection)
    checks = parse_checks((*plan.assertions, *options.check_texts))
    # Checked before a long run, not behind it.
    if options.csv_file is not None:
        _check_csv_writable(options.csv_file)
    plan = with_changes(plan, options.plan_changes)
    line = ProgressLine(shows_progress=options.shows_progress)
    recording = _begin_recording(connection, options, line)
    try:
        repetitions, failure = _run_repetitions(plan, connection, line, options, recording)
        saved_run = _create_saved_run(plan, repetitions, line, is_partial=failure is not None)
        failure = _save_run(saved_run, options) or failure
        if recording is not None:
            recording.feed.add(_summary_record(saved_run, failure, options.library_folder))
    finally:
        if recording is not None:
            recording.close()
    if saved_run is not None:
        _print_result(saved_run, options)
    if failure is not None:
        raise failure
    if saved_run is not None:
        _check_result(saved_run, checks)


def _begin_recording(
    connection: Connection, options: RunOptions, line: ProgressLine
) -> BenchmarkRecorder | None:
    """Begin a recording and print its folder; return None if none was requested."""
    if options.recording_name is None:
        return None
    # Imported here, because a benchmark alone needs neither poller nor recorder.
    from natstui.engine.benchmark_recording import BenchmarkRecorder

    def print_line(text: str) -> None:
        _echo_stderr(f"{clean_line(text)}\n")

    recording = BenchmarkRecorder(
        options.settings, connection, options.recording_name, print_line, line
    )
    print_line(f"recording into {recording.folder}")
    return recording


def _summary_record(
    saved_run: library.SavedRun | None, failure: NatstuiError | None, folder: Path | None
) -> BenchmarkSummed:
    """Return the record with the summary that a replay shows at the end."""
    summary_parts = [] if failure is None else [str(failure)]
    if saved_run is not None:
        summary_parts.append(summary_text(saved_run))
    previous_run = (
        library.previous_run(saved_run, folder) if saved_run is not None and folder else None
    )
    now_us = time.time_ns() // 1000
    return BenchmarkSummed(now_us, "\n".join(summary_parts), failure is not None, previous_run)


def _run_repetitions(
    plan: BenchmarkPlan,
    connection: Connection,
    line: ProgressLine,
    options: RunOptions,
    recording: BenchmarkRecorder | None,
) -> tuple[list[_Repetition], NatstuiError | None]:
    """Run the repetitions until one ends early; return their results, and the error of the
    last.
    """
    repetitions: list[_Repetition] = []
    failure = None
    while len(repetitions) < options.repeat_count and failure is None:
        repetition, failure = _run_once(plan, connection, line, options, recording)
        if isinstance(failure, MissingConfirmation) and options.confirm is None:
            flags = {"yes": options.yes, "confirm": None}
            shown_confirmation = failure.confirmation
            typed_name = confirm_preview(connection, shown_confirmation, flags)
            options, failure = (
                replace(options, confirm=typed_name, confirmation=shown_confirmation),
                None,
            )
        if repetition is not None:
            repetitions.append(repetition)
            # Each repetition works on what the first one did.
            options = replace(options, confirmation=repetition.confirmation)
    return repetitions, failure


def _run_once(
    plan: BenchmarkPlan,
    connection: Connection,
    line: ProgressLine,
    options: RunOptions,
    recording: BenchmarkRecorder | None,
) -> tuple[_Repetition | None, NatstuiError | None]:
    """Run one repetition; return its result, None if nothing was measured, and its error.

    SIGINT, SIGTERM and SIGHUP stop it early with a partial result.
    """

    async def run() -> tuple[_Repetition | None, NatstuiError | None]:
        record_sink = recording.feed if recording else line
        benchmark = Benchmark(
            plan,
            connection,
            record_sink,
            options.confirm,
            options.confirmation,
            options.repeat_count,
        )
        loop, signal_numbers, stop_event = asyncio.get_running_loop(), list[int](), asyncio.Event()

        def stop(signal_number: int) -> None:
            signal_numbers.append(signal_number)
            stop_event.set()
            benchmark.stop()

        for signal_number in ending_signals():
            loop.add_signal_handler(signal_number, stop, signal_number)
        countdown_task = None
        try:
            if options.start_at_us is not None:
                # A wrong address, or what has to be confirmed, is no matter of the last moment.
                await benchmark.check()
                countdown_task = asyncio.create_task(line.count_down(options.start_at_us))
                await _wait_for_start(options.start_at_us, plan, stop_event)
            if signal_numbers:
                raise _early_stop_error(signal_numbers[0])
            async with recording.poll_server() if recording else nullcontext():
                result = await benchmark.run(options.start_at_us)
        except NatstuiError as error:
            # Stopped while it waited for its moment, nothing went wrong.
            return None, _early_stop_error(signal_numbers[0]) if signal_numbers else error
        finally:
            if countdown_task is not None:
                countdown_task.cancel()
        line.link = benchmark.link
        stop_error = (
            Interrupted("the run was stopped before its end", signal_numbers[0])
            if signal_numbers
            else None
        )
        assert benchmark.timeline is not None
        run = _Repetition(result, benchmark.timeline, benchmark.decided_on)
        return run, benchmark.failure or stop_error

    try:
        return asyncio.run(run())
    finally:
        line.end()


def _early_stop_error(signal_number: int) -> Interrupted:
    return Interrupted("the run was stopped before its start: nothing was sent", signal_number)


async def _wait_for_start(
    start_at_us: int, plan: BenchmarkPlan, stop_event: asyncio.Event
) -> None:
    """Wait until it is time to start the workers, or until the run is stopped."""
    workers_count = sum(role.workers_count for role in plan.roles)
    preparation_s = _MIN_PREPARATION_S + _PREPARATION_PER_WORKER_S * workers_count
    workers_start_s = start_at_us / 1e6 - preparation_s
    while (remaining_s := workers_start_s - time.time()) > 0 and not stop_event.is_set():
        # Not all of it at once: the clock may be set meanwhile.
        try:
            async with asyncio.timeout(min(remaining_s, 1.0)):
                await stop_event.wait()
        except TimeoutError:
            continue


def _create_saved_run(
    plan: BenchmarkPlan, repetitions: list[_Repetition], line: ProgressLine, *, is_partial: bool
) -> library.SavedRun | None:
    """Return the run to save, None without results; `is_partial`: repetitions are missing."""
    if not repetitions:
        return None
    results = tuple(repetition.result for repetition in repetitions)
    timelines = tuple(repetition.timeline for repetition in repetitions)
    run = library.make_saved_run(plan, results, read_environment(line.link), timelines)
    return replace(run, partial=True) if is_partial else run


def _save_run(run: library.SavedRun | None, options: RunOptions) -> SessionError | None:
    """Save a run; return the error if it cannot be saved, instead of raising it."""
    if run is None or options.library_folder is None:
        return None
    try:
        path = library.save(run, options.library_folder)
    except SessionError as error:
        return error
    _echo_stderr(f"saved as {path.stem}\n")
    return None


_CSV_COLUMNS = ("role", "worker", "pattern", "msgs", "bytes", "msgs_per_s", "cpu", "ended")


def _check_csv_writable(path: Path) -> None:
    """Raise UsageError if a file cannot be written at the end of a run."""
    with translate_write_errors(path):
        check_replaceable(path, replaces=False)
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path} cannot be written: its folder does not exist")


def _write_csv(run: library.SavedRun, path: Path) -> None:
    """Write a CSV file with a row for each worker of each repetition.

    Raises UsageError if the file exists or may not be written, WriteFailed if the disk fails.
    """
    csv_text = io.StringIO()
    csv_writer = csv.writer(csv_text)
    csv_writer.writerow(("run", "repetition", *_CSV_COLUMNS))
    for repetition, result in enumerate(run.results, 1):
        csv_writer.writerows(
            (run.name, repetition, *_csv_cells(worker)) for worker in result.workers
        )
    with translate_write_errors(path), open_atomic_file(path, replaces=False) as file:
        file.write(csv_text.getvalue().encode())


def _csv_cells(worker: WorkerResult) -> tuple[object, ...]:
    counts = worker.counts
    is_sender = counts.sent_msgs >= counts.received_msgs
    sent_or_received_msgs = counts.sent_msgs if is_sender else counts.received_msgs
    payload_bytes = counts.sent_bytes if is_sender else counts.received_bytes
    return (
        worker.role, worker.worker_id, worker.pattern, sent_or_received_msgs, payload_bytes,
        worker.rate_per_s, worker.cpu_ratio, worker.ended,
    )  # fmt: skip


def _print_result(run: library.SavedRun, options: RunOptions) -> None:
    if options.as_json:
        click.echo(clean_json(library.encode(run).decode()))
    else:
        click.echo(wrap_hanging(summary_text(run), stdout_width(), LABEL_WIDTH_CELLS))
    if options.csv_file is not None:
        _write_csv(run, options.csv_file)


def _check_result(run: library.SavedRun, checks: list[FigureCheck]) -> None:
    """Raise AssertionFailed for the checks that fail, or when messages are not accounted for."""
    failed_check_sentences = [
        sentence for check in checks if (sentence := check.failure(run.metrics)) is not None
    ]
    if failed_check_sentences:
        raise AssertionFailed("; ".join(failed_check_sentences))
    for result in run.results:
        if result.verdict == "incomplete":
            incomplete_reasons = "; ".join(result.accounting.incomplete_reasons)
            raise AssertionFailed(f"not every message is accounted for: {incomplete_reasons}")
