"""What is typed arrives: in one burst, ahead of a screen that opens, and right before ctrl+s."""

from __future__ import annotations

import pytest
from textual.events import Key, Paste
from textual.keys import _character_to_key

from natstui.tui.frame.form.screen import FormScreen
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.messages.publish import PublishScreen
from natstui.tui.messages.screen import MessagesScreen
from natstui.tui.sessions.screen import SessionsScreen
from tests.accounts import Account
from tests.tui.shared import Shared, asked, connected, on_the_files_loop
from tests.tui.terminals import OnTerminal
from tests.tui.test_forms import jump_to, on_form, on_streams
from tests.tui.test_viewer_process import MAIN
from tests.tui.viewer import Viewer

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("typing")]

NAMED = {"\r": "enter", "\t": "tab", "\x13": "ctrl+s", "\x1b": "escape", "\x15": "ctrl+u"}


def burst(viewer: Viewer, text: str) -> None:
    """Press keys faster than anything can be done between them, as a terminal hands them over."""
    driver = viewer.app._driver
    assert driver is not None
    for letter in text:
        key = Key(NAMED.get(letter) or _character_to_key(letter), letter)
        key.set_sender(viewer.app)
        driver.send_message(key)


async def names(url: str) -> list[str]:
    async with connected(url) as nc:
        return list((await asked(nc, "STREAM.NAMES"))["streams"] or ())


@on_the_files_loop
async def test_keys_right_behind_a_colon_belong_to_the_command_line(shared: Shared) -> None:
    async with shared.as_new((120, 40)) as viewer:
        for line in ("sessions", "note ABC", "nonsense"):
            burst(viewer, f":{line}\r")
            await viewer.until(lambda line=line: CommandLine.history[":"][-1:] == [line], line)
        assert isinstance(viewer.app.screen, SessionsScreen)
        await viewer.until(lambda: "no command :nonsense" in viewer.said)


@on_the_files_loop
async def test_a_form_takes_what_is_typed_while_it_opens_and_right_before_ctrl_s(
    shared: Shared,
) -> None:
    async with shared.as_new((100, 30)) as viewer:
        burst(viewer, "aTYPED-AHEAD\x13")
        await viewer.until(lambda: "TYPED-AHEAD" in viewer.rows())
    assert await names(shared.url) == ["TYPED-AHEAD"]


@pytest.mark.long
@on_the_files_loop
async def test_an_edit_sends_the_last_letter_every_time(shared: Shared) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new((100, 30)) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"]})
        await viewer.until(lambda: "S" in viewer.rows())
        for number in range(2):
            await viewer.press("e")
            await on_form(viewer)
            await jump_to(viewer, "description")
            burst(viewer, f"\x15edit {number} ends\x13")
            await on_streams(viewer)
            config = (await asked(nc, "STREAM.INFO.S"))["config"]
            assert config["description"] == f"edit {number} ends"
            await viewer.until(
                lambda number=number: (
                    viewer.app.state.stream_configurations["S"].description
                    == f"edit {number} ends"
                ),
                "the new configuration",
            )


@on_the_files_loop
async def test_a_burst_goes_through_several_screens_and_a_paste_keeps_its_place(
    shared: Shared,
) -> None:
    url = shared.url
    async with connected(url) as nc, shared.as_new((100, 30)) as viewer:
        await asked(nc, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await viewer.until(lambda: "S" in viewer.rows())
        burst(viewer, "mw\t")
        paste = Paste("pasted words")
        paste.set_sender(viewer.app)
        assert viewer.app._driver is not None
        viewer.app._driver.send_message(paste)
        burst(viewer, ", typed words\x13")
        await viewer.until(lambda: "stored as 1 in S" in viewer.words, "sent")
        assert isinstance(viewer.app.screen, PublishScreen)
        burst(viewer, "\x1b")
        await viewer.until(lambda: isinstance(viewer.app.screen, MessagesScreen), "closed")
        found = await asked(nc, "STREAM.MSG.GET.S", {"seq": 1})
        assert found["message"]["data"] == "cGFzdGVkIHdvcmRzLCB0eXBlZCB3b3Jkcw=="


@pytest.mark.long
@pytest.mark.terminal
async def test_a_real_terminal_loses_no_key_of_a_burst(account: Account) -> None:
    with OnTerminal(MAIN, "--server", account.url, width=120, height=40) as terminal:
        assert b"connected" in terminal.read(b"connected", within_s=60)
        terminal.type(":add\rREALTYPED\x13")
        assert b"stream REALTYPED created" in terminal.read(
            b"stream REALTYPED created", within_s=30
        )
        terminal.type(":quit\r")
        assert terminal.wait() == 0
    assert await names(account.url) == ["REALTYPED"]


@pytest.mark.long
@on_the_files_loop
async def test_typing_goes_on_when_a_screen_is_removed_under_it(shared: Shared) -> None:
    """Inputs behind one that closes what has the keys are not held back."""
    async with shared.as_new((80, 24)) as viewer:
        burst(viewer, "a\x1ba\x1b:sessions\r\x1b:add\rX")

        def filled() -> bool:
            screen = viewer.app.screen
            return isinstance(screen, FormScreen) and screen.entries.texts == {"name": "X"}

        await viewer.until(filled, "the last form")
