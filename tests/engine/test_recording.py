"""The engine records on demand, and what was recorded is what the viewer was told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.model.assets.monitor_keys import PREFIX
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.finding import Entity
from natstui.model.findings.recorded import make_open_findings
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.record import LinkChanged, Noted, Outcome, WriteNote
from natstui.model.records.recording import RecordingChanged, StartRecording, StopRecording
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify
from natstui.units import bytes_text
from tests.engine.engine_process import EngineProcess
from tests.session.test_seek import facts, replayed

pytestmark = pytest.mark.server

SECRET = "no-one-shall-see-this"


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path / "sessions"))
    monkeypatch.setenv("NATSTUI_MONITOR_INTERVAL_S", "0.5")
    return tmp_path / "sessions"


@pytest.fixture
def engine(nats_server_factory: Callable[..., Broker], sessions: Path) -> Iterator[EngineProcess]:
    server = nats_server_factory(f"authorization {{ user: me, password: {SECRET} }}")
    url = server.url.replace("nats://", f"nats://me:{SECRET}@")
    asyncio.run(have_few(url))
    with EngineProcess("--server", url) as engine:
        yield engine


async def have_few(url: str) -> None:
    """Make what is wrong at once: a stream with fewer messages than its threshold."""
    nc = await nats.connect(url)
    metadata = {f"{PREFIX}msgs-warn": "5"}
    await nc.jetstream().add_stream(name="S", subjects=["s"], metadata=metadata)
    await nc.jetstream().publish("s", b"one")
    await nc.close()


def wrong_state(engine: EngineProcess) -> State:
    """Return the state of a viewer that has noticed what is wrong."""
    state, judged_count = State(), 0
    while not found(state):
        for record in engine.records[judged_count:]:
            state = apply_and_evaluate(state, record)
            judged_count += 1
        engine.next(Snapshot)
    return state


def test_a_recording_begins_and_ends_on_demand_and_with_the_viewer(
    engine: EngineProcess, sessions: Path
) -> None:
    before = wrong_state(engine)
    known = make_open_findings(before.findings, before.now_at_us)
    engine.next(Snapshot)
    engine.send(StartRecording(command_id=1, name="incident", findings=known))
    began = engine.next(RecordingChanged)
    assert began.on and began.folder is not None and began.folder.startswith(str(sessions))
    assert engine.next(Outcome, lambda it: it.command_id == 1).status == "done"
    engine.send(StartRecording(command_id=2, name="again"))
    assert engine.next(Outcome, lambda it: it.command_id == 2).status == "refused"
    engine.send(WriteNote(command_id=3, text="it got slow"))
    engine.next(Noted)
    engine.next(Snapshot)
    engine.send(StopRecording(command_id=4))
    ended = engine.next(RecordingChanged, lambda it: not it.on)
    assert ended.reason is None and ended.size_bytes
    stopped = engine.next(Outcome, lambda it: it.command_id == 4)
    assert stopped.status == "done"
    assert stopped.text == f"recorded {bytes_text(ended.size_bytes)} into {began.folder}"
    recording = Recording(Path(began.folder))
    records = list(recording.records())
    assert [record.text for record in records if isinstance(record, Noted)] == ["it got slow"]
    links = [record for record in records if isinstance(record, LinkChanged)]
    assert links and links[0].state == "connected", "what was known before stands at its beginning"
    # What was wrong before is wrong in it, since then.
    polls = [record.taken_at_us for record in records if isinstance(record, Snapshot)]
    for at_us in (polls[0], polls[-1]):
        assert found(replayed(recording, at_us)) == found(before)
    assert verify(Path(began.folder)).findings == ()
    everything = "".join(map(str, records)) + (Path(began.folder) / "session.json").read_text()
    assert SECRET not in everything
    engine.send(StartRecording(command_id=5, name=""))
    folder = engine.next(RecordingChanged, lambda it: it.on).folder
    assert folder is not None
    engine.next(Snapshot)
    assert engine.process.stdin is not None
    engine.process.stdin.close()
    assert engine.process.wait(30) == 0
    assert verify(Path(folder)).findings == ()


def found(state: State) -> set[tuple[str, Entity, int]]:
    """Return what is told of a state, and since when."""
    return {
        (one.kind.code, one.entity, one.since_us) for one in state.findings.list_open_findings()
    }


@pytest.mark.long
def test_a_moment_replayed_is_the_state_the_viewer_had(
    nats_server: Broker, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From the start, so that the recording saw all that the viewer saw.
    monkeypatch.setenv("NATSTUI_SESSION_RECORD", "true")
    with EngineProcess("--server", nats_server.url) as engine:
        folder = engine.next(RecordingChanged).folder
        assert folder is not None
        for _ in range(4):
            engine.next(Snapshot)
        engine.send(WriteNote(command_id=2, text="here"))
        engine.next(Outcome, lambda it: it.command_id == 2)
        engine.send(StopRecording(command_id=3))
        engine.next(RecordingChanged, lambda it: not it.on)
        assert engine.process.stdin is not None
        engine.process.stdin.close()
        assert engine.process.wait(30) == 0
    note = next(record for record in engine.records if isinstance(record, Noted))
    seen = engine.records[: engine.records.index(note) + 1]
    live_state, state = State(), replayed(Recording(Path(folder)), note.at_us)
    for record in seen:
        live_state = apply_and_evaluate(live_state, record)
    live, again = facts(live_state), facts(state)
    # What may yet become a finding is known to the judge alone, which a replay does without.
    # Servers and clients are read every few seconds: only what follows from it is recorded.
    for name in live.keys() - {"recording", "findings", "servers", "clients"}:
        assert again[name] == live[name], name
    assert found(state) == found(live_state) != set()
