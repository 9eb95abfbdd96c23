"""A question comes back, with the text and the reason, when the engine refuses its answer."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input

from natstui.model.records.messages import (
    Answered,
    AnswerMessage,
    PulledMessage,
    PullNext,
    StoredMessage,
)
from natstui.session.files.folder import folder_name
from natstui.session.files.info import read_info
from natstui.session.library import list_session_folders
from natstui.tui.kit.prompt import Prompt
from natstui.tui.messages import screen as messages_screen
from natstui.tui.messages.pull import PullScreen
from tests.accounts import Account
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.engine_records import engine_records
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.test_forms import SMALL, fill, form, on_form, on_streams, own_state, toasts
from tests.tui.viewer import Viewer, fed, frozen, viewing

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("asked again")]

__all__ = ["own_state"]

WIDE = (160, 40)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only recording of the library."""
    sessions = tmp_path / "sessions"
    scenario = Scenario(streams=2, consumers=2)
    made(sessions, [*scenario.beginning(), *scenario.records(0, 3)])
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(sessions))
    (found,) = list_session_folders(sessions)
    return found


def line(viewer: Viewer) -> Input:
    assert isinstance(viewer.app.screen, Prompt)
    return viewer.app.screen.query_one(Input)


async def answer(viewer: Viewer, text: str, *before: str) -> None:
    """Write into the line that asks after these keys, and enter it."""
    await viewer.press(*before)
    await viewer.until(lambda: isinstance(viewer.app.screen, Prompt), "the question")
    line(viewer).value = text
    await viewer.press("enter")


async def comes_back(viewer: Viewer, text: str, reason: str) -> None:
    def asks_again() -> bool:
        screen = viewer.app.screen
        return isinstance(screen, Prompt) and reason in viewer.words

    await viewer.until(asks_again, f"the question again, because {reason!r}")
    assert line(viewer).value == text


async def closed(viewer: Viewer) -> None:
    await viewer.until(lambda: not isinstance(viewer.app.screen, Prompt), "no question")


