"""Runs a plan as often as asked, tells how it goes, saves it, and checks what it must hold."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from natstui.bench import library
from natstui.bench.assertions import Check, parse_check
from natstui.bench.compare import compare
from natstui.bench.controller import Benchmark
from natstui.bench.environment import environment
from natstui.bench.metrics import metrics_names
from natstui.bench.overrides import overridden
from natstui.bench.text import LABEL_CELLS, comparison_text, summary_text
from natstui.clean import clean_line
from natstui.cli.bench_options import RunOptions
from natstui.cli.bench_progress import ProgressLine
from natstui.cli.text_table import hanging, stdout_width
from natstui.config import Connection
from natstui.errors import AssertionFailed, NatstuiError, Refused
from natstui.model.benchmark import BenchmarkSummed
from natstui.model.benchmark_result import BenchmarkResult
from natstui.model.benchmark_role import BenchmarkPlan

if TYPE_CHECKING:
    from natstui.engine.recorded_runs import RecordedRuns


def run_benchmark(plan: BenchmarkPlan, connection: Connection, options: RunOptions) -> None:
    """Run, print, save and check. Raises what ended a run, after its partial result is saved."""
    if connection.read_only:
        raise Refused("this connection is read-only: a benchmark writes")
    checks = [parse_check(text, dict.fromkeys(metrics_names())) for text in options.checks]
    plan = overridden(plan, options.changes)
    variants = [overridden(plan, {"client": client}) for client in options.clients] or [plan]
    line = ProgressLine()
    recording = _recording(connection, options, line)
    try:
        results, failure = _repeat(variants, connection, line, options.repeat_count, recording)
        saved = _save(variants, results, line, options, cut_short=failure is not None)
        if recording is not None:
            recording.feed.add(_summed(saved, failure))
    finally:
        if recording is not None:
            recording.close()
    _tell(saved, options)
    if failure is not None:
        raise failure
    _hold(saved, checks)


def _recording(
    connection: Connection, options: RunOptions, line: ProgressLine
) -> RecordedRuns | None:
    """Begin the session, if one is wanted, and tell its folder."""
    if options.record is None:
        return None
    # Imported here, because a benchmark alone needs neither poller nor recorder.
    from natstui.engine.recorded_runs import RecordedRuns

    def tell(text: str) -> None:
        click.echo(clean_line(text), err=True)

    recording = RecordedRuns(options.settings, connection, options.record, tell, line)
    tell(f"recording into {recording.folder}")
    return recording


def _summed(saved: list[library.SavedRun], failure: NatstuiError | None) -> BenchmarkSummed:
    """Return what a replay shows at the end."""
    parts = [] if failure is None else [str(failure)]
    text = "\n".join([*parts, *(summary_text(run) for run in saved)])
    return BenchmarkSummed(time.time_ns() // 1000, text, failed=failure is not None)


def _repeat(
    variants: list[BenchmarkPlan],
    connection: Connection,
    line: ProgressLine,
    repeat_count: int,
    recording: RecordedRuns | None,
) -> tuple[list[list[BenchmarkResult]], NatstuiError | None]:
    """Run every variant in turns, until all is done or one ends before its time."""
    results: list[list[BenchmarkResult]] = [[] for _ in variants]
    failure = None
    for _ in range(repeat_count):
        for number, variant in enumerate(variants):
            result, failure = _once(variant, connection, line, recording)
            if result is not None:
                results[number].append(result)
            if result is None or failure is not None or result.verdict == "stopped":
                return results, failure
    return results, failure


def _once(
    plan: BenchmarkPlan,
    connection: Connection,
    line: ProgressLine,
    recording: RecordedRuns | None,
) -> tuple[BenchmarkResult | None, NatstuiError | None]:
    """Run once; a first Ctrl-C or SIGTERM ends it early with a partial result.

    Returns no result where nothing could be measured: what was measured before is kept.
    """

    async def run() -> tuple[BenchmarkResult | None, NatstuiError | None]:
        benchmark = Benchmark(plan, connection, recording.feed if recording else line)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, benchmark.stop)
        try:
            async with recording.watching() if recording else nullcontext():
                result = await benchmark.run()
        except NatstuiError as error:
            return None, error
        line.link = benchmark.link
        return result, benchmark.failure

    try:
        return asyncio.run(run())
    finally:
        line.end()


def _save(
    variants: list[BenchmarkPlan],
    results: list[list[BenchmarkResult]],
    line: ProgressLine,
    options: RunOptions,
    *,
    cut_short: bool,
) -> list[library.SavedRun]:
    """Save what there is; `cut_short` marks it partial: repetitions are missing."""
    saved = []
    for plan, some in zip(variants, results, strict=True):
        if some:
            titled = plan if len(variants) == 1 else _titled(plan)
            run = library.saved_run(titled, tuple(some), environment(line.link))
            if cut_short:
                run = replace(run, partial=True)
            saved.append(run)
            if options.library is not None:
                path = library.save(run, options.library)
                click.echo(f"saved as {path.stem}", err=True)
    return saved


def _titled(plan: BenchmarkPlan) -> BenchmarkPlan:
    return replace(plan, title=f"{plan.title} ({plan.roles[0].client})")


def _tell(saved: list[library.SavedRun], options: RunOptions) -> None:
    if options.json and saved:
        texts = [library.encode(run).decode() for run in saved]
        click.echo(texts[0] if len(texts) == 1 else f"[{','.join(texts)}]")
        return
    for run in saved:
        click.echo(hanging(summary_text(run), stdout_width(), LABEL_CELLS))
    if len(saved) == 2:
        click.echo(comparison_text(saved[0], saved[1], compare(saved[0], saved[1])))


def _hold(saved: list[library.SavedRun], checks: list[Check]) -> None:
    """Raise AssertionFailed with every check that fails, or sums that do not close."""
    failed = [
        sentence
        for run in saved
        for check in checks
        if (sentence := check.failure(run.metrics)) is not None
    ]
    if failed:
        raise AssertionFailed("; ".join(failed))
    for run in saved:
        for result in run.results:
            if result.verdict == "incomplete":
                missing = "; ".join(result.accounting.missing)
                raise AssertionFailed(f"not every message is accounted for: {missing}")
