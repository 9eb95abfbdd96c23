"""What is found of servers, their meta group and clients, from what was read of them."""

from __future__ import annotations

from typing import Any

import pytest

from natstui.model.clients.connection import ClientConnection, Subscription
from natstui.model.clients.watch import (
    ClientCount,
    ClientsRead,
    count_groups,
    summarize_clients,
)
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.live.snapshot import Peer, Upstream
from natstui.model.live.state import State
from natstui.model.records.record import BULK_SOURCE, Advisory, Record, Restored, Unavailable
from natstui.model.servers.server import (
    Meta,
    MetaPeer,
    ServerJetStream,
    Servers,
    ServerState,
    Storage,
)
from natstui.model.servers.watch import (
    NO_SERVERS,
    RefusedLogin,
    ServersRead,
    ServerWatch,
    server_changes,
)
from natstui.units import moment_text
from natstui.values import replace
from tests.model.builders import snapshot
from tests.model.findings.life import EPOCH_US, START_S, Life, at_us

_DAY_US = 86_400_000_000


def seen(name: str, **rest: Any) -> ServerState:
    """Return a well server of the cluster LAB."""
    known: dict[str, Any] = {
        "server_id": f"ID-{name}", "cluster": "LAB", "version": "2.15.1", "at_us": EPOCH_US,
        "connections_count": 3, "subscriptions_count": 9, "in_msgs": 0, "in_bytes": 0,
        "out_msgs": 0, "out_bytes": 0, "slow_consumers_count": 0, "started_at_us": EPOCH_US,
    }  # fmt: skip
    return ServerState(name=name, **known | rest)


def read(second: float, *rows: ServerState, **rest: Any) -> ServersRead:
    leaving = rest.pop("leaving", ())
    return ServersRead(EPOCH_US + round(second * 1e6), Servers("system", rows, **rest), leaving)


def found(state: State) -> dict[str, str]:
    """Return what is open: code and what it is about."""
    return {
        f"{one.kind.code} {one.entity.text}": one.text
        for one in state.findings.list_open_findings()
    }


def after(*records: Record) -> State:
    """Return the state after records, with a poll at the end so that it is now."""
    state = State().after(at(0))
    for record in records:
        state = apply_and_evaluate(state, record)
    return state


def at(second: float) -> Record:
    return snapshot(second, [], [])


_ALL = tuple(map(seen, ("n1", "n2", "n3")))


def test_a_server_that_does_not_answer_any_more_is_named_with_its_age_until_it_does() -> None:
    records = [read(1, *_ALL), at(1), read(3, *_ALL[:2]), at(4)]
    state = after(*records)
    moment = moment_text(EPOCH_US + 1_000_000)
    text = f"the last reply came at {moment} UTC"
    assert found(state) == {"NT-V01 server n3": text}
    (down,) = state.servers.down
    assert down.seen.name == "n3" and down.down_since_us == EPOCH_US + 1_000_000
    assert found(after(*records, read(9, *_ALL), at(9))) == {}


def test_what_happened_to_a_server_is_an_event() -> None:
    told: list[tuple[str, str]] = []
    watch = NO_SERVERS
    again = seen("n3", server_id="ANOTHER")
    for reading in (
        read(1, *_ALL), read(3, *_ALL[:2]), read(5, *_ALL[:2]), read(7, *_ALL),
        read(9, *_ALL[:2], again), read(11, *_ALL[:2], again, leaving=("n1",)),
    ):  # fmt: skip
        watch, before = watch.after(reading), watch
        told += [(one.type, one.server) for one in server_changes(before, watch)]
    assert told == [
        ("server_down", "n3"), ("server_back", "n3"), ("server_restarted", "n3"),
        ("server_leaving", "n1"),
    ]  # fmt: skip


def test_a_restart_of_a_server_without_a_name_is_a_restart_and_no_server_is_down() -> None:
    first, second, third = (seen(one, server_id=one, cluster=None) for one in ("NA", "NB", "NC"))
    named = seen("n1", cluster=None)
    elsewhere = seen("ND", server_id="ND", cluster="OTHER")
    readings = [
        read(1, first, named), read(3, named), read(5, second, named), read(7, third, named),
    ]  # fmt: skip
    told: list[tuple[str, str]] = []
    watch = NO_SERVERS
    for reading in readings:
        watch, before = watch.after(reading), watch
        told += [(one.type, one.server) for one in server_changes(before, watch)]
    assert told == [
        ("server_down", "NA"), ("server_restarted", "NB"), ("server_restarted", "NC"),
    ]  # fmt: skip
    assert set(watch.known) == {"NC", "n1"}
    assert list(found(after(*readings[:3], at(6)))) == ["NT-V53 server NB"]
    # A server of another cluster is another server, and so is one with a name.
    other = after(read(1, first), read(3, elsewhere, named), at(4))
    assert "NT-V01 server NA" in found(other)


