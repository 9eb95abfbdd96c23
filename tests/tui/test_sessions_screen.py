"""Keys of the list of recordings: what they do is in the library afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import msgspec
import pytest
from textual.widgets import Input

from natstui.model.records.analysis import AnalysisProgress, StartAnalysis
from natstui.model.records.copies import FindDroppedMessages
from natstui.model.records.managing import ReadServerIdentity
from natstui.model.records.messages import Answered
from natstui.model.records.recording import ListSessions, SessionSummary
from natstui.session.files.info import read_info
from natstui.session.library import list_session_folders
from natstui.session.read.recording import Recording
from natstui.session.share.pack import unpack
from natstui.tui.app import engine_process
from natstui.tui.bench.runs import RunsScreen
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.managing.journal import JournalScreen
from natstui.tui.messages.dead_letters import DeadLettersScreen
from natstui.tui.sessions.screen import SessionsScreen
from tests.accounts import Account
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.engine_records import engine_records
from tests.tui.test_forms import toasts
from tests.tui.viewer import Viewer, fed, frozen, replaying, viewing

pytestmark = pytest.mark.server


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sessions = tmp_path / "sessions"
    scenario = Scenario(streams=2, consumers=2)
    made(sessions, [*scenario.beginning(), *scenario.records(0, 20)])
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(sessions))
    return sessions


async def listed(viewer: Viewer) -> None:
    await viewer.type_command("sessions")
    await viewer.until(lambda: "complete" in viewer.text, "the list")


async def answer(viewer: Viewer, text: str) -> None:
    """Write into the line that asks, and enter it."""
    await written(viewer, text)
    await viewer.press("enter")


async def written(viewer: Viewer, text: str) -> None:
    """Write into the line that asks."""
    await viewer.until(lambda: isinstance(viewer.app.focused, Input), "a question")
    line = viewer.app.focused
    assert isinstance(line, Input)
    line.value = text


async def test_the_palette_and_keys_rename_note_pack_and_delete_a_recording(
    account: Account, library: Path, tmp_path: Path
) -> None:
    async with viewing(account.url, size=(160, 30)) as viewer:
        await listed(viewer)
        # The palette offers the keys of the screen.
        await viewer.press("ctrl+p")
        await viewer.until(lambda: "rename the recording  ·  key e" in viewer.text)
        # Another key of it is not offered as another command.
        assert viewer.text.count("·  key ?") == 1
        await viewer.type("rename")
        await viewer.until(lambda: "rename the recording  ·  key e" in viewer.text)
        await viewer.press("enter")
        await viewer.until(lambda: "New name of test" in viewer.words, "the question")
        await answer(viewer, "incident 7")
        await viewer.until(lambda: "renamed into" in viewer.said and "incident 7" in viewer.words)
        (folder,) = list_session_folders(library)
        assert read_info(folder).name == "incident 7"
        await viewer.until(lambda: viewer.table.table.cursor_key == (str(folder), folder.name))
        await viewer.press("n")
        await answer(viewer, "the disk was slow")
        await viewer.until(lambda: "noted about" in viewer.said)
        assert read_info(folder).notes == ("the disk was slow",)
        await viewer.until(lambda: "NOTES" in viewer.text and "the disk was" in viewer.words)
        named = {
            b.binding.key for b in viewer.app.screen.active_bindings.values() if b.binding.show
        }
        assert {"A", "e", "n", "w", "ctrl+d"} <= named
        for key in ("w", "ctrl+d"):
            await viewer.press(key, "escape")
            assert folder.exists()
        for keys, file in (("enter",), "whole"), (("down", "enter"), "redacted"):
            await viewer.press("w")
            await viewer.until(lambda: "pseudonyms" in viewer.text, "how to pack")
            await viewer.press(*keys)
            await answer(viewer, str(tmp_path / file))
            await viewer.until((tmp_path / file).exists, "the pack")
        names = {
            file: str(list(Recording(unpack(tmp_path / file, tmp_path / "other")).records()))
            for file in ("whole", "redacted")
        }
        stream = Scenario(streams=2, consumers=2).names[1]
        assert stream in names["whole"] and stream not in names["redacted"]
        await viewer.press("ctrl+d")
        await answer(viewer, "another")
        await viewer.until(lambda: "nothing was changed" in viewer.said)
        assert folder.exists()
        await answer(viewer, "incident 7")
        await viewer.until(lambda: not folder.exists(), "deleted")
        await viewer.until(lambda: not viewer.rows(), "an empty list")


async def test_what_cannot_be_done_to_the_recording_that_is_shown_is_one_sentence(
    library: Path,
) -> None:
    """What else cannot be done, `test_asked_again.py` tests."""
    (folder,) = list_session_folders(library)
    async with replaying(folder, size=(160, 30)) as viewer:
        await listed(viewer)
        await viewer.press("ctrl+d")
        await answer(viewer, "test")
        await viewer.until(lambda: "is shown now" in viewer.said, "refused")
        assert folder.exists()
        await viewer.press("n")
        await answer(viewer, "seen again")
        await viewer.until(lambda: "noted about" in viewer.said)
    assert read_info(folder).notes == ("seen again",)


@asynccontextmanager
async def ticking() -> AsyncIterator[Callable[[], float]]:
    """Tick on the viewer's loop, and tell the longest time in seconds that it stood still."""
    longest_s = 0.0

    async def tick() -> None:
        nonlocal longest_s
        last_s = monotonic()
        while True:
            await asyncio.sleep(0.01)
            now_s = monotonic()
            longest_s, last_s = max(longest_s, now_s - last_s), now_s

    task = asyncio.create_task(tick())
    try:
        yield lambda: longest_s
    finally:
        task.cancel()


