"""What was typed is thrown away only when the user said so."""

from __future__ import annotations

import pytest
from textual.widgets import Input, TextArea

from natstui.jetstream.connection.times import time_us
from natstui.tui.app.screens import open_mode
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.messages.publish import PublishScreen
from natstui.tui.streams.detail import StreamDetail
from natstui.tui.streams.screen import StreamsScreen
from tests.tui.engine_records import engine_records
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.test_forms import SMALL, fill, form, jump_to, on_form, on_streams, toasts
from tests.tui.viewer import Viewer, fed, frozen

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("typed text")]


def row(viewer: Viewer, path: str) -> FieldRow:
    return next(one for one in viewer.app.screen.query(FieldRow) if one.field.path == path)


async def asks(viewer: Viewer) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")


@on_the_files_loop
async def test_a_filled_form_and_a_message_are_dropped_only_when_that_is_said(
    shared: Shared,
) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("a")
        await on_form(viewer)
        await fill(viewer, name="HALF", description="long to type")
        for stays in ("escape", "enter"):
            await viewer.press("escape")
            await asks(viewer)
            assert "the new stream HALF is not sent" in viewer.words
            await viewer.press(stays)
            assert form(viewer).entries.texts == {"name": "HALF", "description": "long to type"}
        await viewer.press("ctrl+q")
        await asks(viewer)
        await viewer.press("escape")
        await open_mode(viewer.app, "streams")
        assert form(viewer).entries.texts["name"] == "HALF"
        await viewer.press("escape", "down", "enter")
        await on_streams(viewer)
        await viewer.press("m", "w")
        await viewer.until(lambda: isinstance(viewer.app.screen, PublishScreen))
        viewer.app.screen.set_focus(viewer.app.screen.query_one(TextArea))
        await viewer.type("words")
        await viewer.press("escape")
        await asks(viewer)
        await viewer.press("escape", "ctrl+s")
        await viewer.until(lambda: "stored as 1" in viewer.words)
        await viewer.press("escape")
        assert not isinstance(viewer.app.screen, PublishScreen | PickDialog)


@on_the_files_loop
async def test_the_keys_come_back_to_their_field_and_a_limit_is_typed_over(
    shared: Shared,
) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        made = await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("e")
        await on_form(viewer)
        await jump_to(viewer, "description")
        await viewer.press("a", "ctrl+o", "b", "escape", "c", "ctrl+o", "ctrl+o", "d")
        assert form(viewer).entries.texts == {"description": "acd"}
        assert (await jump_to(viewer, "max_msgs")).text == "unlimited"
        await viewer.press("5")
        assert form(viewer).entries.texts["max_msgs"] == "5"
        await viewer.press("backspace")
        assert "max_msgs" not in form(viewer).entries.texts
        theirs = {**made["config"], "max_msgs": 77, "max_bytes": 1 << 20}
        assert "error" not in await asked(nc, "STREAM.UPDATE.S", theirs)
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "changed by somebody else" in viewer.words, "the conflict")
        await viewer.until(lambda: "now:                77" in viewer.text, "what they made of it")
        assert "when you opened the form: unlimited" in viewer.words
        await viewer.press("escape")
        assert [row(viewer, path).text for path in ("max_msgs", "max_bytes", "description")] == [
            "77",
            "1MB",
            "acd",
        ]
        assert form(viewer).entries.texts == {"description": "acd"}
        await viewer.press("ctrl+s")
        await on_streams(viewer)
        config = (await asked(nc, "STREAM.INFO.S"))["config"]
        assert (config["max_msgs"], config["description"]) == (77, "acd")


@on_the_files_loop
async def test_an_edited_scenario_outlives_the_list_and_an_error(shared: Shared) -> None:
    def editor() -> TextArea:
        return viewer.app.screen.query_one(TextArea)

    async def opened() -> None:
        # As from the form, which costs more than the list.
        await viewer.app.push_screen(ScenariosScreen())
        await viewer.until(lambda: editor().text, "the scenarios")

    async with shared.as_new((120, 40)) as viewer:
        await viewer.press("b")
        await viewer.until(lambda: isinstance(viewer.app.screen, BenchmarkScreen))
        await opened()
        await viewer.press("j", "tab")
        await viewer.type("nonsense")
        edited = editor().text
        assert edited.startswith("nonsense")
        viewer.app.screen.query_one("OptionList").focus()
        await viewer.press("k", "j")
        assert editor().text == edited
        await viewer.press("ctrl+s")
        await viewer.until(lambda: isinstance(viewer.app.screen, BenchmarkScreen))
        await viewer.until(lambda: "as written" in viewer.words, "the error")
        await opened()
        assert editor().text == edited
        assert "edited: ctrl+s runs your text" in viewer.words
    ScenariosScreen.edited_text_by_scenario.clear()


