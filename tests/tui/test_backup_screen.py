"""`:backup` and `:restore`: whole or nothing, over nothing, and it can be watched and stopped."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import msgspec
import nats
import pytest

from natstui.model.records.confirmation import Confirmation
from natstui.model.records.messages import Answered
from natstui.model.records.stores import BackupContent, BackupRow, InspectBackup
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.managing.backup import BackupScreen, RestoreScreen
from tests.accounts import Account
from tests.tui.engine_records import engine_records
from tests.tui.test_forms import own_state, toasts
from tests.tui.test_object_files import answer, says
from tests.tui.viewer import Viewer, fed, viewing

pytestmark = pytest.mark.server

__all__ = ["own_state"]

SIZE = (120, 30)


async def moving(viewer: Viewer, line: str) -> None:
    await viewer.type_command(line)
    kinds = BackupScreen | RestoreScreen
    await viewer.until(lambda: any(isinstance(one, kinds) for one in viewer.app.screen_stack))


async def ended(viewer: Viewer) -> str:
    """Wait for the end, and return how it was."""
    kinds = BackupScreen | RestoreScreen
    await viewer.until(lambda: isinstance(viewer.app.screen, kinds), "the screen")
    screen = viewer.app.screen
    assert isinstance(screen, kinds)
    await viewer.until(lambda: screen.ended, "it ends")
    assert screen.ended is not None
    await viewer.until(lambda: "ended" in viewer.text)
    return screen.ended.text


async def picked(viewer: Viewer, title: str) -> None:
    await viewer.until(
        lambda: isinstance(viewer.app.screen, PickDialog) and title in viewer.words, title
    )
    await viewer.press("end", "enter")


async def test_a_backup_is_restored_as_it_was_and_over_nothing(
    account: Account, tmp_path: Path
) -> None:
    nc = await nats.connect(account.url)
    js = nc.jetstream()
    await js.add_stream(name="S", subjects=["s.>"])
    for number in range(50):
        await js.publish(f"s.{number % 5}", b"%d" % number, headers={"K": "v"})
    for seq in (7, 8, 20):
        await js.delete_msg("S", seq)
    await js.add_consumer("S", durable_name="C", ack_policy="explicit")
    before = (await js.stream_info("S")).state
    folder = tmp_path / "kept"
    async with viewing(account.url, size=SIZE) as viewer:
        await viewer.until(lambda: viewer.rows().get("S"), "the stream")
        await moving(viewer, "backup S")
        await answer(viewer, "Back up S (47 messages", str(folder))
        assert (await ended(viewer)).startswith("S: 47 messages")
        await viewer.until(lambda: "47 messages" in toasts(viewer), "told wherever one is")
        assert json.loads((folder / "natstui.json").read_text())["stream"] == "S"
        await viewer.press("f")
        await answer(viewer, "into which new folder", None)
        await says(viewer, "it exists already, and is not empty")
        await viewer.press("escape")

        await moving(viewer, f"restore {folder}")
        await answer(viewer, "S exists and is never replaced", "T")
        await picked(viewer, "Create 1 stream from this backup?")
        assert "overlap" in await ended(viewer), "its subjects are those of S"
        await viewer.press("escape")
        assert [one.config.name for one in await js.streams_info()] == ["S"]

        await js.delete_stream("S")
        await moving(viewer, f"restore {folder}")
        await picked(viewer, "Create 1 stream from this backup?")
        assert (await ended(viewer)).startswith(
            "S restored, the same as in its backup: 47 messages"
        )
        after = (await js.stream_info("S")).state
        assert (after.messages, after.bytes, after.first_seq, after.last_seq) == (
            before.messages, before.bytes, before.first_seq, before.last_seq,
        )  # fmt: skip
        assert [one.name for one in await js.consumers_info("S")] == ["C"]
        await viewer.press("escape")

        # What the server would remove at once wants the name.
        await js.delete_stream("S")
        kept = json.loads((folder / "backup.json").read_text())
        kept["config"] |= {"max_age": 100_000_000, "duplicate_window": 100_000_000}
        (folder / "backup.json").write_text(json.dumps(kept))
        (folder / "natstui.json").unlink()
        await moving(viewer, f"restore {folder}")
        await answer(viewer, "the server removes all of 47 messages of S at once", "S")
        assert (await ended(viewer)).startswith("S restored, not the same as in its backup")
        await viewer.press("escape")

        await moving(viewer, f"backup * {tmp_path / 'all'}")
        assert (await ended(viewer)).startswith("1 stream: ")
        await viewer.press("escape")
        await moving(viewer, f"restore {tmp_path / 'none'}")
        await says(viewer, "is not a backup of a stream")
    await nc.close()


async def test_a_backup_whose_engine_is_killed_may_have_been_made(tmp_path: Path) -> None:
    async with fed(*engine_records({"S": ()}), size=SIZE) as viewer:
        await viewer.until(lambda: viewer.rows().get("S"), "the stream")
        await moving(viewer, "backup S")
        await answer(viewer, "Back up S", str(tmp_path / "kept"))
        await viewer.until(lambda: "so far" in viewer.words, "sent")
        os.killpg(viewer.app.link.pid, signal.SIGKILL)
        assert (await ended(viewer)).endswith("it is not known whether that was done")


async def test_no_other_folder_is_typed_while_one_is_read() -> None:
    async with fed(*engine_records(), size=SIZE) as viewer:
        await moving(viewer, "restore one")
        await viewer.until(lambda: viewer.sent(InspectBackup), "it is read")
        await viewer.press("f")
        assert isinstance(viewer.app.screen, RestoreScreen)
        content = BackupContent(
            "/one", Confirmation("", "S", False), (BackupRow("S", "1 message"),), ()
        )
        number = viewer.sent(InspectBackup)[-1].command_id
        body = msgspec.json.encode(content).decode()
        await viewer.feed(Answered(1, number, "done", "a backup", body))
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "what to do")
        await viewer.press("escape")
        await viewer.until(lambda: isinstance(viewer.app.screen, RestoreScreen), "left")
        await viewer.press("f")
        await viewer.until(lambda: isinstance(viewer.app.screen, Prompt), "now it is asked for")
