"""The benchmark screen: a running benchmark and its result, and the keys that control it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import monotonic
from typing import ClassVar

from textual import getters, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.bench.payload_text import (
    PAYLOAD_HELP,
    describe_payload,
    format_payload,
    parse_payload,
)
from natstui.model.bench.plan import Payload
from natstui.model.bench.view import BenchmarkView
from natstui.model.live.state import State
from natstui.model.records.benchmark import (
    AddWorker,
    BenchmarkLog,
    BenchmarkPlanned,
    BenchmarkSummed,
    ChangePayload,
    ChangeRate,
    HoldWorkers,
    KillWorker,
    StartBenchmark,
    StopBenchmark,
)
from natstui.model.records.record import Command
from natstui.tui.bench import text
from natstui.tui.bench.charts import (
    LATENCY_COLOR,
    cumulative_chart,
    latency_chart,
    throughput_chart,
)
from natstui.tui.bench.figures import Figure, draw_large, main_figures
from natstui.tui.bench.text import controlled_role, wrap_summary
from natstui.tui.bench.workers import worker_sections
from natstui.tui.frame.confirmation import request_confirmed
from natstui.tui.frame.detail.screen import LOG_KEY, ChartControls
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.messages import Open
from natstui.tui.frame.requests import run_task, show_reply
from natstui.tui.kit.chart.chart import Chart
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.styles import series_colors, style_of
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe, safe_copy, safe_lines

FASTER, SLOWER = 1.25, 0.8


def _key_binding(
    name: str, key: str, action: str, text: str, *, key_text: str | None = None
) -> Binding:
    return Binding(
        key, f"part('steering', {action})", text, key_display=key_text, id=f"bench.{name}"
    )


_OPEN_FORM = _key_binding("pick", "b,enter", "'pick'", "Form", key_text="b")


class BenchmarkControls(ScreenPart):
    """The keys that start a benchmark, and change or stop the running one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _OPEN_FORM,
        _key_binding("stop", "ctrl+x", "'stop'", "Stop"),
        _key_binding("again", "r", "'again'", "Again"),
        _key_binding("faster", "plus,equals_sign", "'rate', 1", "Faster", key_text="+"),
        _key_binding("slower", "minus", "'rate', -1", "Slower", key_text="-"),
        _key_binding("add", "a", "'add'", "Add"),
        _key_binding("kill", "k", "'kill'", "Kill"),
        _key_binding("freeze", "f", "'freeze'", "Freeze"),
        _key_binding("hold", "h", "'hold'", "Hold"),
        _key_binding("payload", "P", "'payload'", "Payload"),
    ]

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen
        self._last_start: StartBenchmark | None = None
        self._planned_before: dict[str, BenchmarkPlanned | None] = {}
        """The run on the screen when the next one was requested, by the name of the system; until
        the next one ends, because the engine replies then.
        """

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: a start before a run, a change during it; not in
        a replay.
        """
        if self._screen.state.replay is not None:
            return False
        match action:
            case "pick":
                return True
            case "again":
                return (
                    self._last_start is not None
                    and not self.is_benchmark_running
                    and not self.is_starting
                )
            case _:
                return self.is_benchmark_running

    @property
    def is_benchmark_running(self) -> bool:
        """Return whether a benchmark is running."""
        return self._view.is_running

    @property
    def is_starting(self) -> bool:
        """Return whether a run was requested on the shown system and is not planned yet."""
        system, is_live = self._screen.scope.acting.name, self._screen.state.replay is None
        return (
            is_live
            and system in self._planned_before
            and self._view.planned is self._planned_before[system]
        )

    def start(self, scenario: str, system: str, overrides: dict[str, str] | None = None) -> None:
        """Run a scenario, given by its name or its TOML text, on the acting system.

        `system` is the name of that, which a new screen does not know yet.
        """
        self._last_start = StartBenchmark(0, scenario, overrides or {})
        run_task(self._screen, self._run, self._last_start, system)

    async def _run(self, command: StartBenchmark, system: str) -> None:
        self._planned_before[system] = self._view.planned
        self._screen.refresh_bindings()
        self._screen.refresh_state()
        try:
            reply = await request_confirmed(self._screen, command)
        finally:
            self._planned_before.pop(system, None)
        if reply is not None and reply.status != "done":
            show_reply(self._screen.app, reply, "benchmark")
        self._screen.refresh_bindings()
        self._screen.refresh_state()

    def action_pick(self) -> None:
        """Open the form of a benchmark."""
        self._screen.app.post_message(Open("scenarios", ""))

    def action_stop(self) -> None:
        """Stop the run; its result is marked partial."""
        self._request_change(StopBenchmark(0))

    def action_again(self) -> None:
        """Run the last scenario again."""
        if self._last_start is not None:
            system = self._screen.scope.acting.name
            self.start(self._last_start.scenario, system, dict(self._last_start.overrides))

    def action_rate(self, direction: int) -> None:
        """Increase the senders' rate by a quarter (1), or decrease it by a fifth (-1)."""
        factor = FASTER if direction > 0 else SLOWER
        self._request_change(ChangeRate(0, factor_ratio=factor))

    def action_add(self) -> None:
        """Start another worker of the controlled role."""
        self._request_change(AddWorker(0, _controlled_role(self._screen.state)))

    def action_kill(self) -> None:
        """Kill the last worker of the controlled role, like a crash."""
        self._request_change(KillWorker(0, _controlled_role(self._screen.state)))

    def action_freeze(self) -> None:
        """Pause or resume the last worker of the controlled role."""
        self._request_change(HoldWorkers(0, _controlled_role(self._screen.state)))

    def action_hold(self) -> None:
        """Pause or resume all workers; overdue messages are sent after the pause."""
        self._request_change(HoldWorkers(0))

    def action_payload(self) -> None:
        """Prompt for the new payload of the senders."""
        if (plan_record := self._view.planned) is None:
            return
        payload = next(
            (role.payload for role in plan_record.plan.roles if role.traits.sends), Payload()
        )

        def change(text: str | None) -> None:
            if text is not None:
                self._request_change(ChangePayload(0, text))

        prompt = Prompt(
            f"New payload: {PAYLOAD_HELP}",
            format_payload(payload),
            refusal=lambda text: _check_payload(text, payload)[1],
            meaning=lambda text: _check_payload(text, payload)[0],
        )
        self._screen.app.push_screen(prompt, change)

    @property
    def _view(self) -> BenchmarkView:
        return self._screen.state.benchmark or BenchmarkView()

    def _request_change(
        self,
        command: StopBenchmark | ChangeRate | ChangePayload | AddWorker | KillWorker | HoldWorkers,
    ) -> None:
        """Request a change of the run; only a failure is notified, as the log has the rest."""
        run_task(self._screen.app, self._send, command)

    async def _send(self, command: Command) -> None:
        app = self._screen.app
        reply = await self._screen.engine.request(command)
        if reply.status != "done":
            app.notify(safe_copy(reply.text), severity="warning")


