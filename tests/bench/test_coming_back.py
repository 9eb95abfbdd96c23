"""A stream or service that is away for a moment is waited for, and what it refused is counted."""

import asyncio
import json
from collections import Counter

import pytest
from nats.aio.msg import Msg

from natstui.bench.run.controller import Benchmark
from natstui.bench.wire import ordered
from natstui.bench.wire.ordered import OrderedReceiver
from natstui.bench.wire.pull import Puller
from natstui.config.connection import Connection, Secret
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.bench.plan import Pattern, RateSegment, Role, StreamPlan
from natstui.model.records.benchmark import BenchmarkReport
from natstui.model.records.record import Record
from tests.accounts import Account
from tests.bench.here import Workers, run_here, workers_of
from tests.bench.running import Records, check_sums, plan
from tests.jetstream.flushing import flushed
from tests.jetstream.raw_publisher import RawPublisher

pytestmark = pytest.mark.server

RATE = (RateSegment(None, 100, 100),)
AWAY_S = 0.6
EACH_MSGS = 403
"""Four seconds of them, as a busy machine needs one to take the stream away; and no whole number
of batches."""


async def take_away(own: Client, subjects: list[str]) -> None:
    """Let the stream take other subjects: nobody takes those of the benchmark any more."""
    config = json.loads(await own.request("STREAM.INFO.AWAY"))["config"]
    await own.request("STREAM.UPDATE.AWAY", {**config, "subjects": subjects})


AWAY_AFTER_MSGS = 150
"""More than the window of a sender remembers: what was acknowledged long before is not looked at
again."""


class Away:
    """Takes the stream's subject away once something was acknowledged."""

    def __init__(self, url: str) -> None:
        self.records = Records(on_add=self._look)
        self._url = url
        self._acked = 0
        self._task: asyncio.Task[None] | None = None

    def _look(self, record: Record) -> None:
        if isinstance(record, BenchmarkReport):
            self._acked += record.counts.acked_msgs
            if self._acked > 20 and self._task is None:
                self._task = asyncio.create_task(self._go())

    async def _go(self) -> None:
        own = await connect(Connection(servers=(self._url,)))
        await take_away(own, ["elsewhere"])
        await own.close()

    async def done(self) -> None:
        assert self._task is not None
        await self._task


PUBLISHERS: tuple[Pattern, ...] = (
    "js-publish-sync",
    "js-publish-async",
    "js-publish-atomic",
    "js-publish-fast",
)


async def test_a_stream_that_is_away_for_a_moment_is_waited_for_and_accounted(
    account: Account,
) -> None:
    pubs = [
        Role(pattern, pattern, 1, schedule=RATE, total_msgs=EACH_MSGS, batch_msgs=20)
        for pattern in PUBLISHERS
    ]
    total = EACH_MSGS * len(pubs)
    stream = StreamPlan("AWAY", subjects=("bench",), allow_batches=True)
    what = plan(*pubs, Role("subs", "js-consume"), stream=stream)
    connection = Connection(servers=(account.url,))

    async def go_away(workers: Workers) -> None:
        while any(workers.sum("acked_msgs", pattern) < AWAY_AFTER_MSGS for pattern in PUBLISHERS):
            await asyncio.sleep(0.01)
        own = await connect(connection)
        await take_away(own, ["elsewhere"])
        await asyncio.sleep(AWAY_S)
        await take_away(own, ["bench"])
        await own.close()

    result = await run_here(connection, what, go_away)
    books = result.accounting
    assert result.verdict == "ok", result.notes
    assert (books.sent_msgs, books.acked_msgs, books.stored_msgs) == (total, total, total)
    assert (books.refused_msgs, books.unanswered_msgs, books.lost_msgs) == (0, 0, 0)
    for worker in result.workers:
        if worker.role != "subs":
            assert (worker.counts.acked_msgs, worker.role) == (EACH_MSGS, worker.role)
            assert worker.counts.retried_msgs > 0, worker.role
    # It took as long as the stream was away, and the latencies say so.
    assert (result.latencies.ack.max_ns or 0) > 0.5 * AWAY_S * 1e9
    assert any("sent again" in note for note in result.notes)


