"""Clicks on what has just gone, and page keys of a list without a line of room: no defect."""

from __future__ import annotations

import pytest
from textual import events
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option
from textual.widgets.selection_list import Selection

from natstui.tui.app.guarded import GuardedApp
from natstui.tui.kit.lists import MultipleChoiceList, SingleChoiceList
from natstui.tui.kit.textual_fixes import TerminalSized


class Text(TerminalSized, Screen[None]):
    def compose(self) -> ComposeResult:
        yield Static("going")


class Lists(TerminalSized, Screen[None]):
    def compose(self) -> ComposeResult:
        yield SingleChoiceList(*(Option(str(number)) for number in range(30)))
        yield MultipleChoiceList(*(Selection(str(number), number) for number in range(30)))


def press(x: int, y: int) -> events.MouseDown:
    return events.MouseDown(None, x, y, 0, 0, 1, False, False, False, screen_x=x, screen_y=y)


async def test_a_click_on_what_was_removed_and_is_still_drawn_does_nothing() -> None:
    app = GuardedApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(Text())
        await pilot.pause()
        going = app.screen.query_one(Static)
        at = going.region
        with app.batch_update():  # so that the next layout does not come in between
            await going.remove()
            app.screen._forward_event(press(at.x, at.y))
        await pilot.pause()
        assert app.is_running


async def test_page_keys_of_a_list_without_room_do_nothing() -> None:
    app = GuardedApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(Lists())
        for kind in (SingleChoiceList, MultipleChoiceList):
            found = app.screen.query_one(kind)
            assert isinstance(found, OptionList)
            found.highlighted = 3
            found.display = False
            await pilot.pause()
            found._clear_caches()
            found.action_page_down()
            found.action_page_up()
            assert found.highlighted == 3


@pytest.mark.slow
async def test_page_keys_of_a_palette_that_shows_nothing_do_nothing() -> None:
    defects: list[str] = []
    app = GuardedApp()
    app.report_defect = defects.append  # type: ignore[method-assign]
    async with app.run_test(size=(80, 24)) as pilot:
        app.action_command_palette()
        await pilot.pause(0.5)
        found = app.screen.query_one(OptionList)
        found.highlighted = 1
        found.display = False
        await pilot.pause()
        found._clear_caches()
        await pilot.press("pagedown", "pageup")
        assert defects == []
