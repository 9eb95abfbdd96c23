"""Every screen is laid out for the terminal as it is now, in whatever order its sizes come."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil

import pytest
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen

from natstui import tui
from natstui.tui.app.guarded import GuardedApp, Palette, TooSmallNotice
from natstui.tui.app.help import HelpScreen
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.textual_fixes import TerminalSized


def test_every_screen_follows_the_terminal() -> None:
    for info in pkgutil.walk_packages(tui.__path__, "natstui.tui."):
        for thing in vars(importlib.import_module(info.name)).values():
            if isinstance(thing, type) and issubclass(thing, Screen):
                ours = thing.__module__.startswith("natstui.")
                assert not ours or issubclass(thing, TerminalSized), thing
    bases = (LiveScreen, HelpScreen, PickDialog, Prompt, TooSmallNotice, Palette)
    for base in bases:
        # Before Textual's own, whose handler it keeps from outdated sizes.
        mro = base.__mro__
        assert mro.index(TerminalSized) < mro.index(Screen)


@pytest.mark.parametrize(
    "made", [TooSmallNotice, lambda: Prompt("?"), lambda: PickDialog("?", []), Palette]
)
async def test_two_sizes_are_not_told_in_turn_for_ever(made: object) -> None:
    app = GuardedApp()
    async with app.run_test(size=(50, 15)) as pilot:
        screen: Screen[object] = made()  # type: ignore[operator]
        await app.push_screen(screen)
        await pilot.pause()
        told: list[Size] = []

        async def resized() -> None:
            told.append(screen.size)

        with app.batch_update():
            for size in (Size(40, 12), app.size):
                screen.post_message(Resize(size, size))
                screen.call_later(resized)
            for _ in range(200):
                await asyncio.sleep(0)
            reached: asyncio.Event = asyncio.Event()
            screen.call_later(reached.set)
            await asyncio.wait_for(reached.wait(), 20)
            for _ in range(200):
                await asyncio.sleep(0)
            assert screen.message_queue_size == 0
        assert told == [app.size, app.size]
        await pilot.resize_terminal(45, 14)
        await pilot.pause()
        assert screen.size == Size(45, 14)


async def test_the_notice_goes_alone_and_closes_nothing_that_lies_on_it() -> None:
    app = GuardedApp()
    async with app.run_test(size=(50, 15)) as pilot:
        await app.push_screen(TooSmallNotice())
        pick = PickDialog("?", [("word", "what it means")])
        await app.push_screen(pick)
        for width in (100, 110):
            await pilot.resize_terminal(width, 30)
            await pilot.pause()
            assert app.screen is pick
        await pilot.press("escape")
        await pilot.pause()
        assert not any(isinstance(screen, TooSmallNotice) for screen in app.screen_stack)


async def test_a_palette_below_the_notice_is_not_opened_a_second_time() -> None:
    app = GuardedApp()
    async with app.run_test(size=(100, 30)) as pilot:
        app.action_command_palette()
        await pilot.pause()
        palette = app.screen
        assert isinstance(palette, Palette)
        await pilot.resize_terminal(50, 15)
        await pilot.pause()
        assert isinstance(app.screen, TooSmallNotice)
        app.action_command_palette()
        await pilot.pause()
        assert [one for one in app.screen_stack if isinstance(one, Palette)] == [palette]