async def test_a_digit_goes_to_the_list_itself() -> None:
    async with fed(*engine_records({"S": ()})) as viewer:
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("d", "y", "1")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamsScreen), "from the raw")
        await viewer.press("d")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamDetail))
        await viewer.press("2")
        await viewer.until(lambda: viewer.app.current_mode == "consumers")
        await viewer.press("1")
        await viewer.until(lambda: viewer.app.current_mode == "streams")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamsScreen), "the list")
        assert "not sent" not in toasts(viewer)


@on_the_files_loop
async def test_text_typed_while_a_form_is_on_its_way_is_neither_sent_unseen_nor_lost(
    shared: Shared,
) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        await viewer.press("a")
        await on_form(viewer)
        await fill(viewer, name="S", description="one")
        await jump_to(viewer, "description")
        with frozen(viewer):
            await viewer.press("ctrl+s", "t")
            assert form(viewer).entries.texts["description"] == "onet"
            # As for a reply to the preview that the engine had sent before.
            form(viewer).update_draft()
            await viewer.settle()
            assert "closing this does not stop it" in viewer.words
        await viewer.until(
            lambda: "changes typed in the meantime are not sent" in toasts(viewer), "it is said"
        )
        assert form(viewer).entries.texts["description"] == "onet"
        created = await asked(nc, "STREAM.INFO.S")
        assert created["config"]["description"] == "one"
        assert form(viewer).entries.asset.created_at_us == time_us(created["created"])
        await viewer.until(lambda: "Edit stream S" in viewer.words, "the form of an edit")
        editor = (await jump_to(viewer, "max_msgs")).editor
        assert isinstance(editor, Input)
        editor.value = "7"
        await viewer.until(lambda: form(viewer).entries.texts.get("max_msgs") == "7", "taken")
        # Not by keys: the engine must not stand still for so long that its requests time out.
        with frozen(viewer):
            await form(viewer).sending.action_send()
            editor.value = "77"
            await viewer.until(lambda: form(viewer).entries.texts["max_msgs"] == "77", "taken")
        await viewer.until(
            lambda: form(viewer).entries.asset.base.get("max_msgs") == 7, "sent", every_s=0
        )
        # The fields are made again while it is sent: what they show then was not typed meanwhile.
        with frozen(viewer):
            await form(viewer).sending.action_send()
            await viewer.until(lambda: not editor.is_attached, "the fields are made again")
            await viewer.settle()
        await on_streams(viewer)
        assert (await asked(nc, "STREAM.INFO.S"))["config"]["max_msgs"] == 77


@on_the_files_loop
async def test_a_prompt_keeps_what_it_refuses_and_drops_it_only_when_told_twice(
    shared: Shared,
) -> None:
    def line() -> Input:
        assert isinstance(viewer.app.screen, Prompt)
        return viewer.app.screen.query_one(Input)

    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await nc.request("s", b"x", timeout=20)
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("m")
        await viewer.until(lambda: "1…1 of 1…1" in viewer.words, "the page")
        await viewer.press("s")
        await viewer.type("12x")
        await viewer.press("enter")
        await viewer.until(lambda: "is not a sequence" in viewer.words, "the reason")
        assert line().value == "12x"
        await viewer.press("escape")
        assert "Escape again discards it" in viewer.words
        assert line().value == "12x"
        await viewer.press("escape")
        await viewer.until(lambda: not isinstance(viewer.app.screen, Prompt), "dropped")
        await viewer.press("escape", "a", "ctrl+l")
        await viewer.type("nofile")
        await viewer.press("enter")
        await viewer.until(lambda: "No such file" in viewer.words, "the reason")
        assert line().value == "nofile"
