"""Whatever goes wrong: one sentence, an exit code, a partial result, and nothing left behind."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg

from natstui.bench.job import protocol
from natstui.bench.job.job import published_msgs_by_stream
from natstui.bench.job.protocol import CreatedStream, RateChange, WorkerFailure
from natstui.bench.run import controller
from natstui.bench.run.assets import RunAssets
from natstui.bench.run.controller import Benchmark
from natstui.bench.wire import pull
from natstui.bench.wire.batches import FastPublisher
from natstui.bench.worker import clean_up
from natstui.children import module_command
from natstui.config.connection import Connection, Secret
from natstui.errors import (
    ActionRefusal,
    NotFound,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
    UsageError,
)
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.counts import Counts
from natstui.model.bench.plan import (
    BenchmarkPlan,
    Fault,
    Pattern,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.model.bench.result import BenchmarkResult
from natstui.model.records.benchmark import (
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkReport,
)
from natstui.model.records.record import Record
from natstui.values import replace
from tests.accounts import Account
from tests.bench.here import Workers, run_here, workers_of
from tests.bench.running import Records, plan, run_plan
from tests.bench.test_content import orders
from tests.jetstream.flushing import flushed
from tests.jetstream.raw_publisher import RawPublisher

pytestmark = pytest.mark.server

STREAM = StreamPlan("FAILING", subjects=("bench",))
DENYING = """
authorization { users: [ { user: u, password: p, permissions: {
  publish: { deny: ["bench", "ask"] } } } ] }