def test_when_nobody_can_be_asked_no_server_is_called_down() -> None:
    watch = ServerWatch().after(read(1, *_ALL)).after(read(3))
    assert watch.down == ()


def test_a_reading_that_failed_forgets_no_server() -> None:
    failed = ServersRead(EPOCH_US + 5_000_000, Servers("account", ()))
    watch = ServerWatch().after(read(1, *_ALL)).after(read(3, *_ALL[:2]))
    later = watch.after(failed)
    assert (later.known, later.at_us) == (watch.known, failed.at_us)
    assert [server.seen.name for server in later.after(read(7, _ALL[1])).down] == ["n1", "n3"]


def test_a_server_that_was_down_before_we_came_is_known_by_leaders_that_miss_it() -> None:
    peers = (Peer("n2", True, False, 5, 0), Peer("n3", False, False, None, 9))
    stream = {"name": "S", "created_at_us": 1, "peers": peers, "leader": "n1"}
    state = after(read(1, *_ALL[:2]))
    for second in (1, 2, 3):
        state = apply_and_evaluate(state, snapshot(second, [stream], []))
    assert "NT-V01 server n3" in found(state)
    # One that another leader hears of is there.
    other = {
        "name": "T",
        "created_at_us": 1,
        "leader": "n2",
        "peers": (Peer("n3", True, False, 5, 0),),
    }
    for second in (4, 5, 6):
        state = apply_and_evaluate(state, snapshot(second, [stream, other], []))
    assert "NT-V01 server n3" not in found(state)


def test_a_server_in_lame_duck_mode_replies_to_nobody_and_is_not_called_down_until_it_stops() -> (
    None
):
    linked = [replace(one, neighbours_count=2, advertised_count=3) for one in _ALL]
    draining = [replace(one, advertised_count=2) for one in linked[:2]]
    stopped = [replace(one, neighbours_count=1) for one in draining]
    began = read(1, *linked)
    for leaving in ((), ("n3",)):
        state = after(began, read(3, *draining, leaving=leaving), at(3))
        assert list(found(state)) == ["NT-V26 server n3"], leaving
        state = after(began, read(3, *stopped, leaving=leaving), at(3))
        assert list(found(state)) == ["NT-V01 server n3"], leaving
        assert ("had announced lame duck mode" in found(state)["NT-V01 server n3"]) == bool(
            leaving
        )
    # It was announced, and the others do not know yet.
    state = after(began, read(3, *linked[:2], leaving=("n3",)), at(3))
    assert list(found(state)) == ["NT-V26 server n3"]
    # One that hangs keeps its routes too, and clients are sent to it.
    assert list(found(after(began, read(3, *linked[:2]), at(3)))) == ["NT-V01 server n3"]
    # A plain user knows of no routes: an announcement stands for the two minutes it may take.
    state = after(read(1, *_ALL), read(3, *_ALL[:2], leaving=("n3",)), at(3))
    assert list(found(state)) == ["NT-V26 server n3"]
    state = after(
        read(1, *_ALL), read(3, *_ALL[:2], leaving=("n3",)),
        read(130, *_ALL[:2], leaving=("n3",)), at(130),
    )  # fmt: skip
    assert list(found(state)) == ["NT-V01 server n3"]


def test_a_server_in_lame_duck_mode_before_we_came_is_known_by_its_open_routes() -> None:
    draining = [replace(one, neighbours_count=2, advertised_count=2) for one in _ALL[:2]]
    peers = (Peer("n2", True, False, 5, 0), Peer("n3", False, True, None, 9))
    stream = {"name": "S", "created_at_us": 1, "peers": peers, "leader": "n1"}
    state = after(read(1, *draining))
    for second in (1, 2, 3):
        state = apply_and_evaluate(state, snapshot(second, [stream], []))
    assert "NT-V26 server n3" in found(state) and "NT-V01 server n3" not in found(state)
    # One was killed beside, and which of the two that is nobody can tell.
    gone = {**stream, "peers": (Peer("n4", False, True, None, 9), *peers)}
    for second in (4, 5, 6):
        state = apply_and_evaluate(state, snapshot(second, [gone], []))
    assert {"NT-V01 server n3", "NT-V01 server n4"} <= found(state).keys()


