"""The servers and connections of a recording: which readings are written, and when they return."""

from __future__ import annotations

from pathlib import Path

import pytest

from natstui.lines import decode_record
from natstui.model.clients.connection import AccountServer, ClientConnection, Connections
from natstui.model.clients.watch import ConnectionsRead
from natstui.model.records.record import Advisory, Record
from natstui.model.servers.server import (
    AccountTotals,
    Meta,
    MetaPeer,
    ServerJetStream,
    Servers,
    ServerState,
    Storage,
)
from natstui.model.servers.watch import ServersRead
from natstui.session.files.folder import list_segments
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.files.layout import EVENTS_MEMBER, MEMBERS_COUNT, SYSTEM_MEMBER
from natstui.session.read.player import Player
from natstui.session.read.recording import Recording
from natstui.session.read.seek import plan_seek
from natstui.session.share.tables import rows
from natstui.session.share.verify import verify
from natstui.session.write.recorder import MAX_RECORDED_ACCOUNTS, Recorder, prepare_for_recording
from natstui.session.write.settings import RecorderSettings
from natstui.values import replace
from tests.session.making import fold, made
from tests.session.scenario import START_US, Scenario
from tests.session.test_seek import at_us_of, facts, live, replayed

NAMES = ("n1", "n2", "n3")
LAST_S = 300
DOWN_FROM_S, DOWN_UNTIL_S = 100, 200


def second(number: float) -> int:
    return START_US + round(number * 1e6)


def server(name: str, at_s: float, began_s: int = 0) -> ServerState:
    here = ServerJetStream(
        Storage(0, 0, 10**9), Storage(round(at_s) * 100, 0, 10**9), 3, 3, 6, 1, 2, 5, 0, 0
    )
    count = round(at_s) * 50
    return ServerState(
        f"ID-{name}-{began_s}", name, "LAB", "2.12.1", second(at_s), 4, 9, count, count * 100,
        2 * count, count * 200, 0, None, second(began_s), 12.5, 8, 30_000_000, 2, 2, 0, 0, here,
    )  # fmt: skip


def servers(at_s: float, names: tuple[str, ...] = NAMES) -> ServersRead:
    peers = tuple(MetaPeer(name, True, False, 1000, 0) for name in names[1:])
    meta = Meta("LAB", names[0], 3, 2, 0, peers)
    seen = Servers(
        "system",
        tuple(server(name, at_s) for name in names),
        (meta,),
        (AccountTotals("APP", 4, 9, 0, 0, None, 100, None),),
    )
    return ServersRead(second(at_s), seen)


def connections(at_s: float) -> ConnectionsRead:
    count = round(at_s) * 10
    one = ClientConnection(
        "ID-n1-0", 7, "n1", "Client", "nats", "shop", "ann", "10.0.0.9:5555", "go", "1.48.0", None,
        300, 2, 0, 0, count, count * 10, count, count * 10, START_US, second(at_s), at_s, 0.0,
    )  # fmt: skip
    there = AccountServer("ID-n1-0", "n1", "LAB", "2.12.1", second(at_s), 1)
    return ConnectionsRead(second(at_s), Connections((there,), (one,)))


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """Five minutes in which one server is down for a while."""
    scenario = Scenario(streams=2, consumers=3)
    records = [*scenario.beginning(), *scenario.records(0, LAST_S)]
    for at_s in range(0, LAST_S, 10):
        down = DOWN_FROM_S <= at_s < DOWN_UNTIL_S
        records.append(servers(at_s + 0.5, NAMES[:2] if down else NAMES))
    records += [connections(at_s + 0.6) for at_s in range(0, LAST_S, 30)]
    return sorted(records, key=at_us_of)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> Recording:
    return Recording(made(tmp_path_factory.mktemp("sessions"), records))


OTHER_MOMENTS_S = (59, 61, 125, 199, 299)


@pytest.mark.parametrize(
    "at_s",
    [
        *(9, 60, 181, 215),
        *(pytest.param(at_s, marks=pytest.mark.long) for at_s in OTHER_MOMENTS_S),
    ],
)
def test_a_moment_has_the_servers_and_connections_of_then(
    recording: Recording, records: list[Record], at_s: int
) -> None:
    state, expected = replayed(recording, second(at_s) + 1), live(records, second(at_s) + 1)
    assert facts(state) == facts(expected)
    assert {one.seen.name for one in state.servers.known.values()} == {*NAMES}
    down = DOWN_FROM_S < at_s < DOWN_UNTIL_S + 0.5
    assert [one.seen.name for one in state.servers.down] == (["n3"] if down else [])
    assert state.connections is not None and state.connections.newest.rows[0].user == "ann"
    if at_s > 30:
        assert state.servers.rates["ID-n1-0"].in_msgs_per_s == pytest.approx(50)
        assert state.connections.traffic["ID-n1-0", 7].in_msgs_per_s == pytest.approx(10)


