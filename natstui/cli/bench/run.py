"""Runs a plan as often as asked, shows its progress, saves its results and checks them."""

from __future__ import annotations

import asyncio
import csv
import io
import math
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from natstui.bench.plan.flags import overridden
from natstui.bench.result import library
from natstui.bench.result.assertions import Check, parse_checks
from natstui.bench.result.environment import environment
from natstui.bench.result.text import LABEL_CELLS, summary_text
from natstui.bench.run.controller import Benchmark, refuse_read_only
from natstui.clean import clean_json, clean_line
from natstui.cli.bench.options import RunOptions
from natstui.cli.manage.writing import confirmed_name
from natstui.cli.text_table import hanging, stdout_width
from natstui.config import Connection
from natstui.errors import (
    AssertionFailed,
    Interrupted,
    NatstuiError,
    SessionError,
    UsageError,
)
from natstui.files import check_replaceable, complete_file, writing
from natstui.jetstream.connection.writer import NotConfirmed
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
from natstui.model.records.link import LinkChanged
from natstui.model.records.managing import Confirmation
from natstui.model.records.record import Record
from natstui.units import count_text, duration_text

if TYPE_CHECKING:
    from natstui.engine.headless import RecordedRuns


_LEAD_S, _LEAD_OF_EACH_S = 10.0, 0.5
"""So long before the moment of --at workers are started."""


class _Run(NamedTuple):
    """One repetition."""

    result: BenchmarkResult
    timeline: Timeline
    decided_on: Confirmation | None
    """What it worked on."""


class ProgressLine:
    """A sink that shows the progress on stderr."""

    def __init__(self, *, shows: bool = True) -> None:
        """`shows`: rewrite a line on a terminal while it runs."""
        self.link: LinkChanged | None = None
        """The server that the benchmark used."""
        self._rewrites = shows and sys.stderr.isatty()
        self._open = False

    def add(self, record: Record) -> None:
        """Take one record."""
        match record:
            case BenchmarkPlanned():
                self._say(record.plan.title)
            case BenchmarkLog():
                who = f"{record.worker}: " if record.worker else ""
                self._say(clean_line(f"{who}{record.text}"))
            case BenchmarkPhase() if record.phase in ("ramp", "warmup", "steady", "drain"):
                self._say(f"phase {record.phase}")
            case BenchmarkProgress() if self._rewrites:
                self._rewrite(_progress_text(record))
            case _:
                pass

    async def count_down(self, start_at_us: int) -> None:
        """Show how long it takes until a moment: on a terminal each second, else each minute."""
        moment = f"{datetime.fromtimestamp(start_at_us / 1e6, UTC):%Y-%m-%dT%H:%M:%SZ}"
        every_s = 1 if self._rewrites else 60
        while (left_s := start_at_us / 1e6 - time.time()) > 0:
            text = f"starts at {moment}, in {duration_text(math.ceil(left_s))}"
            if self._rewrites:
                self._rewrite(text)
            else:
                self._say(text)
            await asyncio.sleep(left_s % every_s or every_s)

    def end(self) -> None:
        """Leave the line, so that what follows begins on its own."""
        if self._open:
            click.echo("", err=True)
            self._open = False

    def _say(self, text: str) -> None:
        self.end()
        click.echo(text, err=True)

    def _rewrite(self, text: str) -> None:
        click.echo(f"\r\x1b[2K{text}", nl=False, err=True)
        self._open = True


def _progress_text(progress: BenchmarkProgress) -> str:
    done = "" if progress.done_ratio is None else f"{progress.done_ratio:4.0%}  "
    left = "" if progress.left_s is None else f"  {duration_text(progress.left_s)} left"
    counts = progress.counts
    return (
        f"{done}{progress.phase}  sent {count_text(counts.sent_msgs)}"
        f"  acked {count_text(counts.acked_msgs)}"
        f"  received {count_text(counts.received_msgs)}{left}"
    )


