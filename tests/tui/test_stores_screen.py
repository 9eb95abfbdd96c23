"""Buckets, keys, revisions and files on a real server, written there with nats-py."""

from __future__ import annotations

from pathlib import Path

import msgspec
import nats
import pytest
from nats.aio.client import Client
from nats.js.kv import KeyValue
from textual.widgets import TextArea

from natstui.model.records.messages import Answered
from natstui.model.records.stores import KeyNames, KeyRow, KeysPage, ReadKeyNames, ReadKeys
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.stores import keys
from natstui.tui.stores.history import HistoryScreen, RevisionScreen
from natstui.tui.stores.keys import MAX_KEYS_WITH_VALUES, KeyRows, KeysScreen
from natstui.tui.stores.put import PutScreen
from tests.tui.engine_records import BORN_US, engine_records
from tests.tui.shared import Shared, on_the_files_loop
from tests.tui.viewer import Viewer, fed, frozen

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("stores")]

SIZE = (120, 40)
HOSTILE = b"evil\x1b]0;title\x07\x1b[31m[bold]\xe2\x80\xaename"


async def bucket(nc: Client, name: str = "CONF", history: int = 5) -> KeyValue:
    return await nc.jetstream().create_key_value(bucket=name, history=history)


async def at_keys(viewer: Viewer, name: str = "CONF") -> None:
    await viewer.until(lambda: f"KV_{name}" in viewer.rows(), "the bucket's stream")
    await viewer.app.push_screen(KeysScreen(name))
    await viewer.settle()


async def edited(viewer: Viewer, value: str) -> None:
    """Wait until a value can be edited; a toast tells its revision sooner."""
    await viewer.until(
        lambda: (
            isinstance(viewer.app.screen, PutScreen)
            and viewer.app.screen.query_one(TextArea).text == value
        ),
        "its value",
    )


async def do_it(viewer: Viewer) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
    await viewer.press("end", "enter")


async def type_name(viewer: Viewer, name: str) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, Prompt), "the name to type")
    await viewer.press(*name, "enter")


@on_the_files_loop
async def test_buckets_are_listed_as_what_they_are(shared: Shared) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        js = nc.jetstream()
        await js.add_stream(name="OTHER", subjects=["other"])
        kv = await js.create_key_value(
            bucket="CONF", history=5, ttl=3600, description="of the shop", max_bytes=1 << 20
        )
        for key in ("a", "a", "b"):
            await kv.put(key, b"x")
        await (await js.create_object_store("FILES")).put("file", b"content")
        await viewer.press("7")
        await viewer.until(lambda: set(viewer.rows()) == {"CONF", "FILES"}, "both, and no other")
        expected = {"kind": "keys", "keys": "2", "values": "3", "history": "5", "ttl": "1h00m",
                    "most": "1.00 MiB", "replicas": "1", "description": "of the shop"}  # fmt: skip
        await viewer.becomes("CONF", **expected)
        assert viewer.rows()["FILES"]["kind"] == "files"
        await viewer.press("home", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, KeysScreen))
        await viewer.press("1")
        await viewer.until(lambda: "OTHER" in viewer.rows())
        await viewer.press("home", "B")
        await viewer.until(lambda: isinstance(viewer.app.screen, KeysScreen), "by B on its stream")
        await viewer.press("1", "end", "B")
        await viewer.until(lambda: "neither a bucket" in viewer.said, "the reason")
        await viewer.type_command("buckets NONE")
        await viewer.until(lambda: "there is no bucket NONE" in viewer.said, "the reason")
        await nc.close()