def test_a_full_store_is_told_before_and_when_it_refuses() -> None:
    for used, code in ((899, None), (900, "NT-V21"), (989, "NT-V21"), (990, "NT-V03")):
        state = after(read(1, seen("n1", jetstream=_here(used))), at(1))
        assert [text.split()[0] for text in found(state)] == ([code] if code else [])
    for used, code in ((899, None), (900, "NT-V22"), (990, "NT-V04")):
        here = replace(_here(), memory=Storage(used, 0, 1_000))
        state = after(read(1, seen("n1", jetstream=here)), at(1))
        assert [text.split()[0] for text in found(state)] == ([code] if code else [])


def test_clients_that_are_not_let_in_are_told_by_server_with_the_most_frequent() -> None:
    often, once = RefusedLogin("n1", "old", "app", 40), RefusedLogin("n2", "mistyped", None, 2)
    other = RefusedLogin("n1", "go", None, 2)
    state = after(replace(read(3, *_ALL), logins_refused=(often, once, other)), at(3))
    text = "42 logins refused within a minute, most of client old, user app"
    assert found(state) == {"NT-V37 server n1": text}
    assert found(after(replace(read(3, *_ALL), logins_refused=(often,)), read(5, *_ALL))) == {}


def test_restarts_slow_consumers_and_certificates_are_told() -> None:
    slow = seen("n1", slow_consumers_count=4)
    state = after(read(1, seen("n1")), read(3, slow), at(3))
    assert found(state) == {"NT-V24 server n1": "4 connections closed"}
    again = seen("n1", server_id="B")
    restarted = f"at {moment_text(EPOCH_US + 3_000_000)} UTC"
    state = after(read(1, seen("n1")), read(3, again), at(3))
    assert found(state) == {"NT-V53 server n1": restarted}
    assert (
        found(after(read(1, seen("n1")), read(3, again), at(3), read(304, again), at(304))) == {}
    )
    state = after(
        read(1, seen("n1")), read(3, again), read(5, replace(again, server_id="C")), at(5)
    )
    assert "NT-V23 server n1" in found(state) and found(state)["NT-V23 server n1"].startswith(
        "2 times"
    )
    for days, code in ((31, None), (29, "NT-V29"), (6, "NT-V05"), (-1, "NT-V05")):
        one = seen("n1", certificate_ends_at_us=EPOCH_US + days * _DAY_US)
        told = [text.split()[0] for text in found(after(read(1, one), at(1)))]
        assert told == ([code] if code else [])


def _held(second: float, *readings: ServersRead) -> State:
    """Return the state after readings that were repeated for some seconds."""
    state = after(*readings)
    for later in range(int(second)):
        last = readings[-1]
        state = apply_and_evaluate(state, replace(last, at_us=last.at_us + later * 1_000_000))
        state = apply_and_evaluate(state, at(1 + later))
    return state


def _here(used: int = 0, api_level: int = 5) -> ServerJetStream:
    free = Storage(0, 0, 1_000)
    return ServerJetStream(free, Storage(used, 0, 1_000), 0, 0, 0, 0, 0, 0, 0, 0, api_level)


def test_api_levels_stand_beside_versions_that_differ() -> None:
    older = seen("n2", version="2.12.8", jetstream=_here(api_level=3))
    rows = seen("n1", jetstream=_here()), older, seen("n3")
    text = "2.12.8 (API level 3): n2; 2.15.1 (API level 5): n1, n3"
    # One server against all others is what differs.
    assert found(_held(14, read(1, *rows))) == {"NT-V25 server n2": text}


def test_a_server_that_uses_far_more_memory_than_its_cluster_is_told() -> None:
    def using(*mib: int) -> dict[str, str]:
        names = enumerate(mib, 1)
        rows = [seen(f"n{number}", memory_bytes=size * 2**20) for number, size in names]
        return found(_held(40, read(1, *rows)))

    assert using(1000, 200, 210) == {
        "NT-V52 server n1": "0.98 GiB, the mean of the cluster is 470 MiB"
    }
    # Small servers differ by chance, and one alone is its own mean.
    assert using(90, 20, 20) == using(500, 450, 400) == using(5_000) == {}