def run_benchmark(plan: BenchmarkPlan, connection: Connection, options: RunOptions) -> None:
    """Run, print, save and check. Raises what ended a run, after its partial result is saved."""
    refuse_read_only(connection)
    checks = parse_checks((*plan.assertions, *options.checks))
    # Checked before a long run, not behind it.
    if options.csv_file is not None:
        _check_csv(options.csv_file)
    plan = overridden(plan, options.changes)
    line = ProgressLine(shows=options.progress)
    recording = _recording(connection, options, line)
    try:
        runs, failure = _repeat(plan, connection, line, options, recording)
        saved = _saved(plan, runs, line, cut_short=failure is not None)
        failure = _keep(saved, options) or failure
        if recording is not None:
            recording.feed.add(_summed(saved, failure, options.library))
    finally:
        if recording is not None:
            recording.close()
    if saved is not None:
        _print_result(saved, options)
    if failure is not None:
        raise failure
    if saved is not None:
        _check_result(saved, checks)


def _recording(
    connection: Connection, options: RunOptions, line: ProgressLine
) -> RecordedRuns | None:
    """Begin the session, if one is wanted, and print its folder."""
    if options.record is None:
        return None
    # Imported here, because a benchmark alone needs neither poller nor recorder.
    from natstui.engine.headless import RecordedRuns

    def tell(text: str) -> None:
        click.echo(clean_line(text), err=True)

    recording = RecordedRuns(options.settings, connection, options.record, tell, line)
    tell(f"recording into {recording.folder}")
    return recording


def _summed(
    saved: library.SavedRun | None, failure: NatstuiError | None, folder: Path | None
) -> BenchmarkSummed:
    """Return what a replay shows at the end."""
    parts = [] if failure is None else [str(failure)]
    if saved is not None:
        parts.append(summary_text(saved))
    previous = library.previous_run(saved, folder) if saved is not None and folder else None
    now_us = time.time_ns() // 1000
    return BenchmarkSummed(now_us, "\n".join(parts), failure is not None, previous)


def _repeat(
    plan: BenchmarkPlan,
    connection: Connection,
    line: ProgressLine,
    options: RunOptions,
    recording: RecordedRuns | None,
) -> tuple[list[_Run], NatstuiError | None]:
    """Run as often as asked for, until one ends before its time."""
    runs: list[_Run] = []
    failure = None
    while len(runs) < options.repeat_count and failure is None:
        run, failure = _once(plan, connection, line, options, recording)
        if isinstance(failure, NotConfirmed) and options.confirm is None:
            flags = {"yes": options.yes, "confirm": None}
            shown = failure.confirmation
            typed = confirmed_name(connection, shown, flags)
            options, failure = replace(options, confirm=typed, decided_on=shown), None
        if run is not None:
            runs.append(run)
            # Each repetition works on what the first one did.
            options = replace(options, decided_on=run.decided_on)
    return runs, failure


def _once(
    plan: BenchmarkPlan,
    connection: Connection,
    line: ProgressLine,
    options: RunOptions,
    recording: RecordedRuns | None,
) -> tuple[_Run | None, NatstuiError | None]:
    """Run once; a first Ctrl-C or SIGTERM ends it early with a partial result.

    Returns no result where nothing could be measured: what was measured before is kept.
    """

    async def run() -> tuple[_Run | None, NatstuiError | None]:
        sink = recording.feed if recording else line
        benchmark = Benchmark(plan, connection, sink, options.confirm, options.decided_on)
        loop, came, stopping = asyncio.get_running_loop(), list[int](), asyncio.Event()

        def stop(number: int) -> None:
            came.append(number)
            stopping.set()
            benchmark.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        countdown = None
        try:
            if options.start_at_us is not None:
                # A wrong address, or what has to be confirmed, is no matter of the last moment.
                await benchmark.check()
                countdown = asyncio.create_task(line.count_down(options.start_at_us))
                await _wait(options.start_at_us, plan, stopping)
            if came:
                raise _stopped_early(came[0])
            async with recording.watching() if recording else nullcontext():
                result = await benchmark.run(options.start_at_us)
        except NatstuiError as error:
            # Stopped while it waited for its moment, nothing went wrong.
            return None, _stopped_early(came[0]) if came else error
        finally:
            if countdown is not None:
                countdown.cancel()
        line.link = benchmark.link
        stopped = Interrupted("the run was stopped before its end", came[0]) if came else None
        assert benchmark.timeline is not None
        run = _Run(result, benchmark.timeline, benchmark.decided_on)
        return run, benchmark.failure or stopped

    try:
        return asyncio.run(run())
    finally:
        line.end()


