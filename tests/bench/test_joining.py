"""Workers that join in the middle: what is due to them, and where in the schedule they begin."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from nats.aio.msg import Msg

from natstui.bench.job.schedule import Schedule
from natstui.bench.result.environment import environment
from natstui.bench.result.library import saved_run
from natstui.bench.result.text import summary_text
from natstui.bench.run.controller import Benchmark
from natstui.config.connection import Connection
from natstui.errors import Refused
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import (
    BenchmarkPlan,
    ClientKind,
    Fault,
    Pattern,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.model.bench.result import BenchmarkResult
from natstui.model.records.benchmark import BenchmarkReport
from natstui.model.records.record import Record
from tests.bench.running import Records, Run, check_sums

pytestmark = pytest.mark.server

HERE = environment(None)
SLOW = RateSegment(None, 400, 400)
FAST_PER_S = 4000
TOTAL = 3000
SEEN_BEFORE = 300
both = pytest.mark.parametrize("client", ["wire", "nats-py"])
Before = Callable[[str], Awaitable[None]]


class Joining:
    """A run that one more receiver joins once something was received, and then goes fast.

    It waits for what happens, not for a time: a worker may take seconds to start.
    """

    def __init__(self, broker: Broker, what: BenchmarkPlan, before: Before | None = None) -> None:
        self.records = Records(on_add=self._look)
        self.benchmark = Benchmark(what, Connection(servers=(broker.url,)), self.records)
        self._url, self._before = broker.url, before
        self._received = 0
        self._joining: asyncio.Task[None] | None = None

    def _look(self, record: Record) -> None:
        if isinstance(record, BenchmarkReport):
            self._received += record.counts.received_msgs
            if self._received >= SEEN_BEFORE and self._joining is None:
                self._joining = asyncio.create_task(self._join())

    async def _join(self) -> None:
        if self._before is not None:
            await self._before(self._url)
        try:
            await self.benchmark.add_worker("subs")
        finally:
            self.benchmark.change_rate(per_s=FAST_PER_S)

    async def run(self) -> BenchmarkResult:
        result = await asyncio.wait_for(self.benchmark.run(), 120)
        assert self._joining is not None
        await self._joining
        check_sums(result, self.records)
        return result


async def joined(
    broker: Broker, *roles: Role, stream: StreamPlan | None = None, before: Before | None = None
) -> BenchmarkResult:
    """Run roles, with one more receiver from the middle on."""
    return await Joining(broker, BenchmarkPlan("joining", "", roles, stream, None), before).run()


def sender(pattern: Pattern, payload: Payload | None = None) -> Role:
    """Return a role that sends slowly until somebody has joined."""
    size = payload or Payload()
    return Role("pubs", pattern, schedule=(SLOW,), payload=size, total_msgs=TOTAL)


def amounts(result: BenchmarkResult, role: str) -> tuple[int, int]:
    """Return what the first worker of a role and the one that joined received."""
    first, late = (one.counts.received_msgs for one in result.workers if one.role == role)
    return first, late


@pytest.mark.parametrize(("client", "size_bytes"), [("wire", 128), ("nats-py", 128), ("wire", 4)])
async def test_a_subscriber_that_joins_is_owed_what_was_sent_since_and_no_more(
    broker: Broker, client: ClientKind, size_bytes: int
) -> None:
    payload = Payload(size_bytes=size_bytes)
    subs = Role("subs", "subscribe", 1, client, payload=payload)
    result = await joined(broker, subs, sender("publish", payload))
    books, (first, late) = result.accounting, amounts(result, "subs")
    assert first == books.sent_msgs
    assert 0 < late < first
    assert (books.lost_msgs, books.expected_msgs) == (0, first + late)
    assert result.verdict == "ok", result.notes


@both
async def test_what_waits_in_the_socket_of_a_busy_subscriber_is_heard_before_it_ends(
    broker: Broker, client: ClientKind
) -> None:
    # Where nobody waits for stragglers, it is told to stop while it still works on the first.
    subs = Role("subs", "subscribe", 1, client, think_s=0.001)
    pubs = Role("pubs", "publish", total_msgs=500)
    what = BenchmarkPlan("busy", "", (subs, pubs), None, None, drain_s=0)
    records = Records()
    result = await Benchmark(what, Connection(servers=(broker.url,)), records).run()
    check_sums(result, records)
    books = result.accounting
    assert (books.sent_msgs, books.received_msgs, books.lost_msgs) == (500, 500, 0)


@both
async def test_one_that_joins_an_ordered_stream_is_owed_what_the_stream_still_had(
    broker: Broker, client: ClientKind
) -> None:
    async def drop(url: str) -> None:
        own = await connect(Connection(servers=(url,)))
        await own.request("STREAM.PURGE.JOINED", {"seq": SEEN_BEFORE})
        await own.close()

    stream = StreamPlan("JOINED", subjects=("bench",))
    subs = Role("subs", "js-ordered", 1, client)
    result = await joined(broker, subs, sender("js-publish-async"), stream=stream, before=drop)
    books, (first, late) = result.accounting, amounts(result, "subs")
    assert (first, late) == (TOTAL, TOTAL - SEEN_BEFORE + 1)
    assert (books.lost_msgs, books.expected_msgs) == (0, first + late)
    assert result.verdict == "ok", result.notes


async def test_what_a_group_did_not_get_is_lost_and_nothing_is_ok(broker: Broker) -> None:
    own = await connect(Connection(servers=(broker.url,)))
    # A member of the group that is none of ours takes its share, and nobody counts it.
    taken = await own.nc.subscribe("bench", queue="q", cb=_ignore)
    await own.nc.flush()
    result = await joined(broker, Role("subs", "subscribe", queue="q"), sender("publish"))
    await taken.unsubscribe()
    await own.close()
    assert result.accounting.closes, result.accounting.missing
    assert (result.accounting.lost_msgs or 0) > 100
    assert result.verdict == "incomplete"
    assert any("messages were lost" in note for note in result.notes)
    shown = summary_text(saved_run(BenchmarkPlan("t", "", (), None, 5.0), (result,), HERE))
    assert "verdict    incomplete" in shown
    assert "MESSAGES WERE LOST" in shown
    assert "accounted for" not in shown


async def _ignore(_message: Msg) -> None:
    """Take a message and tell nobody."""


@pytest.mark.parametrize("pattern", ["subscribe", "js-consume"])
async def test_at_no_moment_more_is_told_as_received_than_as_sent(
    broker: Broker, pattern: Pattern
) -> None:
    core = pattern == "subscribe"
    stream = None if core else StreamPlan("AHEAD", subjects=("bench",))
    sends: Pattern = "publish" if core else "js-publish-async"
    roles = (
        Role("subs", pattern),
        Role("pubs", sends, schedule=(RateSegment(None, 20_000, 20_000),)),
    )
    records = Records()
    what = BenchmarkPlan("ahead", "", roles, stream, 2.0)
    result = await Benchmark(what, Connection(servers=(broker.url,)), records).run()
    check_sums(result, records)
    sent = received = 0
    for record in records.all:
        if isinstance(record, BenchmarkReport):
            sent += record.counts.sent_msgs
            received += record.counts.received_msgs
            assert received <= sent
    assert received == sent > 0


async def test_a_core_subscriber_gets_the_repeats_of_a_deduplicated_stream_and_loses_none(
    run: Run,
) -> None:
    payload = Payload(msg_ids=True, duplicate_ratio=0.1)
    pubs = Role("pubs", "js-publish-async", payload=payload, total_msgs=1_100)
    stream = StreamPlan("REPEATS", subjects=("bench",), duplicate_window_s=60)
    result = await run(Role("subs", "subscribe", payload=payload), pubs, stream=stream)
    books = result.accounting
    assert (books.sent_msgs, books.received_msgs, books.distinct_msgs) == (1_100, 1_100, 1_000)
    assert (books.lost_msgs, books.expected_msgs) == (0, 1_000)
    assert result.verdict == "ok", result.notes


STEPS = tuple(RateSegment(1.0, rate, rate) for rate in (100.0, 1000.0, 3000.0))


async def test_a_publisher_that_joins_a_stepped_run_goes_on_at_the_step_the_others_are_at(
    broker: Broker,
) -> None:
    steps = (RateSegment(1.0, 50.0, 50.0), RateSegment(None, 1000.0, 1000.0))
    added = (Fault(1.0, "add", "pubs"),)
    what = BenchmarkPlan(
        "steps", "", (Role("pubs", "publish", schedule=steps),), None, 7.0, faults=added
    )
    records = Records()
    result = await Benchmark(what, Connection(servers=(broker.url,)), records).run()
    check_sums(result, records)
    worked_s, sent_msgs = 0.0, 0
    for one in records.all:
        if isinstance(one, BenchmarkReport) and one.worker_id == 1 and worked_s < 0.8:
            worked_s, sent_msgs = worked_s + one.interval_s, sent_msgs + one.counts.sent_msgs
    # Begun anew it would send forty in that time.
    assert sent_msgs > 200


def test_what_is_left_of_a_schedule_begins_where_the_time_is() -> None:
    rising = (RateSegment(2.0, 0.0, 100.0), RateSegment(None, 100, 100))
    assert Schedule(rising).rest(1_000_000_000).due_count(1_000_000_000) == 76
    assert Schedule(STEPS).rest(2_500_000_000).total_count() == 1500
    over = Schedule(STEPS).rest(9_000_000_000)
    assert (over.is_open, over.total_count(), over.due_count(10**9)) == (True, 0, 0)


async def test_a_push_receiver_that_joins_shares_the_consumer(broker: Broker) -> None:
    stream = StreamPlan("PUSHED", subjects=("bench",))
    result = await joined(
        broker, Role("subs", "js-push", 2), sender("js-publish-async"), stream=stream
    )
    assert len([one for one in result.workers if one.role == "subs"]) == 3
    assert result.accounting.duplicate_msgs == 0
    assert result.verdict == "ok", result.notes


async def test_a_second_receiver_of_a_push_consumer_for_one_is_refused(broker: Broker) -> None:
    stream = StreamPlan("ALONE", subjects=("bench",))
    roles = (Role("subs", "js-push"), sender("js-publish-async"))
    run = Joining(broker, BenchmarkPlan("alone", "", roles, stream, None))
    with pytest.raises(Refused, match="one receiver"):
        await run.run()
    # What was refused did not disturb the run.
    assert run.benchmark.failure is None