def test_a_meta_group_whose_leader_changes_again_and_again_is_told() -> None:
    elected = tuple(EPOCH_US + second * 1_000_000 for second in (1, 9, 17))
    assert found(after(replace(read(18, *_ALL), meta_elected_at_us=elected[:2]), at(18))) == {}
    state = after(replace(read(18, *_ALL), meta_elected_at_us=elected), at(18))
    assert found(state) == {"NT-V36 meta group": "3 elections in 5 min"}
    later = replace(read(310, *_ALL), meta_elected_at_us=elected)
    assert found(apply_and_evaluate(apply_and_evaluate(state, later), at(310))) == {}


def _elected(second: float) -> Record:
    return Advisory(EPOCH_US + round(second * 1e6), "stream_leader_elected", "S", None, "", "{}")


def test_elections_of_a_rolling_restart_are_no_flapping() -> None:
    stream = {"name": "S", "created_at_us": 1, "leader": "n1"}
    elections = [_elected(second) for second in (20, 60, 100)]
    ids = [("ID-n1", "ID-n2", "ID-n3")]
    for name in (1, 2, 3):
        # One after the other comes back with another id, some seconds after it was stopped.
        ids.append(tuple(f"{one}b" if at < name else one for at, one in enumerate(ids[0])))
    readings = [
        read(second, *(seen(f"n{at}", server_id=one) for at, one in enumerate(now, 1)))
        for second, now in zip((1, 30, 70, 110), ids, strict=True)
    ]
    meta = tuple(EPOCH_US + second * 1_000_000 for second in (20, 60, 100))
    readings = [replace(one, meta_elected_at_us=meta) for one in readings]
    state = after(snapshot(0, [stream], []), *readings, *elections, snapshot(111, [stream], []))
    assert "NT-S29 S" not in found(state) and "NT-V36 meta group" not in found(state)
    calm = [replace(readings[0], at_us=one.at_us) for one in readings]
    state = after(snapshot(0, [stream], []), *calm, *elections, snapshot(111, [stream], []))
    assert {"NT-S29 S", "NT-V36 meta group"} <= found(state).keys()


def test_a_mirror_that_connects_again_after_a_restart_is_not_silent() -> None:
    def words(active_s: int, *readings: ServersRead) -> set[str]:
        upstream = Upstream("O", 0, active_s * 10**9, None, True)
        stream = {"name": "M", "created_at_us": 1, "leader": "n1", "upstreams": (upstream,)}
        return {one[:6] for one in found(after(*readings, snapshot(40, [stream], [])))}

    again = read(30, *_ALL[:2], seen("n3", server_id="ID-n3b"))
    assert words(20, read(1, *_ALL), again) == {"NT-V53"}
    assert words(61, read(1, *_ALL), again) == {"NT-S06", "NT-V53"}
    assert words(20, read(1, *_ALL), read(30, *_ALL)) == {"NT-S06"}
    # One that stays down is none that comes back.
    assert words(20, read(1, *_ALL), read(30, *_ALL[:2])) == {"NT-S06", "NT-V01"}


def test_acks_that_a_restart_lost_have_the_time_to_come_again() -> None:
    def words(*readings: ServersRead) -> set[str]:
        life = Life({"ack_wait_ns": 30 * 10**9})
        life.add(*readings)
        for second in range(40):
            seq = 100 + 10 * second
            life.poll(
                stream={"last_seq": seq, "stored_msgs": seq, "last_at_us": at_us(second)},
                ack_pending_msgs=1, waiting_pulls_count=1, delivered_consumer_seq=seq,
                delivered_stream_seq=seq, ack_floor_consumer_seq=60, ack_floor_stream_seq=60,
                delivered_at_us=at_us(second), acked_at_us=at_us(second),
            )  # fmt: skip
        return {one[:6] for one in found(life.state)}

    again = read(START_S, *_ALL[:2], seen("n3", server_id="ID-n3b"))
    assert words(read(START_S - 9, *_ALL), read(START_S, *_ALL)) == {"NT-C43"}
    assert words(read(START_S - 9, *_ALL), again) == {"NT-V53"}