@on_the_files_loop
async def test_keys_are_shown_with_what_they_hold_and_as_they_change(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "_CHANGE_SHOWN_S", 60.0)
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        await kv.put("app.one", b'{"port":   80}')
        await kv.put("app.two", HOSTILE)
        await kv.put("gone", b"x")
        await kv.delete("gone")
        await at_keys(viewer)
        await viewer.becomes("app.one", value='{"port": 80}', revision="1", operation="PUT")
        await viewer.becomes("gone", value="", operation="DEL", revision="4")
        assert "\x1b" not in viewer.text and "\u202e" not in viewer.text
        await kv.put("app.one", b"after")
        await viewer.becomes("● app.one", value="after", revision="5")
        await kv.put("app.new", b"new")
        await viewer.becomes("● app.new", value="new")
        monkeypatch.setattr(keys, "_CHANGE_SHOWN_S", 0.0)
        await viewer.until(lambda: "app.one" in viewer.rows(), "that it was a moment ago")
        await viewer.press("f")
        await viewer.type("app.*")
        await viewer.press("enter")
        await viewer.until(
            lambda: set(viewer.rows()) == {"app.one", "app.two", "app.new"}, "only those"
        )
        assert "only app.* (f)" in viewer.words
        await kv.put("elsewhere", b"x")
        await kv.put("app.three", b"x")
        await viewer.until(lambda: len(viewer.rows()) == 4, "what matches")
        assert "elsewhere" not in viewer.words
        await viewer.press("f", *["backspace"] * 5)
        await viewer.type("a..b")
        await viewer.press("enter")
        await viewer.until(lambda: "neither a key" in viewer.words, "the reason")
        await nc.close()


@on_the_files_loop
async def test_of_very_many_keys_all_names_are_there_and_the_values_in_view(
    shared: Shared,
) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        count = MAX_KEYS_WITH_VALUES + 1_000
        for number in range(count):
            await nc.publish(f"$KV.CONF.k.{number:05}", b"%d" % number)
            if number % 1_000 == 999:
                await kv.put("last", b"x")  # a stream drops what comes faster than it stores
        await at_keys(viewer)
        await viewer.until(lambda: len(viewer.table.rows.order) == count + 1, "all of them")
        assert "values are read only for keys in view" in viewer.words
        await viewer.press("end", "up")
        shown = f"k.{count - 1:05}"
        await viewer.until(lambda: f"{shown} {count - 1}" in viewer.words, "a value in view")
        await kv.put(shown, b"changed")
        await viewer.until(lambda: f"● {shown} changed" in viewer.words, "what changed")
        await kv.put("a.new", b"new")
        await viewer.until(lambda: len(viewer.table.rows.order) == count + 2, "a key more")
        await viewer.press("f")
        await viewer.type("none")
        await viewer.press("enter")
        await viewer.until(
            lambda: "no key matches none: f changes the filter" in viewer.words,
            "that none matches",
        )
        await nc.close()


def test_names_beyond_a_page_stay_until_they_are_read_again() -> None:
    def row(key: str) -> KeyRow:
        return KeyRow(key, 1, 1, "PUT", "", 0)

    def page(created_at_us: int) -> KeysPage:
        return KeysPage((row("a"), row("b")), 4, 4, 4, created_at_us)

    def names(key_rows: KeyRows) -> list[str]:
        return [item.key for item in key_rows.view.items]

    key_rows = KeyRows()
    key_rows.add_page(page(1), ">")
    assert key_rows.needs_names and names(key_rows) == ["a", "b"]
    key_rows.add_names(KeyNames(("a", "b", "c", "d"), 1))
    key_rows.add_values(KeysPage((row("c"),), None, 4, 4, 1))
    assert not key_rows.needs_names and key_rows.find_unread("abcd") == ("d",)
    key_rows.add_page(page(1), ">")
    assert key_rows.needs_names and names(key_rows) == ["a", "b", "c", "d"]
    # A change of the others may be older than the page: their values are read again.
    assert key_rows.find_unread("abcd") == ("c", "d")
    key_rows.add_names(KeyNames(("a", "b", "d", "e"), 1))
    assert not key_rows.needs_names and names(key_rows) == ["a", "b", "d", "e"]
    key_rows.add_page(page(2), ">")
    assert names(key_rows) == ["a", "b"], "those of another bucket"


