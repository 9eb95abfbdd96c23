"""The benchmark screen: a running benchmark and its result, and the keys that control it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    KillWorker,
    PauseWorkers,
    StartBenchmark,
    StopBenchmark,
)
from natstui.model.records.record import Command
from natstui.tui.bench import text
from natstui.tui.bench.charts import (
    LATENCY_COLOR_INDEX,
    cumulative_chart,
    latency_chart,
    throughput_chart,
)
from natstui.tui.bench.figures import MainFigure, draw_large, main_figures
from natstui.tui.bench.text import controlled_role, wrap_summary
from natstui.tui.bench.workers import worker_sections
from natstui.tui.frame.confirmation import request_confirmed
from natstui.tui.frame.detail.screen import LOG_SCALE_BINDING, ChartControls
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.messages import Open
from natstui.tui.frame.requests import SystemEngine, run_task, show_reply
from natstui.tui.kit.chart.chart import Chart
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.styles import series_colors, style_of
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe, safe_copy, safe_lines
from natstui.values import replace

FASTER_FACTOR, SLOWER_FACTOR = 1.25, 0.8


def _key_binding(
    name: str, key: str, action: str, text: str, *, key_text: str | None = None
) -> Binding:
    return Binding(
        key, f"part('steering', {action})", text, key_display=key_text, id=f"bench.{name}"
    )


_OPEN_FORM_BINDING = _key_binding("pick", "b,enter", "'pick'", "Form", key_text="b")


class BenchmarkControls(ScreenPart):
    """The keys that start a benchmark, and change or stop the running one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _OPEN_FORM_BINDING,
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
        self._previous_plan_by_system: dict[str, BenchmarkPlanned | None] = {}
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
            and system in self._previous_plan_by_system
            and self._view.planned is self._previous_plan_by_system[system]
        )

    def start(self, scenario: str, system: str, overrides: dict[str, str] | None = None) -> None:
        """Run a scenario, given as its name or its TOML text, on the system that the screen acts
        on.

        `system` is the name of that system, because a new screen does not know it yet.
        """
        self._last_start = StartBenchmark(0, scenario, overrides or {})
        run_task(self._screen, self._run_benchmark, self._last_start, system)

    async def _run_benchmark(self, command: StartBenchmark, system: str) -> None:
        self._previous_plan_by_system[system] = self._view.planned
        self._screen.refresh_bindings()
        self._screen.refresh_state()
        try:
            engine = SystemEngine(self._screen.app, system or None)
            reply = await request_confirmed(self._screen, command, engine)
        finally:
            self._previous_plan_by_system.pop(system, None)
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
        factor = FASTER_FACTOR if direction > 0 else SLOWER_FACTOR
        self._request_change(ChangeRate(0, factor_ratio=factor))

    def action_add(self) -> None:
        """Start another worker of the role that the keys control."""
        self._request_change(AddWorker(0, _controlled_role(self._screen.state)))

    def action_kill(self) -> None:
        """Kill the last worker of the role that the keys control, like a crash."""
        self._request_change(KillWorker(0, _controlled_role(self._screen.state)))

    def action_freeze(self) -> None:
        """Pause or resume the last worker of the role that the keys control."""
        self._request_change(PauseWorkers(0, _controlled_role(self._screen.state)))

    def action_hold(self) -> None:
        """Pause or resume all workers; overdue messages are sent after the pause."""
        self._request_change(PauseWorkers(0))

    def action_payload(self) -> None:
        """Prompt for the new payload of the senders."""
        run_task(self._screen, self._prompt_payload)

    async def _prompt_payload(self) -> None:
        if (plan_record := self._view.planned) is None:
            return
        payload = next(
            (role.payload for role in plan_record.plan.roles if role.traits.sends), Payload()
        )
        engine = self._screen.shown_engine
        prompt = Prompt(
            f"New payload: {PAYLOAD_HELP}",
            format_payload(payload),
            refusal=lambda text: _check_payload(text, payload)[1],
            meaning=lambda text: _check_payload(text, payload)[0],
        )
        if (text := await self._screen.app.push_screen_wait(prompt)) is not None:
            self._request_change(ChangePayload(0, text), engine)

    @property
    def _view(self) -> BenchmarkView:
        return self._screen.state.benchmark or BenchmarkView()

    def _request_change(
        self,
        command: StopBenchmark
        | ChangeRate
        | ChangePayload
        | AddWorker
        | KillWorker
        | PauseWorkers,
        engine: SystemEngine | None = None,
    ) -> None:
        """Request a change of the run, and show a toast if it fails; the log shows successful
        changes.

        `engine` runs the benchmark, by default the engine of the shown system.
        """
        run_task(self._screen.app, self._send_change, command, engine or self._screen.shown_engine)

    async def _send_change(self, command: Command, engine: SystemEngine) -> None:
        app = self._screen.app
        reply = await engine.request(command)
        if reply.status != "done":
            app.notify(safe_copy(reply.text), severity="warning")


