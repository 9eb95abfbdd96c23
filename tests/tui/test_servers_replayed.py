"""Servers and connections, recorded and replayed: the overview, and the lists of then."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.clients.watch import ConnectionsRead
from natstui.model.servers.watch import ServersRead
from natstui.session.files.folder import list_segments
from natstui.session.read.recording import Recording
from natstui.session.share.pack import pack, unpack
from natstui.session.share.verify import verify
from tests.jetstream.test_connections import as_user
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.session.test_servers_recorded import NAMES, connections, servers
from tests.tui.test_overview import panel
from tests.tui.viewer import Viewer, replaying

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("servers replayed")]

SYSTEM = {"NATSTUI_SYSTEM_USER": "sys", "NATSTUI_SYSTEM_PASSWORD": "sys"}


@contextmanager
def recorder(sessions: Path, url: str) -> Iterator[Path]:
    """Record a server with its connections inside the block; yield the folder."""
    child = subprocess.Popen(
        [sys.executable, "-m", "natstui", "record", "--sessions", str(sessions), "--server", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **SYSTEM, "NATSTUI_SESSION_CONNECTIONS": "true"},
    )
    with child:
        try:
            assert child.stdout is not None
            yield Path(child.stdout.readline().strip())
        finally:
            child.send_signal(signal.SIGTERM)
            child.communicate(timeout=60)


async def readings(folder: Path, names: set[str]) -> None:
    """Wait until a recording holds a reading of these servers and no others, and of connections.

    The meta group has a leader among them: where the killed server led it, the first reading
    without that server comes before the election.
    """
    for _ in range(300):
        records = list(Recording(folder).records())
        reads = [record for record in records if isinstance(record, ServersRead)]
        if reads and any(isinstance(record, ConnectionsRead) for record in records):
            servers = reads[-1].servers
            led = [meta for meta in servers.metas if servers.has_leader_reply(meta)]
            if led and {row.name for row in servers.rows} == names:
                return
        await asyncio.sleep(0.2)
    raise AssertionError(f"no reading of {names} with a leader")


def servers_of(viewer: Viewer) -> dict[str, list[str]]:
    return {row[0]: row for row in panel(viewer, "servers")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of three servers, one of which does not reply any more; `shop` is connected."""
    scenario = Scenario(streams=2, consumers=2)
    records = [
        *scenario.beginning(), *scenario.records(0, 10), servers(10), connections(10),
        *scenario.records(10, 20), servers(20, NAMES[:2]), *scenario.records(20, 30),
    ]  # fmt: skip
    return made(tmp_path_factory.mktemp("sessions"), records)


async def recorded(sessions: Path) -> Path:
    with Cluster() as lab:
        urls = [as_user(url, "app") for url in lab.urls]
        nc = await nats.connect(urls[0], name="shop-of-ann")
        await nc.jetstream().add_stream(name="S", subjects=["s"], num_replicas=3)
        with recorder(sessions, ",".join(urls)) as folder:
            await readings(folder, {"n1", "n2", "n3"})
            lab.node("n3").kill()
            await readings(folder, {"n1", "n2"})
        await nc.close()
    assert verify(folder).findings == ()
    return folder


async def test_a_replay_has_the_servers_and_connections_of_then(folder: Path) -> None:
    await replays(folder, "shop", "ann", "10.0.0.9:")


def test_a_shared_recording_names_no_server_client_user_or_address(
    folder: Path, tmp_path: Path
) -> None:
    names_nobody(folder, tmp_path, b'"shop"', b"10.0.0.9", b'"ann"')


@pytest.mark.cluster
@pytest.mark.long
async def test_a_cluster_that_was_recorded_is_replayed_and_shared_without_its_names(
    tmp_path: Path,
) -> None:
    """One of three servers is killed while client `shop-of-ann` is connected."""
    folder = await recorded(tmp_path / "sessions")
    await replays(folder, "shop-of-ann", "app", "127.0.0.1:")
    names_nobody(folder, tmp_path, b"shop-of-ann", b"127.0.0.1", b'"app"')


async def replays(folder: Path, client: str, user: str, address: str) -> None:
    async with replaying(folder, first="overview", size=(200, 50)) as viewer:
        await viewer.type_command("seek +600s")
        await viewer.until(lambda: "down" in servers_of(viewer).get("n3", [""] * 2)[1], "n3 down")
        rows = servers_of(viewer)
        assert rows.keys() == {"n1", "n2", "n3"} and "4 Servers 3" in viewer.words
        await viewer.press("4")
        await viewer.until(lambda: viewer.rows().keys() == {"n1", "n2", "n3"}, "the servers")
        rows_of = viewer.rows()
        assert rows_of["n3"]["meta"].startswith("down")
        for name in ("n1", "n2"):
            row = rows_of[name]
            assert row["cluster"] == "LAB" and row["version"] and row["memory"] not in ("", "–")
            assert "B" in row["file"] and row["uptime"] not in ("", "–")
        assert "data from the system account" in viewer.words
        # The panel below has its height a moment after the table.
        await viewer.until(lambda: "META GROUP" in viewer.words, "the meta group")
        assert "3 members" in viewer.words
        assert "ACCOUNTS" in viewer.words
        await viewer.press("6")
        await viewer.until(lambda: client in viewer.rows(), "the connections")
        row = viewer.rows()[client]
        assert row["user"] == user and row["state"] == "open"
        at = list(viewer.rows()).index(client)
        await viewer.press(*["down"] * at, "enter")
        await viewer.until(lambda: "ITS CONSUMERS" in viewer.words, "the connection")
        assert "asking" not in viewer.words and address in viewer.words
        await viewer.press("escape")
        offered = {active.binding.id for active in viewer.app.screen.active_bindings.values()}
        assert "filter" in offered and "connections.closed" not in offered, "it has none"


def names_nobody(folder: Path, tmp_path: Path, *names: bytes) -> None:
    """Assert that none of these names, and none of a server, is in what is shared."""
    assert pack(folder, tmp_path / "shared.tar", redact=True, progress=lambda done, of: None)
    shared = unpack(tmp_path / "shared.tar", tmp_path / "shared")
    text = lines_of(shared)
    plain = lines_of(folder)
    for name in (*names, b'"n1"', b"LAB", b'"APP"'):
        assert name in plain and name not in text, name
    assert b'"connections_read"' in text and b'"servers_read"' in text
    assert b'"name":"server-' in text and b'"client-' in text


def lines_of(folder: Path) -> bytes:
    """Return all lines of a recording, inflated."""
    return b"".join(gzip.decompress(file.path.read_bytes()) for file in list_segments(folder))
