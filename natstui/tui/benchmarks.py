"""How a benchmark gets from wherever it is asked for onto its screen: part of the app."""

from __future__ import annotations

from textual import on

from natstui.tui.live import LiveScreen
from natstui.tui.messages import RunScenario
from natstui.tui.rhythm import Rhythm


def benchmark_screen() -> LiveScreen:
    """Return the benchmark's screen, imported when somebody wants it."""
    from natstui.tui.screens.benchmark import BenchmarkScreen

    return BenchmarkScreen()


class Benchmarks(Rhythm):
    """Brings the benchmark's screen into view and starts a scenario there."""

    @on(RunScenario)
    async def _run_scenario(self, message: RunScenario) -> None:
        """Leave the list of scenarios, and let the benchmark's screen start this one."""
        while len(self.screen_stack) > 1:
            await self.pop_screen()
        self.switch_mode("benchmark")
        self.call_after_refresh(self._start_scenario, message.scenario)

    def _start_scenario(self, scenario: str) -> None:
        from natstui.tui.screens.benchmark import BenchmarkScreen

        if isinstance(self.screen, BenchmarkScreen):
            self.screen.start(scenario)
