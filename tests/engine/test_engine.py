"""The engine process: its first line, its data, its commands and its end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import suppress

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import (
    Configured,
    Describe,
    EngineStarted,
    LinkChanged,
    Noted,
    Outcome,
    PollNow,
    SetInterval,
    SetPolling,
    WriteNote,
)
from tests.engine.engine_process import EngineProcess

pytestmark = pytest.mark.server


@pytest.fixture
def engine(nats_server: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineProcess]:
    monkeypatch.setenv("NATSTUI_MONITOR_INTERVAL_S", "0.5")
    with EngineProcess("--server", nats_server.url) as engine:
        yield engine


async def _make_stream(url: str, name: str = "S") -> None:
    nc = await nats.connect(url, connect_timeout=5)
    await nc.jetstream().add_stream(name=name, subjects=[name.lower()])
    await nc.jetstream().publish(name.lower(), b"x")
    await nc.close()


async def test_it_polls_and_does_what_it_is_told_until_it_is_told_to_end(
    engine: EngineProcess, nats_server: Broker
) -> None:
    the_first_line_says_who_it_is_and_then_come_link_and_data(engine, nats_server)
    what_is_missing_cannot_be_described(engine)
    await a_new_stream_is_told_with_its_configuration_and_described(engine, nats_server)
    a_note_comes_back_with_its_outcome(engine)
    polling_pauses_resumes_and_changes_its_rhythm(engine)
    engine.process.send_signal(signal.SIGTERM)
    assert engine.process.wait(30) == 0


def the_first_line_says_who_it_is_and_then_come_link_and_data(
    engine: EngineProcess, nats_server: Broker
) -> None:
    started = engine.next(EngineStarted)
    assert started.target == nats_server.url.removeprefix("nats://")
    assert engine.next(LinkChanged).state == "connecting"
    assert engine.next(LinkChanged).state == "connected"
    snapshot = engine.next(Snapshot)
    assert snapshot.account is not None
    assert snapshot.streams_complete and snapshot.consumers_complete


async def a_new_stream_is_told_with_its_configuration_and_described(
    engine: EngineProcess, nats_server: Broker
) -> None:
    await _make_stream(nats_server.url)
    assert [stream.name for stream in engine.next(Configured).streams] == ["S"]
    snapshot = engine.next(Snapshot)
    assert snapshot.streams.name == ("S",) and snapshot.streams.stored_msgs == (1,)
    engine.send(Describe(command_id=5, stream="S", consumer=None))
    outcome = engine.next(Outcome)
    assert (outcome.command_id, outcome.status) == (5, "done")
    assert outcome.body_json is not None
    assert json.loads(outcome.body_json)["config"]["subjects"] == ["s"]


def what_is_missing_cannot_be_described(engine: EngineProcess) -> None:
    engine.next(Snapshot)
    engine.send(Describe(command_id=1, stream="S", consumer="C"))
    outcome = engine.next(Outcome)
    assert outcome.status == "failed" and "not found" in outcome.text


def a_note_comes_back_with_its_outcome(engine: EngineProcess) -> None:
    engine.send(WriteNote(command_id=2, text="deploy"))
    assert engine.next(Noted).text == "deploy"
    assert engine.next(Outcome).status == "done"


def polling_pauses_resumes_and_changes_its_rhythm(engine: EngineProcess) -> None:
    engine.next(Snapshot)
    engine.send(SetPolling(command_id=1, on=False))
    engine.next(Outcome)
    # One that was under way may still come.
    with suppress(AssertionError):
        engine.next(Snapshot, s=1)
    with pytest.raises(AssertionError, match="no Snapshot"):
        engine.next(Snapshot, s=1)
    engine.send(PollNow(command_id=2))
    engine.next(Snapshot)
    engine.send(SetPolling(command_id=3, on=True))
    engine.send(SetInterval(command_id=4, interval_s=0.25))
    engine.next(Outcome, lambda outcome: outcome.command_id == 4)
    assert engine.next(Snapshot, lambda s: s.cost.interval_us == 250_000)
