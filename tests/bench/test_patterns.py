"""Every pattern runs against a real server, and adds up."""

import asyncio
from collections import Counter
from collections.abc import Callable

import nats
import pytest
from nats.aio.msg import Msg

from natstui.bench.run.controller import Benchmark
from natstui.config.connection import Connection
from natstui.errors import ActionRefusal
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import (
    Acks,
    Pattern,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.values import replace
from tests.accounts import Account
from tests.bench.here import Workers, run_here
from tests.bench.running import Records, Run, plan, run_plan
from tests.jetstream.flushing import flushed

pytestmark = pytest.mark.server

STREAM = StreamPlan("PATTERNS", subjects=("bench", "bench.*"), allow_batches=True)
BUCKET = StreamPlan("patterns", history_count=1)


async def test_fan_out_gives_every_message_to_every_subscriber(run: Run) -> None:
    total = 3_000
    result = await run(
        Role("subs", "subscribe", 3),
        Role("pubs", "publish", 1, total_msgs=total),
    )
    assert result.accounting.received_msgs == 3 * total
    received = [one.counts.received_msgs for one in result.workers if one.role == "subs"]
    assert received == [total] * 3
    assert (result.fan_out_ratio, result.fairness_ratio) == (3, 1)
    assert result.latencies.e2e.total_count == 3 * total
    assert (result.accounting.lost_msgs, result.accounting.duplicate_msgs) == (0, 0)


async def test_a_queue_group_shares_the_messages(run: Run) -> None:
    result = await run(
        Role("subs", "subscribe", 2, queue="q", subjects_count=7),
        Role("pubs", "publish", 2, total_msgs=2_001, subjects_count=7),
    )
    assert result.accounting.received_msgs == result.accounting.distinct_msgs == 2_001
    assert result.accounting.lost_msgs == 0


async def test_requests_of_any_size_are_answered(account: Account) -> None:
    empty = Payload(size_bytes=0, headers=(("Kind", "test"), ("Two", "2")))
    roles = (
        Role("servers", "serve", payload=empty),
        Role("clients", "request", payload=empty, total_msgs=200),
    )
    result, _ = await run_plan(Connection(servers=(account.url,)), plan(*roles))
    assert result.verdict == "ok", result.notes
    assert result.accounting.received_msgs == 200
    assert [worker.counts.received_msgs for worker in result.workers] == [200, 200]
    assert (result.counts.sent_bytes, result.counts.received_bytes) == (0, 0)
    assert result.latencies.rtt.total_count == 200


@pytest.mark.parametrize(
    "patterns",
    [
        ("js-publish-sync", "js-publish-async"),
        pytest.param(("js-publish-atomic",), marks=pytest.mark.needs_server("2.12")),
        pytest.param(("js-publish-fast",), marks=pytest.mark.needs_server("2.14")),
    ],
)
async def test_what_is_published_is_stored(run: Run, patterns: tuple[Pattern, ...]) -> None:
    # Two workers share an odd number.
    roles = [
        Role(one, one, 1 + (one == "js-publish-async"), total_msgs=403, batch_msgs=100)
        for one in patterns
    ]
    result = await run(*(replace(role, window_msgs=300) for role in roles), stream=STREAM)
    assert result.verdict == "ok", result.notes
    books, total = result.accounting, 403 * len(roles)
    assert (books.sent_msgs, books.acked_msgs, books.stored_msgs) == (total, total, total)
    assert result.latencies.ack.total_count == total


@pytest.mark.needs_server(before="2.14")
async def test_a_pattern_that_needs_a_newer_server_is_refused(run: Run) -> None:
    with pytest.raises(
        ActionRefusal, match=r"js-publish-fast: Fast batches needs server 2\.14 or newer"
    ):
        await run(Role("pubs", "js-publish-fast", total_msgs=10), stream=STREAM)


async def test_what_is_stored_is_delivered_to_every_kind_of_consumer(run: Run) -> None:
    total = 500
    kinds: tuple[tuple[Pattern, Acks, int], ...] = (
        ("js-consume", "explicit", 2),
        ("js-consume", "double", 1),
        ("js-fetch", "all", 1),
        ("js-fetch", "none", 1),
        ("js-push", "explicit", 2),
        ("js-ordered", "none", 2),
    )
    consumers = [
        Role(f"{pattern}-{acks}", pattern, workers_count, acks=acks, batch_msgs=200)
        for pattern, acks, workers_count in kinds
    ]
    publisher = Role("pubs", "js-publish-async", total_msgs=total)
    result = await run(*consumers, publisher, stream=STREAM)
    assert result.verdict == "ok", result.notes
    received = Counter[str]()
    for worker in result.workers:
        received[worker.role] += worker.counts.received_msgs
    # Each ordered worker has a consumer of its own, and gets everything.
    expected = {one.name: total * (2 if one.traits.is_ordered else 1) for one in consumers}
    assert {one.name: received[one.name] for one in consumers} == expected
    books, copies = result.accounting, len(consumers) + 1
    assert (books.received_msgs, books.lost_msgs) == (total * copies, 0)
    assert result.latencies.store.total_count == total * copies
    assert result.latencies.e2e.total_count == total * copies
    assert result.counts.acks_confirmed_msgs == total


async def test_a_fetch_with_a_processing_delay_requests_no_batch_before_the_last_is_processed(
    account: Account, run: Run
) -> None:
    observer, batch_msgs = await nats.connect(account.url), 10
    unprocessed_msgs: list[int] = []
    acked_msgs = 0

    async def on_sent(message: Msg) -> None:
        nonlocal acked_msgs
        if message.subject.startswith("$JS.ACK."):
            acked_msgs += 1
        elif message.subject.startswith("$JS.API.CONSUMER.MSG.NEXT."):
            unprocessed_msgs.append(batch_msgs * len(unprocessed_msgs) - acked_msgs)

    # One subscription, for the order in which the worker sent both.
    await observer.subscribe("$JS.>", cb=on_sent)
    await flushed(observer)
    result = await run(
        Role("subs", "js-fetch", think_s=0.003, batch_msgs=batch_msgs),
        Role("pubs", "js-publish-async", total_msgs=60),
        stream=STREAM,
    )
    await observer.close()
    assert (result.verdict, result.accounting.received_msgs) == ("ok", 60)
    assert len(unprocessed_msgs) >= 6 and set(unprocessed_msgs) == {0}


@pytest.mark.needs_server("2.11")
async def test_stored_messages_are_read_back(run: Run) -> None:
    await run(Role("pubs", "js-publish-async", total_msgs=700), stream=replace(STREAM, keep=True))
    stream = replace(STREAM, create=False)
    patterns: tuple[Pattern, ...] = ("js-get", "js-get-batch")
    readers = [Role(pattern, pattern, 1, total_msgs=900) for pattern in patterns]
    result = await run(*readers, stream=stream)
    assert [worker.counts.received_msgs for worker in result.workers] == [900, 900]
    assert result.latencies.rtt.total_count == 1800
    result = await run(Role("subs", "js-consume", 1, acks="none"), stream=stream)
    assert (result.accounting.received_msgs, result.accounting.lost_msgs) == (700, 0)


@pytest.mark.parametrize(
    "pattern", ["js-get", pytest.param("js-get-batch", marks=pytest.mark.needs_server("2.11"))]
)
async def test_stored_messages_are_read_in_order_also_where_some_are_deleted(
    run: Run, account: Account, pattern: Pattern
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(name="PATTERNS", subjects=["bench"], allow_direct=True)
    sizes_bytes = (1, 10, 100, 1000, 10_000, 100_000)
    for size_bytes in sizes_bytes:
        await js.publish("bench", b"x" * size_bytes, headers={"Nats-Sequence": "1"})
    for seq in (2, 3, 6):
        await js.delete_msg("PATTERNS", seq)
    left_bytes = 1 + 1000 + 10_000
    reader = Role("readers", pattern, batch_msgs=2, total_msgs=7)
    result = await run(reader, stream=replace(STREAM, create=False))
    (worker,) = result.workers
    assert (result.verdict, worker.counts.received_msgs) == ("ok", 7), result.notes
    assert worker.counts.received_bytes == 2 * left_bytes + 1

    async def purge(workers: Workers) -> None:
        """Purge what the reader began with, and then the last message."""
        while workers.sum("received_msgs") < 10:
            await asyncio.sleep(0.001)
        await js.purge_stream("PATTERNS", keep=1)
        await js.publish("bench", b"newer")
        await js.purge_stream("PATTERNS", seq=6)

    endless = plan(replace(reader, total_msgs=None), stream=replace(STREAM, create=False),
                   duration_s=1.0)  # fmt: skip
    result = await run_here(Connection(servers=(account.url,)), endless, purge)
    assert result.verdict == "ok", result.notes
    await nc.close()


@pytest.mark.needs_server("2.11")
async def test_what_a_batch_lacks_is_read_where_the_server_limits_its_bytes(
    nats_server_factory: Callable[..., Broker],
) -> None:
    url = nats_server_factory("max_pending: 1MB").url
    nc = await nats.connect(url)
    js = nc.jetstream()
    await js.add_stream(name="PATTERNS", subjects=["bench"], allow_direct=True)
    sizes_bytes = range(100_000, 100_015)
    for size_bytes in sizes_bytes:
        await js.publish("bench", b"x" * size_bytes)
    reader = Role("readers", "js-get-batch", batch_msgs=15, total_msgs=15)
    what = plan(reader, stream=replace(STREAM, create=False))
    result = await run_here(Connection(servers=(url,)), what)
    (worker,) = result.workers
    assert (result.verdict, worker.counts.received_msgs) == ("ok", 15), result.notes
    assert worker.counts.received_bytes == sum(sizes_bytes), "each message once"
    await nc.close()


@pytest.mark.parametrize("pattern", ["js-get", "kv-get"])
async def test_gets_with_a_rate_are_as_many_as_it_says(run: Run, pattern: Pattern) -> None:
    key = Role("kv", "kv-put", subject="$KV.patterns.key", total_msgs=1)
    await run(key, stream=replace(BUCKET, keep=True))
    rate = (RateSegment(None, 200, 200),)
    reader = replace(key, pattern=pattern, total_msgs=None, schedule=rate)
    result = await run(reader, stream=replace(BUCKET, create=False), duration_s=0.5)
    assert result.verdict == "ok", result.notes
    assert result.accounting.received_msgs + result.accounting.missed_msgs == 100


async def test_workers_share_the_keys_of_a_bucket(run: Run) -> None:
    keys = Role("kv", "kv-put", 2, subject="$KV.patterns.key", subjects_count=21, total_msgs=21)
    await run(keys, stream=replace(BUCKET, keep=True))
    for workers_count in (1, 2):
        reader = replace(keys, pattern="kv-get", workers_count=workers_count)
        result = await run(reader, stream=replace(BUCKET, create=False))
        assert (result.verdict, result.accounting.received_msgs) == ("ok", 21), workers_count


async def test_keys_of_a_bucket_that_no_benchmark_made_are_not_overwritten(
    run: Run, account: Account
) -> None:
    role = Role("kv", "kv-put", 1, subject="$KV.patterns.key", subjects_count=10, total_msgs=20)
    nc = await nats.connect(account.url)
    bucket = await nc.jetstream().create_key_value(bucket="patterns")
    await bucket.put("key.3", b"precious")
    what = plan(role, stream=replace(BUCKET, create=False))
    refusal = r"patterns has keys .* such as key\.3: name another"
    with pytest.raises(ActionRefusal, match=refusal):
        await Benchmark(what, Connection(servers=(account.url,)), Records()).check()
    with pytest.raises(ActionRefusal, match=refusal):
        await run(role, stream=what.stream)
    assert (await bucket.get("key.3")).value == b"precious"
    await nc.jetstream().delete_key_value("patterns")
    await nc.close()


async def test_values_are_put_and_got(run: Run) -> None:
    role = Role("kv", "kv-put", 1, subject="$KV.patterns.key", subjects_count=10)
    kept = replace(BUCKET, keep=True)
    result = await run(replace(role, total_msgs=100), stream=kept)
    assert result.accounting.acked_msgs == 100
    got = await run(
        replace(role, pattern="kv-get", total_msgs=150), stream=replace(BUCKET, create=False)
    )
    assert got.accounting.received_msgs == 150


@pytest.mark.parametrize("kind", ["json", "range"])
async def test_other_payloads_carry_their_stamp(run: Run, kind: str) -> None:
    payload = Payload(kind, 100, 400)  # type: ignore[arg-type]
    if kind == "json":
        payload = Payload("json", 300)
    result = await run(
        Role("subs", "subscribe", 1, payload=payload),
        Role("pubs", "publish", 1, payload=payload, total_msgs=1_000),
    )
    assert result.accounting.lost_msgs == 0
    assert result.latencies.e2e.total_count == 1_000


async def test_duplicates_sent_on_purpose_are_stored_once(run: Run) -> None:
    payload = Payload(msg_ids=True, duplicate_ratio=0.1)
    publisher = Role("pubs", "js-publish-async", 1, payload=payload, total_msgs=1_100)
    result = await run(Role("subs", "js-consume", acks="double"), publisher, stream=STREAM)
    books = result.accounting
    assert (books.acked_msgs, books.duplicate_acked_msgs, books.stored_msgs) == (1_000, 100, 1_000)
    assert (books.distinct_msgs, books.duplicate_msgs, books.lost_msgs) == (1_000, 0, 0)


async def test_how_late_a_sender_begins_is_in_the_result_for_each_message(run: Run) -> None:
    rate = (RateSegment(None, 20_000, 20_000),)
    result = await run(Role("pubs", "publish", schedule=rate), duration_s=1)
    late = result.latencies.late
    assert result.verdict == "ok", result.notes
    assert late.total_count == result.counts.steady_sent_msgs > 0
    # Half of what falls due in one breath is late by half of it, and none is early.
    assert (late.percentile_ns(50) or 0) > 0


@pytest.mark.parametrize(
    ("pattern", "most_bytes"),
    [
        pytest.param("fast", 47, marks=pytest.mark.needs_server("2.14")),
        pytest.param("atomic", 70, marks=pytest.mark.needs_server("2.12")),
    ],
)
async def test_a_batch_adds_no_more_to_a_message_than_that_of_the_nats_cli(
    run: Run, account: Account, pattern: str, most_bytes: int
) -> None:
    added = list[int]()

    async def see(message: Msg) -> None:
        headers = "".join(f"{name}: {text}\r\n" for name, text in (message.headers or {}).items())
        extra = len(f"NATS/1.0\r\n{headers}\r\n") if headers else len(message.reply)
        added.append(extra)

    client = await nats.connect(account.url)
    try:
        await client.subscribe("bench", cb=see)
        await flushed(client)
        sender = Role("pubs", f"js-publish-{pattern}", 1, total_msgs=600)  # type: ignore[arg-type]
        result = await run(sender, stream=STREAM)
        assert result.accounting.stored_msgs == 600
        async with asyncio.timeout(30):
            while len(added) < 600:
                await asyncio.sleep(0.05)
        # Of an atomic batch the last message carries the commit, too.
        assert sorted(added)[-10] <= most_bytes
    finally:
        await client.close()


async def test_what_a_stream_holds_comes_after_go_and_not_while_others_start(run: Run) -> None:
    await run(Role("p", "js-publish-async", total_msgs=500), stream=replace(STREAM, keep=True))
    # Each worker's start keeps the ones before it waiting.
    readers = Role("ordered", "js-ordered", 2), Role("push", "js-push", 2)
    result = await run(*readers, stream=replace(STREAM, create=False))
    # Both ordered workers get everything, and those with a push consumer share it.
    assert result.accounting.received_msgs == 3 * 500
    assert result.counts.steady_received_msgs == 3 * 500
    assert 0 < (result.receive_per_s or 0) < 3e6
    assert result.verdict == "ok", result.notes
