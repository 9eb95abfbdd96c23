"""What is closed leaves nothing of what it drew in memory."""

import gc
import weakref

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Label

from natstui.tui.app.guarded import GuardedApp


class Cards(Screen[None]):
    """Shows labels, one of them with a border."""

    CSS = "#bordered { border: round red; }"

    def compose(self) -> ComposeResult:
        yield Label("bordered", id="bordered")
        yield Label("plain")


async def test_the_lines_of_closed_widgets_do_not_stay() -> None:
    app = GuardedApp()
    async with app.run_test() as pilot:
        await app.push_screen(Cards())
        await pilot.pause()
        drawn = [weakref.ref(label._styles_cache) for label in app.screen.query(Label)]
        assert len(drawn) == 2 and all(cache() for cache in drawn)
        await app.pop_screen()
        await pilot.pause()
        gc.collect()
        assert [cache() for cache in drawn] == [None, None]
