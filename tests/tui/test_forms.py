"""Streams and consumers made, changed, deleted and brought back with keys alone, at 80×24."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input, Static

from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.managing import Change, ReadNamesInUse
from natstui.model.records.messages import Answered, BrowseMessages, MessagePage, StoredMessage
from natstui.model.records.record import Noted
from natstui.tui.consumers.form import ConsumerForm, new_consumer_asset
from natstui.tui.consumers.screen import ConsumersScreen
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.columns import SortAndFilter
from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.frame.selection import CreatedRow
from natstui.tui.frame.systems import key_without_system
from natstui.tui.kit.fields import Choice, FieldRow, FormSection, SectionTitle
from natstui.tui.managing.action import ActionScreen
from natstui.tui.managing.journal import JournalScreen
from natstui.tui.messages.pull import PullScreen
from natstui.tui.messages.screen import MessagesScreen
from natstui.tui.streams.screen import StreamsScreen
from tests.model.builders import snapshot
from tests.tui.engine_records import BORN_US, engine_records
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.viewer import AT_ONCE_S, Viewer, fed, viewing

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("forms")]

S = 1_000_000_000
SMALL = (80, 24)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


async def go_to(viewer: Viewer, path: str) -> FieldRow:
    """Move down with the down arrow, opening sections on the way, until a field has the keys."""
    for _ in range(120):
        focused = viewer.app.focused
        row = focused.parent if focused is not None else None
        if isinstance(row, FieldRow) and row.field.path == path:
            return row
        if isinstance(focused, SectionTitle) and not focused.open:
            await viewer.press("enter")
        viewer.send("down")
        await viewer.until(
            lambda focused=focused: viewer.app.focused is not focused,  # type: ignore[misc]
            f"down leads on from {focused}",
            every_s=AT_ONCE_S,
        )
    raise AssertionError(f"no way to {path}\n{viewer.text}")


async def jump_to(viewer: Viewer, path: str) -> FieldRow:
    """Open the section of a field and give it the keys: quicker than walking there."""
    for section in viewer.app.screen.query(FormSection):
        for row in section.rows:
            if row.field.path == path:
                await section.set_open(True)
                row.editor.focus(scroll_visible=False)
                return row
    raise AssertionError(f"no field {path}")


def form(viewer: Viewer) -> FormScreen:
    assert isinstance(viewer.app.screen, FormScreen), viewer.text
    return viewer.app.screen


def toasts(viewer: Viewer) -> str:
    return "\n".join(viewer.toasts)


async def fill(viewer: Viewer, walking: bool = False, **texts: str) -> None:
    for path, text in texts.items():
        row = await go_to(viewer, path) if walking else await jump_to(viewer, path)
        if isinstance(row.editor, Choice):
            for _ in range(8):
                if (before := row.text) == text:
                    break
                viewer.send("right")
                await viewer.until(
                    lambda row=row, before=before: row.text != before,  # type: ignore[misc]
                    f"right leads on from {before}",
                    every_s=AT_ONCE_S,
                )
        else:
            await viewer.press("ctrl+u")
            await viewer.type(text)
        assert row.text == text


async def on_form(viewer: Viewer) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, FormScreen), "the form")
    await viewer.until(lambda: viewer.app.focused is not None)


async def on_streams(viewer: Viewer) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, StreamsScreen), "the streams")


REQUESTS = {
    "name": "REQUESTS", "subjects": "users.requests", "storage": "memory",
    "retention": "workqueue", "max_age": "5s", "discard": "new", "num_replicas": "3",
    "allow_rollup_hdrs": "no", "deny_delete": "yes", "deny_purge": "no",
}  # fmt: skip


@pytest.mark.long
@pytest.mark.cluster
async def test_request_and_response_streams_are_made_by_keyboard_on_three_servers(
    nats_cluster: Cluster,
) -> None:
    url = nats_cluster.urls[0].replace("nats://", "nats://app:app@")
    async with viewing(url, size=SMALL) as viewer, connected(url) as nc:
        await viewer.press("a")
        await on_form(viewer)
        await fill(viewer, walking=True, **REQUESTS)
        await viewer.press("ctrl+s")
        await on_streams(viewer)
        await viewer.press("a")
        await on_form(viewer)
        await fill(
            viewer,
            name="RESPONSES",
            subjects="users.responses.*",
            storage="memory",
            max_msgs_per_subject="1",
            num_replicas="3",
        )
        await viewer.press("ctrl+s")
        await on_streams(viewer)
        await viewer.until(lambda: {"REQUESTS", "RESPONSES"} <= set(viewer.rows()))
        requests = (await asked(nc, "STREAM.INFO.REQUESTS"))["config"]
        responses = (await asked(nc, "STREAM.INFO.RESPONSES"))["config"]
    wanted = {
        "subjects": ["users.requests"], "storage": "memory", "num_replicas": 3,
        "retention": "workqueue", "discard": "new", "max_age": 5 * S,
        "allow_rollup_hdrs": False, "deny_delete": True, "deny_purge": False,
    }  # fmt: skip
    assert {key: requests[key] for key in wanted} == wanted
    assert responses["subjects"] == ["users.responses.*"]
    assert responses["max_msgs_per_subject"] == 1
    assert responses["num_replicas"] == 3


async def test_the_cursor_goes_to_what_was_made_unless_it_was_moved_meanwhile() -> None:
    def streams(at_s: int, *names: str) -> Snapshot:
        return snapshot(at_s, [{"name": name, "created_at_us": BORN_US} for name in names])

    async with fed(engine_records()[0], streams(1, "A", "C"), size=SMALL) as viewer:
        await viewer.until(lambda: len(viewer.rows()) == 2)
        screen = viewer.table
        assert isinstance(screen, StreamsScreen)
        screen.row_to_find = CreatedRow(("D",), "", screen.table.cursor_key)
        await viewer.feed(streams(2, "A", "C", "D"))
        await viewer.until(
            lambda: key_without_system(screen.table.cursor_key)[0] == "D", "the cursor on D"
        )
        # A row that does not exist yet does not move the cursor from where the user put it.
        screen.row_to_find = CreatedRow(("F",), "", screen.table.cursor_key)
        await viewer.press("home")
        await viewer.feed(streams(3, "A", "C", "D", "F"))
        await viewer.until(lambda: "F" in viewer.rows())
        assert key_without_system(screen.table.cursor_key)[0] == "A"


@on_the_files_loop
async def test_a_new_consumer_is_for_the_newest_stream_until_another_is_typed(
    shared: Shared, tmp_path: Path
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("config:\n  durable_name: c\n  ack_policy: all\n  max_deliver: 4\n")
    async with connected(shared.url) as nc, shared.as_new(SMALL) as viewer:
        for name in ("OLD", "NEW"):
            await asked(nc, f"STREAM.CREATE.{name}", {"name": name, "subjects": [name]})
        await viewer.until(lambda: len(viewer.rows()) == 2, "the streams")
        await viewer.press("2")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumersScreen))
        await viewer.press("a")
        await on_form(viewer)
        assert isinstance(viewer.app.focused, Input)
        assert viewer.app.focused.parent is await jump_to(viewer, "name"), "typing names it"
        # A file fills in the rest.
        await viewer.press("ctrl+l")
        await viewer.type(str(file))
        await viewer.press("enter")
        await viewer.until(lambda: "max_deliver" in flat(viewer), "the file")
        stream = await jump_to(viewer, "stream")
        assert stream.text == "NEW"
        await fill(viewer, stream="NOPE")
        assert "there is no stream NOPE" in viewer.words
        await fill(viewer, stream="O")
        await viewer.until(lambda: stream.editor._suggestion == "OLD", "the name completed")
        await viewer.press("right")
        assert stream.text == "OLD"
        preview = "would deliver none of the stored messages"
        await viewer.until(lambda: preview in flat(viewer), preview)
        await viewer.press("ctrl+s")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumersScreen), "it is made")
        made = (await asked(nc, "CONSUMER.INFO.OLD.c"))["config"]
        assert (made["durable_name"], made["ack_policy"], made["max_deliver"]) == ("c", "all", 4)
        table = viewer.table.table
        await viewer.until(
            lambda: table.cursor_key and key_without_system(table.cursor_key)[:2] == ("OLD", "c"),
            "the cursor on it",
        )


@pytest.mark.long
@on_the_files_loop
async def test_a_stream_is_edited_undone_deleted_and_brought_back(shared: Shared) -> None:
    async with connected(shared.url) as nc, shared.as_new(SMALL) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("e")
        await on_form(viewer)
        await fill(viewer, description="edited", max_age="1h")
        await viewer.press("ctrl+s")
        await on_streams(viewer)
        config = (await asked(nc, "STREAM.INFO.S"))["config"]
        assert (config["description"], config["max_age"]) == ("edited", 3600 * S)
        await viewer.press("u")
        await viewer.until(lambda: "Type S" in viewer.words, "the question")
        await viewer.press("S", "enter")
        await viewer.until(lambda: "edit stream S (takes" in viewer.words, "the undo of the edit")
        before = changes_shown(viewer)
        assert (await asked(nc, "STREAM.INFO.S"))["config"]["max_age"] == 0
        await viewer.press("escape")
        await on_streams(viewer)
        await viewer.press("ctrl+d")
        await viewer.until(lambda: isinstance(viewer.app.screen, ActionScreen))
        await viewer.until(
            lambda: "press enter to confirm" in viewer.words, "what goes is counted"
        )
        await viewer.press("X", "enter")
        await viewer.until(lambda: "Type S to confirm" in viewer.words)
        await viewer.press("backspace", "S", "enter")
        await on_streams(viewer)
        await viewer.until(lambda: "S" not in viewer.rows())
        await viewer.type_command("undo")
        await viewer.until(lambda: "recreate stream S" in viewer.words, "the question")
        await viewer.press("S", "enter")
        await viewer.until(lambda: "stream S recreated" in toasts(viewer))
        assert isinstance(viewer.app.screen, JournalScreen)
        await viewer.until(lambda: changes_shown(viewer) == before + 2, "both are in the journal")
        assert (await asked(nc, "STREAM.INFO.S"))["config"]["subjects"] == ["s.>"]


def changes_shown(viewer: Viewer) -> int:
    """Return how many changes the journal in view says that there were on this server."""
    match = re.search(r"(\d+) changes on this server", viewer.words)
    return int(match[1]) if match is not None else 0


async def opens_what_fits(viewer: Viewer, most_closed: int) -> None:
    """Open the form of a new stream: a section is closed only where it has no room."""
    await viewer.press("a")
    await on_form(viewer)
    fields = form(viewer).fields
    closed = [title for title in fields.query(SectionTitle) if not title.open]
    assert len(closed) <= most_closed
    shown = sum(section.region.height for section in fields.query(FormSection))
    left = fields.size.height - 1 - shown
    for title in closed:
        assert isinstance(section := title.parent, FormSection)
        assert len(section.rows) > left, f"{title.title} would fit"


@pytest.mark.long
async def test_a_form_opens_what_fits_on_a_large_screen_and_scrolls_nothing() -> None:
    async with fed(*engine_records(), size=(120, 40)) as viewer:
        await opens_what_fits(viewer, most_closed=5)
        assert form(viewer).fields.max_scroll_y == 0


async def test_a_form_opens_what_fits_leads_to_a_mistake_and_keeps_what_is_refused() -> None:
    async with fed(*engine_records(), size=SMALL) as viewer:
        await opens_what_fits(viewer, most_closed=8)
        await fill(viewer, max_age="5ms", name="S", storage="memory")
        assert isinstance(viewer.app.focused, Choice)
        await viewer.press("left")
        assert viewer.app.focused.value == "file"
        title = next(title for title in form(viewer).query(SectionTitle) if not title.open)
        title.focus()
        for is_open in (True, False):
            await viewer.press("enter")
            assert title.open is is_open
        await viewer.press("ctrl+y")
        await viewer.until(lambda: "copied the nats command" in toasts(viewer), "it is copied")
        assert viewer.app.clipboard.startswith("nats stream add S ")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "the maximum age is shorter than 100ms" in viewer.words)
        row = viewer.app.focused.parent if viewer.app.focused else None
        assert isinstance(row, FieldRow)
        assert row.field.path == "max_age"
        await viewer.press("ctrl+o")
        await viewer.until(lambda: "What will be sent" in viewer.words, "the preview")
        await viewer.press("escape")
        assert row.text == "5ms"
        await viewer.until(lambda: "What will be sent" not in viewer.words, "the fields again")
        assert not viewer.sent(Change)

        # Nothing is loaded into a form that is being sent.
        await fill(viewer, max_age="5s")
        await viewer.press("ctrl+s", "ctrl+t", "ctrl+l")
        await viewer.until(lambda: viewer.sent(Change), "it is sent")
        assert isinstance(viewer.app.screen, FormScreen), "the reply would drop what is loaded"
        number = viewer.sent(Change)[-1].command_id
        await viewer.feed(Answered(1, number, "failed", "the server refuses it"))
        await viewer.until(lambda: "the server refuses it" in viewer.words, "the reply")
        await viewer.press("ctrl+t")
        await viewer.until(lambda: not isinstance(viewer.app.screen, FormScreen), "the templates")
        await viewer.press("escape", "escape", "down", "enter")
        await on_streams(viewer)


@pytest.mark.long
@on_the_files_loop
async def test_a_change_made_meanwhile_is_shown_and_fields_begin_as_the_server_has_them(
    shared: Shared,
) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        body = {"name": "S", "subjects": ["s.>"], "max_msgs": 7}
        config = (await asked(nc, "STREAM.CREATE.S", body))["config"]
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.pilot.resize_terminal(*SMALL)
        await viewer.press("e")
        await on_form(viewer)
        # Only fields that were seen are made.
        sections = list(viewer.app.screen.query(FormSection))
        rows = list(viewer.app.screen.query(FieldRow))
        opened = [each for each in sections if each.query_one(SectionTitle).open]
        assert rows == [row for each in opened for row in each.rows]
        assert len(rows) < sum(len(section.rows) for section in sections) / 3
        # Somebody else changes what was not yet seen.
        await asked(nc, "STREAM.UPDATE.S", {**config, "max_msgs": 77})
        await fill(viewer, description="mine")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "changed by somebody else" in viewer.words, "the conflict")
        assert "when you opened the form: 7 " in viewer.words
        assert "now: 77" in viewer.words
        await viewer.press("escape")
        assert (await go_to(viewer, "max_msgs")).text == "77"
        assert form(viewer).entries.texts == {"description": "mine"}
        await viewer.press("ctrl+s")
        await on_streams(viewer)
        after = (await asked(nc, "STREAM.INFO.S"))["config"]
        assert (after["description"], after["max_msgs"]) == ("mine", 77)


@pytest.mark.long
@on_the_files_loop
async def test_several_consumers_are_deleted_with_one_confirmation(shared: Shared) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S"})
        for name in ("A", "B", "C"):
            body = {"stream_name": "S", "config": {"durable_name": name}, "action": "create"}
            await asked(nc, f"CONSUMER.CREATE.S.{name}", body)
        await viewer.press("2")
        await viewer.until(lambda: set(viewer.rows()) == {"A", "B", "C"})
        viewer.table.ordering.order = SortAndFilter("name")
        await viewer.press("home", "space", "down", "space", "ctrl+d")
        await viewer.until(lambda: isinstance(viewer.app.screen, ActionScreen))
        await viewer.until(
            lambda: "press enter to confirm" in viewer.words, "what goes is counted"
        )
        await viewer.type("delete 2")
        await viewer.press("enter")
        await viewer.until(lambda: len(viewer.rows()) == 1, "one is left")


async def test_keys_for_the_row_under_the_cursor_ignore_marked_rows() -> None:
    records = engine_records({"A": ("one", "two"), "B": (), "C": ()})
    async with fed(*records, size=SMALL) as viewer:
        await viewer.until(lambda: set(viewer.rows()) == {"A", "B", "C"}, "the streams")
        viewer.table.ordering.change(SortAndFilter("name"))
        await viewer.press("home", "space", "end", "e")
        await viewer.until(lambda: isinstance(viewer.app.screen, FormScreen), "the form")
        assert form(viewer).entries.draft.config["name"] == "C"
        await viewer.press("escape", "2")
        await viewer.until(lambda: set(viewer.rows()) == {"one", "two"}, "the consumers")
        viewer.table.ordering.change(SortAndFilter("name"))
        await viewer.press("home", "space", "end", "N")
        await viewer.until(lambda: isinstance(viewer.app.screen, PullScreen), "the pull screen")
        screen = viewer.app.screen
        assert isinstance(screen, PullScreen)
        assert screen.asset() == Target("A", "two")


async def test_read_only_greys_the_keys_opens_no_form_and_says_what_it_refuses() -> None:
    async with fed(*engine_records({"S": ("C",)}, read_only=True), size=SMALL) as viewer:
        await viewer.until(lambda: not viewer.app.screen.active_bindings["a"].enabled, "grey")
        await viewer.press("a")
        await viewer.type_command("add")
        await viewer.until(lambda: "read-only: nothing is changed" in toasts(viewer))
        assert isinstance(viewer.app.screen, StreamsScreen)
        await viewer.press("x")
        await viewer.until(lambda: len(viewer.app.screen_stack) == 2, "the actions")
        assert "read-only" in viewer.text
        await viewer.press("escape", "m")
        await viewer.until(lambda: isinstance(viewer.app.screen, MessagesScreen), "messages")
        await viewer.until(lambda: viewer.sent(BrowseMessages), "what is asked")
        number = viewer.sent(BrowseMessages)[-1].command_id
        page = MessagePage("S", (StoredMessage(1, "s", 1, (), "eA==", 1),), 1, 1, None, None)
        body = msgspec.json.encode(page).decode()
        await viewer.feed(Answered(1, number, "done", "a page", body))
        await viewer.until(lambda: "1…1 of 1…1" in viewer.words, "the page")
        keys = viewer.app.screen.active_bindings
        assert not any(keys[key].enabled for key in ("w", "x", "N", "ctrl+d"))


async def test_what_the_user_may_not_do_is_greyed(
    nats_server_factory: Callable[..., Broker],
) -> None:
    allowed = '"$JS.API.INFO", "$JS.API.*.LIST", "$JS.API.*.LIST.*", "$JS.API.STREAM.UPDATE.S"'
    config = f"""
    authorization {{ users: [
        {{ user: all, password: b }}
        {{ user: a, password: b, permissions: {{
            publish: {{ allow: [{allowed}, "$JS.API.STREAM.INFO.*", "$SYS.REQ.USER.INFO"] }}
        }} }}
    ] }}
    """
    server = nats_server_factory(config)
    url = server.url.replace("nats://", "nats://a:b@")
    async with connected(server.url.replace("nats://", "nats://all:b@")) as nc:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    async with viewing(url, size=SMALL) as viewer:
        await viewer.until(lambda: not viewer.app.screen.active_bindings["a"].enabled, "grey")
        await viewer.until(lambda: "S" in viewer.rows())
        keys = viewer.app.screen.active_bindings
        assert keys["e"].enabled
        assert not keys["ctrl+d"].enabled


def flat(viewer: Viewer) -> str:
    """The preview on one line, however it is wrapped."""
    plan = viewer.app.screen.query_one("#plan", Static)
    return " ".join(str(plan.visual).split())


@on_the_files_loop
async def test_a_template_fills_the_form_and_a_clone_takes_everything_over(
    shared: Shared,
) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        await viewer.press("a")
        await on_form(viewer)
        await fill(viewer, name="TABLE")
        await viewer.press("ctrl+t")
        await viewer.until(lambda: "last value per key" in viewer.words, "the templates")
        await viewer.press("down", "down", "j", "j", "enter")
        await viewer.until(lambda: "max_msgs_per_subject" in flat(viewer), "the template")
        # It leaves what was typed.
        assert form(viewer).entries.draft.config["name"] == "TABLE"
        assert (await jump_to(viewer, "name")).text == "TABLE"
        await fill(viewer, subjects="table.>")
        await viewer.press("ctrl+s")
        await on_streams(viewer)
        await viewer.until(lambda: "TABLE" in viewer.rows())
        made = (await asked(nc, "STREAM.INFO.TABLE"))["config"]
        assert (made["max_msgs_per_subject"], made["allow_rollup_hdrs"]) == (1, True)
        await viewer.press("A")
        await on_form(viewer)
        await fill(viewer, name="COPY", subjects="copy.>")
        await viewer.press("ctrl+s")
        await on_streams(viewer)
        table = viewer.table.table
        await viewer.until(
            lambda: key_without_system(table.cursor_key)[0] == "COPY", "the cursor on it"
        )
        copied = (await asked(nc, "STREAM.INFO.COPY"))["config"]
        assert {**copied, "name": "", "subjects": []} == {**made, "name": "", "subjects": []}


PULLED = {
    "name": "C", "durable_name": "yes", "description": "by keys alone", "filter_subjects": "s.a",
    "ack_policy": "explicit", "metadata": "team=a", "deliver_policy": "by_start_sequence",
    "opt_start_seq": "2", "replay_policy": "original", "ack_wait": "45s", "max_deliver": "7",
    "backoff": "1s, 5s", "max_ack_pending": "33", "headers_only": "yes", "sample_freq": "50",
    "max_waiting": "9", "max_batch": "10", "max_expires": "20s", "max_bytes": "1MB",
    "priority_policy": "pinned_client", "priority_groups": "A", "priority_timeout": "30s",
    "inactive_threshold": "1h", "num_replicas": "1", "mem_storage": "yes",
}  # fmt: skip


@pytest.mark.long
@on_the_files_loop
async def test_every_section_of_a_consumer_is_filled_in_by_keys_alone_and_kept_by_an_edit(
    shared: Shared,
) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new(SMALL) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        await viewer.until(lambda: "S" in viewer.rows())
        await viewer.press("enter", "a")
        await on_form(viewer)
        await fill(viewer, walking=True, **PULLED)
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "C" in viewer.rows(), "the consumer")
        made = (await asked(nc, "CONSUMER.INFO.S.C"))["config"]
        wanted = {
            "durable_name": "C", "description": "by keys alone",
            "deliver_policy": "by_start_sequence", "opt_start_seq": 2,
            "replay_policy": "original", "max_deliver": 7, "backoff": [S, 5 * S],
            "max_ack_pending": 33, "headers_only": True, "sample_freq": "50", "max_waiting": 9,
            "max_batch": 10, "max_expires": 20 * S, "max_bytes": 1 << 20,
            "priority_policy": "pinned_client", "priority_groups": ["A"],
            "priority_timeout": 30 * S, "inactive_threshold": 3600 * S, "num_replicas": 1,
            "mem_storage": True,
        }  # fmt: skip
        assert {key: made.get(key) for key in wanted} == wanted
        assert (made.get("filter_subjects") or [made.get("filter_subject")]) == ["s.a"]
        assert made["metadata"]["team"] == "a"
        # Its priority groups and all the rest are kept by an edit of something else.
        await viewer.press("e")
        await on_form(viewer)
        await fill(viewer, description="edited")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: not isinstance(viewer.app.screen, FormScreen), "it is sent")
        after = (await asked(nc, "CONSUMER.INFO.S.C"))["config"]
        assert after == {**made, "description": "edited"}


async def test_a_late_reply_of_the_stream_before_warns_of_no_consumer_of_another() -> None:
    async with fed(*engine_records({"ALPHA": (), "BETA": ()}), size=SMALL) as viewer:
        await viewer.until(lambda: "BETA" in viewer.rows(), "the streams")
        config = viewer.app.parts.engines.state.stream_configurations["ALPHA"].config_json
        form = ConsumerForm(new_consumer_asset("ALPHA", config))
        await viewer.app.push_screen(form)
        await viewer.until(lambda: viewer.sent(ReadNamesInUse), "its names are read")
        await viewer.settle()
        form.put("stream", "BETA")
        await viewer.until(
            lambda: viewer.sent(ReadNamesInUse)[-1].stream == "BETA", "those of the other"
        )
        # A field that is drawn late requests those of the first stream twice.
        *_, alpha, beta = viewer.sent(ReadNamesInUse)
        for command, name in ((beta, "of-beta"), (alpha, "of-alpha")):
            body = json.dumps({"consumer_filters": {name: []}})
            await viewer.feed(Answered(1, command.command_id, "done", "", body))
        await viewer.feed(Noted(2, "after them"))
        await viewer.until(lambda: form.entries.in_use.consumer_filters, "the reply")
        await viewer.settle()
        assert list(form.entries.in_use.consumer_filters) == ["of-beta"]
