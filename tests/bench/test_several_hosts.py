"""Runs of several hosts: begun at one moment, told apart by their stamps, merged."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from natstui.bench.job.tally import WorkerTimes
from natstui.bench.result import library
from natstui.bench.result.accounting import WorkerCounts
from natstui.bench.result.environment import read_environment
from natstui.bench.result.merge_saved_runs import MergedRuns, merge_runs
from natstui.bench.result.run_result import RunOutcome, WorkerEnd, make_result
from natstui.bench.result.text import merged_text
from natstui.bench.run.controller import Benchmark
from natstui.cli.bench.options import parse_start_time
from natstui.cli.root import root
from natstui.config.connection import Connection
from natstui.errors import ActionRefusal, NatstuiError, UsageError
from natstui.jetstream.connection.client import connect
from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.latency import from_latencies, merge
from natstui.model.bench.plan import BenchmarkPlan, Payload, RateSegment, Role, StreamPlan
from natstui.model.bench.result import BenchmarkResult
from natstui.model.bench.timeline import Timeline
from natstui.model.records.benchmark import BenchmarkPhase
from natstui.values import replace
from tests.accounts import Account
from tests.bench.here import workers_of
from tests.bench.running import Records, check_sums, plan

RATE = (RateSegment(None, 200, 200),)
EACH_MSGS = 200
SHARED = StreamPlan("SHARED", create=False, subjects=("bench",))
READY_S = (3, 8, 20, 90)
"""Until the workers of some runs are ready; where a busy machine needs longer, a later moment."""
NOW = datetime(2026, 11, 26, 14, 30, tzinfo=UTC)


def was_late(result: BenchmarkResult) -> bool:
    return any("late: its workers were not ready in time" in note for note in result.notes)


async def run_together(account: Account, what: BenchmarkPlan, count: int = 2) -> MergedRuns:
    """Run a plan as several hosts would, and merge what they saved."""
    connection = Connection(servers=(account.url,))
    for ready_s in READY_S:
        if what.stream is not None:
            client = await connect(connection)
            await client.request(f"STREAM.PURGE.{what.stream.name}")
            await client.close()
        records = [Records() for _ in range(count)]
        benchmarks = [Benchmark(what, connection, one) for one in records]
        start_at_us = time.time_ns() // 1000 + ready_s * 1_000_000
        results = await asyncio.gather(*(one.run(start_at_us) for one in benchmarks))
        if not any(map(was_late, results)):
            break
    for result, kept in zip(results, records, strict=True):
        check_sums(result, kept)
    runs = []
    for number, (benchmark, result) in enumerate(zip(benchmarks, results, strict=True)):
        assert benchmark.timeline is not None
        saved = library.make_saved_run(
            what, (result,), read_environment(benchmark.link), (benchmark.timeline,)
        )
        runs.append((f"host-{number}", saved))
    merged = merge_runs(runs)
    # Histograms are added exactly, bucket by bucket.
    for name in ("e2e", "ack", "late"):
        parts = [getattr(one.results[0].latencies, name) for _, one in runs]
        assert getattr(merged.latencies, name) == merge(parts)
    assert merged.metrics["sent"] == sum(one.metrics["sent"] or 0 for _, one in runs)
    return merged


@pytest.mark.long
@pytest.mark.server
async def test_each_of_two_runs_on_one_stream_tells_its_messages_from_those_of_the_other(
    account: Account,
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    await client.request("STREAM.CREATE.SHARED", {"name": "SHARED", "subjects": ["bench"]})
    try:
        roles = (
            Role("consume", "js-consume"),
            Role("pubs", "js-publish-async", schedule=RATE),
        )
        merged = await run_together(account, plan(*roles, stream=SHARED, duration_s=1))
    finally:
        await client.request("STREAM.DELETE.SHARED")
        await client.close()
    for run in merged.runs:
        books = run.accounting
        assert run.verdict == "ok", run.notes
        assert books.stored_msgs == books.acked_msgs == books.sent_msgs
        assert books.distinct_msgs == books.sent_msgs
        others = sum(one.accounting.sent_msgs for one in merged.runs) - books.sent_msgs
        assert (books.lost_msgs, books.duplicate_msgs) == (0, 0)
        assert 0 < books.foreign_msgs <= others
        foreign = f"{books.foreign_msgs} messages came from other senders and are not counted"
        assert foreign in run.notes
    assert 0 < merged.common_s <= 1.2
    assert merged.metrics["stored"] == merged.metrics["sent"]
    text = merged_text(merged)
    assert text.count("closes") == 2 and "every message accounted for" in text


@pytest.mark.long
@pytest.mark.server
async def test_receivers_tell_the_messages_of_their_run_from_those_of_another(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    client = await connect(connection)
    await client.request("STREAM.CREATE.SHARED", {"name": "SHARED", "subjects": ["bench"]})
    await client.close()
    small, sending = Payload(size_bytes=16), {"schedule": RATE, "total_msgs": EACH_MSGS}
    stored = plan(
        Role("consume", "js-consume"),
        Role("ordered", "js-ordered"),
        Role("group", "subscribe", subject="bench", queue="q"),
        Role("pubs", "js-publish-async", **sending),  # type: ignore[arg-type]
        stream=SHARED,
    )
    core = plan(
        Role("group", "subscribe", queue="q", payload=small),
        Role("pubs", "publish", payload=small, **sending),  # type: ignore[arg-type]
    )
    for what, copies in ((stored, 3), (core, 1)):
        async with workers_of(connection, what) as here, workers_of(connection, what) as there:
            results = await asyncio.gather(here.run(), there.run())
        for result in results:
            books = result.accounting
            assert result.verdict == "ok", result.notes
            # The consumers got everything of their run, and the group each message once.
            assert books.expected_msgs == books.received_msgs == copies * EACH_MSGS
            assert books.distinct_msgs == books.received_msgs
            # The last of the others may come after this run has ended.
            assert 0 < books.foreign_msgs <= copies * EACH_MSGS
            foreign = f"{books.foreign_msgs} messages came from other senders and are not counted"
            assert foreign in result.notes


@pytest.mark.server
async def test_a_stream_that_another_run_created_is_neither_used_nor_deleted(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    what = plan(
        Role("pubs", "js-publish-async", schedule=RATE),
        stream=StreamPlan("OWN", subjects=("bench",)),
        duration_s=1,
    )
    first = Benchmark(what, connection, Records())
    running = asyncio.create_task(first.run(time.time_ns() // 1000 + 4_000_000))
    client = await connect(connection)
    try:
        async with asyncio.timeout(30):
            while b'"OWN"' not in await client.request("STREAM.NAMES"):
                await asyncio.sleep(0.05)
        with pytest.raises(ActionRefusal, match="--stream OWN without --create"):
            await Benchmark(what, connection, Records()).run()
        result = await running
        assert result.verdict == "ok", result.notes
        assert b'"OWN"' not in await client.request("STREAM.NAMES")
    finally:
        await client.close()


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("14:30:01Z", "2026-11-26T14:30:01+00:00"),
        ("15:31+01:00", "2026-11-26T15:31:00+01:00"),
        ("2026-11-27T08:00:00Z", "2026-11-27T08:00:00+00:00"),
        ("2026-11-27 08:00:00.5-05:30", "2026-11-27T08:00:00.500000-05:30"),
        ("02:29:59Z", "2026-11-27T02:29:59+00:00"),
        ("14:00Z", "2026-11-26T14:00:00+00:00"),
    ],
)
def test_a_moment_is_read_with_its_zone(text: str, moment: str) -> None:
    assert parse_start_time(text, NOW).isoformat() == moment


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--at", "2020-01-01T00:00:00Z"), "2020-01-01T00:00:00Z was"),
        (("--at", "14:30:00"), "'14:30:00' has no zone"),
        (("--at", "soon"), "'soon' is not a time: write it as 14:30:00Z"),
        (("--at", "25:00Z"), "'25:00Z' is not a time"),
        (("--at", "2999-01-01T00:00:00Z", "--repeat", "2"), "--at starts one run"),
    ],
)
def test_a_moment_that_cannot_be_met_is_refused(words: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(root, ["bench", "pub", "x", *words], catch_exceptions=False)
    assert sentence in str(caught.value)


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize("in_s", [30, pytest.param(3600, marks=pytest.mark.long)])
async def test_ctrl_c_while_it_waits_for_its_moment_leaves_nothing(
    account: Account, tmp_path: Path, in_s: int
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f'[benchmark]\nfolder = "{tmp_path / "runs"}"\n')
    at = datetime.fromtimestamp(time.time() + in_s, UTC).isoformat()
    words = ("js", "pubsub", "waits", "--rate", "10", "--duration", "60s", "--at", at)
    command = [sys.executable, "-m", "natstui", "bench", *words, "--config", str(config)]
    with subprocess.Popen(
        [*command, "--server", account.url], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        told = process.stderr.readline()
        assert told.startswith("starts at 20") and ", in " in told
        os.kill(process.pid, signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert stderr.splitlines()[-1] == (
        "natstui: the run was stopped before its start: nothing was sent"
    )
    assert not (tmp_path / "runs").exists()
    client = await connect(Connection(servers=(account.url,)))
    assert b"NATSTUI_BENCH" not in await client.request("STREAM.NAMES")
    await client.close()


@pytest.mark.server
async def test_all_begin_at_the_moment_and_who_was_not_ready_says_so(account: Account) -> None:
    connection = Connection(servers=(account.url,))
    what = plan(Role("pubs", "publish", schedule=RATE), duration_s=0.3)
    for ready_s in READY_S:
        start_at_us = time.time_ns() // 1000 + ready_s * 1_000_000
        records = Records()
        benchmark = Benchmark(what, connection, records)
        result = await benchmark.run(start_at_us)
        if not was_late(result):
            break
    # Its name says when it began, not when it was typed.
    starting = next(one for one in records.all if isinstance(one, BenchmarkPhase))
    assert (starting.phase, starting.at_us < result.started_at_us) == ("starting", True)
    assert benchmark.timeline is not None
    assert abs(benchmark.timeline.began_at_us - start_at_us) < 1000
    assert not was_late(result), result.notes
    late = await Benchmark(what, connection, Records()).run(time.time_ns() // 1000)
    assert was_late(late)


@pytest.fixture
def saved(tmp_path: Path) -> library.SavedRun:
    """Return a saved run with one repetition: 20, 21, 22… messages in each tenth of a second."""
    what = plan(Role("pubs", "publish", schedule=RATE), duration_s=1)
    published_msgs = tuple(range(20, 30))
    counts = Counts(sent_msgs=sum(published_msgs), steady_sent_msgs=sum(published_msgs))
    book = WorkerCounts("pubs/0", what.roles[0], 0, counts, counts, {})
    worker = WorkerEnd(book, WorkerTimes(1_000_000_000), 0.1, "done")
    latencies = Latencies(late=from_latencies([1000] * sum(published_msgs)))
    outcome = RunOutcome(what, 1_000_000, 0, 9, [worker], latencies, None, None, False, None)
    timeline = Timeline(1_000_000, 2_000_000, 100_000, 1_000_000, published_msgs, (0,) * 10)
    run = library.make_saved_run(
        what, (make_result(outcome),), read_environment(None), (timeline,)
    )
    return library.load(str(library.save(run, tmp_path)), tmp_path)


def duplicate_socket(run: library.SavedRun, later_us: int = 0) -> library.SavedRun:
    """Return the same run of another host."""
    (result,), (timeline,) = run.results, run.timelines
    moved = replace(
        timeline,
        began_at_us=timeline.began_at_us + later_us,
        ended_at_us=timeline.ended_at_us + later_us,
        first_at_us=timeline.first_at_us + later_us,
    )
    other = replace(result, started_at_us=result.started_at_us + 1)
    return replace(run, results=(other,), timelines=(moved,))


def other_plan(run: library.SavedRun) -> library.SavedRun:
    (role,) = run.plan.roles
    return replace(
        duplicate_socket(run), plan=replace(run.plan, roles=(replace(role, window_msgs=5),))
    )


def other_version(run: library.SavedRun) -> library.SavedRun:
    return replace(
        duplicate_socket(run), environment=replace(run.environment, natstui_version="0.0.9")
    )


REFUSED: tuple[tuple[Callable[[library.SavedRun], library.SavedRun], str], ...] = (
    (lambda run: run, "b is given twice"),
    (other_plan, "b ran another plan than a: roles 1 window_msgs is 5, not 8000"),
    (other_version, "b was measured by natstui 0.0.9, and a by"),
    (lambda run: duplicate_socket(run, 3_600_000_000), "runs must measure at the same time"),
    (lambda run: replace(duplicate_socket(run), timelines=()), "b has no times of its messages"),
    (
        lambda run: replace(duplicate_socket(run), results=run.results * 2),
        "b has 2 repetitions: merge takes runs without --repeat",
    ),
)


@pytest.mark.server
@pytest.mark.parametrize(("other", "sentence"), REFUSED)
def test_runs_that_do_not_belong_together_are_refused_with_one_sentence(
    saved: library.SavedRun,
    other: Callable[[library.SavedRun], library.SavedRun],
    sentence: str,
) -> None:
    with pytest.raises(NatstuiError) as caught:
        merge_runs([("a", saved), ("b", other(saved))])
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.server
def test_rates_are_those_of_the_time_that_all_measured(saved: library.SavedRun) -> None:
    (timeline,) = saved.timelines
    later_us = 4 * timeline.slice_us
    merged = merge_runs([("a", saved), ("b", duplicate_socket(saved, later_us))])
    begin_at_us, end_at_us = merged.begin_at_us, merged.end_at_us
    assert begin_at_us >= timeline.began_at_us + later_us and end_at_us <= timeline.ended_at_us
    published = timeline.between(begin_at_us, end_at_us)[0]
    published += timeline.between(begin_at_us - later_us, end_at_us - later_us)[0]
    assert merged.metrics["publish_rate"] == pytest.approx(published / merged.common_s)
    assert merged.metrics["receive_rate"] is None
    assert merged.metrics["sent"] == 2 * (saved.metrics["sent"] or 0) > 0
    assert merged.latencies.late == merge([saved.results[0].latencies.late] * 2)
    text = merged_text(merged)
    assert text.count("closes") == 2 and "every message accounted for" in text
    with pytest.raises(UsageError, match="two runs or more"):
        merge_runs([("a", saved)])