def test_versions_that_differ_and_routes_that_miss_are_told_once_they_last() -> None:
    older = seen("n2", version="2.12.8")
    assert found(_held(2, read(1, _ALL[0], older))) == {}
    state = _held(14, read(1, _ALL[0], older))
    assert found(state) == {"NT-V25 servers": "2.12.8: n2; 2.15.1: n1"}
    apart = [replace(one, neighbours_count=2 - (one.name == "n3")) for one in _ALL]
    assert found(_held(8, read(1, *apart))) == {"NT-V28 server n3": "connected to 1 of 2 servers"}
    for links in ("leafnodes", "gateways"):
        linked: dict[str, Any] = {f"{links}_count": 1}
        gone = [replace(one, **linked) for one in _ALL]
        fewer = [replace(gone[0], **dict.fromkeys(linked, 0)), *gone[1:]]
        state = _held(8, read(1, *gone), read(3, *fewer))
        assert found(state) == {"NT-V32 server n1": f"0 of 1 {links}"}


def test_a_meta_group_without_a_leader_and_a_member_that_is_missed_are_told() -> None:
    meta = Meta("LAB", None, 3, 2, 0, ())
    state = _held(4, read(1, *_ALL, metas=(meta,)))
    text = "LAB: no leader, 3 members, of which 2 are needed"
    assert found(state) == {"NT-V02 meta group": text}
    member = MetaPeer("n2", False, False, 9_000_000_000, 4)
    state = after(read(1, *_ALL, metas=(replace(meta, leader="n1", peers=(member,)),)), at(1))
    assert list(found(state)) == ["NT-V27 server n2"]


def test_a_plain_user_learns_from_the_error_that_the_meta_group_has_no_quorum() -> None:
    reason = "INFO: JetStream system temporarily unavailable (error 10008)"
    state = after(at(1), Unavailable(EPOCH_US + 1_000_000, "INFO", reason))
    for second in (2, 3, 4):
        state = apply_and_evaluate(state, at(second))
    assert list(found(state)) == ["NT-V02 meta group"]
    assert found(apply_and_evaluate(state, Restored(EPOCH_US + 5_000_000, "INFO"))) == {}
    # A single stream without a leader says the same, and no more than that.
    of_stream = Unavailable(EPOCH_US + 1_000_000, "STREAM.INFO", reason)
    state = after(at(1), of_stream)
    for second in (2, 3, 4):
        state = apply_and_evaluate(state, at(second))
    assert list(found(state)) == ["NT-M22 STREAM.INFO"]


def test_bulk_replies_that_a_restart_delays_are_told_only_when_they_stay_away() -> None:
    state = after(at(1), Unavailable(EPOCH_US + 1_000_000, BULK_SOURCE, "no response within 2 s"))
    for second in range(2, 11):
        state = apply_and_evaluate(state, at(second))
        assert found(state) == {}
    for second in (11, 12):
        state = apply_and_evaluate(state, at(second))
    assert found(state) == {"NT-M25 JSZ": "JSZ: no response within 2 s"}
    assert found(apply_and_evaluate(state, Restored(EPOCH_US + 13_000_000, BULK_SOURCE))) == {}


def _connection(number: int, stopped_s: float | None, **rest: Any) -> ClientConnection:
    known: dict[str, Any] = {
        "server_id": "A", "connection_id": number, "server_name": "n1", "kind": "Client",
        "protocol": "nats", "name": "worker", "user": None, "address": "127.0.0.1:1",
        "language": "go", "version": "1", "tls_version": None, "rtt_us": None,
        "subscriptions_count": 2, "pending_bytes": 0, "stalls_count": 0, "in_msgs": 0,
        "in_bytes": 0, "out_msgs": 0, "out_bytes": 0, "started_at_us": 0, "active_at_us": 0,
        "uptime_s": 0.0, "idle_s": 0.0,
        "stopped_at_us": None if stopped_s is None else EPOCH_US + round(stopped_s * 1e6),
    }  # fmt: skip
    return ClientConnection(**known | rest)


