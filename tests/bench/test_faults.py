"""Faults on purpose do what they say: pauses, terms, messages never acknowledged, slow workers."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest

from natstui.bench.run.controller import Benchmark
from natstui.bench.wire.deliveries import choice_ratios
from natstui.config.connection import Connection
from natstui.errors import ActionRefusal
from natstui.model.bench.plan import (
    BenchmarkPlan,
    Fault,
    Pattern,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.model.records.benchmark import BenchmarkLog, BenchmarkPhase, BenchmarkReport
from natstui.model.records.record import Record
from natstui.values import replace
from tests.accounts import Account
from tests.bench.here import Workers, run_here
from tests.bench.running import Records, Run, check_sums, plan

pytestmark = pytest.mark.server

STREAM = StreamPlan("FAULTS", subjects=("bench",))


async def test_terms_naks_and_messages_never_acknowledged_are_those_that_were_drawn(
    run: Run,
) -> None:
    total = 600
    subs = Role(
        "subs", "js-consume", 2, nak_ratio=0.1, term_ratio=0.1, never_ack_ratio=0.1,
        ack_wait_s=5.0, batch_msgs=50,
    )  # fmt: skip
    result = await run(subs, Role("pubs", "js-publish-async", total_msgs=total), stream=STREAM)
    drawn = choice_ratios(np.arange(1, total + 1))
    naks, terms, nevers = (
        int(np.count_nonzero((drawn >= low) & (drawn < low + 0.1))) for low in (0.0, 0.1, 0.2)
    )
    counts, books = result.counts, result.accounting
    assert (counts.naks_sent_msgs, counts.terms_sent_msgs, counts.never_acked_msgs) == (
        naks,
        terms,
        nevers,
    )
    again = naks + nevers
    assert (books.redelivered_msgs, books.duplicate_msgs) == (again, again)
    assert (books.delivered_msgs, books.received_msgs) == (total + again, total + again)
    assert (books.lost_msgs, books.unread_msgs, books.unsettled_msgs) == (0, 0, 0)


async def test_a_slow_receiver_takes_its_time(run: Run) -> None:
    slow = Role("subs", "js-consume", 1, think_s=0.01, batch_msgs=10)
    result = await run(slow, Role("pubs", "js-publish-async", total_msgs=100), stream=STREAM)
    assert result.accounting.lost_msgs == 0
    assert result.counts.acks_sent_msgs == 100
    assert result.duration_s > 0.8


async def test_a_slow_ordered_receiver_requests_no_more_than_it_processes(run: Run) -> None:
    slow = Role("subs", "js-ordered", think_s=0.01, batch_msgs=10)
    result = await run(slow, Role("pubs", "js-publish-async", total_msgs=200), stream=STREAM)
    assert (result.accounting.received_msgs, result.accounting.lost_msgs) == (200, 0)
    assert result.duration_s > 1.6


async def test_workers_that_join_at_the_same_moment_have_different_numbers(
    account: Account,
) -> None:
    what = BenchmarkPlan(
        "joined",
        "",
        (
            Role("pubs", "publish", schedule=(RateSegment(None, 200, 200),)),
            Role("subs", "subscribe"),
        ),
        None,
        duration_s=3.0,
        drain_s=20,
        faults=(Fault(0.3, "add", "pubs"), Fault(0.3, "add", "pubs")),
    )
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records := Records())
    result = await asyncio.wait_for(benchmark.run(), 60)
    check_sums(result, records)
    numbers = [member.orders.publisher_id for member in benchmark._state.pool.members]
    assert sorted(numbers) == [0, 1, 2, 3]
    assert (result.verdict, result.accounting.lost_msgs) == ("ok", 0), result.notes


async def test_workers_that_are_held_do_nothing_until_they_go_on(account: Account) -> None:
    rate = (RateSegment(None, 200, 200),)
    what = BenchmarkPlan(
        "held",
        "",
        (
            Role("pubs", "js-publish-async", schedule=rate),
            # What a held receiver was sent comes again soon.
            Role("subs", "js-consume", 2, ack_wait_s=2),
        ),
        STREAM,
        duration_s=3.4,
        drain_s=20,
        faults=(Fault(1.6, "pause", "subs"), Fault(2.9, "resume", "subs")),
    )
    records, said = Records(), list[str]()
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records)

    def hold(role: str | None) -> None:
        said.append(benchmark.pause_or_resume(role))

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkPhase) and record.phase == "steady":
            loop = asyncio.get_running_loop()
            for at_s, role in ((0.2, "subs"), (0.3, None), (1.1, None), (1.2, "subs")):
                loop.call_later(at_s, hold, role)

    records.on_add = on_add
    with pytest.raises(ActionRefusal, match="starting"):
        benchmark.pause_or_resume()
    result = await asyncio.wait_for(benchmark.run(), 60)
    check_sums(result, records)
    assert said == [
        "worker subs/1 is paused",
        "every worker is paused",
        "every worker is resumed",
        "worker subs/1 is paused",
    ]
    assert result.verdict == "ok", result.notes
    # What fell due meanwhile was sent late, and none of it is missing.
    assert (result.latencies.late.max_ns or 0) > 0.5e9
    assert result.accounting.lost_msgs == 0
    a_paused_receiver_read_nothing_until_it_went_on(records)


@pytest.mark.parametrize(
    "pattern", ["js-publish-async", pytest.param("js-publish-sync", marks=pytest.mark.long)]
)
async def test_a_sender_that_is_paused_until_the_end_ends_and_has_missed_its_rate(
    account: Account, pattern: Pattern
) -> None:
    async def pause(workers: Workers) -> None:
        workers.all[0].job.running.clear()

    pubs = Role("pubs", pattern, schedule=(RateSegment(None, 200, 200),))
    what = plan(pubs, stream=STREAM, duration_s=0.5)
    result = await run_here(Connection(servers=(account.url,)), what, pause)
    assert result.accounting.sent_msgs + result.accounting.missed_msgs == 100
    assert result.accounting.missed_msgs > 10
    assert any(note.startswith("missed its rate") for note in result.notes)


async def test_a_service_that_is_paused_replies_when_it_goes_on(account: Account) -> None:
    clients = Role("clients", "request", schedule=(RateSegment(None, 50, 50),))
    what = replace(
        plan(Role("service", "serve"), clients, duration_s=1.6),
        faults=(Fault(0.3, "pause", "service"), Fault(1.1, "resume", "service")),
    )
    records = Records()
    result = await asyncio.wait_for(
        Benchmark(what, Connection(servers=(account.url,)), records).run(), 60
    )
    check_sums(result, records)
    assert result.verdict == "ok", result.notes
    assert (result.latencies.rtt.max_ns or 0) > 0.5e9


async def test_a_reader_of_batches_that_is_paused_requests_none_until_it_goes_on(run: Run) -> None:
    pubs = Role("pubs", "js-publish-async", total_msgs=1000)
    await run(pubs, stream=replace(STREAM, keep=True))
    existing, batch_msgs, at_pause_msgs = replace(STREAM, create=False), 50, 0

    async def pause(workers: Workers) -> None:
        nonlocal at_pause_msgs
        while not workers.sum("received_msgs"):
            await asyncio.sleep(0.001)
        workers.all[0].job.running.clear()
        at_pause_msgs = workers.sum("received_msgs")

    async def pause_and_resume(workers: Workers) -> None:
        await pause(workers)
        while workers.sum("received_msgs") % batch_msgs:
            await asyncio.sleep(0.001)
        workers.all[0].job.running.set()

    reader = Role("readers", "js-get-batch", batch_msgs=batch_msgs)
    result = await run(reader, stream=existing, duration_s=0.5, meanwhile=pause)
    assert result.verdict == "ok", result.notes
    assert result.accounting.received_msgs <= at_pause_msgs + 2 * batch_msgs
    reader = replace(reader, total_msgs=5000)
    result = await run(reader, stream=existing, meanwhile=pause_and_resume)
    assert (result.verdict, result.accounting.received_msgs) == ("ok", 5000)


def a_paused_receiver_read_nothing_until_it_went_on(records: Records) -> None:
    logged = [one for one in records.all if isinstance(one, BenchmarkLog)]
    paused_us, resumed_us = (
        [one.at_us for one in logged if one.worker == "subs/1" and word in one.text][-1]
        for word in ("paused", "resumed")
    )
    reading_us = [
        one.at_us
        for one in records.all
        if isinstance(one, BenchmarkReport)
        and (one.role, one.worker_id) == ("subs", 1)
        and one.counts.received_msgs
    ]
    # Half a second of silence, between what was read before and what came at once after it.
    assert max(b - a for a, b in pairwise(reading_us) if b > paused_us) > 500_000
    assert reading_us[-1] > resumed_us > paused_us
