"""The keys that start a benchmark, and change or end the one that runs."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.model.bench.view import BenchmarkView
from natstui.model.live.state import State
from natstui.model.records.benchmark import (
    AddWorker,
    ChangeRate,
    KillWorker,
    StartBenchmark,
    StopBenchmark,
)
from natstui.tui.bench.text import steered_role
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, Open, next_command_id
from natstui.tui.frame.screen_part import ScreenPart

FASTER, SLOWER = 1.25, 0.8


def _key(name: str, key: str, action: str, text: str, *, shown: str | None = None) -> Binding:
    return Binding(key, f"part('steering', {action})", text, key_display=shown, id=f"bench.{name}")


class Steering(ScreenPart):
    """Starts benchmarks, and steers the one that the screen shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _key("pick", "b,enter", "'pick'", "Pick", shown="b"),
        _key("stop", "s", "'stop'", "Stop"),
        _key("again", "r", "'again'", "Again"),
        _key("faster", "plus,equals_sign", "'rate', 1", "Faster", shown="+"),
        _key("slower", "minus", "'rate', -1", "Slower", shown="-"),
        _key("add", "a", "'add'", "Add"),
        _key("kill", "k", "'kill'", "Kill"),
    ]

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen
        self._last: StartBenchmark | None = None

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer the keys on a live server only."""
        return self._screen.state.replay is None

    def start(self, scenario: str, overrides: dict[str, str] | None = None) -> None:
        """Run a scenario: its name, or the text of a file."""
        self._last = StartBenchmark(next_command_id(), scenario, overrides or {})
        self._screen.app.post_message(Asked(self._last))

    def action_pick(self) -> None:
        """Pick or write a scenario."""
        self._screen.app.post_message(Open("scenarios", ""))

    def action_stop(self) -> None:
        """End the run now; its result is marked partial."""
        self._steer(StopBenchmark(next_command_id()))

    def action_again(self) -> None:
        """Run the last scenario again."""
        if self._last is None:
            text = "no benchmark has run yet: b picks a scenario"
            self._screen.notify(text, severity="warning")
        else:
            self.start(self._last.scenario, dict(self._last.overrides))

    def action_rate(self, direction: int) -> None:
        """Let the senders send a quarter more, or a fifth less."""
        factor = FASTER if direction > 0 else SLOWER
        self._steer(ChangeRate(next_command_id(), factor_ratio=factor))

    def action_add(self) -> None:
        """Start one more worker of the role that receives, else of the first."""
        self._steer(AddWorker(next_command_id(), _steered(self._screen.state)))

    def action_kill(self) -> None:
        """Kill the last worker of the role that receives, else of the first, as in a crash."""
        self._steer(KillWorker(next_command_id(), _steered(self._screen.state)))

    def _steer(self, command: StopBenchmark | ChangeRate | AddWorker | KillWorker) -> None:
        """Ask for it, or say that there is nothing to steer; of a replay the app says it."""
        state = self._screen.state
        view = state.benchmark or BenchmarkView()
        if state.replay is None and (view.planned is None or view.finished is not None):
            self._screen.notify("no benchmark runs: b picks a scenario", severity="warning")
        else:
            self._screen.app.post_message(Asked(command))


def _steered(state: State) -> str:
    """Return the role whose workers are added and killed; empty before any run."""
    planned = state.benchmark.planned if state.benchmark else None
    return (steered_role(planned.plan) or "") if planned else ""
