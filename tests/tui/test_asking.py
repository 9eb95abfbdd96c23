"""Commands are told apart by their numbers."""

from __future__ import annotations

from textual import on
from textual.app import App

from natstui.tui.bench.runs import RunsScreen
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, next_command_id
from natstui.tui.managing.raw import RawScreen


class Collecting(App[None]):
    """Keeps the number of every command that a screen asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    @on(Asked)
    def keep(self, message: Asked) -> None:
        self.numbers.append(message.command.command_id)


async def test_no_screen_asks_under_a_number_of_another() -> None:
    app, screens = Collecting(), (RawScreen("S", None), RunsScreen(), ScenariosScreen())
    first = next_command_id()
    async with app.run_test() as pilot:
        benchmark = BenchmarkScreen()
        shown: tuple[LiveScreen, ...] = (*screens, benchmark)
        for screen in shown:
            await app.push_screen(screen)
        benchmark.steering.start("quick")
        await pilot.pause()
    assert app.numbers == [first + 1, first + 2, first + 3, first + 4]
