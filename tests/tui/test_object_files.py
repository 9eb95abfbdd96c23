"""Files put into a store and got out of it on the screen; nothing is overwritten unasked."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import msgspec
import nats
import pytest
from nats.js.object_store import ObjectStore

from natstui.model.records.messages import Answered
from natstui.model.records.record import Configured
from natstui.model.records.stores import FileMoved, ObjectsPage, PutFile, ReadObjects, StopTransfer
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.stores import objects
from natstui.tui.stores.objects import ObjectsScreen
from natstui.values import replace
from tests.accounts import Account
from tests.tui.engine_records import engine_records
from tests.tui.viewer import Viewer, fed, frozen, viewing

pytestmark = pytest.mark.server

CONTENT = random.Random(3).randbytes(300_001)


async def at_files(viewer: Viewer) -> None:
    await viewer.until(lambda: "OBJ_FILES" in viewer.rows(), "the store's stream")
    await viewer.type_command("buckets FILES")
    await viewer.until(lambda: isinstance(viewer.app.screen, ObjectsScreen))


async def says(viewer: Viewer, words: str) -> None:
    # To draw the screen costs more than to look at what toasts have said.
    await viewer.until(
        lambda: any(words in toast for toast in viewer.toasts) or words in viewer.words, words
    )


async def answer(viewer: Viewer, question: str, text: str | None, *, waits: bool = True) -> None:
    """Type a text into a prompt in place of what it offers; None takes what it offers.

    Unless it `waits`, it returns before anything is done with it.
    """
    await viewer.until(
        lambda: isinstance(viewer.app.screen, Prompt) and question in viewer.words, question
    )
    if text is not None:
        await viewer.press("ctrl+u")
        viewer.app.screen.query_one("Input").insert_text_at_cursor(text)  # type: ignore[attr-defined]
    if waits:
        await viewer.press("enter")
    else:
        viewer.send("enter")


async def test_a_file_is_put_got_linked_and_the_store_sealed(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_REREAD_INTERVAL_S", 0.3)
    nc = await nats.connect(account.url)
    store = await nc.jetstream().create_object_store("FILES")
    file, target = tmp_path / "a file.bin", tmp_path / "out"
    file.write_bytes(CONTENT)
    target.mkdir()
    async with viewing(account.url, size=(100, 24)) as viewer:
        await at_files(viewer)
        await says(viewer, "no files: a stores one")
        await viewer.press("a")
        await answer(viewer, "Which file", str(tmp_path / "none"))
        await says(viewer, "there is no file")
        await viewer.press("a")
        await answer(viewer, "Which file", str(file))
        await answer(viewer, "293 KiB: stored under which name?", None)
        await says(viewer, "a file.bin stored in FILES")
        assert (await store.get("a file.bin")).data == CONTENT
        await viewer.until(lambda: "a file.bin" in viewer.rows(), "its row")
        await viewer.press("ctrl+s")
        await answer(viewer, "to which file?", str(target))
        await says(viewer, "digest checked")
        assert (target / "a file.bin").read_bytes() == CONTENT
        await overwritten_only_when_asked(viewer, store, file, target)
        await what_was_replaced_while_its_loss_was_shown_stays(
            viewer, store, file, (("ctrl+d", "a file.bin", "6 B"),)
        )
        await viewer.press("L")
        await answer(viewer, "Name of the new link to", "a file.bin")
        await says(viewer, "exists already")
        await viewer.press("L")
        await answer(viewer, "Name of the new link to", "linked")
        await viewer.until(lambda: "linked" in viewer.rows(), "the link")
        assert "→ FILES/a file.bin" in viewer.rows()["linked"]["about"]
        assert (await store.get("linked")).data == b"of another client"
        await viewer.press("S")
        await answer(viewer, "undone. Type OBJ_FILES to confirm", "OBJ_FILES")
        async with asyncio.timeout(30):
            while not (await nc.jetstream().stream_info("OBJ_FILES")).config.sealed:
                await asyncio.sleep(0.05)
    assert sorted(one.name for one in target.iterdir()) == ["a file.bin"], "no part of a file"
    await nc.close()


async def nothing_moves(viewer: Viewer) -> None:
    """Wait until another file may be moved."""
    await viewer.until(
        lambda: (
            isinstance(viewer.app.screen, ObjectsScreen)
            and not viewer.app.screen.files.progress_text
        ),
        "the end",
    )


async def overwritten_only_when_asked(
    viewer: Viewer, store: ObjectStore, file: Path, target: Path
) -> None:
    """Leave it, then overwrite: what lies on the disk, and what is in the store."""
    (target / "a file.bin").write_bytes(b"mine")
    for keys, expected in ((("enter",), b"mine"), (("end", "enter"), CONTENT)):
        await nothing_moves(viewer)
        await viewer.press("ctrl+s")
        await answer(viewer, "to which file?", str(target))
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
        await viewer.until(lambda: "4 B of" in viewer.words, "the size of the file in the way")
        await viewer.press(*keys)
        await viewer.until(lambda: (target / "a file.bin").read_bytes() == expected)  # noqa: B023
    file.write_bytes(b"second")
    await nothing_moves(viewer)
    await viewer.press("a")
    await answer(viewer, "Which file", str(file))
    await answer(viewer, "stored under which name?", None)
    await says(viewer, "(a file.bin, 293 KiB, is overwritten)")
    await answer(viewer, "is overwritten", "a")
    assert (await store.get("a file.bin")).data == CONTENT
    await answer(viewer, "That is not", "a file.bin")
    await viewer.until(lambda: viewer.rows().get("a file.bin", {}).get("size") == "6 B")
    assert (await store.get("a file.bin")).data == b"second"


@pytest.mark.long
async def test_a_file_that_is_replaced_while_its_loss_is_shown_is_not_put_over(
    account: Account, tmp_path: Path
) -> None:
    nc = await nats.connect(account.url)
    store = await nc.jetstream().create_object_store("FILES")
    await store.put("other", CONTENT)
    file = tmp_path / "a file.bin"
    file.write_bytes(b"second")
    async with viewing(account.url, size=(100, 24)) as viewer:
        await at_files(viewer)
        await viewer.until(lambda: "other" in viewer.rows(), "the file")
        await what_was_replaced_while_its_loss_was_shown_stays(
            viewer, store, file, (("a", "other", "293 KiB"),)
        )
    await nc.close()


async def what_was_replaced_while_its_loss_was_shown_stays(
    viewer: Viewer, store: ObjectStore, file: Path, changes: tuple[tuple[str, str, str], ...]
) -> None:
    """Delete or put a file, while somebody else changes it: key, name and size."""
    for key, name, size in changes:
        await nothing_moves(viewer)
        await viewer.press("home", key)
        if key == "a":
            await answer(viewer, "Which file", str(file))
            await answer(viewer, "stored under which name?", name)
        else:
            await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
            await viewer.press("end", "enter")
        await says(viewer, f"{name}, {size}, is")
        await store.put(name, b"of another client")
        await answer(viewer, f"Type {name} to confirm", name)
        await says(viewer, f"{name} was changed before you confirmed: nothing was done")
        assert (await store.get(name)).data == b"of another client", key


async def test_a_file_on_its_way_shows_how_far_it_is_and_how_it_ended() -> None:
    records = engine_records({"OBJ_FILES": ()})
    async with fed(*records, size=(100, 24)) as viewer:
        screen = ObjectsScreen("OBJ_FILES")
        await viewer.app.push_screen(screen)
        screen.files._start_transfer(PutFile(0, "FILES", "big", "/big"), "putting big")
        await viewer.until(lambda: viewer.sent(PutFile), "it is sent")
        number = viewer.sent(PutFile)[-1].command_id
        await viewer.feed(FileMoved(1, number, 3 << 20, 256 << 20))
        far = "putting big: 3.00 MiB of 256 MiB, ctrl+x stops it"
        await viewer.until(lambda: screen.files.progress_text == far, far)
        assert far in viewer.words
        await viewer.press("ctrl+x")
        await viewer.until(lambda: viewer.sent(StopTransfer), "it is stopped")
        assert [command.moving_id for command in viewer.sent(StopTransfer)] == [number]
        stopped = "the transfer was stopped: nothing was kept"
        await viewer.feed(Answered(2, number, "refused", stopped))
        await says(viewer, stopped)
        await nothing_moves(viewer)
        # Of what was sent to an engine that is killed nobody knows whether it was stored.
        screen.files._start_transfer(PutFile(0, "FILES", "unsure", "/big"), "putting unsure")
        await viewer.until(lambda: len(viewer.sent(PutFile)) == 2, "it is sent")
        await viewer.until(lambda: "putting unsure" in viewer.words, "it moves")
        before = viewer.app.link
        os.killpg(before.pid, signal.SIGKILL)
        await says(viewer, "it is not known whether that was done")
        await viewer.until(lambda: "the engine has ended" in screen.caption_text(0, 0), "unread")
        assert "nothing was sent" not in screen.caption_text(0, 0)
        viewer.commands.clear()
        await viewer.feed(*records)
        await viewer.until(lambda: viewer.app.link is not before, "another engine")
        await viewer.until(lambda: viewer.sent(ReadObjects), "it is read again")
        page = msgspec.json.encode(ObjectsPage(())).decode()
        await viewer.feed(Answered(3, viewer.sent(ReadObjects)[-1].command_id, "done", "", page))
        await viewer.until(lambda: "the engine" not in screen.caption_text(0, 0), "read again")


async def test_a_store_that_was_not_read_says_why_and_not_that_it_is_empty() -> None:
    async with fed(*engine_records({"OBJ_FILES": ()})) as viewer:
        await viewer.app.push_screen(ObjectsScreen("OBJ_FILES"))
        await viewer.until(lambda: "reading …" in viewer.words, "it is read")
        await viewer.until(lambda: viewer.sent(ReadObjects), "it is asked for")
        (command,) = viewer.sent(ReadObjects)
        refused = "no permission to publish to $JS.API.STREAM.INFO.OBJ_FILES"
        await viewer.feed(Answered(1, command.command_id, "failed", refused))
        await viewer.until(lambda: refused in viewer.words, "the reason")
        files = viewer.app.screen
        assert isinstance(files, ObjectsScreen)
        assert files.empty_text(0) == refused and files.caption_text(0, 0).startswith(refused)
        assert "no files" not in viewer.words and "reading" not in viewer.words


async def test_a_sealed_store_says_so_and_offers_no_change() -> None:
    *_, configured, _poll = records = engine_records({"OBJ_FILES": ()})
    assert isinstance(configured, Configured)
    async with fed(*records, size=(100, 24)) as viewer:
        await viewer.app.push_screen(ObjectsScreen("OBJ_FILES"))
        await viewer.until(lambda: viewer.app.screen.active_bindings["a"].enabled, "it is offered")
        sealed = tuple(replace(stream, sealed=True) for stream in configured.streams)
        await viewer.feed(replace(configured, streams=sealed))
        await says(viewer, "sealed: nothing can be changed")
        await viewer.until(lambda: "a" not in viewer.app.screen.active_bindings, "not any more")


@pytest.mark.long
@pytest.mark.parametrize("way", ["put", "get"])
async def test_a_file_that_is_stopped_leaves_nothing(
    account: Account, tmp_path: Path, way: str
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    store = await js.create_object_store("FILES")
    big, target = tmp_path / "big", tmp_path / "target"
    target.mkdir()
    with big.open("wb") as file:
        file.truncate(256 << 20)
    if way == "get":
        with big.open("rb") as content:
            await store.put("big", content)
    async with viewing(account.url) as viewer:
        await at_files(viewer)
        files = viewer.app.screen
        assert isinstance(files, ObjectsScreen)
        if way == "put":
            await viewer.press("a")
            await answer(viewer, "Which file", str(big))
            await answer(viewer, "256 MiB", None, waits=False)
        else:
            await viewer.until(lambda: "big" in viewer.rows(), "the file")
            await viewer.press("ctrl+s")
            await answer(viewer, "to which file?", str(target), waits=False)
        # However quick the disk is: the engine stands still before it is done.
        await viewer.until(
            lambda: " of 256 MiB" in files.files.progress_text, "a part", every_s=0.005
        )
        with frozen(viewer):
            await says(viewer, f"{way}ting big")
            await viewer.press("ctrl+x")
        await says(viewer, "the transfer was stopped: nothing was kept")
    if way == "put":
        async with asyncio.timeout(20):
            while (await js.stream_info("OBJ_FILES")).state.messages:
                await asyncio.sleep(0.1)
    assert list(target.iterdir()) == []
    await nc.close()