async def test_of_very_many_keys_cursor_and_marks_stay_when_all_are_read_again() -> None:
    page = KeysPage(tuple(KeyRow(key, 1, 1, "PUT", "", 0) for key in "ab"), 4, 4, 4, BORN_US)
    names = KeyNames(("a", "b", "c", "d"), BORN_US)
    async with fed(*engine_records({"KV_CONF": ()})) as viewer:
        await viewer.app.push_screen(KeysScreen("KV_CONF"))

        async def reply(kind: type, body: object) -> None:
            await viewer.until(lambda: viewer.sent(kind), kind.__name__)
            command_id = viewer.sent(kind)[-1].command_id
            viewer.commands.clear()
            text = msgspec.json.encode(body).decode()
            await viewer.feed(Answered(1, command_id, "done", "read", text))

        await reply(ReadKeys, page)
        await reply(ReadKeyNames, names)
        await viewer.until(lambda: set(viewer.rows()) == set("abcd"), "all keys")
        await viewer.press("end", "space")
        table = viewer.table.table
        assert table.marks == {("d",)}
        await reply(ReadKeys, page)
        await viewer.until(lambda: viewer.sent(ReadKeyNames), "the names are read again")
        assert set(viewer.rows()) == set("abcd")
        assert table.marks == {("d",)} and table.cursor_key == ("d",)


@on_the_files_loop
async def test_a_bucket_that_is_made_again_is_another_one(shared: Shared) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        await kv.put("old", b"x")
        await at_keys(viewer)
        await viewer.becomes("old", value="x")
        await nc.jetstream().delete_key_value("CONF")
        again = await bucket(nc)
        for number in range(3):
            await again.put(f"new{number}", b"y")
        await viewer.until(lambda: {"new0", "new1", "new2"} == set(viewer.rows()), "those of now")
        await nc.close()


@on_the_files_loop
async def test_a_key_is_put_edited_deleted_and_taken_back(shared: Shared) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        await at_keys(viewer)
        await viewer.until(lambda: "no keys: a stores one" in viewer.words, "that it is empty")
        await viewer.press("a")
        await viewer.type("new")
        assert isinstance(viewer.app.screen, PutScreen)
        viewer.app.screen.query_one(TextArea).focus()
        await viewer.type("one")
        await viewer.press("enter")
        await viewer.type("two")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: isinstance(viewer.app.screen, KeysScreen), "that it closed")
        await viewer.until(lambda: any("new" in name for name in viewer.rows()), "the key")
        assert (await kv.get("new")).value == b"one\ntwo"
        await viewer.press("home", "e")
        await edited(viewer, "one\ntwo")
        await viewer.press("down", "end", "space")
        await viewer.type("three")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: isinstance(viewer.app.screen, KeysScreen), "that it closed")
        assert (await kv.get("new")).value == b"one\ntwo three"
        await viewer.until(lambda: any(row["revision"] == "2" for row in viewer.rows().values()))
        await viewer.press("ctrl+d")
        await do_it(viewer)
        await viewer.until(
            lambda: any(row["operation"] == "DEL" for row in viewer.rows().values())
        )
        with pytest.raises(nats.js.errors.KeyNotFoundError):
            await kv.get("new")
        await viewer.press("u")
        await viewer.until(
            lambda: "restore the previous value of" in viewer.words, "what it would do"
        )
        await viewer.type("new")
        await viewer.press("enter")
        await viewer.until(lambda: "put, revision 4" in viewer.said, "that it is back")
        assert (await kv.get("new")).value == b"one\ntwo three"
        await nc.close()


@on_the_files_loop
async def test_what_changed_meanwhile_is_not_overwritten(shared: Shared) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        await kv.put("key", b"first")
        await at_keys(viewer)
        await viewer.becomes("key", value="first")
        await viewer.press("home", "e")
        await edited(viewer, "first")
        await kv.put("key", b"of another")
        await viewer.type("mine")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "is at revision 2, not 1" in viewer.words, "the conflict")
        assert isinstance(viewer.app.screen, PutScreen), "what was typed is not lost"
        await viewer.press("escape")
        await viewer.until(lambda: "is not sent" in viewer.words, "that it would be lost")
        assert (await kv.get("key")).value == b"of another"
        await nc.close()