def _check_payload(text: str, now: Payload) -> tuple[str, str]:
    """Return the meaning and the error of a typed payload; one of them is empty."""
    try:
        new = parse_payload(text, now)
    except ValueError as error:
        return "", str(error)
    return f"file {new.file}" if new.kind == "file" else describe_payload(new), ""


def _form_hint(screen: LiveScreen) -> str:
    """Return the end of a sentence with the key that opens the form.

    In a replay, where the key is not offered, it is the default key.
    """
    return f": {key_of(screen, 'bench.pick') or _OPEN_FORM.key_display} opens the form of one"


def _controlled_role(state: State) -> str:
    """Return the name of the role whose workers the keys change; empty before any run."""
    plan_record = state.benchmark.planned if state.benchmark else None
    return (controlled_role(plan_record.plan) or "") if plan_record else ""


class RunSummary(Static):
    """The summary of a finished run: a sentence, and a table below it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._inputs: tuple[BenchmarkSummed | None, str, bool, int] = (None, "", False, 0)
        self.row_count = 0
        """Number of rows of the text."""

    def show(
        self,
        summary: BenchmarkSummed | None,
        placeholder: str = "",
        *,
        with_uncorrected: bool = False,
    ) -> None:
        """Show the summary of the run, or `placeholder` without one."""
        inputs = (summary, placeholder, with_uncorrected, self.content_size.width)
        if inputs != self._inputs:
            self._inputs = inputs
            content = _draw_summary(*inputs)
            self.row_count = content.plain.count("\n") + 1
            self.update(content)

    def on_resize(self) -> None:
        """Wrap the text for the new width, which changes at the end of a run."""
        summary, placeholder, with_uncorrected, _ = self._inputs
        self.show(summary, placeholder, with_uncorrected=with_uncorrected)
        # A text that changes during a resize keeps its previous height.
        self.call_after_refresh(self.refresh, layout=True)


def _draw_summary(
    summary: BenchmarkSummed | None, placeholder: str, with_uncorrected: bool, width: int
) -> Content:
    if summary is None:
        return Content(placeholder)
    sentence, _, table_text = summary.text.partition("\n")
    if not with_uncorrected:
        table_text = "\n".join(
            text_line for text_line in table_text.splitlines() if ".uncorrected" not in text_line
        )
    body = safe_lines("\n" + wrap_summary(table_text, width) if table_text and width else "")
    return Content.assemble(safe(sentence, "error" if summary.failed else ""), body)


TEXTS_EVERY_S = 0.5
_MAX_FIGURES = 5
_MIN_LINES_BELOW = 3
"""Minimum visible lines of the texts below the workers on a narrow screen; with fewer, the texts
start below the edge of the screen.
"""
_MIN_ROWS = 5
"""Minimum rows of the latency distribution, even if they do not fit without scrolling."""


class FittedText(SectionText):
    """A text that the screen renders again for every new width."""

    class Fitted(Message):
        """The width of the text has changed."""

    def on_resize(self) -> None:
        """Wrap the text, and post `Fitted`, so that the screen renders it again."""
        super().on_resize()
        self.post_message(self.Fitted())


class FigureRow(Horizontal):
    """The main figures, each in a frame."""

    DEFAULT_CSS = """
    FigureRow { height: 3; padding: 0; display: none; }
    FigureRow.-shown { display: block; }
    FigureRow.-large, FigureRow.-large Static { height: 5; }
    FigureRow Static {
        width: 1fr; height: 3; padding: 0 1; border: round $foreground 25%;
        border-title-color: $text-accent; border-title-style: bold;
        border-subtitle-color: $text-muted;
    }
    """

    def compose(self) -> ComposeResult:
        """Yield the maximum number of frames."""
        for _ in range(_MAX_FIGURES):
            yield Static(markup=False)

    def show(self, figures: Sequence[Figure], *, is_large: bool) -> None:
        """Show figures from the left; with `is_large`, digits are three lines high."""
        self.set_class(bool(figures), "-shown")
        self.set_class(is_large, "-large")
        colors = series_colors(dark=self.app.current_theme.dark)
        for index, frame in enumerate(self.query(Static)):
            frame.display = index < len(figures)
            if index < len(figures):
                figure = figures[index]
                style_name = (
                    figure.style_name if figure.color_index is None else colors[figure.color_index]
                )
                frame.border_title = figure.title
                frame.border_subtitle = figure.before
                if is_large:
                    # A narrow screen has no frames with titles: these are beside the number.
                    side_texts = ("", "", figure.unit)
                    if self.screen.has_class("-narrow"):
                        side_texts = (figure.title, figure.before.partition(" ")[0], figure.unit)
                    rows = zip(draw_large(figure.value), side_texts, strict=True)
                    lines = [
                        Content.assemble(
                            safe_lines(digits, style_name), " ", safe(side_text, "dim")
                        )
                        for digits, side_text in rows
                    ]
                    frame.update(Content("\n").join(lines))
                else:
                    value = safe(figure.text, figure.style_name)
                    frame.update(Content.assemble(value, "  ", safe(figure.spark, style_name)))


def _create_frame(title: str, text: Widget, *, id: str) -> VerticalScroll:
    """Return a scrollable frame with a title around a text."""
    frame = VerticalScroll(text, id=id)
    frame.border_title = title
    return frame


def _bar_colors(screen: LiveScreen) -> tuple[str, ...]:
    """Return the colours of latencies up to p50, up to p99, and above."""
    variables = screen.app.theme_variables
    colors = series_colors(dark=screen.app.current_theme.dark)
    return (colors[LATENCY_COLOR], variables["text-warning"], variables["text-error"])


class BenchmarkScreen(LiveScreen):
    """Shows charts, below them workers, latencies and messages, and the log.

    After a run, its summary replaces the workers.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *BenchmarkControls.BINDINGS,
        LOG_KEY,
        Binding("u", "uncorrected", "Uncorrected", show=False, id="bench.uncorrected"),
    ]

    caption = getters.query_one("#caption", Static)
    figure_row = getters.query_one(FigureRow)
    workers_text = getters.query_one("#workers", FittedText)
    figures = getters.query_one("#figures", FittedText)
    flow = getters.query_one("#flow", SectionText)
    log_text = getters.query_one("#log", SectionText)
    summary = getters.query_one("#summary", RunSummary)

    def __init__(self) -> None:
        super().__init__()
        self.steering = BenchmarkControls(self)
        self.reading = ChartControls(self, self._show_charts)
        self._texts_at_s = 0.0
        self._log: tuple[BenchmarkLog, ...] = ()
        self._pending_refresh: Timer | None = None
        self._with_uncorrected = False
        self._was_running = False
        """Whether a benchmark was running when the keys were last drawn."""

    def second_line(self) -> list[Cell] | None:
        """Return the figures of a run on a narrow screen, which has no space for their frames."""
        view = self.state.benchmark or BenchmarkView()
        figures = main_figures(view)
        if not figures or not self.has_class("-narrow") or view.finished is not None:
            return None
        return [
            Cell(
                " ".join(filter(None, (figure.title, figure.spark[-4:], figure.text))),
                figure.style_name,
            )
            for figure in figures
        ]

    def action_uncorrected(self) -> None:
        """Show or hide latencies from the time of sending, beside those from the due time."""
        self._with_uncorrected = not self._with_uncorrected
        self._texts_at_s = 0.0
        self.refresh_state()

    def body(self) -> Iterable[Widget]:
        """Yield caption, figures, charts, summary, workers, latencies, messages and log."""
        yield Static(id="caption", markup=False)
        yield FigureRow()
        with Vertical(id="bench"):
            with Horizontal(id="bench-charts"):
                for name in ("throughput", "latency", "cumulative"):
                    yield Chart(id=name)
            with VerticalScroll(id="bench-below", can_focus=False):
                yield _create_frame("Result", RunSummary(id="summary"), id="bench-summary")
                yield VerticalScroll(FittedText(id="workers"), id="bench-workers")
                yield _create_frame("Latency", FittedText(id="figures"), id="bench-figures")
                yield _create_frame(
                    "Messages", SectionText(id="flow", value_cells=10), id="bench-flow"
                )
            yield _create_frame("Log", SectionText(id="log"), id="bench-log")

    def refresh_state(self) -> None:
        """Show the newer state of the benchmark, at most every half second."""
        view, now_s = self.state.benchmark or BenchmarkView(), monotonic()
        is_over = view.planned is not None and not view.is_running
        phases = {"-idle": view.planned is None, "-finished": is_over}
        if any(self.has_class(name) != is_on for name, is_on in phases.items()):
            for name, is_on in phases.items():
                self.set_class(is_on, name)
        if self.steering.is_benchmark_running is not self._was_running:
            self._was_running = self.steering.is_benchmark_running
            self.refresh_bindings()
        # A replay may stay at a moment: then no newer state would show the texts.
        is_fixed = not view.is_running or self.state.replay is not None
        if is_fixed or view.log is not self._log or now_s - self._texts_at_s >= TEXTS_EVERY_S:
            self._texts_at_s, self._log = now_s, view.log
            self._show_texts(view)
            self._show_charts()
        elif self._pending_refresh is None:
            # Otherwise the last report would not be shown.
            self._pending_refresh = self.set_timer(TEXTS_EVERY_S, self._run_pending_refresh)

    def _run_pending_refresh(self) -> None:
        self._pending_refresh = None
        self.refresh_state()

    def _show_charts(self) -> None:
        """Show the charts, also empty ones: a replay may seek to a moment before the run."""
        view = self.state.benchmark or BenchmarkView()
        charts_data = (throughput_chart(view), latency_chart(view), cumulative_chart(view))
        charts = list(self.query(Chart))
        for chart, data in zip(charts, charts_data, strict=True):
            # Without data, as the latency of a run of a second, the other charts get the space.
            chart.set_class(data is None and charts_data[0] is not None, "-nothing")
        self.reading.show(charts, charts_data)

    def _show_texts(self, view: BenchmarkView) -> None:
        """Show caption, figures, summary, workers, latencies, messages and log."""
        is_starting = self.steering.is_starting
        title = "starting the benchmark" if is_starting else text.title_text(view, self.size.width)
        caption = safe(title)
        filled_bar = re.search("█+", caption.plain)
        if filled_bar is not None:
            caption = caption.stylize(style_of("primary"), *filled_bar.span())
        self.caption.update(caption, layout=False)
        self.figure_row.show(main_figures(view), is_large=view.finished is not None)
        no_run_text = f"no benchmark has run{_form_hint(self)}, with built-in scenarios"
        no_run_text = no_run_text if view.planned is None and not is_starting else ""
        self.summary.show(view.summed, no_run_text, with_uncorrected=self._with_uncorrected)
        if view.planned is None:
            for texts in (self.workers_text, self.figures, self.flow, self.log_text):
                texts.show([])
            return
        target_id = "#bench-below" if self.has_class("-narrow") else "#bench-workers"
        available_rows = self.query_one(target_id).size.height
        width = self.workers_text.content_size.width
        colors = series_colors(dark=self.app.current_theme.dark)
        workers = worker_sections(view, width, available_rows, colors)
        self.workers_text.show(workers)
        # Only a title would be visible at the lower edge: then the text starts below the edge.
        free_rows = available_rows - sum(len(section.lines) for section in workers)
        gap = free_rows if self.has_class("-narrow") and 0 < free_rows < _MIN_LINES_BELOW else 0
        self.figures.styles.margin = (gap, 0, 0, 0)
        flow = text.flow_section(view)
        # After a run, the summary has the latencies in more detail.
        figures = (
            []
            if view.finished
            else [
                text.latency_section(
                    view,
                    with_uncorrected=self._with_uncorrected,
                    is_framed=not self.has_class("-narrow"),
                )
            ]
        )
        # A narrow screen has no own column for the messages.
        figures += [flow] if self.has_class("-narrow") else []
        figures_rows = sum(len(section.lines) + 2 for section in figures)
        target_id = "#bench-below" if self.has_class("-narrow") else "#bench-figures"
        available_rows = self.query_one(target_id).size.height - figures_rows - 1
        width = self.figures.content_size.width
        figures.append(
            text.distribution_section(
                view, width, max(_MIN_ROWS, available_rows), _bar_colors(self)
            )
        )
        log = text.log_section(view)
        # Beside the summary there is more space for the log than below it.
        figures += [log] if view.finished and not self.has_class("-narrow") else []
        self.figures.show([section for section in figures if section.lines])
        # Their titles are in the frames.
        self.flow.show([replace(flow, title="")])
        self.log_text.show([replace(log, title="")])
        self._fit_area_below_charts(sum(len(section.lines) + 2 for section in figures))

    def _fit_area_below_charts(self, figures_rows: int) -> None:
        """After a run, on a wide screen, set the height of the area below the charts to its rows,
        so that the charts get the other rows; else remove that height.
        """
        below = self.query_one("#bench-below").styles
        if self.has_class("-finished") and self.has_class("-wide"):
            below.height = max(self.summary.row_count, figures_rows) + 1
        else:
            below.clear_rule("height")

    @on(FittedText.Fitted)
    def _render_again(self) -> None:
        """Render the texts for their new width at once."""
        self._texts_at_s = 0.0
        self.refresh_state()
