"""A benchmark while it runs, and what came of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.benchmark_command import (
    AddWorker,
    ChangeRate,
    KillWorker,
    StartBenchmark,
    StopBenchmark,
)
from natstui.model.benchmark_view import BenchmarkView
from natstui.tui.live import LiveScreen
from natstui.tui.messages import Asked, Open
from natstui.tui.present import benchmark as present
from natstui.tui.text import safe, safe_lines
from natstui.tui.widgets.chart import Chart, ChartData, Plotter
from natstui.tui.widgets.section_text import SectionText
from natstui.tui.widgets.strip_chart import StripChart

FASTER, SLOWER = 1.25, 0.8
_command_ids = itertools.count(2_000_000)


class BenchmarkScreen(LiveScreen):
    """Workers at the left; throughput, latencies, messages and the log at the right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("b,enter", "pick", "Scenarios", key_display="b", id="bench.pick"),
        Binding("s", "stop", "Stop", id="bench.stop"),
        Binding("r", "again", "Again", id="bench.again"),
        Binding("plus,equals_sign", "rate(1)", "Rate +", key_display="+", id="bench.faster"),
        Binding("minus", "rate(-1)", "Rate -", key_display="-", id="bench.slower"),
        Binding("a", "add", "Add worker", id="bench.add"),
        Binding("k", "kill", "Kill worker", id="bench.kill"),
    ]

    caption = getters.query_one("#caption", Static)
    crew = getters.query_one("#workers", SectionText)
    figures = getters.query_one("#figures", SectionText)
    log_text = getters.query_one("#log", SectionText)
    sent = getters.query_one("#sent", StripChart)
    received = getters.query_one("#received", StripChart)
    cumulative = getters.query_one("#cumulative", Chart)
    latency = getters.query_one("#latency", Chart)
    summary = getters.query_one("#summary", Static)

    def __init__(self) -> None:
        super().__init__()
        self._last: StartBenchmark | None = None

    def body(self) -> Iterable[Widget]:
        """Caption, workers beside charts, figures beside the log."""
        plotter = getattr(self.app, "plotter", None)
        assert isinstance(plotter, Plotter)
        yield Static(id="caption", markup=False)
        with Horizontal(id="bench"):
            yield VerticalScroll(
                Static(id="summary", markup=False), SectionText(id="workers"), id="bench-left"
            )
            with Vertical(id="bench-right"):
                yield StripChart("Sent", "msgs/s", id="sent")
                yield StripChart("Received", "msgs/s", id="received")
                with Horizontal(id="bench-charts"):
                    yield Chart(plotter, id="cumulative")
                    yield Chart(plotter, id="latency")
                with Horizontal(id="bench-texts"):
                    yield VerticalScroll(SectionText(id="figures"))
                    yield VerticalScroll(SectionText(id="log"))

    def refresh_state(self) -> None:
        """Show the newer state of the benchmark."""
        view = self.state.benchmark or BenchmarkView()
        self.caption.update(safe(present.title_text(view)))
        self._summarise(view)
        self.set_class(view.finished is not None, "-finished")
        if view.planned is None:
            return
        self.crew.show(present.worker_sections(view))
        self.sent.show(present.throughput(view, "sent_msgs"))
        self.received.show(present.throughput(view, "received_msgs"))
        self._chart(self.cumulative, present.cumulative_chart(view))
        self._chart(self.latency, present.latency_chart(view))
        sections = [
            present.latency_section(view),
            present.flow_section(view),
            present.histogram_section(view),
        ]
        self.figures.show([section for section in sections if section.lines])
        self.log_text.show([present.log_section(view)])

    def _chart(self, chart: Chart, data: ChartData | None) -> None:
        if data is not None:
            chart.show(data)

    def _summarise(self, view: BenchmarkView) -> None:
        """Show what came of the run, or why it could not be."""
        if view.summed is not None and view.summed.failed:
            self.summary.update(safe(view.summed.text, "$text-error"))
        elif view.summed is not None:
            self.summary.update(safe_lines(view.summed.text))
        elif view.planned is None:
            self.summary.update("no benchmark has run: b picks a scenario")
        else:
            self.summary.update("")

    def start(self, scenario: str, overrides: dict[str, str] | None = None) -> None:
        """Run a scenario: its name, or the text of a file."""
        self._last = StartBenchmark(next(_command_ids), scenario, overrides or {})
        self.post_message(Asked(self._last))

    def action_pick(self) -> None:
        """Pick or write a scenario."""
        self.post_message(Open("scenarios", ""))

    def action_stop(self) -> None:
        """End the run now; its result is marked partial."""
        self.post_message(Asked(StopBenchmark(next(_command_ids))))

    def action_again(self) -> None:
        """Run the last scenario again."""
        if self._last is not None:
            self.start(self._last.scenario, dict(self._last.overrides))

    def action_rate(self, direction: int) -> None:
        """Let the senders send a quarter more, or a fifth less."""
        factor = FASTER if direction > 0 else SLOWER
        self.post_message(Asked(ChangeRate(next(_command_ids), factor_ratio=factor)))

    def action_add(self) -> None:
        """Start one more worker of the role that receives, else of the first."""
        if (role := self._role()) is not None:
            self.post_message(Asked(AddWorker(next(_command_ids), role)))

    def action_kill(self) -> None:
        """Kill the last worker of the role that receives, else of the first, as in a crash."""
        if (role := self._role()) is not None:
            self.post_message(Asked(KillWorker(next(_command_ids), role)))

    def _role(self) -> str | None:
        planned = self.state.benchmark.planned if self.state.benchmark else None
        return present.steered_role(planned.plan) if planned else None
