"""Faults on purpose do what they say: pauses, terms, messages never acknowledged, slow workers."""

import asyncio
from itertools import pairwise

import numpy as np
import pytest

from natstui.bench.run.controller import Benchmark
from natstui.bench.wire.deliveries import choice_ratios
from natstui.config.connection import Connection
from natstui.errors import Refused
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
from tests.accounts import Account
from tests.bench.running import Records, Run, check_sums

pytestmark = pytest.mark.server

STREAM = StreamPlan("FAULTS", subjects=("bench",))


@pytest.mark.parametrize("patterns", [("subscribe",), ("js-push", "js-consume", "js-ordered")])
async def test_a_paused_receiver_reads_nothing_until_it_goes_on(
    account: Account, patterns: tuple[Pattern, ...]
) -> None:
    core = patterns == ("subscribe",)
    sends: Pattern = "publish" if core else "js-publish-async"
    what = BenchmarkPlan(
        title="paused",
        description="",
        roles=(
            *(Role(pattern, pattern, 1) for pattern in patterns),
            Role("pubs", sends, schedule=(RateSegment(None, 200, 200),)),
        ),
        stream=None if core else STREAM,
        duration_s=3.2,
        faults=tuple(
            fault
            for pattern in patterns
            for fault in (Fault(0.6, "pause", pattern), Fault(2.6, "resume", pattern))
        ),
    )
    records = Records()
    result = await Benchmark(what, Connection(servers=(account.url,)), records).run()
    check_sums(result, records)
    assert result.verdict == "ok", result.notes
    assert result.accounting.lost_msgs == 0
    for pattern in patterns:
        paused, resumed = (
            next(
                record.at_us
                for record in records.all
                if isinstance(record, BenchmarkLog)
                and record.worker == f"{pattern}/0"
                and word in record.text
            )
            for word in ("paused", "resumed")
        )
        reading = [
            record.at_us
            for record in records.all
            if isinstance(record, BenchmarkReport)
            and record.role == pattern
            and record.counts.received_msgs
        ]
        # Half a second of silence, between what was read before and what came at once after it.
        assert max(b - a for a, b in pairwise(reading)) > 500_000, pattern
        assert reading[-1] > resumed > paused, pattern


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


async def test_workers_that_are_held_go_on_when_they_are_told_again(account: Account) -> None:
    pubs = Role("pubs", "js-publish-async", schedule=(RateSegment(None, 200, 200),))
    # What a held receiver was sent comes again soon.
    subs = Role("subs", "js-consume", 2, ack_wait_s=2)
    what = BenchmarkPlan("held", "", (pubs, subs), STREAM, duration_s=4, drain_s=20)
    records, said = Records(), list[str]()
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records)

    def hold(role: str | None) -> None:
        said.append(benchmark.pause_or_resume(role))

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkPhase) and record.phase == "steady":
            loop = asyncio.get_running_loop()
            for at_s, role in ((0.2, "subs"), (0.3, None), (2.3, None), (2.4, "subs")):
                loop.call_later(at_s, hold, role)

    records.on_add = on_add
    with pytest.raises(Refused, match="starting"):
        benchmark.pause_or_resume()
    result = await asyncio.wait_for(benchmark.run(), 60)
    check_sums(result, records)
    assert said == [
        "worker subs/1 does nothing now",
        "every worker does nothing now",
        "every worker goes on",
        "worker subs/1 does nothing now",
    ]
    assert result.verdict == "ok", result.notes
    # What fell due meanwhile was sent late, and none of it is missing.
    assert (result.latencies.late.max_ns or 0) > 0.5e9
    assert result.accounting.lost_msgs == 0