def _check_payload(text: str, current_payload: Payload) -> tuple[str, str]:
    """Return (description, error text) of a typed payload; one of the two is empty.

    The payload gets from `current_payload` what `text` does not name, as its headers.
    """
    try:
        new_payload = parse_payload(text, current_payload)
    except ValueError as error:
        return "", str(error)
    if new_payload.kind == "file":
        return f"file {new_payload.file}", ""
    return describe_payload(new_payload), ""


def _form_hint(screen: LiveScreen) -> str:
    """Return the end of a sentence with the key that opens the form.

    In a replay, where the key is not offered, it is the default key.
    """
    return (
        f": {key_of(screen, 'bench.pick') or _OPEN_FORM_BINDING.key_display} opens the form of one"
    )


def _controlled_role(state: State) -> str:
    """Return the name of the role whose workers the keys change; empty before any run."""
    plan_record = state.benchmark.planned if state.benchmark else None
    return (controlled_role(plan_record.plan) or "") if plan_record else ""


class RunSummary(Static):
    """The summary of a finished run: a sentence, and a table below it."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._shown_inputs: tuple[BenchmarkSummed | None, str, bool, int] = (None, "", False, 0)
        self.row_count = 0
        """Number of rows of the text."""

    def show(
        self,
        summary: BenchmarkSummed | None,
        placeholder: str = "",
        *,
        with_uncorrected_latency: bool = False,
    ) -> None:
        """Show the summary of the run, or `placeholder` without one."""
        inputs = (summary, placeholder, with_uncorrected_latency, self.content_size.width)
        if inputs != self._shown_inputs:
            self._shown_inputs = inputs
            content = _draw_summary(*inputs)
            self.row_count = content.plain.count("\n") + 1
            self.update(content)

    def on_resize(self) -> None:
        """Wrap the text for the new width, which changes at the end of a run."""
        summary, placeholder, with_uncorrected_latency, _ = self._shown_inputs
        self.show(summary, placeholder, with_uncorrected_latency=with_uncorrected_latency)
        # A text that changes during a resize keeps its previous height.
        self.call_after_refresh(self.refresh, layout=True)


def _draw_summary(
    summary: BenchmarkSummed | None, placeholder: str, with_uncorrected_latency: bool, width: int
) -> Content:
    if summary is None:
        return Content(placeholder)
    sentence, _, table_text = summary.text.partition("\n")
    if not with_uncorrected_latency:
        table_text = "\n".join(
            text_line for text_line in table_text.splitlines() if ".uncorrected" not in text_line
        )
    body = safe_lines("\n" + wrap_summary(table_text, width) if table_text and width else "")
    return Content.assemble(safe(sentence, "error" if summary.failed else ""), body)


TEXTS_REFRESH_INTERVAL_S = 0.5
_MAX_FIGURES = 5
_MIN_VISIBLE_TEXT_LINES = 3
"""Minimum visible lines of the texts below the workers on a narrow screen; with fewer, the texts
start below the edge of the screen.
"""
_MIN_DISTRIBUTION_ROWS = 5
"""Minimum rows of the latency distribution, even if they do not fit without scrolling."""


class FittedText(SectionText):
    """A text that the screen renders again for every new width."""

    class WidthChanged(Message):
        """The width of the text has changed."""

    def on_resize(self) -> None:
        """Wrap the text, and post `WidthChanged`, so that the screen renders it again."""
        super().on_resize()
        self.post_message(self.WidthChanged())


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
        """Yield an empty frame for each of the at most five figures."""
        for _ in range(_MAX_FIGURES):
            yield Static(markup=False)

    def show(self, figures: Sequence[MainFigure], *, is_large: bool) -> None:
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
                frame.border_subtitle = figure.comparison_text
                if is_large:
                    # A narrow screen has no frames with titles: these are beside the number.
                    side_texts = ("", "", figure.unit)
                    if self.screen.has_class("-narrow"):
                        side_texts = (
                            figure.title,
                            figure.comparison_text.partition(" ")[0],
                            figure.unit,
                        )
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
                    frame.update(
                        Content.assemble(value, "  ", safe(figure.sparkline_text, style_name))
                    )


def _create_frame(title: str, text: Widget, *, id: str) -> VerticalScroll:
    """Return a scrollable frame with a title around a text."""
    frame = VerticalScroll(text, id=id)
    frame.border_title = title
    return frame


def _bar_colors(screen: LiveScreen) -> tuple[str, ...]:
    """Return the colours of latencies up to p50, up to p99, and above."""
    variables = screen.app.theme_variables
    colors = series_colors(dark=screen.app.current_theme.dark)
    return (colors[LATENCY_COLOR_INDEX], variables["text-warning"], variables["text-error"])


class BenchmarkScreen(LiveScreen):
    """Shows charts, below them workers, latencies and messages, and the log.

    After a run, its summary replaces the workers.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *BenchmarkControls.BINDINGS,
        LOG_SCALE_BINDING,
        Binding("u", "uncorrected", "Uncorrected", show=False, id="bench.uncorrected"),
    ]

    caption = getters.query_one("#caption", Static)
    figure_row = getters.query_one(FigureRow)
    workers_text = getters.query_one("#workers", FittedText)
    latencies_text = getters.query_one("#figures", FittedText)
    messages_text = getters.query_one("#flow", SectionText)
    log_text = getters.query_one("#log", SectionText)
    summary = getters.query_one("#summary", RunSummary)

    def __init__(self) -> None:
        super().__init__()
        self.steering = BenchmarkControls(self)
        self.reading = ChartControls(self, self._show_charts)
        self._texts_shown_at_s = 0.0
        self._shown_log: tuple[BenchmarkLog, ...] = ()
        self._pending_refresh: Timer | None = None
        self._shows_uncorrected_latency = False
        self._was_running = False
        """Whether a benchmark was running when the keys were last drawn."""

    def second_line(self) -> list[Cell] | None:
        """Return the figures of a running benchmark as the second line of a narrow screen, which
        has no space for their frames; None otherwise.
        """
        view = self.state.benchmark or BenchmarkView()
        figures = main_figures(view)
        if not figures or not self.has_class("-narrow") or view.finished is not None:
            return None
        return [
            Cell(
                " ".join(filter(None, (figure.title, figure.sparkline_text[-4:], figure.text))),
                figure.style_name,
            )
            for figure in figures
        ]

    def action_uncorrected(self) -> None:
        """Show or hide latencies from the time of sending, beside those from the due time."""
        self._shows_uncorrected_latency = not self._shows_uncorrected_latency
        self._texts_shown_at_s = 0.0
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
                    "Messages", SectionText(id="flow", min_value_cells=10), id="bench-flow"
                )
            yield _create_frame("Log", SectionText(id="log"), id="bench-log")

    def refresh_state(self) -> None:
        """Show the newer state of the benchmark, at most every half second."""
        view, now_s = self.state.benchmark or BenchmarkView(), monotonic()
        is_over = view.planned is not None and not view.is_running
        class_conditions = {"-idle": view.planned is None, "-finished": is_over}
        if any(self.has_class(name) != is_on for name, is_on in class_conditions.items()):
            for name, is_on in class_conditions.items():
                self.set_class(is_on, name)
        if self.steering.is_benchmark_running is not self._was_running:
            self._was_running = self.steering.is_benchmark_running
            self.refresh_bindings()
        # A replay may stay at a moment: then no newer state would show the texts.
        shows_at_once = not view.is_running or self.state.replay is not None
        if (
            shows_at_once
            or view.log is not self._shown_log
            or now_s - self._texts_shown_at_s >= TEXTS_REFRESH_INTERVAL_S
        ):
            self._texts_shown_at_s, self._shown_log = now_s, view.log
            self._show_texts(view)
            self._show_charts()
        elif self._pending_refresh is None:
            # Otherwise the last report would not be shown.
            self._pending_refresh = self.set_timer(
                TEXTS_REFRESH_INTERVAL_S, self._run_pending_refresh
            )

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
        title = (
            "starting the benchmark" if is_starting else text.run_title_text(view, self.size.width)
        )
        caption = safe(title)
        filled_bar = re.search("█+", caption.plain)
        if filled_bar is not None:
            caption = caption.stylize(style_of("primary"), *filled_bar.span())
        self.caption.update(caption, layout=False)
        self.figure_row.show(main_figures(view), is_large=view.finished is not None)
        no_run_text = f"no benchmark has run{_form_hint(self)}, with built-in scenarios"
        no_run_text = no_run_text if view.planned is None and not is_starting else ""
        self.summary.show(
            view.summed, no_run_text, with_uncorrected_latency=self._shows_uncorrected_latency
        )
        if view.planned is None:
            for texts in (
                self.workers_text,
                self.latencies_text,
                self.messages_text,
                self.log_text,
            ):
                texts.show([])
            return
        area_id = "#bench-below" if self.has_class("-narrow") else "#bench-workers"
        available_rows = self.query_one(area_id).size.height
        width = self.workers_text.content_size.width
        colors = series_colors(dark=self.app.current_theme.dark)
        workers_sections = worker_sections(view, width, available_rows, colors)
        self.workers_text.show(workers_sections)
        # Only a title would be visible at the lower edge: then the text starts below the edge.
        free_rows = available_rows - sum(len(section.lines) for section in workers_sections)
        top_margin = (
            free_rows
            if self.has_class("-narrow") and 0 < free_rows < _MIN_VISIBLE_TEXT_LINES
            else 0
        )
        self.latencies_text.styles.margin = (top_margin, 0, 0, 0)
        messages_section = text.message_counts_section(view)
        # After a run, the summary has the latencies in more detail.
        latency_sections = (
            []
            if view.finished
            else [
                text.latency_section(
                    view,
                    with_uncorrected_latency=self._shows_uncorrected_latency,
                    is_framed=not self.has_class("-narrow"),
                )
            ]
        )
        # A narrow screen has no own column for the messages.
        latency_sections += [messages_section] if self.has_class("-narrow") else []
        figures_rows = sum(len(section.lines) + 2 for section in latency_sections)
        area_id = "#bench-below" if self.has_class("-narrow") else "#bench-figures"
        available_rows = self.query_one(area_id).size.height - figures_rows - 1
        width = self.latencies_text.content_size.width
        latency_sections.append(
            text.distribution_section(
                view, width, max(_MIN_DISTRIBUTION_ROWS, available_rows), _bar_colors(self)
            )
        )
        log_section = text.log_section(view)
        # Beside the summary there is more space for the log than below it.
        latency_sections += (
            [log_section] if view.finished and not self.has_class("-narrow") else []
        )
        self.latencies_text.show([section for section in latency_sections if section.lines])
        # Their titles are in the frames.
        self.messages_text.show([replace(messages_section, title="")])
        self.log_text.show([replace(log_section, title="")])
        self._fit_area_below_charts(sum(len(section.lines) + 2 for section in latency_sections))

    def _fit_area_below_charts(self, figures_rows: int) -> None:
        """After a run, on a wide screen, set the height of the area below the charts to its rows,
        so that the charts get the other rows; else remove that height.
        """
        area_styles = self.query_one("#bench-below").styles
        if self.has_class("-finished") and self.has_class("-wide"):
            area_styles.height = max(self.summary.row_count, figures_rows) + 1
        else:
            area_styles.clear_rule("height")

    @on(FittedText.WidthChanged)
    def _render_again(self) -> None:
        """Render the texts for their new width at once."""
        self._texts_shown_at_s = 0.0
        self.refresh_state()