@on_the_files_loop
async def test_a_key_of_a_recreated_bucket_is_not_changed_though_its_revision_is_the_same(
    shared: Shared,
) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        await kv.put("key", b"first")
        await at_keys(viewer)
        await viewer.becomes("key", value="first")
        await viewer.press("home", "e")
        await edited(viewer, "first")
        await nc.jetstream().delete_key_value("CONF")
        kv = await bucket(nc)
        await kv.put("key", b"of another")
        await viewer.type("mine")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "CONF was recreated in the meantime" in viewer.words)
        await viewer.press("escape")
        await viewer.until(
            lambda: isinstance(viewer.app.screen, PickDialog), "typed text would be lost"
        )
        await viewer.press("end", "enter")
        await viewer.becomes("key", value="of another")
        await viewer.press("home", "ctrl+d")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
        await nc.jetstream().delete_key_value("CONF")
        kv = await bucket(nc)
        await kv.put("key", b"of a third")
        await do_it(viewer)
        # The engine refuses it, or the screen, where it has heard of the third one already.
        await viewer.until(
            lambda: "CONF was recreated" in " ".join((*viewer.toasts[1:], viewer.words))
        )
        assert (await kv.get("key")).value == b"of a third"
        await nc.close()


@on_the_files_loop
async def test_a_key_that_was_removed_before_it_was_read_is_not_put_over_a_newer_value(
    shared: Shared,
) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        await at_keys(viewer)
        await viewer.until(lambda: "no keys" in viewer.words)
        await viewer.app.push_screen(PutScreen("CONF", "key"))
        await viewer.until(lambda: "the key has no value any more" in viewer.words)
        await kv.put("key", b"of another")
        await viewer.type("mine")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "exists already, at revision 1" in viewer.words, "refused")
        assert (await kv.get("key")).value == b"of another"
        await nc.close()


@on_the_files_loop
async def test_what_is_final_wants_the_key_typed(shared: Shared) -> None:
    """Where more revisions are kept, a key is deleted without it."""
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc, history=1)
        await kv.put("key", b"first")
        await at_keys(viewer)
        await viewer.becomes("key", value="first")
        await viewer.press("home", "P")
        await do_it(viewer)
        await viewer.until(
            lambda: "the only revision of key is removed" in viewer.words, "what goes"
        )
        await type_name(viewer, "other")
        await viewer.until(lambda: "That is not key" in viewer.words, "that it was not done")
        await viewer.press("escape")
        assert (await kv.get("key")).value == b"first"
        await viewer.press("ctrl+d")
        await do_it(viewer)
        await type_name(viewer, "key")
        await viewer.until(lambda: "deleted, revision 2" in viewer.said, "that it is done")
        await nc.close()


@on_the_files_loop
async def test_the_history_of_a_key_shows_what_changed_and_leads_back(shared: Shared) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        for value in (b'{"a": 1, "b": 2}', b'{"a": 1, "b": 3}', HOSTILE):
            await kv.put("key", value)
        await at_keys(viewer)
        await viewer.until(viewer.rows, "the key")
        await viewer.press("home", "enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, HistoryScreen))
        await viewer.until(lambda: list(viewer.rows()) == ["3", "2", "1"], "the newest first")
        await viewer.press("home", "down", "d")
        await viewer.until(lambda: isinstance(viewer.app.screen, RevisionScreen))
        assert '- "b": 2' in viewer.words and '+ "b": 3' in viewer.words
        await viewer.press("left_square_bracket")
        await viewer.until(lambda: "The previous revision is not stored" in viewer.words)
        await viewer.press("d")
        assert "as json" in viewer.words
        await viewer.press("right_square_bracket", "right_square_bracket")
        assert "3 of 3" in viewer.words
        assert "\x1b" not in viewer.text and "\u202e" not in viewer.text
        await viewer.press("escape", "x", "home", "enter")
        await do_it(viewer)
        await viewer.becomes("4", value='{"a": 1, "b": 3}', operation="PUT")
        assert (await kv.get("key")).value == b'{"a": 1, "b": 3}'
        await kv.delete("key")
        await viewer.becomes("5", operation="DEL")
        await viewer.press("end", "x", "home", "enter")
        await do_it(viewer)
        await viewer.becomes("6", value='{"a": 1, "b": 2}')
        await viewer.press("home", "x", "home", "enter")
        await viewer.until(lambda: "this is the newest revision" in viewer.said)
        await nc.close()


@on_the_files_loop
async def test_a_large_or_binary_value_is_not_edited_but_put_from_a_file(
    shared: Shared, tmp_path: Path
) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        large, binary = b"x" * 200_000, bytes(range(256))
        await kv.put("large", large)
        await kv.put("large", b"small")
        (tmp_path / "value").write_bytes(binary)
        await at_keys(viewer)
        await viewer.until(viewer.rows, "the key")
        await viewer.press("home", "enter")
        await viewer.until(lambda: list(viewer.rows()) == ["2", "1"])
        await viewer.press("end", "x", "home", "enter")
        await do_it(viewer)
        await viewer.until(lambda: "3" in viewer.rows(), "the whole value, not what is shown")
        assert (await kv.get("large")).value == large
        await viewer.press("e")
        await viewer.until(lambda: "not text that can be edited here" in viewer.said)
        viewer.app.screen.query("FieldRow").last().query_one("Input").focus()
        viewer.app.screen.query("FieldRow").last().query_one("Input").value = str(
            tmp_path / "value"
        )
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "4" in viewer.rows(), "the value")
        assert (await kv.get("large")).value == binary
        await viewer.press("e")
        await viewer.until(lambda: "revision 4: the value is not text" in viewer.words)
        for key, words in (("ctrl+s", "nothing was put"), ("ctrl+o", "there is nothing to edit")):
            await viewer.press(key)
            await viewer.until(lambda words=words: f"{words}: the value is not" in viewer.words)
        assert (await kv.get("large")).revision == 4
        await nc.close()


