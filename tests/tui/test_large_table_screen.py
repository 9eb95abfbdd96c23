"""Tables so large that they are put in order beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar

import pytest
from textual.app import App

from natstui import defects
from natstui.model.live.known_rows import Roster, RowKey
from natstui.model.live.state import State
from natstui.tui.frame.columns import ColumnSpec, ItemsView, SortAndFilter
from natstui.tui.frame.messages import StateChanged
from natstui.tui.frame.systems import SystemState
from natstui.tui.frame.table_screen import THREAD_SORT_MIN_ROWS, TableScreen
from natstui.tui.kit.table.rows import Cell

ROWS = THREAD_SORT_MIN_ROWS + 100


class Numbers(ItemsView[int]):
    """So many rows, each named by its number; sorting waits until it may go on."""

    def __init__(self, roster: Roster, may_sort: threading.Event) -> None:
        count = len(roster.keys)
        super().__init__(range(count), roster.keys, [f"row-{n}" for n in range(count)])
        self.roster = roster
        self.may_sort = may_sort

    def backwards(self) -> Sequence[object]:
        assert self.may_sort.wait(20)
        return [-number for number in self.items]


def name(view: Numbers, row: int) -> Cell:
    """The name of a row."""
    return Cell(f"row-{view.items[row]}")


def roster_of(count: int) -> Roster:
    keys: tuple[RowKey, ...] = tuple((f"row-{number}", 1) for number in range(count))
    return Roster(keys)


class NumbersScreen(TableScreen):
    """The numbers, the greatest on top."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = (
        ColumnSpec("name", "NAME", 20, 0, name, lambda view: view.backwards()),
    )
    NOUN = "numbers"
    DEFAULT_ORDER = SortAndFilter("name")

    def __init__(self) -> None:
        super().__init__()
        self.roster = roster_of(ROWS)
        self.may_sort = threading.Event()
        self.may_sort.set()

    def view(self) -> Numbers:
        return Numbers(self.roster, self.may_sort)


class NumbersApp(App[None]):
    """Shows the numbers."""

    def on_mount(self) -> None:
        self.push_screen(NumbersScreen())


class FailingNumbers(Numbers):
    """Numbers that cannot be sorted."""

    def backwards(self) -> Sequence[object]:
        assert self.may_sort.wait(20)
        raise ZeroDivisionError


class FailingScreen(NumbersScreen):
    """The numbers, which cannot be sorted while `fails` is set."""

    fails = True
    sorts_count = 0

    def view(self) -> Numbers:
        self.sorts_count += 1
        return (FailingNumbers if self.fails else Numbers)(self.roster, self.may_sort)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds; fail after 10 s."""
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.02)


def first_row(screen: NumbersScreen) -> Hashable:
    return screen.rows.key(screen.rows.order[0]) if screen.rows and screen.rows.order else None


@pytest.mark.slow
async def test_an_expression_that_is_none_is_told_and_ends_nothing() -> None:
    app = NumbersApp()
    async with app.run_test(size=(100, 30)) as pilot:
        screen = app.screen
        assert isinstance(screen, NumbersScreen)
        screen.post_message(StateChanged(SystemState("", "", State(), 0)))
        while first_row(screen) is None:
            await pilot.pause(0.05)
        await pilot.press("slash", "left_parenthesis")
        while "not a regular expression" not in str(screen.caption.render()):
            await pilot.pause(0.05)
        await pilot.press("right_parenthesis", "backspace", "backspace", *"row-7$", "enter")
        while screen.rows is None or len(screen.rows.order) != 1:
            await pilot.pause(0.05)


async def test_an_order_that_is_not_ready_does_not_lend_its_place_to_one_of_other_rows() -> None:
    app = NumbersApp()
    async with app.run_test(size=(100, 30)) as pilot:
        screen = app.screen
        assert isinstance(screen, NumbersScreen)
        screen.post_message(StateChanged(SystemState("", "", State(), 0)))
        while first_row(screen) != (f"row-{ROWS - 1}", 1):
            await pilot.pause(0.05)
        # A row goes, and newer states come while its table is still being put in order.
        screen.roster, screen.may_sort = roster_of(ROWS - 1), threading.Event()
        for poll_age_us in (1, 2, 3):
            screen.post_message(StateChanged(SystemState("", "", State(), poll_age_us)))
            await pilot.pause(0.1)
        assert first_row(screen) == (f"row-{ROWS - 1}", 1)
        screen.may_sort.set()
        while first_row(screen) != (f"row-{ROWS - 2}", 1):
            await pilot.pause(0.05)


async def test_rows_that_come_faster_than_they_are_sorted_are_shown_all_the_same() -> None:
    app = NumbersApp()
    async with app.run_test(size=(100, 30)) as pilot:
        screen = app.screen
        assert isinstance(screen, NumbersScreen)
        may_sort: list[threading.Event] = []
        for removed_count in (0, 1, 2):
            may_sort.append(threading.Event())
            screen.roster, screen.may_sort = roster_of(ROWS - removed_count), may_sort[-1]
            screen.post_message(StateChanged(SystemState("", "", State(), removed_count)))
            await pilot.pause(0.1)
        assert first_row(screen) is None
        may_sort[0].set()
        await until(lambda: first_row(screen) == (f"row-{ROWS - 1}", 1))
        # Of the others the newest one is sorted next.
        may_sort[2].set()
        await until(lambda: first_row(screen) == (f"row-{ROWS - 3}", 1))
        may_sort[1].set()


@pytest.fixture
def no_reported_defects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report the defects of a test although an earlier test had the same."""
    monkeypatch.setattr(defects, "_reported_defects", {})