def test_clients_that_leak_flap_or_read_too_slowly_are_told_by_name() -> None:
    closed = [_connection(number, 40 + number) for number in range(20)]
    closed += [_connection(99, -100, name="old")]
    slow = _connection(7, 50, name="sleeper", reason="Slow Consumer (Pending Bytes)")
    leak = _connection(5, None, name="leak", subscriptions_count=6_000)
    facts = summarize_clients(
        EPOCH_US + 60_000_000, [leak, _connection(6, None)], [*closed, slow], None
    )
    assert facts.connections_count == 2 and facts.most_subscribed[0] == ClientCount("leak", 6_000)
    assert facts.closed == (ClientCount("worker", 20), ClientCount("sleeper", 1))
    assert facts.slow == (ClientCount("sleeper", 1),)
    state = after(facts, at(61))
    assert set(found(state)) == {
        "NT-V33 client worker", "NT-V34 client leak", "NT-V24 client sleeper",
    }  # fmt: skip
    calm = ClientsRead(EPOCH_US + 90_000_000, 2, (), (), ())
    for second in (91, 130):
        state = apply_and_evaluate(apply_and_evaluate(state, calm), at(second))
    assert found(state) == {}


@pytest.mark.parametrize("ahead_s", [-300, 300])
def test_closed_clients_are_counted_whatever_the_clock_of_the_server_says(ahead_s: int) -> None:
    closed = [_connection(number, 40 + ahead_s, name="new") for number in range(20)]
    closed += [_connection(99, -100 + ahead_s, name="old")]
    ahead = {closed[0].server_id: ahead_s * 1_000_000}
    facts = summarize_clients(EPOCH_US + 60_000_000, [], closed, None, None, ahead)
    assert facts.closed == (ClientCount("new", 20),)


def test_clients_are_counted_by_the_queue_group_in_which_they_subscribe() -> None:
    def listens(number: int, *to: tuple[str, str | None]) -> ClientConnection:
        subscriptions = tuple(Subscription(subject, queue, 0) for subject, queue in to)
        return _connection(number, None, listening=subscriptions)

    rows = [
        listens(1, ("deliver.a", None), ("deliver.b", "g"), ("alone", None)),
        listens(2, ("deliver.a", None), ("deliver.a", None), ("deliver.b", "g")),
        listens(3, ("deliver.b", "h"), ("_INBOX.x.y", None)),
    ]
    assert count_groups(rows) == {
        "deliver.a": {"": 2}, "deliver.b": {"g": 2, "h": 1}, "alone": {"": 1},
    }  # fmt: skip
    many = [listens(number, (f"s.{number}", None)) for number in range(1_500)]
    assert len(count_groups([*many, *rows])) == 1_000
    assert "deliver.b" in count_groups([*many, *rows])


def test_clients_that_are_refused_for_want_of_connections_name_the_account() -> None:
    reason = "Maximum Account Connections Exceeded"
    refused = [_connection(number, 40 + number, reason=reason) for number in range(20)]
    facts = summarize_clients(EPOCH_US + 60_000_000, [_connection(99, None)], refused, None)
    assert facts.refused_count == 20 and facts.closed == ()
    state = after(facts, at(61))
    assert found(state) == {
        "NT-A03 account": "20 clients refused within a minute, 1 connection open"
    }
    for second in (91, 130):
        calm = ClientsRead(EPOCH_US + second * 1_000_000, 1, (), (), ())
        state = apply_and_evaluate(apply_and_evaluate(state, calm), at(second))
    assert found(state) == {}


def test_clients_that_come_and_go_are_not_refused_ones() -> None:
    # A deployment that met the limit for a moment, a batch job, and clients that were stopped.
    for reason, count in (
        ("Maximum Account Connections Exceeded", 2),
        ("Client Closed", 14),
        ("Stale Connection", 14),
    ):
        closed = [_connection(number, 40, reason=reason) for number in range(count)]
        facts = summarize_clients(EPOCH_US + 60_000_000, [_connection(99, None)], closed, None)
        assert found(after(facts, at(61))) == {}


def test_a_server_without_room_for_connections_is_named_before_and_when_it_refuses() -> None:
    for count, code in ((89, None), (90, "NT-V35"), (99, "NT-V35"), (100, "NT-V06")):
        one = seen("n1", connections_count=count, max_connections_count=100)
        codes = [text.split()[0] for text in found(after(read(1, one), at(1)))]
        assert codes == ([code] if code else []), count


_THREE = ("n1", "n2", "n3")


def _led(
    leaders: list[str], servers: tuple[str, ...] = _THREE, first: int = 0
) -> list[dict[str, Any]]:
    """Return streams with a replica on each server, by who leads them."""
    return [
        {
            "name": f"S{first + number}", "created_at_us": 1, "leader": leader,
            "peers": tuple(Peer(n, True, False, 5, 0) for n in servers if n != leader),
        }
        for number, leader in enumerate(leaders)
    ]  # fmt: skip


