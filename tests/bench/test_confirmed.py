"""A run that changes what exists: done to what was shown, journalled, and not undone."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client as NatsClient

from natstui.bench.job.tally import WorkerTimes
from natstui.bench.plan.check import plan_errors
from natstui.bench.result.accounting import ConsumerFigures, ConsumerSpan, WorkerCounts
from natstui.bench.result.run_result import RunOutcome, WorkerEnd, make_result
from natstui.bench.run import worker_processes
from natstui.bench.run.assets import RunAssets, published_loss
from natstui.bench.run.controller import Benchmark, RunJournalEntry
from natstui.config.connection import Connection, Secret
from natstui.errors import ActionRefusal, Conflict, NotFound, SessionError
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.decode.streams import StreamRow, read_stream
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.subject_counts import SubjectCounts
from natstui.jetstream.connection.writer import JournalDraft, MissingConfirmation, Writer
from natstui.jetstream.managing.undo import undo
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.plan import (
    BENCHMARK_STREAM_DESCRIPTION,
    Acks,
    BenchmarkPlan,
    Fault,
    Pattern,
    Payload,
    RateSegment,
    Role,
    StreamPlan,
)
from natstui.model.records.benchmark import BenchmarkPhase
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.journal import entry_text
from natstui.model.records.managing import (
    JournalEntry,
    Undo,
)
from natstui.model.records.record import Record
from natstui.values import replace
from tests.accounts import Account
from tests.bench.running import Records, plan
from tests.jetstream.pending import until_pending

pytestmark = pytest.mark.server

EXISTING = StreamPlan("OWN", create=False)
TAKING = plan(Role("subs", "js-fetch", consumer="C", total_msgs=5, batch_msgs=5), stream=EXISTING)
PUBLISHING = Role("pubs", "js-publish-async", subject="own", total_msgs=5)


def rolling_up(what: str) -> Role:
    """Return a role whose messages roll up all before them, or those of their subject."""
    payload = Payload(headers=(("Nats-Rollup", what),))
    return Role("pubs", "js-publish-async", subject="own", total_msgs=5, payload=payload)


async def fill(nc: NatsClient, count: int = 5) -> None:
    js = nc.jetstream()
    await js.add_stream(name="OWN", subjects=["own"], storage="memory")
    await js.add_consumer("OWN", durable_name="C", ack_policy="explicit")
    for _ in range(count):
        await js.publish("own", b"x")
    await until_pending(js, "OWN", count, "C")


async def pending(nc: NatsClient) -> int | None:
    return (await nc.jetstream().consumer_info("OWN", "C")).num_pending


async def shown_of(connection: Connection, what: BenchmarkPlan) -> Confirmation:
    with pytest.raises(MissingConfirmation) as refused:
        await Benchmark(what, connection, Records()).run()
    return refused.value.confirmation


def benchmarks() -> list[JournalEntry]:
    return [entry for entry in Journal().entries() if entry.action == "benchmark"]


async def test_a_run_confirmed_for_a_consumer_is_refused_on_another_one_of_its_name(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    nc = await nats.connect(account.url)
    await fill(nc)
    shown = await shown_of(connection, TAKING)
    assert shown.created_at_us is not None
    assert shown.place is not None and shown.place.account == account.name
    js = nc.jetstream()
    for recreated in ("consumer", "stream"):
        if recreated == "stream":
            shown = await shown_of(connection, TAKING)
            await js.delete_stream("OWN")
            await fill(nc)
        else:
            await js.delete_consumer("OWN", "C")
            await js.add_consumer("OWN", durable_name="C", ack_policy="explicit")
        with pytest.raises(Conflict, match="changed before you confirmed"):
            await Benchmark(TAKING, connection, Records(), "C", shown).run()
        # Also where somebody waits for its moment.
        with pytest.raises(Conflict, match="changed before you confirmed"):
            await Benchmark(TAKING, connection, Records(), "C", shown).check()
        assert await pending(nc) == 5, recreated
    assert benchmarks() == []
    again = await shown_of(connection, TAKING)
    result = await Benchmark(TAKING, connection, Records(), "C", again).run()
    assert result.counts.received_msgs + result.counts.foreign_msgs == 5
    await nc.close()


async def test_a_run_confirmed_for_a_server_is_refused_on_another_one(
    nats_server_factory: Callable[..., Broker],
) -> None:
    first, second = nats_server_factory(), nats_server_factory()
    connections = [Connection(servers=(broker.url,)) for broker in (first, second)]
    clients = [await nats.connect(broker.url) for broker in (first, second)]
    for nc in clients:
        await fill(nc)
    shown = await shown_of(connections[0], TAKING)
    # As after a restore, which keeps creation times.
    created = (await shown_of(connections[1], TAKING)).created_at_us
    asked = replace(shown, created_at_us=created)
    with pytest.raises(Conflict, match="not the server and account"):
        await Benchmark(TAKING, connections[1], Records(), "C", asked).run()
    assert [await pending(nc) for nc in clients] == [5, 5]
    for nc in clients:
        await nc.close()


async def test_a_run_on_what_exists_is_in_the_journal_and_is_not_undone(account: Account) -> None:
    connection = Connection(servers=(account.url,))
    nc = await nats.connect(account.url)
    await fill(nc)
    publishing = plan(
        Role("pubs", "js-publish-async", subject="own", total_msgs=30), stream=EXISTING
    )
    await Benchmark(publishing, connection, Records()).run()
    await until_pending(nc.jetstream(), "OWN", 35, "C")
    taking = plan(
        Role("subs", "js-fetch", consumer="C", total_msgs=35, batch_msgs=5), stream=EXISTING
    )
    shown = await shown_of(connection, taking)
    await Benchmark(taking, connection, Records(), "C", shown).run()
    core = plan(Role("pubs", "publish", subject="own", total_msgs=7))
    await Benchmark(core, connection, Records()).run()
    entries = benchmarks()
    phases = [json.loads(entry.request_json)["phase"] for entry in entries]
    assert phases == ["begin", "end"] * 3
    assert {(entry.stream, entry.outcome) for entry in entries} == {("OWN", "done")}
    counts = [json.loads(entry.after_json or "{}") for entry in entries[1::2]]
    assert [
        (count["published_msgs"], count["received_msgs"], count["acknowledged_msgs"])
        for count in counts
    ] == [(30, 0, 0), (0, 35, 35), (7, 0, 0)]
    assert [entry.consumer for entry in entries[2:4]] == ["C", "C"]
    assert [entry.created_at_us for entry in entries[2:4]] == [shown.created_at_us] * 2
    assert "35 received, 35 acknowledged" in entry_text(entries[3])
    assert "up to 35 messages of consumer C" in (entries[3].loses or "")
    client = await connect(connection)
    for wanted in (entries[3].entry, None):
        with pytest.raises(ActionRefusal, match="cannot be undone: published messages stay"):
            await undo(Writer(client, Journal()), Undo(0, wanted))
    await client.close()
    await nc.close()


async def test_of_a_run_that_ends_early_the_journal_has_the_reason(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_processes, "_EXIT_TIMEOUT_S", 0.5)
    connection = Connection(servers=(account.url,))
    nc = await nats.connect(account.url)
    await fill(nc)
    what = plan(
        Role("pubs", "js-publish-async", subject="own", total_msgs=3),
        Role("subs", "js-fetch", consumer="C"),
        stream=EXISTING,
    )
    shown = await shown_of(connection, what)
    benchmark = Benchmark(what, connection, Records(), "C", shown)
    running = asyncio.ensure_future(benchmark.run())
    benchmark.stop()
    with pytest.raises(ActionRefusal, match="stopped before it began"):
        await running
    begun, ended = benchmarks()
    assert (begun.outcome, ended.outcome) == ("done", "failed")
    assert "stopped before it began" in (ended.reason or "")
    await nc.close()


async def test_a_disk_without_room_for_the_end_of_a_run_has_no_begin_in_the_journal(
    account: Account, tmp_path: Path
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    journal = Journal(tmp_path / "state" / "journal.jsonl")
    draft = JournalDraft("benchmark", "S", None, {"run": "r"})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Of the two entries, there is room for one.
    resource.setrlimit(resource.RLIMIT_FSIZE, (6_000, limits[1]))
    try:
        with pytest.raises(SessionError, match="cannot be written"):
            Writer(client, journal).journal_begin(draft)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert journal.entries() == []
    await client.close()


async def test_a_run_that_changes_nothing_that_exists_is_not_in_the_journal(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    nc = await nats.connect(account.url)
    await fill(nc)
    own = StreamPlan("NEW", subjects=("new",))
    client = await connect(connection)
    try:
        for what in (
            plan(Role("pubs", "js-publish-async", subject="new", total_msgs=3), stream=own),
            plan(Role("pubs", "publish", subject="nobody", total_msgs=3)),
            plan(Role("subs", "js-ordered", total_msgs=5), stream=EXISTING),
        ):
            target = await RunAssets(client, what, "r").find_target()
            with RunJournalEntry(Writer(client, Journal()), what, "r", target):
                assert benchmarks() == []
        assert benchmarks() == []
        with pytest.raises(NotFound):
            await undo(Writer(client, Journal()), Undo(0))
    finally:
        await client.close()
    await nc.close()


ROLE = Role("pubs", "js-publish-async", subject="own", total_msgs=50)
LIMITED = {"max_bytes": 4000, "max_msgs_per_subject": 1}


def info_of(config: dict[str, object], messages: int = 20) -> StreamRow:
    state = {"messages": messages, "bytes": messages * 100}
    info = {"config": {"name": "OWN", **config}, "created": "2026-01-01T00:00:00Z", "state": state}
    return read_stream(json.dumps(info).encode())


def lost_by(
    config: dict[str, object], role: Role, present: SubjectCounts, messages: int = 20
) -> str | None:
    most_msgs = None if role.total_msgs is None else {role.name: role.total_msgs}
    return published_loss(info_of(config, messages), [role], present, most_msgs)


@pytest.mark.parametrize(
    ("config", "role", "lost"),
    [
        ({}, ROLE, None),
        ({"max_msgs": 70}, ROLE, None),
        ({"max_msgs": 60}, ROLE, "up to 10 messages of OWN are removed"),
        ({"max_msgs": 20}, ROLE, "up to 20 messages of OWN are removed"),
        ({"max_msgs": 60, "discard": "new"}, ROLE, None),
        ({"max_msgs": 10_000}, replace(ROLE, total_msgs=None), "up to 20 messages"),
        ({"max_bytes": 5_000}, ROLE, "up to 20 messages of OWN are removed"),
        ({"max_bytes": 500_000}, ROLE, None),
        ({"max_bytes": 500_000}, replace(ROLE, total_msgs=None), "up to 20 messages"),
        ({"max_msgs_per_subject": 1}, ROLE, "up to 8 messages of OWN are removed"),
        ({"max_msgs_per_subject": 57}, ROLE, "up to 1 message of OWN is removed"),
        ({"max_msgs_per_subject": 1, "discard": "new"}, ROLE, "up to 8 messages"),
        (
            {"max_msgs_per_subject": 1, "discard": "new", "discard_new_per_subject": True},
            ROLE,
            None,
        ),
        ({"max_msgs": 20, "description": BENCHMARK_STREAM_DESCRIPTION}, ROLE, None),
        ({"allow_rollup_hdrs": True}, ROLE, None),
        ({"allow_rollup_hdrs": True}, rolling_up("all"), "up to 20 messages"),
        ({"allow_rollup_hdrs": True}, rolling_up("sub"), "up to 8 messages"),
        ({}, rolling_up("all"), None),
    ],
)
def test_what_publishing_removes_is_known_before(
    config: dict[str, object], role: Role, lost: str | None
) -> None:
    told = lost_by(config, role, SubjectCounts({"own": 8}, later_subjects_count=0))
    assert told is None if lost is None else lost in (told or ""), told


@pytest.mark.parametrize(
    ("config", "role", "is_lost"),
    [
        ({}, replace(ROLE, total_msgs=None), False),
        ({"max_msgs": 50}, ROLE, False),
        ({"max_msgs": 49}, ROLE, True),
        ({"max_msgs": 10_000}, replace(ROLE, total_msgs=None), True),
        ({"max_msgs": 10_000, "discard": "new"}, replace(ROLE, total_msgs=None), False),
        ({"max_bytes": 5_000}, ROLE, True),
        ({"max_msgs_per_subject": 50}, ROLE, True),
        ({"max_msgs_per_subject": 51}, ROLE, False),
        ({"max_msgs": 20, "description": BENCHMARK_STREAM_DESCRIPTION}, ROLE, False),
        ({"allow_rollup_hdrs": True}, rolling_up("sub"), True),
    ],
)
def test_what_publishing_removes_of_others_is_known_for_an_empty_stream_as_well(
    config: dict[str, object], role: Role, is_lost: bool
) -> None:
    told = lost_by(config, role, SubjectCounts({}, later_subjects_count=0), messages=0)
    clause = "messages of OWN that others publish until the run ends may be removed"
    assert told == (clause if is_lost else None)


async def test_a_change_of_a_run_that_removes_more_of_others_than_was_said_is_refused(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    # Larger messages are too many bytes, and another worker's are too many messages.
    limits = {"max_bytes": 300_000, "max_msgs": 330}
    await js.add_stream(name="OWN", subjects=["own"], storage="memory", **limits)
    for _ in range(20):
        await js.publish("own", b"of others")
    role = replace(PUBLISHING, total_msgs=300, schedule=(RateSegment(None, 300, 300),))
    refusals = list[asyncio.Task[tuple[str, str]]]()

    async def change() -> tuple[str, str]:
        with pytest.raises(ActionRefusal) as larger:
            benchmark.change_payload("8KB")
        with pytest.raises(ActionRefusal) as another:
            await benchmark.add_worker("pubs")
        benchmark.change_payload("200")
        return str(larger.value), str(another.value)

    def on_add(record: Record) -> None:
        if isinstance(record, BenchmarkPhase) and record.phase == "steady":
            refusals.append(asyncio.create_task(change()))

    benchmark = Benchmark(plan(role, stream=EXISTING), connection, Records(on_add=on_add))
    result = await asyncio.wait_for(benchmark.run(), 60)
    ((larger, another),) = await asyncio.gather(*refusals)
    for refusal in (larger, another):
        assert "up to 20 messages of OWN are removed" in refusal
        assert "start a new run" in refusal
    assert result.verdict == "ok", result.notes
    assert (await js.stream_info("OWN")).state.messages == 320
    await nc.close()


@pytest.mark.parametrize(
    ("config", "role", "lost"),
    [
        ({"max_msgs_per_subject": 9}, replace(ROLE, total_msgs=5), "up to 9 messages of OWN"),
        ({"max_msgs_per_subject": 9}, replace(ROLE, total_msgs=None), "up to 20 messages of OWN"),
        ({"allow_rollup_hdrs": True}, rolling_up("sub"), "up to 20 messages of OWN"),
        ({"max_msgs": 70, "max_msgs_per_subject": -1}, ROLE, None),
    ],
)
def test_of_subjects_that_were_not_counted_the_most_is_said_and_never_none(
    config: dict[str, object], role: Role, lost: str | None
) -> None:
    page = SubjectCounts({"own.1": 8}, later_subjects_count=1)
    told = lost_by(config, role, page)
    assert told is None if lost is None else lost in (told or ""), told


@pytest.mark.parametrize(
    ("limit", "pattern"),
    [
        ("max_msgs_per_subject", "js-publish-sync"),
        pytest.param("max_bytes", "publish", marks=pytest.mark.long),
    ],
)
async def test_a_run_whose_messages_remove_those_of_others_is_confirmed(
    account: Account, limit: str, pattern: Pattern
) -> None:
    connection = Connection(servers=(account.url,))
    client = await connect(connection)
    config = {"name": "OWN", "subjects": ["own.>"], "storage": "memory", limit: LIMITED[limit]}
    await client.request("STREAM.CREATE.OWN", config)
    for number in range(20):
        await client.request_subject(f"own.{number + 1}", b"x")
    role = Role("pubs", pattern, subject="own", subjects_count=50, total_msgs=50)
    what = plan(role, stream=None if pattern == "publish" else EXISTING)
    shown = await shown_of(connection, what)
    assert "20 messages of OWN are removed" in shown.question
    assert (shown.name, shown.created_at_us is None) == ("OWN", False)
    info = json.loads(await client.request("STREAM.INFO.OWN"))
    assert info["state"]["last_seq"] == 20
    await Benchmark(what, connection, Records(), "OWN", shown).run()
    begun, _ = benchmarks()
    assert "20 messages of OWN are removed" in (begun.loses or "")
    await client.close()


async def test_what_is_removed_is_counted_for_all_repetitions_and_added_workers(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    client = await connect(connection)
    config = {"name": "OWN", "subjects": ["own"], "storage": "memory", "max_msgs": 20}
    await client.request("STREAM.CREATE.OWN", config)
    for _ in range(20):
        await client.request_subject("own", b"x")
    role = Role("pubs", "js-publish-async", subject="own", total_msgs=3, workers_count=1)
    faults = tuple(Fault(number / 10, "add", "pubs") for number in (1, 2))
    what = replace(plan(role, stream=EXISTING), faults=faults)
    with pytest.raises(MissingConfirmation) as asked:
        await Benchmark(what, connection, Records(), runs_count=2).check()
    assert "up to 18 messages of OWN are removed" in asked.value.confirmation.question
    await client.close()


async def test_what_is_published_during_a_run_that_consumes_is_named(account: Account) -> None:
    connection = Connection(servers=(account.url,))
    nc = await nats.connect(account.url)
    await fill(nc)
    question = (await shown_of(connection, TAKING)).question
    assert "5 messages of consumer C are acknowledged, and those that others publish" in question
    await nc.jetstream().purge_stream("OWN")
    # Also where it publishes what it consumes: others may publish as well.
    both = replace(TAKING, roles=(*TAKING.roles, replace(PUBLISHING, total_msgs=5)))
    for what in (TAKING, both):
        question = (await shown_of(connection, what)).question
        assert (
            "messages of consumer C that others publish until the run ends are acknowl" in question
        )
    await nc.close()


async def test_what_others_publish_to_a_work_queue_during_a_run_that_consumes_it_is_named(
    account: Account,
) -> None:
    connection = Connection(servers=(account.url,))
    nc = await nats.connect(account.url)
    await nc.jetstream().add_stream(name="OWN", subjects=["own"], retention="workqueue")
    what = plan(Role("subs", "js-fetch", total_msgs=5), PUBLISHING, stream=EXISTING)
    shown = await shown_of(connection, what)
    assert "messages of OWN that others publish until the run ends are consumed" in shown.question
    await Benchmark(what, connection, Records(), shown.name, shown).check()
    # Of one that the run creates nobody else knows.
    own = StreamPlan("NEW", subjects=("new",), retention="workqueue")
    roles = (what.roles[0], replace(PUBLISHING, subject="new"))
    await Benchmark(plan(*roles, stream=own), connection, Records()).check()
    await nc.close()


UNACKED = plan(
    Role("subs", "js-consume", consumer="C", total_msgs=5, acks="none"),
    stream=EXISTING,
    drain_s=0.1,
)


@pytest.mark.parametrize("pattern", ["js-consume", "js-fetch"])
@pytest.mark.parametrize(
    ("retention", "consumer", "sentence"),
    [
        ("interest", {"ack_policy": "none"}, "C has ack policy none, and OWN interest retention"),
        ("limits", {"ack_policy": "none"}, "a received message is not redelivered"),
        ("workqueue", {"max_deliver": 1}, "is not delivered again: C has max deliver 1"),
        ("limits", {"max_deliver": 3}, "reaches max deliver 3 here"),
    ],
)
async def test_a_run_without_acks_whose_deliveries_are_the_last_ones_is_confirmed(
    account: Account,
    pattern: Pattern,
    retention: str,
    consumer: dict[str, object],
    sentence: str,
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(name="OWN", subjects=["own"], retention=retention)
    config = {"durable_name": "C", "ack_policy": "explicit"} | consumer
    await js.add_consumer("OWN", **config)
    for _ in range(5):
        await js.publish("own", b"x")
    await until_pending(js, "OWN", 5, "C")
    what = replace(UNACKED, roles=(replace(UNACKED.roles[0], pattern=pattern),))
    shown = await shown_of(Connection(servers=(account.url,)), what)
    assert sentence in shown.question
    assert (shown.name, await pending(nc)) == ("C", 5)
    await nc.close()


async def test_a_run_without_acks_whose_messages_are_redelivered_is_not_confirmed(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    await fill(nc)
    await Benchmark(UNACKED, Connection(servers=(account.url,)), Records()).check()
    await nc.close()


@pytest.mark.parametrize(
    ("max_deliver", "acks", "sentence"),
    [
        (1, "none", "the server does not redeliver them, as max deliver is 1"),
        (3, "none", "redelivers them after ack wait, unless they have reached max deliver"),
        (0, "none", "the server redelivers them after ack wait"),
        (
            0,
            "explicit",
            "the server redelivers them after ack wait; a longer drain waits for them",
        ),
    ],
)
def test_what_the_server_does_with_what_was_not_acknowledged_is_said(
    max_deliver: int, acks: Acks, sentence: str
) -> None:
    what = plan(replace(UNACKED.roles[0], acks=acks), stream=EXISTING)
    span = ConsumerSpan(
        ConsumerFigures(0, 5, 0, False, max_deliver), ConsumerFigures(5, 0, 5, False, max_deliver)
    )
    spans, counts = {"subs": span}, Counts(received_msgs=5)
    book = WorkerCounts("subs/0", what.roles[0], 0, counts, counts, {})
    ends = [WorkerEnd(book, WorkerTimes(last_received_ns=9), None, "done")]
    outcome = RunOutcome(what, 1, 0, 9, ends, Latencies(), 0, 5, False, None, consumers=spans)
    (said,) = (note for note in make_result(outcome).notes if "redeliver" in note)
    assert said.endswith(sentence)


@pytest.mark.long
async def test_what_was_delivered_for_the_last_time_is_not_said_to_be_redelivered(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    await fill(nc)
    js = nc.jetstream()
    await js.delete_consumer("OWN", "C")
    await js.add_consumer("OWN", durable_name="C", ack_policy="explicit", max_deliver=1)
    connection = Connection(servers=(account.url,))
    shown = await shown_of(connection, UNACKED)
    result = await Benchmark(UNACKED, connection, Records(), "C", shown).run()
    assert "does not redeliver them, as max deliver is 1" in " ".join(result.notes)
    await nc.close()


@pytest.mark.needs_server(before="2.15")
@pytest.mark.parametrize("role", [Role("subs", "js-fetch"), Role("subs", "js-ordered")])
async def test_a_run_that_removes_what_no_consumer_needs_is_confirmed(
    account: Account, role: Role
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(name="OWN", subjects=["own"])
    for _ in range(5):
        await js.publish("own", b"x")
    await js.update_stream(name="OWN", subjects=["own"], retention="interest")
    what = plan(replace(role, total_msgs=5), stream=EXISTING)
    connection = Connection(servers=(account.url,))
    shown = await shown_of(connection, what)
    assert "5 messages of OWN that no other consumer needs are removed" in shown.question
    await Benchmark(what, connection, Records(), shown.name, shown).run()
    assert (await js.stream_info("OWN")).state.messages == 0
    await nc.close()


async def test_a_run_beside_a_consumer_that_needs_everything_removes_nothing(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(name="OWN", subjects=["own"], retention="interest")
    await js.add_consumer("OWN", durable_name="C", ack_policy="explicit")
    for _ in range(5):
        await js.publish("own", b"x")
    await until_pending(js, "OWN", 5, "C")
    what = plan(Role("subs", "js-fetch", total_msgs=5), stream=EXISTING)
    await Benchmark(what, Connection(servers=(account.url,)), Records()).run()
    assert (await js.stream_info("OWN")).state.messages == 5
    await nc.close()


@pytest.mark.parametrize(
    ("consumer", "role"),
    [
        ({"ack_policy": "none"}, Role("subs", "subscribe", subject="for.app")),
        ({"ack_policy": "none"}, Role("subs", "subscribe", subject="for.app", queue="q")),
        (
            {"ack_policy": "explicit", "max_deliver": 1, "deliver_group": "workers"},
            Role("service", "serve", subject="for.app", queue="workers"),
        ),
    ],
)
async def test_a_run_that_listens_where_a_push_consumer_delivers_is_confirmed(
    account: Account, consumer: dict[str, object], role: Role
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(name="OWN", subjects=["own"])
    await js.add_consumer("OWN", durable_name="C", deliver_subject="for.app", **consumer)
    await js.publish("own", b"x")
    await until_pending(js, "OWN", 1, "C")
    connection = Connection(servers=(account.url,))
    publishing = Role("pubs", "publish", subject="for.app", total_msgs=2)
    for what in (plan(role, duration_s=0.1), plan(role, publishing)):
        shown = await shown_of(connection, what)
        assert "C of OWN delivers to for.app, which has no subscriber" in shown.question
        assert (shown.name, await pending(nc)) == ("for.app", 1)
    other = replace(role, subject="for.other", queue=None)
    await Benchmark(plan(other, duration_s=0.1), connection, Records()).check()
    await nc.close()


async def test_a_run_that_may_take_messages_of_push_consumers_that_are_not_readable_notes_it(
    nats_server_factory: Callable[..., Broker],
) -> None:
    permissions = 'publish: ["own", "$JS.API.INFO"]'
    server = nats_server_factory(
        f"authorization {{users: [{{user: a, password: a}}, "
        f"{{user: b, password: b, permissions: {{{permissions}}}}}]}}"
    )
    nc = await nats.connect(server.url, user="a", password="a")
    js = nc.jetstream()
    await js.add_stream(name="OWN", subjects=["own"])
    await js.add_consumer("OWN", durable_name="C", deliver_subject="for.app", ack_policy="none")
    connection = Connection(servers=(server.url,), user="b", password=Secret("b"))
    what = plan(Role("subs", "subscribe", subject="for.app"), duration_s=0.1, drain_s=0.1)
    result = await Benchmark(what, connection, Records()).run()
    assert any("unknown whether push consumers lose messages" in note for note in result.notes)
    await nc.close()


async def test_a_run_into_a_bucket_that_exists_is_confirmed(account: Account) -> None:
    nc = await nats.connect(account.url)
    await (await nc.jetstream().create_key_value(bucket="B")).put("k", b"1")
    role = Role("pubs", "publish", subject="$KV.B.k", total_msgs=2)
    question = (await shown_of(Connection(servers=(account.url,)), plan(role))).question
    assert "it changes or deletes key k of bucket B" in question
    await nc.close()


async def test_a_run_of_a_user_who_may_not_read_the_streams_is_confirmed(
    nats_server_factory: Callable[..., Broker],
) -> None:
    users = '{user: a, password: a}, {user: b, password: b, permissions: {publish: ["own"]}}'
    server = nats_server_factory(f"authorization {{users: [{users}]}}")
    nc = await nats.connect(server.url, user="a", password="a")
    await nc.jetstream().add_stream(name="OWN", subjects=["own"], max_msgs=1)
    await nc.close()
    connection = Connection(servers=(server.url,), user="b", password=Secret("b"))
    role = Role("pubs", "publish", subject="own", total_msgs=2)
    question = (await shown_of(connection, plan(role))).question
    assert "you have no permission to read which streams store own" in question


async def test_a_stream_that_keeps_nothing_is_named_in_the_result(account: Account) -> None:
    nc = await nats.connect(account.url)
    await nc.jetstream().add_stream(name="OWN", subjects=["own"], retention="interest")
    role = Role("pubs", "js-publish-async", subject="own", total_msgs=5)
    connection = Connection(servers=(account.url,))
    result = await Benchmark(plan(role, stream=EXISTING), connection, Records()).run()
    assert any("OWN keeps none of the stored messages" in text for text in result.notes)
    await nc.close()


@pytest.mark.parametrize("pattern", ["publish", "request", "serve"])
def test_no_run_sends_to_the_server_or_answers_for_it(pattern: Pattern) -> None:
    for subject in ("$JS.API.STREAM.PURGE.OWN", "$SYS.REQ.SERVER.PING", "$JS.ACK.OWN.C.1.1.1.1.0"):
        what = plan(Role("pubs", pattern, subject=subject, total_msgs=1))
        assert any("belongs to the server" in mistake for mistake in plan_errors(what))
    listening = plan(Role("subs", "subscribe", subject="$JS.EVENT.ADVISORY.x"), duration_s=1.0)
    assert list(plan_errors(listening)) == []


async def test_no_run_sends_to_the_api_under_another_prefix(account: Account) -> None:
    connection = Connection(servers=(account.url,), api_prefix="OTHER.API")
    what = plan(Role("pubs", "publish", subject="OTHER.API.STREAM.PURGE.OWN", total_msgs=1))
    with pytest.raises(ActionRefusal, match="for requests to the server"):
        await Benchmark(what, connection, Records()).run()