async def test_a_stream_that_does_not_come_back_ends_the_run(account: Account) -> None:
    away = Away(account.url)
    pubs = Role("pubs", "js-publish-sync", 1, schedule=RATE, total_msgs=3000, timeout_s=1)
    what = plan(pubs, stream=StreamPlan("AWAY", subjects=("bench",)))
    benchmark = Benchmark(what, Connection(servers=(account.url,)), away.records)
    result = await asyncio.wait_for(benchmark.run(), 90)
    await away.done()
    check_sums(result, away.records)
    assert benchmark.failure is not None
    assert benchmark.failure.exit_code == 4
    assert "no stream stores" in result.notes[0]
    assert result.accounting.refused_msgs == 1


@pytest.mark.long
async def test_a_service_that_is_away_for_a_moment_is_asked_again(account: Account) -> None:
    own = await connect(Connection(servers=(account.url,)))
    answered: Counter[str] = Counter()

    async def answer(message: Msg) -> None:
        answered[message.subject] += 1
        await message.respond(b"yes")

    async def serve() -> None:
        there = await own.nc.subscribe("ask.*", cb=answer)
        await flushed(own.nc)
        while answered["ask.me"] < 30:
            await asyncio.sleep(0.01)
        # What is under way is still answered.
        await there.drain()
        await asyncio.sleep(AWAY_S)
        await own.nc.subscribe("ask.*", cb=answer)
        await flushed(own.nc)

    serving = asyncio.create_task(serve())
    await asyncio.sleep(0)
    asks = Role("asks", "request", subject="ask.me", schedule=RATE, total_msgs=200)
    records = Records()
    benchmark = Benchmark(plan(asks), Connection(servers=(account.url,)), records)
    result = await asyncio.wait_for(benchmark.run(), 90)
    await serving
    await own.close()
    check_sums(result, records)
    assert result.verdict == "ok", result.notes
    for worker in result.workers:
        counts = worker.counts
        assert counts.received_msgs + counts.unanswered_msgs == 200, worker.role
        # What the server was handing over just as the service left, nobody is told of.
        assert counts.unanswered_msgs <= 1, worker.role
        assert counts.retried_msgs > 0, worker.role
    assert any("sent again" in note for note in result.notes)


async def test_batches_of_gets_are_asked_again_when_nobody_answers_for_a_moment(
    account: Account,
) -> None:
    own = await connect(Connection(servers=(account.url,)))
    config = {"name": "READ", "subjects": ["read"], "storage": "memory", "allow_direct": True}
    await own.request("STREAM.CREATE.READ", config)
    for _ in range(500):
        await own.nc.publish("read", b"x" * 24)

    async def go_away(workers: Workers) -> None:
        while not workers.sum("received_msgs"):
            await asyncio.sleep(0.01)
        await own.request("STREAM.UPDATE.READ", {**config, "allow_direct": False})
        await asyncio.sleep(AWAY_S)
        await own.request("STREAM.UPDATE.READ", config)

    rate = (RateSegment(None, 1000, 1000),)
    gets = Role("gets", "js-get-batch", batch_msgs=100, schedule=rate, total_msgs=6000)
    what = plan(gets, stream=StreamPlan("READ", create=False))
    result = await run_here(Connection(servers=(account.url,)), what, go_away)
    await own.close()
    assert result.verdict == "ok", result.notes
    # Whole batches came, and nothing twice: two requests were refused, once or more often.
    assert result.accounting.received_msgs % 100 == 0
    assert result.accounting.retried_msgs >= 200


async def test_an_ordered_consumer_that_is_gone_is_made_anew_from_where_it_was(
    account: Account,
) -> None:
    own = await connect(Connection(servers=(account.url,)))
    deleted: list[str] = []

    async def delete(workers: Workers) -> None:
        while not workers.sum("received_msgs"):
            await asyncio.sleep(0.01)
        names = json.loads(await own.request("CONSUMER.NAMES.ORDERED"))["consumers"]
        for name in names:
            deleted.append(name)
            await own.request(f"CONSUMER.DELETE.ORDERED.{name}")

    pubs = Role("pubs", "js-publish-async", schedule=RATE, total_msgs=EACH_MSGS)
    stream = StreamPlan("ORDERED", subjects=("bench",))
    what = plan(pubs, Role("subs", "js-ordered"), stream=stream)
    result = await run_here(Connection(servers=(account.url,)), what, delete)
    await own.close()
    assert len(deleted) == 1
    assert result.verdict == "ok", result.notes
    assert (result.accounting.distinct_msgs, result.accounting.lost_msgs) == (EACH_MSGS, 0)


