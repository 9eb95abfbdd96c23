"""A benchmark while it runs, what came of it, and the keys that start, change and end one."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.bench.view import BenchmarkView
from natstui.model.live.state import State
from natstui.model.records.benchmark import (
    AddWorker,
    BenchmarkLog,
    BenchmarkSummed,
    ChangeRate,
    KillWorker,
    StartBenchmark,
    StopBenchmark,
)
from natstui.tui.bench import text
from natstui.tui.bench.text import hanging, steered_role
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, Open, next_command_id
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.chart.chart import Chart, Plotter
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.strip_chart import StripChart
from natstui.tui.kit.text import safe, safe_lines

FASTER, SLOWER = 1.25, 0.8


def _key(name: str, key: str, action: str, text: str, *, shown: str | None = None) -> Binding:
    return Binding(key, f"part('steering', {action})", text, key_display=shown, id=f"bench.{name}")


_PICK = _key("pick", "b,enter", "'pick'", "Pick", shown="b")


class Steering(ScreenPart):
    """Starts benchmarks, and steers the one that the screen shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _PICK,
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
            text = f"no benchmark has run yet{_pick_hint(self._screen)}"
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
            text = f"no benchmark runs{_pick_hint(self._screen)}"
            self._screen.notify(text, severity="warning")
        else:
            self._screen.app.post_message(Asked(command))


def _pick_hint(screen: LiveScreen) -> str:
    """Return the end of a sentence: which key picks a scenario, also where none is offered.

    So a replay shows the words that were on the screen.
    """
    return f": {key_of(screen, 'bench.pick') or _PICK.key_display} picks a scenario"


def _steered(state: State) -> str:
    """Return the role whose workers are added and killed; empty before any run."""
    planned = state.benchmark.planned if state.benchmark else None
    return (steered_role(planned.plan) or "") if planned else ""


class RunSummary(Static):
    """The sentence at the end of a run, and its table below."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._shown: tuple[BenchmarkSummed | None, str, int] = (None, "", 0)

    def show(self, summed: BenchmarkSummed | None, instead: str = "") -> None:
        """Show what came of the run, or `instead` while nothing has."""
        shown = (summed, instead, self.content_size.width)
        if shown != self._shown:
            self._shown = shown
            self.update(_drawn(*shown))

    def on_resize(self) -> None:
        """Wrap for the new width, which is another as soon as the run is over."""
        self.show(*self._shown[:2])


def _drawn(summed: BenchmarkSummed | None, instead: str, width: int) -> Content:
    if summed is None:
        return Content(instead)
    sentence, _, rest = summed.text.partition("\n")
    body = safe_lines("\n" + hanging(rest, width) if rest and width else "")
    return Content.assemble(safe(sentence, "error" if summed.failed else ""), body)


STRIPS_EVERY_S, TEXTS_EVERY_S = 0.095, 0.5


class BenchmarkScreen(LiveScreen):
    """Workers at the left; throughput, latencies, messages and the log at the right."""

    BINDINGS: ClassVar[list[BindingType]] = Steering.BINDINGS

    caption = getters.query_one("#caption", Static)
    workers_text = getters.query_one("#workers", SectionText)
    figures = getters.query_one("#figures", SectionText)
    flow = getters.query_one("#flow", SectionText)
    log_text = getters.query_one("#log", SectionText)
    sent = getters.query_one("#sent", StripChart)
    received = getters.query_one("#received", StripChart)
    cumulative = getters.query_one("#cumulative", Chart)
    latency = getters.query_one("#latency", Chart)
    summary = getters.query_one("#summary", RunSummary)

    def __init__(self) -> None:
        super().__init__()
        self.steering = Steering(self)
        self._strips_at_s = self._texts_at_s = 0.0
        self._log: tuple[BenchmarkLog, ...] = ()
        self._later: Timer | None = None

    def body(self) -> Iterable[Widget]:
        """Caption; workers and the log beside charts, latencies and messages."""
        plotter = getattr(self.app, "plotter", None)
        assert isinstance(plotter, Plotter)
        yield Static(id="caption", markup=False)
        with Horizontal(id="bench"):
            with Vertical(id="bench-left"):
                yield VerticalScroll(
                    RunSummary(id="summary"), SectionText(id="workers"), id="bench-workers"
                )
                yield VerticalScroll(SectionText(id="log"), id="bench-log")
            with Vertical(id="bench-right"):
                yield StripChart("Sent per second", "msgs/s", id="sent")
                yield StripChart("Received per second", "msgs/s", id="received")
                with Horizontal(id="bench-charts"):
                    yield Chart(plotter, id="cumulative")
                    yield Chart(plotter, id="latency")
                with Horizontal(id="bench-texts"):
                    yield VerticalScroll(SectionText(id="figures"))
                    yield VerticalScroll(SectionText(id="flow", value_cells=10), id="bench-flow")

    def refresh_state(self) -> None:
        """Show the newer state of the benchmark."""
        view, now_s = self.state.benchmark or BenchmarkView(), monotonic()
        if self.has_class("-finished") != (view.finished is not None):
            self.set_class(view.finished is not None, "-finished")
            # What fits depends on the widths that the screen has then.
            self.call_after_refresh(self.refresh_state)
        # In a replay a moment may stay: nothing newer comes that would show the rest of it.
        over = view.planned is None or view.finished is not None or self.state.replay is not None
        strips_due = over or now_s - self._strips_at_s >= STRIPS_EVERY_S
        if strips_due:
            self._strips_at_s = now_s
            self.sent.show(text.throughput(view, "sent_msgs"))
            self.received.show(text.throughput(view, "received_msgs"))
        # New texts lay the screen out again: every half second is as fast as anybody reads.
        due = over or view.log is not self._log or now_s - self._texts_at_s >= TEXTS_EVERY_S
        if due:
            self._texts_at_s, self._log = now_s, view.log
            self._show_texts(view)
        if not (due and strips_due) and self._later is None:
            # The last report of all shall be seen too.
            self._later = self.set_timer(TEXTS_EVERY_S, self._catch_up)

    def _catch_up(self) -> None:
        self._later = None
        self.refresh_state()

    def _show_texts(self, view: BenchmarkView) -> None:
        """Show everything that is read, and the charts."""
        self.caption.update(safe(text.title_text(view, self.size.width)), layout=False)
        none = f"no benchmark has run{_pick_hint(self)}" if view.planned is None else ""
        self.summary.show(view.summed, none)
        self.workers_text.show(text.worker_sections(view, self.workers_text.content_size.width))
        # Also when there is nothing: a replay goes back to before the first run.
        self.cumulative.show(text.cumulative_chart(view))
        self.latency.show(text.latency_chart(view))
        if view.planned is None:
            for texts in (self.figures, self.flow, self.log_text):
                texts.show([])
            return
        latency, flow = text.latency_section(view), text.flow_section(view)
        narrow = self.has_class("-narrow")
        figures = [latency, flow if narrow else text.histogram_section(view)]
        self.figures.show([section for section in figures if section.lines])
        self.flow.show([flow])
        self.log_text.show([text.log_section(view)])

    def on_resize(self) -> None:
        """Wrap the summary and the workers for the new width, without waiting for their turn."""
        self._texts_at_s = 0.0
        self.call_after_refresh(self.refresh_state)