def test_going_forward_shows_the_same_as_a_seek(
    recording: Recording, records: list[Record]
) -> None:
    player = Player(recording)
    state = fold(map(decode_record, player.seek(recording.start_us)))
    for at_s in (61, 125, 215, 299):
        for line in player.play_until(second(at_s) + 1):
            state = state.after(decode_record(line))
        expected = live(records, second(at_s) + 1)
        assert (state.servers, state.connections) == (expected.servers, expected.connections)


def test_a_seek_reads_servers_of_the_last_segments_only(recording: Recording) -> None:
    chosen = plan_seek(recording, recording.end_us)
    last = len(recording.spans) - 1
    assert chosen.first_system_segment == last - 1
    assert all(len(span.index.members) == MEMBERS_COUNT for span in recording.spans)
    read = [
        SYSTEM_MEMBER in chosen.members(number, recording.spans[number])
        for number in range(last + 1)
    ]
    assert read == [False] * (last - 1) + [True] * 2
    events = recording.read_members(recording.spans[0], (EVENTS_MEMBER,)).entries
    assert "servers_read" not in {entry.kind for entry in events}
    assert verify(recording.folder).findings == ()


def test_one_reading_in_ten_seconds_is_written_and_at_once_where_others_answer(
    tmp_path: Path,
) -> None:
    given: list[ServersRead] = [servers(at_s) for at_s in range(0, 61, 2)]
    given[11:11] = [servers(21, NAMES[:2])]
    given.append(replace(servers(62), leaving=("n1",)))
    keyframe = KeyframeBuilder().keyframe(START_US)
    recorder = Recorder(RecorderSettings(tmp_path), keyframe, lambda change: None)
    for read in given:
        recorder.add(read)
    recorder.add(connections(63))
    recorder.stop()
    assert connections(63) in Recording(recorder.folder).records()
    found = [r for r in Recording(recorder.folder).records() if isinstance(r, ServersRead)]
    written = [round((read.at_us - START_US) / 1e6) for read in found]
    assert written == [0, 10, 20, 21, 22, 32, 42, 52, 62]
    assert [len(read.servers.rows) for read in found][2:5] == [3, 2, 3]
    assert found[-1].leaving == ("n1",)


def test_a_recording_that_begins_later_knows_the_servers(tmp_path: Path) -> None:
    memory = KeyframeBuilder()
    for read in (servers(0), servers(10, NAMES[:2])):
        memory.add(read)
    keyframe = memory.keyframe(second(11))
    recorder = Recorder(RecorderSettings(tmp_path), keyframe, lambda change: None)
    recorder.add(Advisory(second(12), "nak", "S", "c", "told", "{}"))
    recorder.stop()
    recording = Recording(recorder.folder)
    state = replayed(recording, recording.end_us)
    assert [one.seen.name for one in state.servers.down] == ["n3"]
    assert state.servers.newest == servers(10, NAMES[:2]).servers
    assert state.now_at_us == second(12)


def test_of_thousands_of_accounts_a_recording_holds_some() -> None:
    read = servers(1)
    many = tuple(replace(read.servers.accounts[0], name=f"A{n}") for n in range(5_000))
    kept = prepare_for_recording(
        replace(read, servers=replace(read.servers, accounts=many)), payloads=False
    )
    assert isinstance(kept, ServersRead) and kept.servers.accounts == many[:MAX_RECORDED_ACCOUNTS]


def test_servers_and_connections_are_exported() -> None:
    found = [dict(zip(table.names, values, strict=True)) for table, values in rows(servers(20))]
    assert [row["name"] for row in found] == [*NAMES]
    assert found[0]["meta_leader"] == "n1" and found[0]["file_used_bytes"] == 2000
    assert (found[0]["streams_led_count"], found[0]["api_requests_count"]) == (1, 5)
    ((table, values),) = rows(connections(20))
    row = dict(zip(table.names, values, strict=True))
    assert (row["user"], row["address"], row["in_msgs"]) == ("ann", "10.0.0.9:5555", 200)
    unknown = replace(servers(20).servers.rows[0], jetstream=None, cluster=None)
    bare = ServersRead(second(20), Servers("account", (unknown,)))
    ((table, values),) = rows(bare)
    row = dict(zip(table.names, values, strict=True))
    assert (row["meta_leader"], row["file_used_bytes"], row["streams_count"]) == (None,) * 3


def test_segments_of_before_have_no_servers_and_open(tmp_path: Path) -> None:
    before = Path(__file__).with_name("data") / "version-3"
    old = Recording(before)
    assert {len(span.index.members) for span in old.spans if span.file.sealed} == {SYSTEM_MEMBER}
    state = replayed(old, old.end_us)
    assert state.servers.newest is None and state.connections is None
    assert list_segments(before)
