"""What goes for good is counted on the screen, and only its name, typed, lets it go."""

from __future__ import annotations

from pathlib import Path

import pytest
from nats.aio.client import Client

from natstui.tui.kit.prompt import Prompt
from natstui.tui.managing.action import ActionScreen
from natstui.tui.managing.journal import JournalScreen
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.test_forms import fill, on_form, on_streams, toasts
from tests.tui.viewer import Viewer

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("removing")]


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


async def make(nc: Client, count: int) -> None:
    await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"], "storage": "memory"})
    for _ in range(count):
        await nc.request("s", b"x", timeout=10)


async def held(nc: Client) -> int:
    count: int = (await asked(nc, "STREAM.INFO.S"))["state"]["messages"]
    return count


def unwrapped(viewer: Viewer) -> str:
    return " ".join(viewer.text.replace("│", " ").split())


async def on_prompt(viewer: Viewer, said: str) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, Prompt), "the question")
    await viewer.until(lambda: said in unwrapped(viewer), said)


@on_the_files_loop
async def test_an_edit_that_removes_is_counted_and_asked_for_and_so_is_its_undo(
    shared: Shared,
) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        await make(nc, 20)
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("e")
        await on_form(viewer)
        await fill(viewer, max_msgs="5")
        await viewer.until(lambda: "15 of 20 messages" in viewer.words, "in the preview")
        await viewer.press("ctrl+s")
        await on_prompt(viewer, "15 of 20 messages")
        await viewer.press("escape")
        await on_form(viewer)
        await viewer.until(lambda: "closing this does not stop it" not in viewer.words, "unsent")
        await viewer.press("ctrl+s")
        await on_prompt(viewer, "15 of 20 messages")
        await viewer.press("X", "enter")
        await on_prompt(viewer, "That is not S")
        assert await held(nc) == 20
        await viewer.press("backspace", "S", "enter")
        await on_streams(viewer)
        assert await held(nc) == 5
        await viewer.press("u")
        await on_prompt(viewer, "but not what the change removed (15 of 20 messages")
        await viewer.press("K", "E", "E", "P", "enter")
        await on_prompt(viewer, "That is not S")
        assert (await asked(nc, "STREAM.INFO.S"))["config"]["max_msgs"] == 5
        viewer.toasts.clear()
        await viewer.press("ctrl+u", "S", "enter")
        await viewer.until(lambda: "stream S changed" in toasts(viewer), "undone")
        assert isinstance(viewer.app.screen, JournalScreen)
        assert (await asked(nc, "STREAM.INFO.S"))["config"]["max_msgs"] == -1


@on_the_files_loop
async def test_what_is_made_again_while_the_question_is_open_is_left_alone(
    shared: Shared,
) -> None:
    async with connected(shared.url) as nc, shared.as_new((120, 40)) as viewer:
        await make(nc, 3)
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        await viewer.press("ctrl+d")
        await viewer.until(lambda: isinstance(viewer.app.screen, ActionScreen))
        await viewer.until(lambda: "all 3 messages" in viewer.words, "what goes")
        await asked(nc, "STREAM.DELETE.S")
        await make(nc, 4)
        await viewer.press("S", "enter")
        await viewer.until(lambda: "was recreated" in viewer.said, "the refusal")
        assert await held(nc) == 4
