"""Runs a plan as often as asked, shows its progress, saves its results and checks them."""

from __future__ import annotations

import asyncio
import csv
import io
import signal
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from natstui.bench.plan.flags import overridden
from natstui.bench.result import library
from natstui.bench.result.assertions import Check, parse_checks
from natstui.bench.result.environment import environment
from natstui.bench.result.text import LABEL_CELLS, summary_text
from natstui.bench.run.controller import Benchmark
from natstui.clean import clean_json, clean_line
from natstui.cli.bench.options import RunOptions
from natstui.cli.text_table import hanging, stdout_width
from natstui.config import Connection
from natstui.errors import AssertionFailed, Interrupted, NatstuiError, Refused, UsageError
from natstui.files import write_complete
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import BenchmarkResult, WorkerResult
from natstui.model.records.benchmark import (
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkProgress,
    BenchmarkSummed,
)
from natstui.model.records.record import LinkChanged, Record
from natstui.units import count_text, duration_text

if TYPE_CHECKING:
    from natstui.engine.headless import RecordedRuns


class ProgressLine:
    """A sink that shows the progress on stderr."""

    def __init__(self, *, shows: bool = True) -> None:
        """`shows`: rewrite a line on a terminal while it runs."""
        self.link: LinkChanged | None = None
        """The server it ran against."""
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
    if connection.read_only:
        raise Refused("this connection is read-only: a benchmark writes")
    checks = parse_checks((*plan.assertions, *options.checks))
    plan = overridden(plan, options.changes)
    line = ProgressLine(shows=options.progress)
    recording = _recording(connection, options, line)
    try:
        results, failure = _repeat(plan, connection, line, options, recording)
        saved = _save(plan, results, line, options, cut_short=failure is not None)
        if recording is not None:
            recording.feed.add(_summed(saved, failure))
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


def _summed(saved: library.SavedRun | None, failure: NatstuiError | None) -> BenchmarkSummed:
    """Return what a replay shows at the end."""
    parts = [] if failure is None else [str(failure)]
    if saved is not None:
        parts.append(summary_text(saved))
    return BenchmarkSummed(time.time_ns() // 1000, "\n".join(parts), failed=failure is not None)


def _repeat(
    plan: BenchmarkPlan,
    connection: Connection,
    line: ProgressLine,
    options: RunOptions,
    recording: RecordedRuns | None,
) -> tuple[list[BenchmarkResult], NatstuiError | None]:
    """Run as often as asked for, until one ends before its time."""
    results: list[BenchmarkResult] = []
    failure = None
    while len(results) < options.repeat_count and failure is None:
        result, failure = _once(plan, connection, line, options, recording)
        if result is not None:
            results.append(result)
    return results, failure


def _once(
    plan: BenchmarkPlan,
    connection: Connection,
    line: ProgressLine,
    options: RunOptions,
    recording: RecordedRuns | None,
) -> tuple[BenchmarkResult | None, NatstuiError | None]:
    """Run once; a first Ctrl-C or SIGTERM ends it early with a partial result.

    Returns no result where nothing could be measured: what was measured before is kept.
    """

    async def run() -> tuple[BenchmarkResult | None, NatstuiError | None]:
        sink = recording.feed if recording else line
        benchmark = Benchmark(plan, connection, sink)
        loop, came = asyncio.get_running_loop(), list[int]()

        def stop(number: int) -> None:
            came.append(number)
            benchmark.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        try:
            async with recording.watching() if recording else nullcontext():
                result = await benchmark.run()
        except NatstuiError as error:
            return None, error
        line.link = benchmark.link
        stopped = Interrupted("the run was stopped before its end", came[0]) if came else None
        return result, benchmark.failure or stopped

    try:
        return asyncio.run(run())
    finally:
        line.end()


def _save(
    plan: BenchmarkPlan,
    results: list[BenchmarkResult],
    line: ProgressLine,
    options: RunOptions,
    *,
    cut_short: bool,
) -> library.SavedRun | None:
    """Save what there is; `cut_short` marks it partial: repetitions are missing."""
    if not results:
        return None
    run = library.saved_run(plan, tuple(results), environment(line.link))
    if cut_short:
        run = replace(run, partial=True)
    if options.library is not None:
        path = library.save(run, options.library)
        click.echo(f"saved as {path.stem}", err=True)
    return run


_COLUMNS = ("role", "worker", "pattern", "msgs", "bytes", "msgs_per_s", "cpu", "ended")


def _write_csv(run: library.SavedRun, path: Path) -> None:
    """Write a row for each worker of each repetition. Raises UsageError."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(("run", "repetition", *_COLUMNS))
    for number, result in enumerate(run.results, 1):
        table.writerows((run.name, number, *_cells(one)) for one in result.workers)
    try:
        write_complete(path, text.getvalue().encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


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
    if options.csv_file is not None:
        _write_csv(run, options.csv_file)
    if options.json:
        click.echo(clean_json(library.encode(run).decode()))
    else:
        click.echo(hanging(summary_text(run), stdout_width(), LABEL_CELLS))


def _check_result(run: library.SavedRun, checks: list[Check]) -> None:
    """Raise AssertionFailed for the checks that fail, or when messages are not accounted for."""
    failed = [sentence for check in checks if (sentence := check.failure(run.metrics)) is not None]
    if failed:
        raise AssertionFailed("; ".join(failed))
    for result in run.results:
        if result.verdict == "incomplete":
            complaints = "; ".join(result.accounting.complaints)
            raise AssertionFailed(f"not every message is accounted for: {complaints}")