@pytest.mark.usefixtures("no_reported_defects")
async def test_an_error_while_many_rows_are_sorted_is_a_toast_and_ends_nothing() -> None:
    app = NumbersApp()
    async with app.run_test(size=(100, 30)):
        screen = FailingScreen()
        app.push_screen(screen)
        await until(lambda: screen.is_current and screen.is_mounted)
        screen.post_message(StateChanged(SystemState("", "", State(), 0)))
        await until(
            lambda: any("ZeroDivisionError" in toast.message for toast in app._notifications)
        )
        screen.fails = False
        screen.post_message(StateChanged(SystemState("", "", State(), 1)))
        await until(lambda: first_row(screen) == (f"row-{ROWS - 1}", 1))


@pytest.mark.usefixtures("no_reported_defects")
async def test_the_newest_rows_are_sorted_after_an_error_in_those_before() -> None:
    app = NumbersApp()
    async with app.run_test(size=(100, 30)):
        screen = FailingScreen()
        app.push_screen(screen)
        await until(lambda: screen.is_current and screen.is_mounted)
        screen.may_sort.clear()
        screen.post_message(StateChanged(SystemState("", "", State(), 0)))
        await until(lambda: screen._sorter._running_sort_request is not None)
        screen.fails, screen.roster = False, roster_of(ROWS - 1)
        screen.post_message(StateChanged(SystemState("", "", State(), 1)))
        await until(lambda: screen._sorter._next_sort is not None)
        screen.may_sort.set()
        await until(lambda: first_row(screen) == (f"row-{ROWS - 2}", 1))


@pytest.mark.usefixtures("no_reported_defects")
async def test_an_error_in_every_sort_is_one_toast() -> None:
    app = NumbersApp()
    async with app.run_test(size=(100, 30)):
        screen = FailingScreen()
        app.push_screen(screen)
        await until(lambda: screen.is_current and screen.is_mounted)
        for polls_count in (1, 2, 3):
            screen.post_message(StateChanged(SystemState("", "", State(), polls_count)))
            await until(lambda of=polls_count: screen.sorts_count == of)
            await until(lambda: not any(worker.is_running for worker in app.workers))
        assert ["ZeroDivisionError" in toast.message for toast in app._notifications] == [True]


async def test_rows_that_are_sorted_after_their_table_was_removed_end_nothing() -> None:
    app = NumbersApp()
    async with app.run_test(size=(100, 30)):
        screen = app.screen
        assert isinstance(screen, NumbersScreen)
        screen.may_sort.clear()
        screen.post_message(StateChanged(SystemState("", "", State(), 0)))
        await until(lambda: screen._sorter._running_sort_request is not None)
        # A screen that closes loses its widgets before its tasks are cancelled.
        await screen.table.remove()
        screen.may_sort.set()
        await until(lambda: screen._sorter._running_sort_request is None)
        await until(lambda: not any(worker.is_running for worker in app.workers))