async def test_what_cannot_be_done_to_a_recording_is_asked_again_and_waits_for_what_is_typed(
    account: Account, folder: Path, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    there.touch()
    folder.with_name(folder_name(read_info(folder).started_at_us, "taken")).mkdir()
    async with viewing(account.url, size=WIDE) as viewer:
        await viewer.type_command("sessions")
        await viewer.until(lambda: "complete" in viewer.text, "the list")
        await answer(viewer, "taken", "e")
        await comes_back(viewer, "taken", "there is already a session")
        assert "New name of" in viewer.words
        await viewer.press("escape")
        assert "Escape again discards it" in viewer.words
        await viewer.press("escape")
        await closed(viewer)
        await viewer.press("w")
        await viewer.until(lambda: "pseudonyms" in viewer.text, "how to pack")
        await answer(viewer, str(there), "down", "enter")
        await comes_back(viewer, str(there), "exists already")
        await viewer.press("e", "d", "enter")
        packed = there.with_name("thereed")
        await viewer.until(packed.exists, "the pack under another name")
        await viewer.until(lambda: "packed into" in toasts(viewer), "it is said")
        packed.unlink()
        viewer.toasts.clear()

        # Meanwhile something else is typed: the question waits.
        await viewer.press("w")
        await viewer.until(lambda: "pseudonyms" in viewer.text, "how to pack")
        with frozen(viewer):
            await answer(viewer, str(there), "enter")
            await viewer.press("1", "a")
            await on_form(viewer)
            await fill(viewer, name="TY")
        await viewer.until(lambda: "exists already" in toasts(viewer), "the reason at once")
        await viewer.press("P")
        assert form(viewer).entries.texts == {"name": "TYP"}
        await viewer.press("escape", "down", "enter")
        await comes_back(viewer, str(there), "exists already")
        await viewer.press("escape", "escape")
        await on_streams(viewer)


@on_the_files_loop
async def test_the_folder_of_an_export_is_asked_again(shared: Shared, tmp_path: Path) -> None:
    full = tmp_path / "full"
    (full / "of").mkdir(parents=True)
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for number in range(7):
            await nc.request("s", b"x" * number, timeout=20)
        await viewer.becomes("S", msgs="7")
        await viewer.press("E")
        await viewer.until(lambda: "Export 1 stream as it is now" in viewer.words, "the formats")
        assert "spreadsheets" in viewer.text
        await answer(viewer, str(full), "down", "enter")
        await comes_back(viewer, str(full), "is not empty")
        await viewer.type("er")
        await viewer.press("enter")
        await viewer.until(lambda: "exported 1 of stream" in toasts(viewer), "it is said")
        text = (tmp_path / "fuller" / "stream_sample.jsonl").read_text()
        row = json.loads(text.splitlines()[0])
        assert (row["name"], row["stored_msgs"], row["last_seq"]) == ("S", 7, 7), "as picked"


@on_the_files_loop
async def test_the_name_of_a_template_is_asked_again_over_the_form(shared: Shared) -> None:
    async with shared.as_new(SMALL) as viewer:
        await viewer.press("a")
        await on_form(viewer)
        await fill(viewer, name="S")
        await answer(viewer, "a/b", "ctrl+e")
        await comes_back(viewer, "a/b", "'a/b' cannot name a template")
        assert "kept" not in toasts(viewer)
        await answer(viewer, "ab")
        await viewer.until(lambda: "ab.toml" in toasts(viewer), "kept")
        await viewer.press("escape", "down", "enter")
        await on_streams(viewer)


@on_the_files_loop
async def test_a_place_among_messages_is_asked_again_where_it_was_asked(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages_screen, "MIN_PAGE_REREAD_INTERVAL_S", 0.5)
    async with connected(shared.url) as nc, shared.as_new(WIDE) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await nc.request("s", b"found by its time", timeout=20)
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("m")
        await viewer.until(lambda: "found by its time" in viewer.words, "the messages")
        await answer(viewer, "yesterday", "t")
        await comes_back(viewer, "yesterday", "yesterday")
        await answer(viewer, "2026-01-31T12:00:00Z")
        await closed(viewer)
        await viewer.until(lambda: "found by its time" in viewer.words, "from that time on")
        await answer(viewer, "last year", "t")
        await comes_back(viewer, "last year", "last year")
        await viewer.press("escape", "escape")
        await closed(viewer)
        await nc.request("s", b"of the page there is", timeout=20)
        await viewer.until(lambda: "of the page there is" in viewer.words, "kept up with")
        await answer(viewer, "nowhere", "f")
        await comes_back(viewer, "nowhere", "'nowhere' is not in the shown messages")
        await answer(viewer, "found")
        await closed(viewer)
        # On its way while one leaves: the place is of no use any more.
        with frozen(viewer):
            await answer(viewer, "tomorrow", "t")
            await viewer.press("escape")
            await on_streams(viewer)
        await nc.request("s", b"another", timeout=20)
        # The engine goes on, and has replied to what came before.
        await viewer.becomes("S", msgs="3")
        await on_streams(viewer)


async def test_no_message_is_answered_before_one_was_pulled() -> None:
    async with fed(*engine_records({"S": ["A"]}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "S" in viewer.rows())
        screen = PullScreen("S", "A")
        await viewer.app.push_screen(screen)
        for key in "aArDit":
            await viewer.press(key)
            assert viewer.app.screen is screen, "nothing is asked"
        how = "no message was pulled yet: enter pulls one"
        await viewer.until(lambda: how in viewer.words, how)
        await viewer.press("enter")
        await viewer.until(lambda: viewer.sent(PullNext), "the pull")
        assert not viewer.sent(AnswerMessage)


async def test_the_reason_of_a_refused_answer_is_asked_again() -> None:
    async with fed(*engine_records({"S": ["A"]}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.app.push_screen(PullScreen("S", "A"))
        await viewer.press("enter")
        await viewer.until(lambda: viewer.sent(PullNext), "a pull")
        none = "no message to deliver now"
        await viewer.feed(Answered(1, viewer.sent(PullNext)[0].command_id, "refused", none))
        await viewer.until(lambda: none in viewer.words, none)
        await viewer.press("enter")
        await viewer.until(lambda: len(viewer.sent(PullNext)) == 2, "the pull")
        pulled = PulledMessage(StoredMessage(1, "s", 1, (), "eA==", 1), "$JS.ACK.x", 1, 1, 0)
        body = msgspec.json.encode(pulled).decode()
        _, pull = viewer.sent(PullNext)
        await viewer.feed(Answered(1, pull.command_id, "done", "pulled", body))
        await viewer.until(lambda: "not acked yet" in viewer.words, "the message")
        for count, (key, text) in enumerate((("t", "a broken order"), ("D", "1m30s")), 1):
            await answer(viewer, text, key)
            await viewer.until(
                lambda count=count: len(viewer.sent(AnswerMessage)) == count, "the answer"
            )
            sent = viewer.sent(AnswerMessage)[-1]
            assert (sent.reason, sent.delay_s) == ((text, None), (None, 90.0))[count - 1]
            reason = "no permission to publish to $JS.ACK.x"
            await viewer.feed(Answered(2, sent.command_id, "failed", reason))
            await comes_back(viewer, text, "permission")
            await viewer.press("escape", "escape")
            await closed(viewer)