async def test_a_request_that_the_server_ends_is_made_again(account: Account) -> None:
    connection = Connection(servers=(account.url,))
    what = plan(Role("subs", "js-ordered"), stream=StreamPlan("ORDERED", subjects=("bench",)))
    client, requests = await connect(connection), list[str]()

    async def note(message: Msg) -> None:
        requests.append(message.subject)

    async def until_requested(count: int) -> None:
        async with asyncio.timeout(30):
            while len(requests) < count:
                await asyncio.sleep(0.01)

    await client.nc.subscribe("$JS.API.CONSUMER.MSG.NEXT.ORDERED.*", cb=note)
    await flushed(client.nc)
    async with workers_of(connection, what) as workers:
        (worker,) = workers.all
        running = asyncio.create_task(workers.run(lambda _: until_requested(2)))
        await until_requested(1)
        receiver = worker.program
        assert isinstance(receiver, OrderedReceiver)
        inbox = receiver._head.split()[-1]
        with RawPublisher(account.url) as raw:
            # A heartbeat ends nothing.
            for words in (b"100 Idle Heartbeat", b"408 Request Timeout"):
                status = b"NATS/1.0 %s\r\n\r\n" % words
                size = len(status)
                raw.send(b"HPUB %s %d %d\r\n%s\r\n" % (inbox, size, size, status))
            await running
    assert len(requests) == 2
    await client.close()


async def test_a_paused_ordered_receiver_goes_on_after_all_it_requested_was_delivered(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered, "_BATCH_MSGS", 100)
    connection = Connection(servers=(account.url,))
    role = Role("subs", "js-ordered", batch_msgs=100)
    what = plan(role, stream=StreamPlan("ORDERED", subjects=("bench",)))
    client = await connect(connection)

    async def pause(workers: Workers) -> None:
        (worker,) = workers.all
        receiver = worker.program
        assert isinstance(receiver, OrderedReceiver)
        async with asyncio.timeout(30):
            while receiver._requested_msgs != 100:
                await asyncio.sleep(0.01)
            worker.job.running.clear()
            for _ in range(250):
                await client.nc.publish("bench", b"x" * 24)
            await flushed(client.nc)
            while receiver._requested_msgs:
                await asyncio.sleep(0.01)
            assert workers.sum("received_msgs") == 100
            worker.job.running.set()
            while workers.sum("received_msgs") < 250:
                await asyncio.sleep(0.01)

    result = await run_here(connection, what, pause)
    await client.close()
    assert (result.accounting.received_msgs, result.accounting.lost_msgs) == (250, 0)


