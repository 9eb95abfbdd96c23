"""The servers screen on a real cluster, and on a server that tells little."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import msgspec
import nats
import nats.js.errors
import pytest

from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.records.messages import Answered
from natstui.model.records.record import PollNow, SetPolling
from natstui.model.records.system import ReadServers
from natstui.model.servers.server import Servers
from natstui.tui.servers import screen as servers_screen
from tests.ending import ended
from tests.jetstream.flushing import flushed
from tests.jetstream.test_connections import as_user
from tests.model.findings.test_servers import seen
from tests.session.test_servers_recorded import servers
from tests.tui.engine_records import engine_records
from tests.tui.server_columns import Beside, Look, judged
from tests.tui.viewer import Viewer, fed, viewing

pytestmark = pytest.mark.xdist_group("servers screen")

SYSTEM = {"NATSTUI_SYSTEM_USER": "sys", "NATSTUI_SYSTEM_PASSWORD": "sys"}


@pytest.fixture(scope="module")
def lab() -> Iterator[Cluster]:
    """One cluster for all: the last test leaves it without a quorum."""
    with Cluster() as cluster:
        yield cluster


def app_urls(cluster: Cluster) -> list[str]:
    return [as_user(url, "app") for url in cluster.urls]


@asynccontextmanager
async def load(cluster: Cluster) -> AsyncIterator[None]:
    """Have four streams, with something of every kind to count, while messages come."""
    nc = await nats.connect(app_urls(cluster)[0])
    js = nc.jetstream()
    for number in range(4):
        name, kind = f"S{number}", "memory" if number == 3 else "file"
        await js.add_stream(name=name, subjects=[f"s{number}"], num_replicas=3, storage=kind)
        await js.add_consumer(name, durable_name="C", ack_policy="explicit")
        for _ in range(10):
            await js.publish(f"s{number}", b"x" * 1000)
    # The API has refused something, and somebody listens.
    with suppress(nats.js.errors.NotFoundError):
        await js.stream_info("NONE")
    await nc.subscribe("elsewhere")

    async def publish() -> None:
        while True:
            await nc.publish("elsewhere", b"x" * 100)
            await flushed(nc)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(publish())
    try:
        yield
    finally:
        task.cancel()
        await ended(task)
        await nc.close()


def looked_at(viewer: Viewer, earlier: Servers, now: Servers) -> list[Look]:
    """Return the rows of the screen, with the moments of the two looks behind them."""
    screen, before = viewer.table, {one.name: one.at_us for one in earlier.rows}
    view = screen.view()
    values = {spec.id: spec.sort(view) for spec in screen.SPECS}
    texts = viewer.rows()
    return [
        Look(
            one.name,
            texts[one.name],
            {column: of[place] for column, of in values.items()},
            before[one.name],
            one.at_us,
        )
        for place, one in enumerate(now.rows)
    ]


@pytest.mark.cluster
@pytest.mark.parametrize(
    "source",
    [
        pytest.param("system", marks=pytest.mark.long),
        pytest.param("monitoring", marks=pytest.mark.long),
        pytest.param("account", marks=pytest.mark.long),
    ],
)
async def test_every_column_is_what_the_ports_of_each_server_tell(
    lab: Cluster, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers_screen, "_REQUEST_INTERVAL_S", 1.0)
    ports = ",".join(node.monitoring_url for node in lab.nodes)
    environ = {
        "system": SYSTEM,
        "monitoring": {"NATSTUI_CONNECTION_MONITORING": ports},
        "account": {},
    }[source]
    async with (
        load(lab),
        viewing(",".join(app_urls(lab)), environ=environ) as viewer,
    ):
        await viewer.press("4")
        await viewer.until(lambda: {"n1", "n2", "n3"} == viewer.rows().keys(), "the servers")
        await viewer.until(lambda: viewer.rows()["n1"].get("in_s", "–") not in ("–", ""), "rates")
        rows = viewer.rows()
        assert {row["cluster"] for row in rows.values()} == {"LAB"}
        assert sum(int(row["streams_led"]) for row in rows.values()) == 4
        assert "STREAMS LED, of" in viewer.words
        # What is ours stands beside it, as it always did.
        assert "COST OF MONITORING" in viewer.words and "PERMISSIONS" in viewer.text
        if source == "account":
            # No column of dashes: the reason is said once.
            assert not any({"cpu", "memory", "uptime"} & set(row) for row in rows.values())
            assert "CPU, memory and storage: servers" in viewer.words
            assert "$SYS.REQ.SERVER.PING.VARZ" in viewer.text
            assert "http_port" in viewer.words
            return
        assert [row["meta"] for row in rows.values()].count("leader") == 1
        assert "META GROUP" in viewer.words and "3 members" in viewer.words
        assert "UNAVAILABLE" not in viewer.words
        screen = viewer.table
        assert isinstance(screen, servers_screen.ServerScreen)
        with Beside(lab) as beside:
            began_us = time.time_ns() // 1000
            await viewer.until(lambda: beside.has_after(began_us), "the ports were asked")
            for _ in range(2):
                earlier = screen._newest_servers
                await viewer.until(
                    lambda was=earlier: screen._newest_servers is not was, "another look"
                )
            await viewer.press("p")
            now = screen._newest_servers
            assert earlier is not None and now is not None
            last_us = max(one.at_us for one in now.rows)
            await viewer.until(lambda: beside.has_after(last_us), "the ports were asked again")
            looks = looked_at(viewer, earlier, now)
            judged(beside, looks, [spec.id for spec in screen.SPECS])
            assert any(look.values["in_s"] > 0 for look in looks)
            assert any(look.values["store"] for look in looks)


async def told(viewer: Viewer, *sentences: str) -> float:
    """Wait until all of these stand on the screen; return how long that took."""
    began_s = time.monotonic()
    await viewer.until(
        lambda: all(one in viewer.words for one in sentences), f"{sentences}", 120.0
    )
    return time.monotonic() - began_s


@pytest.mark.long
@pytest.mark.cluster
async def test_a_restart_a_killed_leader_and_a_lost_quorum_are_told_as_they_come(
    lab: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers_screen, "_REQUEST_INTERVAL_S", 1.0)
    async with viewing(",".join(app_urls(lab)), environ=SYSTEM, size=(200, 50)) as viewer:
        await viewer.press("4")
        await viewer.until(lambda: {"n1", "n2", "n3"} == viewer.rows().keys(), "the servers")

        def led_by() -> str:
            roles = {name: row["meta"] for name, row in viewer.rows().items()}
            return next((name for name, role in roles.items() if role == "leader"), "")

        node = lab.node("n2")
        await asyncio.to_thread(node.stop)
        await told(viewer, "no reply from n2")
        await viewer.until(
            lambda: viewer.rows().get("n2", {}).get("meta", "").startswith("down"), "down"
        )
        # Of a server that was stopped the others are told at once that it is offline.
        if led_by():
            await told(viewer, "n2 offline")
        await asyncio.to_thread(node.start)
        # It has another id now: nobody waits for the one before, and none is missed.
        await viewer.until(
            lambda: (
                "n2" in viewer.rows()
                and not viewer.rows()["n2"]["meta"].startswith("down")
                and "no reply" not in viewer.words
                and viewer.rows()["n2"]["uptime"] not in ("", "–")
            ),
            "n2 is back",
            60.0,
        )
        await viewer.until(lambda: led_by() and "3 members" in viewer.words, "the meta group")
        killed = led_by()
        lab.node(killed).kill()
        # The first sign: no answer, and until there is another leader nothing of its group.
        await told(viewer, f"no reply from {killed}")
        await viewer.until(lambda: led_by() not in ("", killed), "another leader", 60.0)
        # A leader that never heard of it says so; offline it is called minutes later only.
        await told(viewer, f"{killed} away, lag", "never in contact with the leader")
        assert f"{killed} offline" not in viewer.words
        last = next(node for node in lab.nodes if node.name not in (killed, led_by()))
        second = led_by()
        lab.node(second).kill()
        gone = ", ".join(sorted((killed, second)))
        await told(viewer, f"no reply from {gone}")
        await told(viewer, "without a leader, 3 members, of which 2 are needed")
        assert viewer.rows()[last.name]["meta"] == "leaderless"
        # Nobody knows of the others now, so nothing is said of them.
        assert "lag" not in viewer.words.partition("META GROUP")[2].partition("ACCOUNTS")[0]


@pytest.mark.slow
async def test_every_column_shows_what_was_read_of_each_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(servers_screen, "_REQUEST_INTERVAL_S", 0.2)
    async with fed(*engine_records({"S": ()}), first="server", size=(120, 60)) as viewer:
        for count, read in enumerate((servers(10), servers(20)), 1):
            await viewer.until(lambda: len(viewer.sent(ReadServers)) == count, "it asks")  # noqa: B023
            number = viewer.sent(ReadServers)[-1].command_id
            body = msgspec.json.encode(read.servers).decode()
            await viewer.feed(Answered(1, number, "done", "3 servers", body))
            await viewer.until(lambda: viewer.rows().keys() == {"n1", "n2", "n3"}, "the servers")
        await viewer.until(lambda: viewer.rows()["n1"].get("in_s") == "50.0", "rates")
        assert viewer.rows()["n1"] == {
            "name": "n1", "meta": "leader", "version": "2.12.1", "cluster": "LAB", "uptime": "20s",
            "cpu": "▏░░░   12", "memory": "28.6 MiB", "conns": "4", "subs": "9", "in_s": "50.0",
            "out_s": "100", "slow": "0", "streams_led": "1", "consumers_led": "2", "behind": "0",
            "file": "▏░░░ 1.95 KiB", "free": "954 MiB", "store": "░░░░      0 B", "ha": "3",
            "inflight": "0", "errors": "0", "routes": "2", "in_b": "4.88 KiB",
            "out_b": "9.77 KiB",
        }  # fmt: skip
        assert [row["meta"] for row in viewer.rows().values()] == ["leader", "lag 0", "lag 0"]
        assert "data from the system account" in viewer.words
        assert "META GROUP" in viewer.words and "3 members" in viewer.words
        assert "STREAMS LED, of" in viewer.words and "UNAVAILABLE" not in viewer.words
        # What is ours stands beside it, as it always did.
        assert "COST OF MONITORING" in viewer.words and "PERMISSIONS" in viewer.text


async def test_p_stops_the_looks_at_servers_and_ctrl_r_polls_at_once() -> None:
    async with fed(*engine_records({"S": ()}), first="server") as viewer:
        await viewer.until(lambda: viewer.sent(ReadServers), "it asks")
        (request,) = viewer.sent(ReadServers)
        body = msgspec.json.encode(Servers("system", (seen("n1"),))).decode()
        await viewer.feed(Answered(1, request.command_id, "done", "1 server", body))
        await viewer.until(lambda: viewer.rows().keys() == {"n1"}, "the server")
        assert not {"cpu", "memory"} & viewer.rows()["n1"].keys(), "no column of dashes"
        await viewer.press("ctrl+r", "p")
        await viewer.until(lambda: viewer.sent(SetPolling), "the command")
        assert [command.on for command in viewer.sent(SetPolling)] == [False]
        assert len(viewer.sent(PollNow)) == 1
        await viewer.until(lambda: "paused (p)" in viewer.words, "that it is paused")


async def test_a_server_without_a_reply_has_its_row_in_view() -> None:
    async with fed(*engine_records({"S": ()}), servers(10), first="server") as viewer:
        await viewer.until(lambda: viewer.sent(ReadServers), "it asks")
        (request,) = viewer.sent(ReadServers)
        body = msgspec.json.encode(Servers("system", (seen("n1"), seen("n2")))).decode()
        await viewer.feed(Answered(1, request.command_id, "done", "2 servers", body))
        await viewer.until(lambda: viewer.rows().keys() == {"n1", "n2", "n3"}, "three", s=5)
        assert viewer.table.table.styles.height.value == 4