def _stopped_early(number: int) -> Interrupted:
    return Interrupted("the run was stopped before its start: nothing was sent", number)


async def _wait(start_at_us: int, plan: BenchmarkPlan, stopping: asyncio.Event) -> None:
    """Return when the workers should be started, or when the run is stopped."""
    lead_s = _LEAD_S + _LEAD_OF_EACH_S * sum(role.workers_count for role in plan.roles)
    while (left_s := start_at_us / 1e6 - lead_s - time.time()) > 0 and not stopping.is_set():
        # Not all of it at once: the clock may be set meanwhile.
        try:
            async with asyncio.timeout(min(left_s, 1.0)):
                await stopping.wait()
        except TimeoutError:
            continue


def _saved(
    plan: BenchmarkPlan, runs: list[_Run], line: ProgressLine, *, cut_short: bool
) -> library.SavedRun | None:
    """Return what there is to save; `cut_short` marks it partial: repetitions are missing."""
    if not runs:
        return None
    results = tuple(run.result for run in runs)
    timelines = tuple(run.timeline for run in runs)
    run = library.saved_run(plan, results, environment(line.link), timelines)
    return replace(run, partial=True) if cut_short else run


def _keep(run: library.SavedRun | None, options: RunOptions) -> SessionError | None:
    """Save a run; return why it is not saved: its result is printed all the same."""
    if run is None or options.library is None:
        return None
    try:
        path = library.save(run, options.library)
    except SessionError as error:
        return error
    click.echo(f"saved as {path.stem}", err=True)
    return None


_COLUMNS = ("role", "worker", "pattern", "msgs", "bytes", "msgs_per_s", "cpu", "ended")


def _check_csv(path: Path) -> None:
    """Raise UsageError for a file that can not be written at the end."""
    with writing(path):
        check_replaceable(path, replaces=False)
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path} cannot be written: its folder does not exist")


def _write_csv(run: library.SavedRun, path: Path) -> None:
    """Write a row for each worker of each repetition. Raises UsageError and WriteFailed."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(("run", "repetition", *_COLUMNS))
    for number, result in enumerate(run.results, 1):
        table.writerows((run.name, number, *_cells(worker)) for worker in result.workers)
    with writing(path), complete_file(path, replaces=False) as file:
        file.write(text.getvalue().encode())


def _cells(worker: WorkerResult) -> tuple[object, ...]:
    counts = worker.counts
    sends = counts.sent_msgs >= counts.received_msgs
    msgs = counts.sent_msgs if sends else counts.received_msgs
    size_bytes = counts.sent_bytes if sends else counts.received_bytes
    return (
        worker.role, worker.worker_id, worker.pattern, msgs, size_bytes,
        worker.rate_per_s, worker.cpu_ratio, worker.ended,
    )  # fmt: skip


def _print_result(run: library.SavedRun, options: RunOptions) -> None:
    if options.json:
        click.echo(clean_json(library.encode(run).decode()))
    else:
        click.echo(hanging(summary_text(run), stdout_width(), LABEL_CELLS))
    if options.csv_file is not None:
        _write_csv(run, options.csv_file)


def _check_result(run: library.SavedRun, checks: list[Check]) -> None:
    """Raise AssertionFailed for the checks that fail, or when messages are not accounted for."""
    failed = [sentence for check in checks if (sentence := check.failure(run.metrics)) is not None]
    if failed:
        raise AssertionFailed("; ".join(failed))
    for result in run.results:
        if result.verdict == "incomplete":
            complaints = "; ".join(result.accounting.complaints)
            raise AssertionFailed(f"not every message is accounted for: {complaints}")