@pytest.mark.long
async def test_leaving_a_replay_in_the_middle_of_an_export_does_not_hold_the_viewer_up(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its engine does not end before the export, and is killed after some seconds."""
    # More than a busy machine lets the viewer stand still.
    monkeypatch.setattr(engine_process, "STOP_TIMEOUT_S", 10.0)
    scenario, polls_count = Scenario(streams=300, consumers=2), 150
    made(tmp_path, [*scenario.beginning(), *scenario.records(0, polls_count)])
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path))
    target = tmp_path / "out"
    async with viewing(account.url, size=(160, 30)) as viewer:
        await listed(viewer)
        await viewer.press("enter")
        await viewer.until(lambda: viewer.app.state.replay, "the replay")
        await viewer.type_command("seek +20s")
        await viewer.press("1")
        await viewer.until(lambda: len(viewer.rows()) == 300, "every stream")
        await viewer.press("E")
        await viewer.until(lambda: "spreadsheets" in viewer.text, "the formats")
        await viewer.press("enter")
        await written(viewer, str(target))
        # Nothing that takes time stands between the key and the look at what it does.
        viewer.send("enter")
        # It grows in a folder with another name until it is complete.
        await viewer.until(
            lambda: [*tmp_path.rglob("stream_sample.csv")], "the export", every_s=0.005
        )
        # However quick the machine is: the export is not over when the replay is left.
        with frozen(viewer) as engine:
            assert not target.exists()
            async with ticking() as longest_s:
                await viewer.type_command("live")
                await viewer.until(lambda: "an export is running" in viewer.words, "the prompt")
                await viewer.press("down", "enter")
                await viewer.until(lambda: viewer.app.state.replay is None, "the server again")
                await viewer.until(lambda: engine.poll() is not None, "killed")
                # Waiting for the engine's end would take all of it; a busy machine does not.
                assert longest_s() < engine_process.STOP_TIMEOUT_S
        assert "exported" not in toasts(viewer)


async def test_every_list_says_that_it_loads_until_its_answer_comes() -> None:
    lists = {
        SessionsScreen: "searching recordings",
        RunsScreen: "reading the saved runs",
        JournalScreen: "reading the journal",
        ScenariosScreen: "reading the scenarios",
    }
    async with fed(*engine_records({"S": ()}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "S" in viewer.rows())

        async def says(what: str) -> None:
            await viewer.until(lambda: what in viewer.text, what)
            text = viewer.text
            assert not any(
                empty in text for empty in ("nothing to show", "no recordings", "no messages")
            )

        for screen, said in lists.items():
            await viewer.app.push_screen(screen())
            await says(said)
            await viewer.press("escape")
        await viewer.press("m")
        await says("S  ·  reading")
        await viewer.app.push_screen(given_up := DeadLettersScreen("S", "C"))
        await viewer.until(lambda: viewer.sent(FindDroppedMessages), "it is looked for")
        assert given_up.empty_text(0) == "searching …"
        (command,) = viewer.sent(FindDroppedMessages)
        await viewer.feed(Answered(1, command.command_id, "failed", "no advisory is stored"))
        await viewer.until(lambda: given_up.empty_text(0) == "no advisory is stored", "why not")


async def test_live_leads_from_a_recording_back_to_the_server(library: Path) -> None:
    (folder,) = list_session_folders(library)
    shown = SessionSummary(str(folder), "one", "", "server", 1, 2, 3, 1, 1, 1, 0, 0, "", ())
    async with fed(*engine_records({"HERE": ()}), size=(80, 24)) as viewer:
        await viewer.type_command("sessions")
        await viewer.until(lambda: viewer.sent(ListSessions), "the list is requested")
        (request,) = viewer.sent(ListSessions)
        body = msgspec.json.encode([shown]).decode()
        await viewer.feed(Answered(1, request.command_id, "done", "1 recording", body))
        await viewer.until(lambda: len(viewer.rows()) == 1, "the recording")
        await viewer.press("enter")
        await viewer.until(lambda: viewer.app.state.replay, "the replay")
        assert viewer.app.state.stream_configurations.keys() != {"HERE"}
        await viewer.type_command("live")
        await viewer.until(lambda: viewer.app.state.replay is None, "the server again")
        assert viewer.app.state.stream_configurations.keys() == {"HERE"}
        assert not viewer.app.parts.engines.is_replaying
        await viewer.until(lambda: "HERE" in viewer.words, "its stream")


async def test_a_key_analyses_the_recording_under_the_cursor() -> None:
    session = SessionSummary("/there/one", "one", "", "server", 1, 2, 3, 1, 1, 1, 0, 0, "", ())
    async with fed(*engine_records({}), size=(160, 30)) as viewer:
        await viewer.type_command("sessions")
        await viewer.until(lambda: viewer.sent(ListSessions), "the list is requested")
        (request,) = viewer.sent(ListSessions)
        body = msgspec.json.encode([session]).decode()
        await viewer.feed(Answered(1, request.command_id, "done", "1 recording", body))
        await viewer.until(lambda: len(viewer.rows()) == 1, "the recording")
        await viewer.press("A")
        await viewer.until(lambda: viewer.sent(StartAnalysis), "it begins")
        (start,) = viewer.sent(StartAnalysis)
        assert start.session == "one"
        await viewer.feed(
            AnalysisProgress(1, start.command_id, "one", "starting Spark", 0, 0, 0, 0),
        )
        await viewer.until(lambda: "Analysis  ›  one" in viewer.text, "its analysis")
        # Whoever left it hears how it ended.
        await viewer.press("escape")
        done = Answered(2, start.command_id, "done", "one: nothing stood out", "{}")
        await viewer.feed(done)
        told = "one: nothing stood out; :analyze shows it"
        await viewer.until(lambda: told in viewer.toasts, told)


async def test_sentences_name_the_key_that_the_settings_gave_an_action() -> None:
    keys = {"record": "T", "action.send": "f4", "form.send": "f6"}
    async with fed(*engine_records({"ORDERS": ()}, keys=keys), size=(120, 30)) as viewer:
        await viewer.type_command("sessions")
        await viewer.until(lambda: viewer.sent(ListSessions), "the list is requested")
        (request,) = viewer.sent(ListSessions)
        await viewer.feed(Answered(1, request.command_id, "done", "no recordings", "[]"))
        await viewer.until(lambda: "no recordings: T records what you see" in viewer.words)
        await viewer.press("escape", "x")
        await viewer.until(lambda: "step down" in viewer.words, "the actions")
        await viewer.press("down", "down", "enter")
        await viewer.until(lambda: "f4 does it." in viewer.words, "the key that sends")
        (place,) = viewer.sent(ReadServerIdentity)
        await viewer.feed(Answered(1, place.command_id, "failed", "JetStream is away"))
        await viewer.press("escape")
        await viewer.until(lambda: "does it." not in viewer.words, "the table again")
        await viewer.press("a", "N", "down", "n")
        await viewer.until(lambda: "f6" in viewer.words, "the key of the form")
