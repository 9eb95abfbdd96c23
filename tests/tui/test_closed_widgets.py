"""What is closed or hidden leaves nothing of what it drew in memory."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual._segment_tools import make_blank
from textual.app import ComposeResult
from textual.css.scalar import Scalar
from textual.geometry import Region, Size
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widgets import Label

from natstui.tui.app.guarded import GuardedApp
from natstui.tui.kit import too_small
from natstui.tui.kit.too_small import TerminalSized


class Cards(TerminalSized, Screen[None]):
    """Shows labels, one of them with a border."""

    CSS = "#bordered { border: round red; }"

    def compose(self) -> ComposeResult:
        yield Label("bordered", id="bordered")
        yield Label("plain")


async def test_the_lines_of_closed_widgets_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(too_small, "HIDDEN_S", 0.01)
    app = GuardedApp()
    async with app.run_test() as pilot:
        await app.push_screen(Cards())
        await pilot.pause()
        drawn = [weakref.ref(label._styles_cache) for label in app.screen.query(Label)]
        assert len(drawn) == 2 and all(cache() for cache in drawn)
        await app.pop_screen()
        # What waits for screens to be hidden for long knows the one that was open.
        for _ in range(200):
            await pilot.pause(0.02)
            gc.collect()
            if not any(cache() for cache in drawn):
                break
        assert [cache() for cache in drawn] == [None, None]


class Kept(Screen[None]):
    """A screen that is kept while another one lies on it."""

    def compose(self) -> ComposeResult:
        yield Label("kept")


async def test_the_lines_of_a_screen_that_is_hidden_for_long_are_let_go_and_drawn_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(too_small, "HIDDEN_S", 0.05)
    app = GuardedApp()
    async with app.run_test() as pilot:
        kept = Kept()
        await app.push_screen(kept)
        await pilot.pause()
        lines = kept.query_one(Label)._styles_cache._cache
        assert lines
        await app.push_screen(Cards())
        for _ in range(500):
            if not lines:
                break
            await pilot.pause(0.02)
        assert not lines
        await app.pop_screen()
        await pilot.pause()
        assert "kept" in lines[0].text


class Ask(ModalScreen[None]):
    """Lies on another screen, which is seen through it."""

    def compose(self) -> ComposeResult:
        yield Label("why?")

    def begin(self, works: list[asyncio.Task[None]]) -> None:
        works.append(asyncio.create_task(asyncio.sleep(600)))


async def test_a_long_task_does_not_keep_the_screens_that_lay_below_where_it_began() -> None:
    app, works = GuardedApp(), list[asyncio.Task[None]]()
    async with app.run_test() as pilot:
        await app.push_screen(Kept())
        kept = weakref.ref(app.screen)
        await app.push_screen(Ask())
        for word in ("who?", "when?"):
            app.screen.query_one(Label).update(word)
            await pilot.pause(0.05)
        app.screen.call_later(app.screen.begin, works)
        await pilot.pause()
        assert works
        await app.pop_screen()
        await app.pop_screen()
        for _ in range(100):
            await pilot.pause(0.02)
            gc.collect()
            if kept() is None:
                break
        assert kept() is None
        works[0].cancel()


STYLE = Style(color="red", meta={"place": 1})
KNOWN = (
    (Region.intersection, lambda: Region(1, 2, 3, 4).intersection(Region(7, 7, 7, 7))),
    (Scalar.resolve, lambda: Scalar.parse("31%").resolve(Size(51, 52), Size(53, 54))),
    (make_blank, lambda: make_blank(977, STYLE)),
    (Strip.blank, lambda: Strip.blank(977, STYLE)),
    (Strip.render_ansi, lambda: Strip.render_ansi(STYLE, ColorSystem.STANDARD)),
)


@pytest.mark.parametrize(("cached", "ask"), KNOWN)
async def test_a_new_size_lets_go_of_what_belonged_to_the_old_one(
    cached: Any, ask: Callable[[], object]
) -> None:
    app = GuardedApp()
    async with app.run_test() as pilot:
        ask()
        before = cached.cache_info().misses
        ask()
        assert cached.cache_info().misses == before
        await pilot.resize_terminal(90, 30)
        await pilot.pause()
        before = cached.cache_info().misses
        ask()
        assert cached.cache_info().misses == before + 1


def test_a_line_keeps_two_of_what_it_was_made_into() -> None:
    line, other = Strip([Segment("0123456789")]), Strip([Segment("0123456789")])
    cuts = [line.crop(start, start + 3).text for start in (0, 2, 4, 6)]
    assert cuts == ["012", "234", "456", "678"]
    assert list(line._crop_cache.keys()) == [(4, 7), (6, 9)]
    assert line.crop(6, 9) is line.crop(6, 9)
    assert not other._crop_cache and not line._style_cache
