"""The app says when the terminal is too small, and does not repeat its toasts."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from textual.app import ComposeResult
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input, Static

from natstui.tui.app.guarded import GuardedApp


class SmallApp(GuardedApp):
    def compose(self) -> ComposeResult:
        yield Static("all is shown")

    def text(self) -> str:
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())


async def shows(app: SmallApp, text: str) -> None:
    for _ in range(600):
        if text in app.text():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"still no {text!r} after 30 s:\n{app.text()}")


async def test_a_small_terminal_is_told_what_is_needed_until_it_grows() -> None:
    app = SmallApp()
    async with app.run_test(size=(50, 15)) as pilot:
        await shows(app, "50×15 is too small")
        await shows(app, "enlarge the terminal to 60×20")
        await pilot.resize_terminal(40, 10)
        await shows(app, "40×10 is too small")
        await pilot.resize_terminal(60, 20)
        await shows(app, "all is shown")
        assert len(app.screen_stack) == 1
        await pilot.resize_terminal(60, 19)
        await shows(app, "too small")
        await pilot.press("q")
    assert app.return_code == 0


class PageApp(SmallApp):
    """In a browser, whose page is closed when a key is pressed."""

    @property
    def is_web(self) -> bool:
        return True

    def on_key(self) -> None:
        raise BrokenPipeError


async def test_a_page_that_is_closed_is_no_crash_of_its_viewer(tmp_path: Path) -> None:
    app = PageApp(crash_log_folder=tmp_path)
    with pytest.raises(BrokenPipeError):
        async with app.run_test() as pilot:
            await pilot.press("x")
    assert app.return_code == 128 + signal.SIGHUP
    assert list(tmp_path.iterdir()) == []


def test_there_is_nothing_to_deselect_before_the_first_screen() -> None:
    SmallApp().clear_selection()


class InputApp(GuardedApp):
    class First(Screen[None]):
        def compose(self) -> ComposeResult:
            yield Input("typed")

    MODES = {"first": First}  # noqa: RUF012 - Textual declares it so
    DEFAULT_MODE = "first"


def test_the_first_screen_may_have_an_input_and_its_selection_is_cleared() -> None:
    seen: list[object] = []

    async def select_and_type(pilot: Pilot[object]) -> None:
        screen = pilot.app.screen
        screen.text_select_all()
        seen.extend((screen.query_one(Input).value, bool(screen.selections)))
        await pilot.press("left")
        seen.append(bool(screen.selections))
        pilot.app.exit()

    # Not `run_test`: only here Textual lets tasks begin at once, where Python can (from 3.12 on).
    InputApp().run(headless=True, auto_pilot=select_and_type)
    assert seen == ["typed", True, False]


async def test_one_sentence_is_one_toast() -> None:
    app = SmallApp()
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(20):
            app.notify("the server is away", timeout=60)
        app.notify("it is back", timeout=60)
        await pilot.pause()
        assert [toast.message for toast in app._notifications] == [
            "the server is away",
            "it is back",
        ]


async def test_ctrl_c_says_what_leaves_without_markup() -> None:
    app = SmallApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("ctrl+c")
        assert [toast.message for toast in app._notifications] == ["ctrl+q leaves natstui"]