"""


async def fail(url: str, what: BenchmarkPlan, **identity: object) -> tuple[BenchmarkResult, int]:
    """Run a plan that fails; return its partial result and the exit code."""
    connection = Connection(servers=(url,), **identity)  # type: ignore[arg-type]
    benchmark = Benchmark(what, connection, Records())
    result = await asyncio.wait_for(benchmark.run(), 90)
    assert benchmark.failure is not None
    assert (result.verdict, result.partial) == ("failed", True)
    return result, benchmark.failure.exit_code


@pytest.mark.parametrize(
    "pattern",
    ["js-publish-sync", "js-publish-async", "js-publish-atomic", "js-publish-fast"],
)
async def test_a_full_stream_ends_the_work_with_its_reason(
    account: Account, pattern: Pattern
) -> None:
    full = replace(STREAM, max_msgs=100, discard="new", allow_batches=True)
    role = Role("pubs", pattern, 1, total_msgs=1000, batch_msgs=40, window_msgs=80)
    what = plan(replace(role, timeout_s=2), stream=full)
    async with workers_of(Connection(servers=(account.url,)), what) as workers:
        with pytest.raises(RequestFailed, match="maximum messages exceeded") as failed:
            await workers.run()
        assert failed.value.exit_code == 4
        assert 0 < (await workers.assets.read_stored_msgs() or 0) <= 100
        assert workers.sum("refused_msgs") > 0


async def test_an_answer_to_another_batch_is_none_to_the_one_that_is_open(
    account: Account,
) -> None:
    role = Role("pubs", "js-publish-fast", 1, total_msgs=100, window_msgs=80)
    connection = Connection(servers=(account.url,))
    what = plan(role, stream=replace(STREAM, allow_batches=True))
    async with workers_of(connection, what) as workers:
        program = workers.all[0].program
        assert isinstance(program, FastPublisher)
        client = await connect(connection)
        refusal = json.dumps({"error": {"code": 400, "description": "of another batch"}})
        # It comes before every answer to what is sent.
        await client.publish(f"{program.inbox}.another.8.fail.1.1.$FI", refusal.encode())
        await flushed(client.nc)
        await client.close()
        result = await workers.run()
        assert (workers.sum("acked_msgs"), workers.sum("refused_msgs")) == (100, 0)
        assert workers.sum("retried_msgs") == 0 and result.verdict == "ok", result.notes


async def test_who_is_stopped_before_the_first_message_sends_none(account: Account) -> None:
    role = Role("pubs", "js-publish-sync", 1, total_msgs=10)
    async with workers_of(
        Connection(servers=(account.url,)), plan(role, stream=STREAM)
    ) as workers:
        (worker,) = workers.all
        worker.job.stopping.set()
        await worker.work()
        assert worker.end().counts.totals.sent_msgs == 0
        assert await workers.assets.read_stored_msgs() == 0


async def test_a_subject_nobody_stores_ends_the_run(account: Account) -> None:
    role = Role("pubs", "js-publish-async", 1, subject="elsewhere", total_msgs=10)
    result, exit_code = await fail(account.url, plan(role, stream=STREAM))
    assert exit_code == 4
    assert "no stream stores" in result.notes[0]


@pytest.mark.parametrize(
    "pattern", ["publish", pytest.param("js-publish-async", marks=pytest.mark.long)]
)
async def test_a_denied_subject_is_named(
    nats_server_factory: Callable[..., Broker], pattern: Pattern
) -> None:
    url = nats_server_factory(DENYING).url
    role = Role("pubs", pattern, 1, schedule=(RateSegment(None, 500, 500),))
    what = plan(role, stream=STREAM, duration_s=2)
    result, exit_code = await fail(url, what, user="u", password=Secret("p"))
    assert exit_code == PermissionDenied.exit_code
    assert 'no permission to publish to "bench"' in result.notes[0]


async def test_a_missing_stream_or_consumer_is_named_before_anything_starts(
    account: Account,
) -> None:
    missing = replace(STREAM, name="MISSING", create=False)
    consumer = Role("subs", "js-consume", consumer="nobody")
    for what, word in ((plan(consumer, stream=missing), "stream"), (_own(consumer), "consumer")):
        with pytest.raises(NotFound, match=word):
            await Benchmark(what, Connection(servers=(account.url,)), Records()).run()
    assert await _streams(account.url) == []


def _own(consumer: Role) -> BenchmarkPlan:
    return plan(consumer, stream=STREAM)


async def _streams(url: str) -> list[str]:
    client = await connect(Connection(servers=(url,)))
    names: list[str] = json.loads(await client.request("STREAM.NAMES")).get("streams") or []
    await client.close()
    return names


async def test_a_payload_the_server_does_not_take_is_refused_before_anything_starts(
    account: Account,
) -> None:
    big = Payload(kind="range", size_bytes=10, size_max_bytes=2 << 20)
    role = Role("pubs", "publish", 1, total_msgs=10, payload=big)
    benchmark = Benchmark(plan(role), Connection(servers=(account.url,)), Records())
    with pytest.raises(
        UsageError,
        match=r"'pubs': payloads of 2.00 MiB are larger than max_payload of the server, 1.00 MiB",
    ):
        await benchmark.run()
    assert benchmark.worker_pids() == []


@pytest.mark.long
async def test_a_server_that_goes_away_leaves_a_partial_result(nats_server: Broker) -> None:
    role = Role("pubs", "js-publish-async", 1, schedule=(RateSegment(None, 500, 500),))
    role = replace(role, timeout_s=2)

    acked_msgs = 0

    def on_add(record: Record) -> None:
        nonlocal acked_msgs
        if isinstance(record, BenchmarkReport) and acked_msgs <= 100:
            acked_msgs += record.counts.acked_msgs
            if acked_msgs > 100:
                nats_server.kill()

    records = Records(on_add=on_add)
    what = plan(role, stream=STREAM, duration_s=30)
    benchmark = Benchmark(what, Connection(servers=(nats_server.url,)), records)
    result = await asyncio.wait_for(benchmark.run(), 60)
    assert benchmark.failure is not None
    assert benchmark.failure.exit_code == 3
    assert result.partial
    assert acked_msgs <= result.counts.acked_msgs < 15_000


async def test_a_server_that_restarts_is_waited_for(nats_server: Broker) -> None:
    role = Role("pubs", "js-publish-async", schedule=(RateSegment(None, 100, 100),), timeout_s=10)

    async def restart(workers: Workers) -> None:
        while workers.sum("acked_msgs") < 50:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(nats_server.restart)

    stored = replace(STREAM, storage="file")
    # What was on its way when it went comes again soon.
    subs = Role("subs", "js-consume", ack_wait_s=2)
    what = plan(role, subs, stream=stored, duration_s=4)
    result = await run_here(Connection(servers=(nats_server.url,)), what, restart)
    assert result.verdict == "ok", result.notes
    assert result.accounting.lost_msgs == 0
    assert result.accounting.stored_msgs is not None
    assert result.accounting.acked_msgs <= result.accounting.stored_msgs <= 400
    assert result.counts.acked_msgs > 150


async def test_a_server_that_restarts_does_not_end_a_run_that_only_consumes(
    nats_server: Broker,
) -> None:
    own = await connect(Connection(servers=(nats_server.url,)))
    await own.request("STREAM.CREATE.FAILING", {"name": "FAILING", "subjects": ["bench"]})
    for _ in range(600):
        await own.nc.publish("bench", b"x" * 24)
    await own.close()

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkPhase) and record.phase == "steady":
            asyncio.get_running_loop().call_later(0.4, nats_server.restart)

    role = Role("subs", "js-consume", think_s=0.002, ack_wait_s=2)
    what = plan(role, stream=replace(STREAM, create=False))
    benchmark = Benchmark(what, Connection(servers=(nats_server.url,)), Records(on_add=on_add))
    result = await asyncio.wait_for(benchmark.run(), 60)
    assert result.verdict == "ok", result.notes
    assert (result.accounting.distinct_msgs, result.accounting.lost_msgs) == (600, 0)


async def test_a_consumer_that_somebody_deletes_ends_the_run_with_its_name(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "_RECONNECT_GRACE_NS", 200_000_000)
    connection = Connection(servers=(account.url,))
    own = await connect(connection)
    await own.request("STREAM.CREATE.FAILING", {"name": "FAILING", "subjects": ["bench"]})
    for _ in range(600):
        await own.nc.publish("bench", b"x" * 24)
    await flushed(own.nc)

    async def delete_it(workers: Workers) -> None:
        while not workers.sum("received_msgs"):
            await asyncio.sleep(0.01)
        (name,) = json.loads(await own.request("CONSUMER.NAMES.FAILING"))["consumers"]
        await own.request(f"CONSUMER.DELETE.FAILING.{name}")
        # The run ends before this.
        await asyncio.sleep(60)

    role = Role("subs", "js-consume", think_s=0.01)
    what = plan(role, stream=replace(STREAM, create=False), duration_s=50)
    with pytest.raises(NotFound, match=r"^consumer FAILING > .* was deleted: "):
        await run_here(connection, what, delete_it)
    await own.close()


@pytest.mark.long
async def test_a_consumer_that_a_restart_deleted_is_named_and_nothing_is_told_as_lost(
    nats_server: Broker,
) -> None:
    own = await connect(Connection(servers=(nats_server.url,)))
    config = {"name": "FAILING", "subjects": ["bench"], "storage": "memory"}
    await own.request("STREAM.CREATE.FAILING", config)
    for _ in range(600):
        await own.nc.publish("bench", b"x" * 24)
    await own.close()

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkPhase) and record.phase == "steady":
            asyncio.get_running_loop().call_later(0.4, nats_server.restart)

    role = Role("subs", "js-consume", think_s=0.01)
    what = plan(role, stream=replace(STREAM, create=False), duration_s=50)
    benchmark = Benchmark(what, Connection(servers=(nats_server.url,)), Records(on_add=on_add))
    result = await asyncio.wait_for(benchmark.run(), 60)
    assert benchmark.failure is not None and benchmark.failure.exit_code == 4
    assert any("was deleted: " in note for note in result.notes), result.notes
    assert result.accounting.lost_msgs is None
    assert not any("lost" in note and "unknown" not in note for note in result.notes)


async def test_a_stream_that_somebody_created_again_during_the_run_is_not_removed(
    nats_server: Broker,
) -> None:
    own = await connect(Connection(servers=(nats_server.url,)))
    created = list[asyncio.Task[None]]()

    async def create_again() -> None:
        # By a backup that is restored, or a copy of its configuration: all but the time is equal.
        info = json.loads(await own.request("STREAM.INFO.FAILING"))
        await own.request("STREAM.DELETE.FAILING")
        await own.request("STREAM.CREATE.FAILING", info["config"])

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkPhase) and record.phase == "steady":
            created.append(asyncio.create_task(create_again()))

    pubs = Role("pubs", "js-publish-sync", schedule=(RateSegment(None, 50, 50),))
    what = plan(pubs, stream=STREAM, duration_s=2)
    benchmark = Benchmark(what, Connection(servers=(nats_server.url,)), Records(on_add=on_add))
    result = await asyncio.wait_for(benchmark.run(), 60)
    await asyncio.gather(*created)
    assert "stream FAILING was recreated during the run: natstui keeps it" in result.notes
    await own.request("STREAM.DELETE.FAILING")
    await own.close()


@pytest.mark.long
async def test_a_stream_with_messages_of_others_is_not_removed_after_a_kill_or_an_early_stop(
    account: Account,
) -> None:
    own = await connect(Connection(servers=(account.url,)))
    rate = (RateSegment(None, 50, 50),)
    killing = plan(
        Role("pubs", "js-publish-sync", workers_count=2, schedule=rate),
        stream=STREAM,
        duration_s=2,
    )
    killing = replace(killing, faults=(Fault(0.5, "kill", "pubs"),))
    kept = (
        "stream FAILING stored 30 messages that no worker of this run has reported: natstui keeps "
        "it, and natstui stream rm FAILING removes it"
    )

    async def run(what: BenchmarkPlan, *, stops: bool) -> list[str]:
        """Publish 30 messages once the stream is there; return the log."""
        records = Records()
        benchmark = Benchmark(what, Connection(servers=(account.url,)), records)
        start_at_us = time.time_ns() // 1000 + 600_000_000 if stops else None
        running = asyncio.ensure_future(benchmark.run(start_at_us))
        async with asyncio.timeout(30):
            while "FAILING" not in await _streams(account.url):
                await asyncio.sleep(0.05)
        for _ in range(30):
            await own.request_subject("bench", b"of somebody else")
        if stops:
            benchmark.stop()
            with pytest.raises(ActionRefusal, match="stopped before it began"):
                await asyncio.wait_for(running, 60)
        else:
            assert kept in (await asyncio.wait_for(running, 60)).notes
        return [record.text for record in records.all if isinstance(record, BenchmarkLog)]

    for stops in (True, False):
        assert kept in await run(killing, stops=stops)
        await own.request("STREAM.DELETE.FAILING")
    await run_plan(Connection(servers=(account.url,)), killing)
    assert await _streams(account.url) == []
    await own.close()


async def test_a_stream_with_more_messages_than_workers_have_sent_is_not_removed(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    what = plan(Role("pubs", "js-publish-sync", total_msgs=5), stream=STREAM)
    own = await connect(connection)
    for others_msgs, kept in (
        (30, ("stream FAILING stored 30 messages that no worker of this run has reported: natstui "
              "keeps it, and natstui stream rm FAILING removes it",)),
        (0, ()),
    ):  # fmt: skip
        async with workers_of(connection, what) as workers:
            await workers.run()
            for _ in range(others_msgs):
                await own.request_subject("bench", b"of somebody else")
            assert await workers.assets.remove(workers.sent()) == kept
            assert await _streams(account.url) == (["FAILING"] if kept else [])
        if kept:
            await own.request("STREAM.DELETE.FAILING")
    await own.close()


KEEPING = """
authorization { users: [ { user: u, password: p, permissions: {
  publish: { deny: ["$JS.API.STREAM.DELETE.FAILING", "$JS.API.CONSUMER.LIST.OTHERS"] } } } ] }
