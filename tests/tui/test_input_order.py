"""The next input is always handed over, whatever becomes of the part that had the one before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
from textual import work
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.keys import _character_to_key
from textual.screen import ModalScreen
from textual.widget import Widget

from natstui.tui.app import guarded
from natstui.tui.app.guarded import GuardedApp


class Stuck(Widget, can_focus=True):
    """Does not end with its first key until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()

    async def on_key(self) -> None:
        await self.go.wait()


class Asks(ModalScreen[str]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("y", "dismiss('yes')", "Yes")]


class Probe(GuardedApp):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "count", "Count", priority=True),
        Binding("b", "remove_focused", "Remove", priority=True),
        Binding("c", "ask", "Ask"),
        Binding("d", "exit_now", "Exit"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.counted = 0
        self.pumps: list[object] = []
        self.said: str | None = None

    def compose(self) -> list[Widget]:  # type: ignore[override]
        return [Stuck()]

    def action_count(self) -> None:
        self.counted += 1
        self.pumps.append(asyncio.current_task())

    async def action_remove_focused(self) -> None:
        assert self.focused is not None
        self.focused.remove()

    @work
    async def action_ask(self) -> None:
        self.said = await self.push_screen_wait(Asks())

    def action_exit_now(self) -> None:
        self.exit(return_code=3)

    def type(self, keys: str) -> None:
        """Hand keys over as a terminal does, faster than anything can be done between them."""
        assert self._driver is not None
        for letter in keys:
            key = Key(_character_to_key(letter), letter)
            key.set_sender(self)
            self._driver.send_message(key)

    @property
    def stuck(self) -> Stuck:
        return self.query_one(Stuck)


@asynccontextmanager
async def probing(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Probe]:
    monkeypatch.setattr(guarded, "_WIDGET_TIMEOUT_S", 1.0)
    app = Probe()
    async with app.run_test():
        try:
            yield app
        finally:
            # Otherwise a test that fails waits for the end of the app until its own limit.
            for stuck in app.query(Stuck) if app.is_running else ():
                stuck.go.set()


async def until(holds: Callable[[], object]) -> None:
    for _ in range(400):
        if holds():
            return
        # Not the pilot's pause: it waits for every widget.
        await asyncio.sleep(0.05)
    raise AssertionError("still not so after 20 s")


async def test_a_part_that_answers_nothing_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with probing(monkeypatch) as app:
        app.stuck.focus()
        await until(lambda: app.focused is app.stuck)
        app.type("x" + "a" * 100)
        assert app.counted == 0
        # At a second for each of them it would take 100 s.
        await until(lambda: app.counted == 100)
        assert app.waiting_event_count == 0
        app.stuck.go.set()
        app.type("aaa")
        await until(lambda: app.counted == 103)


async def test_a_part_that_answers_again_is_waited_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with probing(monkeypatch) as app:
        app.stuck.focus()
        await until(lambda: app.focused is app.stuck)
        app.type("xa")
        await until(lambda: app.counted == 1)
        assert app.stuck in app._input._unresponsive_widgets
        app.stuck.go.set()
        await until(lambda: not app._input._unresponsive_widgets)


@pytest.mark.long
async def test_two_parts_that_answer_nothing_do_not_hold_up_each_input_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with probing(monkeypatch) as app:
        app.stuck.focus()
        await until(lambda: app.focused is app.stuck)
        app.screen.call_later(app.stuck.go.wait)
        app.type("x" + "a" * 25)
        # At a second for each of them it would take 25 s, which is not waited for.
        await until(lambda: app.counted == 25)
        assert set(app._input._unresponsive_widgets) == {app.stuck, app.screen}
        app.stuck.go.set()
        await until(lambda: not app._input._unresponsive_widgets)


async def test_inputs_behind_one_that_removes_what_has_the_keys_are_handed_over_by_the_app(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with probing(monkeypatch) as app:
        for _ in range(5):
            if not app.query(Stuck):
                await app.mount(Stuck())
            app.stuck.focus()
            await until(lambda: app.focused is app.stuck)
            app.type("ba")
        await until(lambda: app.counted == 5)
        assert len(set(app.pumps)) == 1


async def test_inputs_behind_one_that_opens_a_question_answer_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with probing(monkeypatch) as app:
        app.stuck.go.set()
        app.type("cyaa")
        await until(lambda: app.said == "yes" and app.counted == 2)


async def test_inputs_behind_one_that_pops_the_screen_reach_the_one_below(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with probing(monkeypatch) as app:
        for number in range(1, 6):
            app.push_screen(Asks())
            app.type("ya")
            await until(lambda number=number: app.counted == number)
        assert len(app.screen_stack) == 1


async def test_an_app_ends_with_inputs_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with probing(monkeypatch) as app:
        app.stuck.go.set()
        app.type("d" + "xa" * 200)
        await until(lambda: not app.is_running)
    assert app.return_code == 3