async def test_a_receiver_without_its_next_consumer_requests_nothing_of_the_last_one(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    role = Role("subs", "js-ordered", batch_msgs=10, think_s=0.01)
    what = plan(role, stream=StreamPlan("ORDERED", subjects=("bench",)))
    requested_msgs = []

    async def recreate(workers: Workers) -> None:
        (worker,) = workers.all
        receiver = worker.program
        assert isinstance(receiver, OrderedReceiver)
        creating = asyncio.create_task(receiver._create_consumer())
        # It has begun, and no reply has come.
        await asyncio.sleep(0)
        receiver.on_processed()
        requested_msgs.append(receiver._requested_msgs)
        await creating
        receiver.on_processed()
        requested_msgs.append(receiver._requested_msgs)

    await run_here(connection, what, recreate)
    assert requested_msgs == [0, 10]


async def test_a_consumer_without_a_leader_is_waited_for_and_asked_about_now_and_then(
    nats_server: Broker,
) -> None:
    what = plan(Role("subs", "js-consume"), stream=StreamPlan("AWAY", subjects=("bench",)))
    async with workers_of(Connection(servers=(nats_server.url,)), what) as workers:
        (worker,) = workers.all
        puller = worker.program
        assert isinstance(puller, Puller)
        nats_server.freeze()
        for at_s in (1, 3, 5, 6):
            puller._on_no_responder(at_s * 10**9)
            check = puller._consumer_check_task
            assert (check is not None) is (at_s > 4)
        assert check is not None
        puller._on_no_responder(7 * 10**9)
        assert puller._consumer_check_task is check, "a second request beside the first one"
        # Nobody can say whether it exists: that is no failure yet.
        await check
        assert not worker.link.failure.done()
        nats_server.thaw()
        puller._on_no_responder(32 * 10**9)
        assert "has no leader: no server has replied to pulls for 31 s" in str(
            worker.link.failure.result()
        )


@pytest.mark.long
@pytest.mark.cluster
async def test_a_node_that_restarts_ends_no_receiver_of_its_stream(nats_cluster: Cluster) -> None:
    whole = Connection(servers=nats_cluster.urls, user="app", password=Secret("app"))
    own = await connect(whole)
    config = {"name": "NODE", "subjects": ["bench"], "storage": "file", "allow_direct": True}
    made = json.loads(await own.request("STREAM.CREATE.NODE", config))
    for _ in range(300):
        await own.nc.publish("bench", b"x" * 24)
    await flushed(own.nc)
    home = nats_cluster.node(made["cluster"]["leader"])
    # The workers stay connected; only the node of the stream goes.
    other = next(node for node in nats_cluster.nodes if node is not home)
    restarting: list[asyncio.Task[None]] = []

    async def restart() -> None:
        await asyncio.to_thread(home.stop)
        await asyncio.sleep(AWAY_S)
        await asyncio.to_thread(home.start)

    def on_add(record: Record) -> None:
        received = isinstance(record, BenchmarkReport) and record.counts.received_msgs
        if received and not restarting:
            restarting.append(asyncio.create_task(restart()))

    records = Records(on_add=on_add)
    roles = (
        Role("pubs", "js-publish-async", schedule=RATE, total_msgs=500, timeout_s=30),
        Role("ordered", "js-ordered", timeout_s=30),
        Role("fetches", "js-fetch", timeout_s=30, ack_wait_s=2),
    )
    what = plan(*roles, stream=StreamPlan("NODE", create=False), drain_s=40)
    benchmark = Benchmark(
        what, Connection(servers=(other.url,), user="app", password=Secret("app")), records
    )
    result = await asyncio.wait_for(benchmark.run(), 120)
    await restarting[0]
    await own.close()
    assert benchmark.failure is None, result.notes
    check_sums(result, records)
    assert result.accounting.lost_msgs == 0, result.notes
    assert result.accounting.retried_msgs > 0


@pytest.mark.long
@pytest.mark.cluster
async def test_a_consumer_whose_leader_is_killed_is_read_on_and_nothing_is_told_as_lost(
    nats_cluster: Cluster,
) -> None:
    app = {"user": "app", "password": Secret("app")}
    whole = Connection(servers=nats_cluster.urls, **app)  # type: ignore[arg-type]
    own = await connect(whole)
    config = {"name": "FAIL", "subjects": ["bench"], "num_replicas": 3}
    await own.request("STREAM.CREATE.FAIL", config)
    for _ in range(1500):
        await own.nc.publish("bench", b"x" * 128)
    durable = {"durable_name": "C", "name": "C", "ack_policy": "explicit", "num_replicas": 3}
    durable |= {"ack_wait": 3 * 10**9}
    body = {"stream_name": "FAIL", "config": durable}
    made = json.loads(await own.request("CONSUMER.CREATE.FAIL.C", body))
    leader = nats_cluster.node(made["cluster"]["leader"])
    other = next(node for node in nats_cluster.nodes if node is not leader)
    killing: list[asyncio.Task[None]] = []

    def on_add(record: Record) -> None:
        received = isinstance(record, BenchmarkReport) and record.counts.received_msgs
        if received and not killing:
            killing.append(asyncio.create_task(asyncio.to_thread(leader.kill)))

    role = Role("subs", "js-consume", consumer="C", think_s=0.004, batch_msgs=200)
    what = plan(role, stream=StreamPlan("FAIL", create=False))
    records = Records(on_add=on_add)
    # The worker stays connected; only the node that leads its consumer goes.
    benchmark = Benchmark(what, Connection(servers=(other.url,), **app), records, "C")  # type: ignore[arg-type]
    result = await asyncio.wait_for(benchmark.run(), 120)
    await killing[0]
    await own.close()
    check_sums(result, records)
    assert benchmark.failure is None, result.notes
    assert result.verdict == "ok", result.notes
    assert (result.accounting.distinct_msgs, result.accounting.lost_msgs) == (1500, 0)