def _unbalanced(
    rows: list[dict[str, Any]], seconds: int = 40, *readings: ServersRead
) -> dict[str, str]:
    state = after(*readings)
    for second in range(10, 10 + seconds):
        for reading in readings[-1:]:
            later_us = EPOCH_US + second * 1_000_000
            state = apply_and_evaluate(state, replace(reading, at_us=later_us))
        state = apply_and_evaluate(state, snapshot(second, rows, []))
    return {name: text for name, text in found(state).items() if name.startswith("NT-V51")}


def test_a_server_that_leads_far_more_than_its_share_is_named() -> None:
    text = "n1 leads 12 of 12 streams with replicas on it, an even share is 4"
    assert _unbalanced(_led(["n1"] * 12)) == {"NT-V51 server n1": text}
    assert _unbalanced(_led(["n1"] * 12), 25) == {}
    assert len(_unbalanced(_led(["n1"] * 6))) == 1


def test_leaders_that_are_as_even_as_chance_makes_them_say_nothing() -> None:
    assert _unbalanced(_led([*_THREE] * 8)) == {}
    # Few streams, and what elections by chance do now and then.
    assert _unbalanced(_led(["n1"] * 3)) == {}
    assert _unbalanced(_led(["n1"] * 5)) == {}
    five = ("n1", "n2", "n3", "n4", "n5")
    assert _unbalanced(_led(["n1"] * 4 + ["n2"] * 3 + ["n3"] * 2, five)) == {}
    # Two clusters of one account: one has many streams, and leads its own evenly.
    far = _led([*("f1", "f2", "f3")] * 2, ("f1", "f2", "f3"), first=100)
    assert _unbalanced([*_led([*_THREE] * 30), *far]) == {}
    # Of streams with one replica nobody can choose who leads.
    alone = [row | {"peers": ()} for row in _led(["n1"] * 30)]
    assert _unbalanced(alone) == {}


@pytest.mark.slow
def test_leaders_may_be_uneven_while_a_server_is_down_and_for_five_minutes_after_it() -> None:
    rows = _led(["n1"] * 12)
    down = (read(1, *_ALL), read(3, *_ALL[:2]))
    assert _unbalanced(rows, 60, *down) == {}
    back = (*down, read(9, *_ALL[:2], seen("n3", server_id="ID-n3b")))
    assert _unbalanced(rows, 290, *back) == {}
    assert set(_unbalanced(rows, 340, *back)) == {"NT-V51 server n1"}


def _restarted_without(missing: dict[str, int], *, restarts: bool, **config: Any) -> Life:
    """Return a life whose stream has other counters after an outage of four seconds."""
    life = Life({}, {"max_msgs": 1000, **config})
    life.add(read(START_S, seen("n1")))
    life.polls(3)
    life.poll(step_s=4.0, stream=missing)
    life.add(read(START_S + life.second + 1, seen("n1", server_id="B" if restarts else "ID-n1")))
    life.polls(3)
    return life


def test_messages_that_a_server_misses_when_it_is_back_were_lost_from_its_store() -> None:
    middle = {"stored_msgs": 70, "deleted_msgs": 30}
    first = {"stored_msgs": 70, "first_seq": 31}
    for missing in (middle, first):
        life = _restarted_without(missing, restarts=True)
        finding = life.open["NT-S04"]
        assert finding.numbers["missing_msgs"] == 30 and "NT-S51" not in life.open
        assert finding.text == "30 messages missing since its server was restarted"
        life.poll(step_s=310.0)
        life.polls(3)
        assert "NT-S04" not in life.open
        # Without a restart, it was a user.
        assert "NT-S04" not in _restarted_without(missing, restarts=False).open
    assert "NT-S51" in _restarted_without(first, restarts=False).open
    # Newer messages replace older ones, and clients delete some of them all the time.
    life = _restarted_without(middle, restarts=True, max_msgs_per_subject=1)
    assert "NT-S04" not in life.open
    life = Life({}, {"max_msgs": 1000})
    life.add(read(START_S, seen("n1")))
    for deleted in range(1, 79):
        life.poll(step_s=4.0, stream={"stored_msgs": 100 - deleted, "deleted_msgs": deleted})
    life.add(read(START_S + life.second, seen("n1", server_id="B")))
    life.polls(3)
    assert "NT-S04" not in life.open