@on_the_files_loop
async def test_a_value_that_was_not_read_is_not_overwritten(shared: Shared) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        kv = await bucket(nc)
        await kv.put("key", b"precious")
        await at_keys(viewer)
        await viewer.becomes("key", value="precious")
        await viewer.press("home")
        with frozen(viewer):
            await viewer.press("e", "ctrl+s")
            await viewer.until(
                lambda: "nothing was put: the value was not read yet" in viewer.words
            )
            await viewer.type("mine")
        await viewer.until(lambda: "revision 1" in viewer.words, "it is read")
        screen = viewer.app.screen
        assert isinstance(screen, PutScreen)
        # What was typed before stays, and replaces only the revision that was read.
        assert (screen.area.text, screen._revision) == ("mine", 1)
        failed = Answered(1, 1, "failed", "JetStream is away")
        screen._show_value(failed)
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "cannot be read: JetStream is away" in viewer.words)
        assert (await kv.get("key")).value == b"precious"
        await nc.close()


@on_the_files_loop
async def test_files_are_listed_and_deleted_by_name(shared: Shared) -> None:
    async with shared.as_new(SIZE) as viewer:
        nc = await nats.connect(shared.url)
        store = await nc.jetstream().create_object_store("FILES")
        await store.put("pictures/a.png", b"x" * 300_000)
        await store.put("b.txt", b"content")
        await viewer.until(lambda: "OBJ_FILES" in viewer.rows())
        await viewer.type_command("buckets FILES")
        await viewer.becomes("pictures/a.png", size="293 KiB", chunks="3")
        digest = (await store.get_info("b.txt")).digest
        assert viewer.rows()["b.txt"]["digest"] == digest
        await viewer.press("home", "ctrl+d")
        await do_it(viewer)
        await viewer.until(lambda: "b.txt, 7 B, is removed for good" in viewer.words, "what goes")
        await type_name(viewer, "b.txt")
        await viewer.until(lambda: set(viewer.rows()) == {"pictures/a.png"}, "that it is gone")
        await nc.close()


async def test_a_reader_changes_nothing() -> None:
    row = KeyRow("key", 1, BORN_US, "PUT", "eA==", 1)
    async with fed(*engine_records({"KV_CONF": ()}, read_only=True), size=(80, 24)) as viewer:
        await viewer.app.push_screen(KeysScreen("CONF"))
        await viewer.until(lambda: viewer.sent(ReadKeys), "the keys are asked for")
        number = viewer.sent(ReadKeys)[-1].command_id
        page = msgspec.json.encode(KeysPage((row,), 1, 1, 1, BORN_US)).decode()
        await viewer.feed(Answered(2_000_000, number, "done", "1 key", page))
        await viewer.until(viewer.rows, "the key")
        for key in ("a", "e", "ctrl+d", "P"):
            assert not viewer.app.screen.active_bindings[key].enabled, key
            await viewer.press("home", key)
            assert isinstance(viewer.app.screen, KeysScreen), key
        await viewer.press("enter")
        await viewer.until(lambda: isinstance(viewer.app.screen, HistoryScreen))
