"""Servers that die, freeze and come back; readers that stall; parents that are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.managing import Change
from natstui.model.records.record import (
    Advisory,
    LinkChanged,
    Outcome,
    Restored,
    SetInterval,
    Unavailable,
    WriteNote,
)
from tests.cli.processes import wait_until_ended
from tests.engine.engine_process import EngineProcess

pytestmark = pytest.mark.server

NOTICED_S = 30
RECOVERED_S = 30
"""2 s are promised, and measured by `benchmarks.engine_faults`; the rest is for busy machines."""


@pytest.fixture
def engine(nats_server: Broker) -> Iterator[EngineProcess]:
    with EngineProcess("--server", nats_server.url) as engine:
        engine.next(Snapshot)
        yield engine


def test_a_server_that_comes_or_freezes_is_noticed_and_its_thaw_too(
    tmp_path: Path, held_port: int
) -> None:
    with EngineProcess("--server", f"nats://127.0.0.1:{held_port}") as engine:
        a_server_that_is_not_there_is_told(engine, f"127.0.0.1:{held_port}")
        with Broker(store=tmp_path / "late", port=held_port) as nats_server:
            engine.next(Snapshot)
            a_frozen_server_is_noticed_and_its_thaw_too(engine, nats_server)
            it_ends_with_its_viewer_while_a_change_waits_for_a_hung_server(engine, nats_server)


def a_server_that_is_not_there_is_told(engine: EngineProcess, address: str) -> None:
    failed = engine.next(LinkChanged, lambda change: change.state == "failed")
    assert failed.reason is not None and address in failed.reason


@pytest.mark.long
def test_a_server_that_is_killed_or_frozen_for_long_is_noticed_and_its_return_too(
    engine: EngineProcess, nats_server: Broker
) -> None:
    a_server_frozen_for_long_is_polled_again_when_it_thaws(engine, nats_server)
    a_killed_server_is_noticed_and_its_return_too(engine, nats_server)


def a_killed_server_is_noticed_and_its_return_too(
    engine: EngineProcess, nats_server: Broker
) -> None:
    nats_server.kill()
    lost = engine.next(LinkChanged, lambda change: change.state != "connected", s=NOTICED_S)
    assert lost.state == "reconnecting" and lost.reason
    time.sleep(2)
    engine.waiting()
    nats_server.start()
    engine.next(LinkChanged, lambda change: change.state == "connected", s=RECOVERED_S)
    engine.next(Snapshot, s=RECOVERED_S)


def a_frozen_server_is_noticed_and_its_thaw_too(
    engine: EngineProcess, nats_server: Broker
) -> None:
    nats_server.freeze()
    silent = engine.next(Unavailable, s=NOTICED_S)
    assert silent.what == "INFO" and "no reply" in silent.reason
    nats_server.thaw()
    engine.next(Snapshot, s=RECOVERED_S)
    assert any(isinstance(r, Restored) and r.what == "INFO" for r in engine.records)


def a_server_frozen_for_long_is_polled_again_when_it_thaws(
    engine: EngineProcess, nats_server: Broker
) -> None:
    nats_server.freeze()
    engine.next(LinkChanged, lambda change: change.state == "reconnecting", s=40)
    time.sleep(1)
    engine.waiting()
    nats_server.thaw()
    engine.next(Snapshot, s=RECOVERED_S)


@pytest.mark.long
async def test_a_stalled_reader_misses_snapshots_and_nothing_else(
    engine: EngineProcess, nats_server: Broker
) -> None:
    nc = await nats.connect(nats_server.url, connect_timeout=5)
    js = nc.jetstream()
    for number in range(100):
        await js.add_stream(name=f"S{number}", subjects=[f"s{number}"], storage="memory")
    engine.send(SetInterval(command_id=0, interval_s=0.2))
    engine.next(Snapshot, lambda snapshot: len(snapshot.streams.name) == 100)
    engine.stall()
    engine.waiting()
    for number in range(30):
        await js.add_stream(name=f"LATE{number}", subjects=[f"late{number}"], storage="memory")
        engine.send(WriteNote(command_id=number + 1, text=f"note {number}"))
        await asyncio.sleep(0.2)
    await nc.close()
    engine.go_on()
    engine.next(Snapshot, lambda snapshot: len(snapshot.streams.name) == 130)
    outcomes = [r.command_id for r in engine.records if isinstance(r, Outcome)]
    assert outcomes == list(range(31))
    created = [r.stream for r in engine.records if isinstance(r, Advisory)]
    assert created[-30:] == [f"LATE{number}" for number in range(30)]
    counts = [len(r.streams.name) for r in engine.records if isinstance(r, Snapshot)]
    seen_meanwhile = [count for count in counts if 100 < count < 130]
    assert len(seen_meanwhile) < 18


def test_it_ends_with_a_killed_parent(nats_server: Broker) -> None:
    code = (
        "import subprocess, sys, time\n"
        "engine = subprocess.Popen([sys.executable, '-m', 'natstui', 'engine', '--server',"
        f" {nats_server.url!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "engine.stdout.readline(); print(engine.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    engine_pid = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until_ended(engine_pid)


def it_ends_with_its_viewer_while_a_change_waits_for_a_hung_server(
    engine: EngineProcess, nats_server: Broker
) -> None:
    config = json.dumps({"name": "S", "subjects": ["s"]})
    nats_server.freeze()
    try:
        # The reply to the note says that the change was begun before it.
        engine.send(Change(1, "create_stream", "S", None, config), WriteNote(2, "after it"))
        engine.next(Outcome, lambda outcome: outcome.command_id == 2)
        assert engine.process.stdin is not None
        engine.process.stdin.close()
        engine.process.wait(30)
    finally:
        nats_server.thaw()