"""


async def test_a_created_stream_that_cannot_be_deleted_is_named_and_the_others_are_deleted(
    nats_server_factory: Callable[..., Broker],
) -> None:
    url = nats_server_factory(KEEPING).url
    connection = Connection(servers=(url,), user="u", password=Secret("p"))
    payload = Payload(kind="json", size_bytes=200)
    roles = (
        Role("workers", "js-respond", subject="bench", payload=payload),
        Role("askers", "js-request", subject="bench", payload=payload, total_msgs=10),
    )
    responses = StreamPlan("BACK", subjects=("bench-responses.*",))
    what = replace(plan(*roles, stream=STREAM), responses=responses)
    result = await asyncio.wait_for(Benchmark(what, connection, Records()).run(), 60)
    assert result.verdict == "ok", result.notes
    assert (
        "stream FAILING could not be deleted: the user has no permission to publish to "
        '"$JS.API.STREAM.DELETE.FAILING": natstui stream rm FAILING removes it'
    ) in result.notes
    client = await connect(connection)
    assert json.loads(await client.request("STREAM.NAMES"))["streams"] == ["FAILING"]
    # What was asked for first is deleted, whether or not consumers may be listed.
    await client.request("STREAM.CREATE.OTHERS", {"name": "OTHERS", "subjects": ["others"]})
    what = plan(Role("subs", "js-consume"), stream=StreamPlan("OTHERS", create=False))
    assets = RunAssets(client, what, "run")
    await assets.create()
    assert json.loads(await client.request("CONSUMER.NAMES.OTHERS"))["total"] == 1
    assert await assets.remove({}) == ()
    assert json.loads(await client.request("CONSUMER.NAMES.OTHERS"))["total"] == 0
    await client.close()


async def test_a_created_stream_is_named_where_its_server_is_gone(nats_server: Broker) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    what = plan(Role("pubs", "js-publish-sync", total_msgs=5), stream=STREAM)
    assets = RunAssets(client, what, "run")
    await assets.create()
    await asyncio.to_thread(nats_server.kill)
    (kept,) = await assets.remove({})
    assert kept.startswith("stream FAILING could not be deleted: ")
    assert kept.endswith(": natstui stream rm FAILING removes it")
    await client.close()


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_stream_whose_creation_got_no_reply_is_deleted_or_named(
    account: Account, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    request = Client.request

    async def lose_reply(client: Client, verb: str, *rest: Any, **others: Any) -> bytes:
        reply = await request(client, verb, *rest, **others)
        if verb == "STREAM.CREATE.FAILING" or (verb == "STREAM.INFO.FAILING" and not is_read):
            raise RequestTimedOut(verb, 5)
        return reply

    monkeypatch.setattr(Client, "request", lose_reply)
    what = plan(Role("pubs", "js-publish-sync", total_msgs=5), stream=STREAM)
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records := Records())
    with pytest.raises(RequestTimedOut, match=r"STREAM\.CREATE\.FAILING"):
        await benchmark.run()
    notes = [record.text for record in records.all if isinstance(record, BenchmarkLog)]
    assert await _streams(account.url) == ([] if is_read else ["FAILING"])
    assert notes == (
        []
        if is_read
        else [
            "the creation of stream FAILING got no reply, so it may exist later: no reply on "
            '"STREAM.INFO.FAILING" within 5 s: natstui stream rm FAILING removes it'
        ]
    )


async def test_a_stream_of_another_run_is_left_where_a_creation_got_no_reply(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    await client.request("STREAM.CREATE.FAILING", {"name": "FAILING", "subjects": ["bench"]})
    request = Client.request

    async def lose_reply(client: Client, verb: str, *rest: Any, **others: Any) -> bytes:
        if verb == "STREAM.CREATE.FAILING":
            raise RequestTimedOut(verb, 5)
        return await request(client, verb, *rest, **others)

    monkeypatch.setattr(Client, "request", lose_reply)
    what = plan(Role("pubs", "js-publish-sync", total_msgs=5), stream=STREAM)
    assets = RunAssets(client, what, "run")
    with pytest.raises(RequestTimedOut):
        await assets.create()
    assert await assets.remove({}) == ()
    await client.close()
    assert await _streams(account.url) == ["FAILING"]


def test_messages_of_a_worker_count_for_the_stream_that_stores_them() -> None:
    counts = Counts(sent_msgs=10, duplicate_acked_msgs=3, refused_msgs=2, retried_msgs=5)
    created = {
        "REQUESTS": CreatedStream("", ("bench.>",)),
        "RESPONSES": CreatedStream("", ("back.*",)),
    }
    cases: dict[tuple[Pattern, str], dict[str, int]] = {
        ("js-publish-async", "bench.a"): {"REQUESTS": 10},
        ("publish", "bench.a"): {"REQUESTS": 10},
        ("publish", "core"): {},
        ("serve", "core"): {},
        ("js-request", "bench.a"): {"REQUESTS": 10},
        ("js-respond", ""): {"RESPONSES": 10},
        ("js-consume", ""): {},
    }
    for (pattern, subject), msgs in cases.items():
        worker = replace(
            orders(Role("r", pattern, subject=subject)),
            created_streams=created,
            responses="RESPONSES",
        )
        assert published_msgs_by_stream(worker, counts) == msgs, pattern


async def test_answers_that_come_too_late_are_none(nats_server: Broker) -> None:
    rate = (RateSegment(None, 500, 500),)
    patterns: tuple[Pattern, ...] = ("js-publish-async", "js-publish-atomic")
    roles = [
        Role(one, one, schedule=rate, batch_msgs=40, window_msgs=80, timeout_s=0.5)
        for one in patterns
    ]

    async def freeze(workers: Workers) -> None:
        await asyncio.sleep(0.4)
        nats_server.freeze()
        await asyncio.sleep(1.5)
        nats_server.thaw()

    what = plan(*roles, stream=replace(STREAM, allow_batches=True), duration_s=2.2)
    result = await run_here(Connection(servers=(nats_server.url,)), what, freeze)
    assert result.verdict == "ok", result.notes
    for worker in result.workers:
        assert worker.counts.unanswered_msgs >= 80, worker.role


async def test_a_fast_batch_at_a_low_rate_is_acknowledged_as_it_goes(account: Account) -> None:
    role = Role("pubs", "js-publish-fast", schedule=(RateSegment(None, 20, 20),))
    what = plan(role, stream=replace(STREAM, allow_batches=True), duration_s=3)
    result = await run_here(Connection(servers=(account.url,)), what)
    assert result.verdict == "ok", result.notes
    # Acknowledged at the end only, the first half would have waited longer than this.
    assert (result.latencies.ack.percentile_ns(50) or 0) < 0.75e9


@pytest.mark.long
async def test_a_stopped_run_is_partial_and_leaves_nothing(account: Account) -> None:
    role = Role("pubs", "js-publish-async", schedule=(RateSegment(None, 500, 500),))
    what = plan(role, stream=STREAM, duration_s=60)
    records = Records()
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records)

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkPhase) and record.phase == "steady":
            asyncio.get_running_loop().call_later(0.7, benchmark.stop)

    records.on_add = on_add
    result = await asyncio.wait_for(benchmark.run(), 90)
    assert (result.verdict, result.partial) == ("stopped", True)
    assert result.accounting.missing == ()
    assert await _streams(account.url) == []
    assert isinstance(records.all[0], BenchmarkPlanned)


def _workers() -> set[int]:
    """Return the processes of all benchmark workers on this machine."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"natstui.bench.worker" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _children(parent: int) -> set[int]:
    return {
        pid
        for pid in _workers()
        if (stat := _stat(pid)) and int(stat.rpartition(")")[2].split()[1]) == parent
    }


