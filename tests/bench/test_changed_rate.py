"""The rate that a running benchmark shows after a change is the one that is sent."""

import asyncio

import pytest

from natstui.bench.run.controller import Benchmark
from natstui.config.connection import Connection
from natstui.errors import ActionRefusal
from natstui.model.bench.plan import Fault, RateSegment, Role
from natstui.model.bench.result import BenchmarkResult
from natstui.model.records.benchmark import BenchmarkLog, BenchmarkPhase, BenchmarkReport
from natstui.model.records.record import Record
from natstui.values import replace
from tests.accounts import Account
from tests.bench.running import Records, plan

BEFORE_PER_S = 100
RATE = (RateSegment(None, BEFORE_PER_S, BEFORE_PER_S),)
WITHIN_S = 60.0


def due_msgs(result: BenchmarkResult) -> int:
    """How many messages the schedules of all workers had, sent on a busy machine or not."""
    return result.counts.sent_msgs + result.counts.missed_msgs


def sent_msgs(records: Records, worker_id: int | None = None) -> int:
    return sum(
        record.counts.sent_msgs
        for record in records.all
        if isinstance(record, BenchmarkReport) and worker_id in (None, record.worker_id)
    )


async def until_sent(records: Records, msgs: int, worker_id: int | None = None) -> None:
    """Wait until so many messages were reported, of one worker or of all."""
    async with asyncio.timeout(WITHIN_S):
        while sent_msgs(records, worker_id) < msgs:
            await asyncio.sleep(0.01)


async def until_steady(records: Records) -> None:
    def is_steady() -> bool:
        return any(
            isinstance(record, BenchmarkPhase) and record.phase == "steady"
            for record in records.all
        )

    async with asyncio.timeout(WITHIN_S):
        while not is_steady():
            await asyncio.sleep(0.01)


@pytest.mark.server
@pytest.mark.parametrize("workers_count", [2, pytest.param(4, marks=pytest.mark.long)])
async def test_workers_that_share_a_rate_send_the_changed_one_together(
    account: Account, workers_count: int
) -> None:
    sentences, records, duration_s = list[str](), Records(), 3
    what = plan(Role("pubs", "publish", workers_count, schedule=RATE), duration_s=duration_s)
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records)

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkPhase) and record.phase == "steady":
            sentences.append(benchmark.change_rate(factor=10))

    records.on_add = on_add
    result = await asyncio.wait_for(benchmark.run(), WITHIN_S)
    assert sentences == ["pubs sends 1000 messages per second now"]
    # The change comes to a busy worker a moment after the start.
    assert 0.7 * 1000 * duration_s < due_msgs(result) <= 1000 * duration_s


@pytest.mark.server
async def test_the_changed_rate_is_that_of_added_workers_too_and_not_of_killed_ones(
    account: Account,
) -> None:
    records = Records()
    what = plan(Role("pubs", "publish", 2, schedule=RATE), duration_s=300)
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records)
    running = asyncio.ensure_future(benchmark.run())
    await until_steady(records)
    await benchmark.add_worker("pubs")
    assert benchmark.change_rate(per_s=900) == "pubs sends 900 messages per second now"
    await until_sent(records, 200, 2)
    benchmark.kill_worker("pubs", 0)
    assert benchmark.change_rate(factor=2) == "pubs sends 1200 messages per second now"
    began_msgs = {number: sent_msgs(records, number) for number in (1, 2)}
    await until_sent(records, began_msgs[2] + 600, 2)
    since_msgs = {number: sent_msgs(records, number) - began_msgs[number] for number in (1, 2)}
    benchmark.stop()
    result = await asyncio.wait_for(running, WITHIN_S)
    assert result.verdict == "stopped", result.notes
    # Each of the two that are left has half of it.
    assert 0.6 < since_msgs[1] / since_msgs[2] < 1.6, since_msgs


def test_no_rate_changes_before_the_workers_have_started() -> None:
    benchmark = Benchmark(plan(Role("pubs", "publish", schedule=RATE)), Connection(), Records())
    with pytest.raises(ActionRefusal, match="the workers are still starting: try again"):
        benchmark.change_rate(factor=1.25)


@pytest.mark.server
async def test_a_worker_that_joins_while_rate_and_payload_change_sends_by_them(
    account: Account,
) -> None:
    records = Records()
    what = plan(
        Role("pubs", "publish", schedule=RATE),
        duration_s=300,
    )
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records)
    running = asyncio.ensure_future(benchmark.run())
    await until_steady(records)
    joining = asyncio.ensure_future(benchmark.add_worker("pubs"))
    async with asyncio.timeout(WITHIN_S):
        while len(benchmark.worker_pids()) < 2:
            await asyncio.sleep(0.001)
    assert not joining.done()
    benchmark.change_payload("1000")
    benchmark.change_rate(per_s=1000)
    # It pauses and resumes who understands it.
    assert benchmark.pause_or_resume("pubs") == "worker pubs/0 is paused"
    assert benchmark.pause_or_resume("pubs") == "worker pubs/0 is resumed"
    await joining
    await until_sent(records, 1000, 1)
    benchmark.stop()
    result = await asyncio.wait_for(running, WITHIN_S)
    (_, joined) = result.workers
    assert (result.verdict, joined.ended) == ("stopped", "done"), result.notes
    assert joined.counts.sent_bytes == 1000 * joined.counts.sent_msgs
    # As many as it has in 10 s at the rate before.
    assert (joined.rate_per_s or 0) > 2 * BEFORE_PER_S


@pytest.mark.server
async def test_a_planned_pause_is_of_a_worker_that_has_started(account: Account) -> None:
    records = Records()
    faults = (Fault(0.0, "add", "pubs"), Fault(0.05, "pause", "pubs"))
    what = replace(plan(Role("pubs", "publish", schedule=RATE), duration_s=300), faults=faults)
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records)
    running = asyncio.ensure_future(benchmark.run())
    await until_sent(records, 20, 1)
    benchmark.stop()
    result = await asyncio.wait_for(running, WITHIN_S)
    assert [worker.ended for worker in result.workers] == ["done", "done"], result.notes
    paused = [
        record.worker
        for record in records.all
        if isinstance(record, BenchmarkLog) and record.text == "is paused"
    ]
    assert paused == ["pubs/0"]
