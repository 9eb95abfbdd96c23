"""A screen closes once, and never another one in its place."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from natstui.tui.app.guarded import GuardedApp, TooSmallNotice
from natstui.tui.frame import requests
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.textual_fixes import TerminalSized
from tests.tui.engine_records import engine_records
from tests.tui.viewer import fed


class Form(TerminalSized, Screen[str]):
    """Stands for a screen with typed text, below a dialog."""

    def compose(self) -> ComposeResult:
        """Yield the text."""
        yield Static("typed")


async def test_a_dialog_that_is_closed_twice_leaves_the_screen_below_open() -> None:
    app = GuardedApp()
    async with app.run_test() as pilot:
        form, answers = Form(), list[str | None]()
        await app.push_screen(form)
        prompt = Prompt("Name?")
        app.push_screen(prompt, answers.append)
        await pilot.pause()
        # Two keys that were typed in one go.
        prompt.dismiss("first")
        prompt.dismiss("second")
        await pilot.pause()
        assert answers == ["first"]
        assert app.screen is form


async def test_a_dialog_below_the_notice_is_closed_with_its_answer_when_the_notice_goes() -> None:
    app = GuardedApp()
    async with app.run_test() as pilot:
        form, answers = Form(), list[str | None]()
        await app.push_screen(form)
        pick = PickDialog("Drop it?", [("keep", ""), ("drop", "")])
        app.push_screen(pick, answers.append)
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        notice = TooSmallNotice()
        await app.push_screen(notice)
        pick.dismiss("drop")
        pick.dismiss("keep")
        await pilot.pause()
        assert app.screen is notice
        assert answers == []
        await pilot.resize_terminal(100, 30)
        await pilot.pause()
        await pilot.pause()
        assert answers == ["drop"]
        assert app.screen is form


async def test_a_dialog_whose_answer_closes_the_screen_below_closes_both() -> None:
    app = GuardedApp()
    async with app.run_test() as pilot:
        base, form, closed = app.screen, Form(), list[str | None]()
        app.push_screen(form, closed.append)
        pick = PickDialog("Drop it?", [("drop", "")])
        app.push_screen(pick, lambda word: form.dismiss(word) and None)
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        await pilot.pause()
        assert closed == ["drop"]
        assert app.screen is base
        assert len(app.screen_stack) == 1


async def test_a_screen_of_another_mode_is_closed_when_that_is_shown_again() -> None:
    class TwoModes(GuardedApp):
        MODES = {"one": Form, "two": Form}  # noqa: RUF012
        DEFAULT_MODE = "one"

    app = TwoModes()
    async with app.run_test() as pilot:
        form, closed = Form(), list[str | None]()
        app.push_screen(form, closed.append)
        await pilot.pause()
        await app.switch_mode("two")
        two = app.screen
        await pilot.pause()
        form.dismiss("sent")
        await pilot.pause()
        assert app.screen is two
        await app.switch_mode("one")
        await pilot.pause()
        await pilot.pause()
        assert closed == ["sent"]
        assert len(app.screen_stack) == 1


async def test_a_key_that_comes_before_the_parts_of_its_screen_acts_when_they_are_there() -> None:
    app, answers = GuardedApp(), list[str | None]()
    async with app.run_test() as pilot:
        prompt = Prompt("Name?")
        app.push_screen(prompt, answers.append)
        assert not prompt.is_mounted
        assert await app.run_action("cancel", prompt)
        assert not answers
        await pilot.pause()
        assert answers == [None]
        assert not app._notifications


async def test_a_state_that_a_closed_screen_still_gets_is_not_drawn() -> None:
    async with fed(*engine_records({"ALPHA": ()})) as viewer:
        await viewer.until(lambda: "ALPHA" in viewer.rows(), "what is opened")
        await viewer.press("enter")
        screen = viewer.app.screen
        assert isinstance(screen, LiveScreen)
        await viewer.press("escape")
        await viewer.until(lambda: not screen.children, "it is closed")
        screen.on_state_changed(viewer.app.parts.state_message())
        await viewer.until(lambda: True)
        assert viewer.toasts == []


async def test_what_a_task_of_a_closed_screen_would_still_draw_is_no_defect() -> None:
    async with fed(*engine_records({"ALPHA": ()})) as viewer:
        await viewer.until(lambda: "ALPHA" in viewer.rows(), "what is opened")
        listed = viewer.app.screen
        await viewer.press("enter")
        screen = viewer.app.screen
        await viewer.press("escape")
        await viewer.until(lambda: not screen.children, "it is closed")

        async def draw() -> None:
            screen.query_one("#caption")

        for node in (screen, listed):
            # The worker of a screen that closes may come to this before it is cancelled.
            await requests._run_and_report_errors(node, draw, (), 0)
            await viewer.until(lambda: True)
            assert len(viewer.toasts) == (node is listed)