def _stat(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


async def _until(true: Callable[[], bool], within_s: float = 40.0) -> bool:
    give_up = time.monotonic() + within_s
    while not true() and time.monotonic() < give_up:
        await asyncio.sleep(0.05)
    return true()


def _process() -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        module_command("natstui.bench.worker"), stdin=pipe, stdout=pipe, stderr=pipe
    )


@pytest.mark.long
@pytest.mark.slow
async def test_a_worker_that_nobody_hears_ends_without_a_word_and_removes_what_is_of_its_run(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    connection = Connection(servers=(account.url,))
    client = await connect(connection)
    reply = await client.request("STREAM.CREATE.BENCH", {"name": "BENCH", "subjects": ["bench"]})
    created = {"BENCH": CreatedStream(str(json.loads(reply)["created"]), ("bench",))}
    await client.close()
    own = replace(
        orders(Role("pubs", "js-publish-async", subject="bench")),
        connection=connection.to_json_line(),
        stream="BENCH",
        delete_verbs=("STREAM.DELETE.BENCH",),
        created_streams=created,
    )
    with _process() as unasked, _process() as unheard:
        # One whose run ended before it had orders, and one whose run ended with them.
        assert unheard.stdout is not None and unheard.stdin is not None
        unheard.stdout.close()
        unheard.stdin.write(protocol.encode(own))
        unheard.stdin.close()
        unheard.stdin = unheard.stdout = None
        assert unasked.communicate(timeout=60) == (b"", b"")
        assert unheard.communicate(timeout=60)[1] == b""
    assert (unasked.returncode, unheard.returncode) == (0, 0)
    assert await _streams(account.url) == []


@pytest.mark.slow
async def test_a_command_that_comes_too_early_ends_a_worker_with_its_reason(
    account: Account,
) -> None:
    own = replace(
        orders(Role("pubs", "publish", subject="bench")),
        connection=Connection(servers=(account.url,)).to_json_line(),
    )
    with _process() as worker:
        assert worker.stdin is not None and worker.stdout is not None
        worker.stdin.write(protocol.encode(own) + protocol.encode(RateChange(per_s=5)))
        worker.stdin.flush()
        try:
            async with asyncio.timeout(60):
                output = await asyncio.to_thread(worker.stdout.read)
        finally:
            worker.kill()
    lines = [protocol.decode_worker_line(line) for line in output.splitlines()]
    failures = [line.sentence for line in lines if isinstance(line, WorkerFailure)]
    assert failures == ["a worker received a command before it was ready"]


@pytest.mark.slow
@pytest.mark.parametrize("others_msgs", [0, pytest.param(20, marks=pytest.mark.long)])
async def test_killing_the_app_leaves_no_process_no_consumer_and_no_stream_but_that_of_others(
    account: Account, tmp_path: Path, others_msgs: int
) -> None:
    scenario = tmp_path / "long.toml"
    scenario.write_text("""
title = "long"
duration = "60s"
[stream]
name = "ORPHANED"
subjects = ["bench"]
[[role]]
name = "subs"
pattern = "js-consume"
[[role]]
name = "sync"
pattern = "js-publish-sync"
rate = 200
""")
    words = [sys.executable, "-m", "natstui", "bench", str(scenario), "--server", account.url]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as app:
        assert await _until(lambda: len(_children(app.pid)) == 2)
        children = _children(app.pid)
        own = await connect(Connection(servers=(account.url,)))
        async with asyncio.timeout(40):
            while not await _stored_msgs(own, "ORPHANED"):
                await asyncio.sleep(0.05)
        for _ in range(others_msgs):
            await own.request_subject("bench", b"of somebody else")
        await own.close()
        os.kill(app.pid, signal.SIGKILL)
    assert await _until(lambda: not children & _workers())
    assert await _streams(account.url) == (["ORPHANED"] if others_msgs else [])


@pytest.mark.long
async def test_killing_the_app_leaves_an_existing_stream_as_it_was_and_no_consumer(
    account: Account, tmp_path: Path
) -> None:
    own = await connect(Connection(servers=(account.url,)))
    config = {"name": "EXISTING", "subjects": ["mine.>"], "storage": "memory"}
    made = json.loads(await own.request("STREAM.CREATE.EXISTING", config))
    other = {"stream_name": "EXISTING", "config": {"durable_name": "other", "name": "other"}}
    other["config"] |= {"ack_policy": "explicit"}  # type: ignore[operator]
    await own.request("CONSUMER.CREATE.EXISTING.other", other)
    for _ in range(100):
        await own.nc.publish("mine.a", b"x" * 24)
    scenario = tmp_path / "reading.toml"
    scenario.write_text("""
title = "reading"
duration = "60s"
[stream]
name = "EXISTING"
create = false
[[role]]
name = "subs"
pattern = "js-consume"
[[role]]
name = "ordered"
pattern = "js-ordered"
""")
    words = [sys.executable, "-m", "natstui", "bench", str(scenario), "--server", account.url]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as app:
        async with asyncio.timeout(40):
            while await _delivered_msgs(own) < 200:
                await asyncio.sleep(0.05)
        assert await _until(lambda: len(_children(app.pid)) == 2)
        children = _children(app.pid)
        os.kill(app.pid, signal.SIGKILL)
    assert await _until(lambda: not children & _workers())
    assert await _consumers(own) == ["other"]
    after = json.loads(await own.request("STREAM.INFO.EXISTING"))
    assert (after["config"], after["created"]) == (made["config"], made["created"])
    assert (after["state"]["messages"], after["state"]["first_seq"]) == (100, 1)
    await own.request("STREAM.DELETE.EXISTING")
    await own.close()


async def _stored_msgs(own: Client, stream: str) -> int:
    """Return how many messages a stream has; 0 where there is none."""
    try:
        found: int = json.loads(await own.request(f"STREAM.INFO.{stream}"))["state"]["messages"]
    except NotFound:
        return 0
    return found


async def _delivered_msgs(own: Client) -> int:
    """Return how many messages the consumers of a run were sent."""
    listed = json.loads(await own.request("CONSUMER.LIST.EXISTING"))["consumers"]
    return sum(one["delivered"]["consumer_seq"] for one in listed or ())


async def _consumers(own: Client) -> list[str]:
    names: list[str] = json.loads(await own.request("CONSUMER.NAMES.EXISTING"))["consumers"] or []
    return names


async def test_a_message_does_not_choose_what_a_push_consumer_publishes(account: Account) -> None:
    client = await connect(Connection(servers=(account.url,)))
    victims: list[str] = []

    async def note(msg: Msg) -> None:
        victims.append(msg.subject)

    async def forge(msg: Msg) -> None:
        # It has the subject that it was published to, and the name of its consumer in its reply.
        consumer = msg.reply.split(".")[3].encode()
        flow, stalled = b"NATS/1.0 100 x\r\n\r\n", (
            b"NATS/1.0 100 x\r\nNats-Consumer-Stalled: victim.stalled\r\n\r\n"
        )  # fmt: skip
        for block, reply in (flow, b" victim.flow"), (flow, b" $JS.FC.OTHER.c.x"), (stalled, b""):
            size = b"%d" % len(block)
            words = b"_natstui." + consumer + reply
            raw.send(b"HPUB %s %s %s\r\n%s\r\n" % (words, size, size, block))

    await client.nc.subscribe("victim.>", cb=note)
    await client.nc.subscribe("$JS.FC.OTHER.>", cb=note)
    await client.nc.subscribe("_natstui.>", cb=forge)
    roles = (Role("subs", "js-push"), Role("pubs", "js-publish-async", total_msgs=100))
    connection = Connection(servers=(account.url,))
    with RawPublisher(account.url) as raw:
        result = await run_here(connection, plan(*roles, stream=STREAM))
    await flushed(client.nc)
    assert (result.verdict, result.accounting.received_msgs, victims) == ("ok", 100, [])
    await client.close()


async def test_a_service_answers_no_request_whose_answer_would_be_one_to_the_server(
    account: Account,
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    js = client.nc.jetstream()
    await js.add_stream(name="VICTIM", subjects=["kept"])
    await js.publish("kept", b"")

    async def forge(msg: Msg) -> None:
        if msg.reply.startswith("_INBOX"):
            await client.nc.publish(msg.subject, b"{}", reply="$JS.API.STREAM.PURGE.VICTIM")

    await client.nc.subscribe("ask", cb=forge)
    roles = (Role("serve", "serve", subject="ask"), Role("ask", "request", subject="ask",
                                                         total_msgs=50))  # fmt: skip
    await run_plan(Connection(servers=(account.url,)), plan(*roles))
    await flushed(client.nc)
    assert (await js.stream_info("VICTIM")).state.messages == 1
    await client.close()


@pytest.mark.parametrize(
    "pattern",
    [
        "js-consume",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("js-fetch", "js-push")),
    ],
)
async def test_who_waits_for_messages_that_do_not_come_says_so_and_ends_without_success(
    account: Account, monkeypatch: pytest.MonkeyPatch, pattern: Pattern
) -> None:
    monkeypatch.setattr(controller, "WAIT_REPORT_AFTER_S", 0.5)
    monkeypatch.setattr(controller, "IDLE_TIMEOUT_S", 2.0)
    client = await connect(Connection(servers=(account.url,)))
    await client.request("STREAM.CREATE.OWN", {"name": "OWN", "subjects": ["own"]})
    await client.request_subject("own", b"x")
    what = plan(Role("subs", pattern, total_msgs=20), stream=StreamPlan("OWN", create=False))
    records = Records()
    benchmark = Benchmark(what, Connection(servers=(account.url,)), records)
    result = await asyncio.wait_for(benchmark.run(), 90)
    assert (result.verdict, result.partial) == ("failed", True)
    assert benchmark.failure is not None and benchmark.failure.exit_code == 1
    assert "1 of 20 messages arrived, then none for 2 s" in str(benchmark.failure)
    told = [record.text for record in records.all if isinstance(record, BenchmarkLog)]
    assert [
        text for text in told if text.startswith("waiting for messages: 1 of 20 arrived so far")
    ]
    await client.close()


async def test_who_waits_for_core_messages_says_so_and_goes_on(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "WAIT_REPORT_AFTER_S", 0.5)
    monkeypatch.setattr(controller, "IDLE_TIMEOUT_S", 0.6)
    said = asyncio.Event()

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkLog) and "the run continues until stopped" in record.text:
            said.set()

    what = plan(Role("subs", "subscribe", subject="own", total_msgs=3))
    benchmark = Benchmark(what, Connection(servers=(account.url,)), Records(on_add=on_add))
    running = asyncio.ensure_future(benchmark.run())
    await asyncio.wait_for(said.wait(), 60)
    client = await connect(Connection(servers=(account.url,)))
    published_at_us = time.time_ns() // 1000
    for _ in range(3):
        await client.publish("own", b"x" * 128)
    result = await asyncio.wait_for(running, 60)
    came_msgs = result.counts.received_msgs + result.counts.foreign_msgs
    assert (result.verdict, came_msgs) == ("ok", 3)
    # The half second in which it waited is no part of what it measured.
    assert result.duration_s < 0.5
    assert benchmark.timeline is not None
    measured_us = benchmark.timeline.ended_at_us - benchmark.timeline.began_at_us
    assert measured_us == round(result.duration_s * 1e6)
    assert benchmark.timeline.began_at_us > published_at_us
    await client.close()


async def test_workers_of_a_killed_run_leave_the_stream_of_the_next_one(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    slow, quick = [await connect(Connection(servers=(account.url,))) for _ in range(2)]
    is_read, may_go_on = asyncio.Event(), asyncio.Event()

    async def request(verb: str, *arguments: Any, **options: Any) -> bytes:
        if verb.startswith("STREAM.DELETE"):
            # It has read that the stream is of its run, and is held up.
            is_read.set()
            await may_go_on.wait()
        return await Client.request(slow, verb, *arguments, **options)

    async def create() -> str:
        reply = await quick.request(
            "STREAM.CREATE.BENCH", {"name": "BENCH", "subjects": ["bench"]}
        )
        return str(json.loads(reply)["created"])

    monkeypatch.setattr(slow, "request", request)
    created = {"BENCH": CreatedStream(await create(), ("bench",))}
    ended = replace(orders(Role("subs", "js-consume")), created_streams=created)

    def cleaning(client: Client) -> asyncio.Task[None]:
        return asyncio.create_task(clean_up(client, ("STREAM.DELETE.BENCH",), ended, Counts()))

    workers = [cleaning(slow)]
    await is_read.wait()
    workers.append(cleaning(quick))
    # Long enough for a worker that does not wait for the other.
    await asyncio.wait(workers[1:], timeout=1)
    is_next = workers[1].done()
    if is_next:
        next_created = await create()
    may_go_on.set()
    await asyncio.gather(*workers)
    if not is_next:
        next_created = await create()
    info = json.loads(await quick.request("STREAM.INFO.BENCH"))
    assert info["created"] == next_created
    for client in (slow, quick):
        await client.close()
