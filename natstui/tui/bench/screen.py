"""A benchmark while it runs, what came of it, and the keys that start, change and end one."""

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

from natstui.model.bench.payload_words import HOW, payload_of, payload_text, payload_words
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
from natstui.tui.bench.figures import Figure, large, main_figures
from natstui.tui.bench.text import hanging, steered_role
from natstui.tui.bench.workers import worker_sections
from natstui.tui.frame.confirmation import request_confirmed
from natstui.tui.frame.detail.reading import LOG_KEY, ChartReading
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Open
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.chart.chart import Chart
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.looks import series_colors, style_of
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.sections import SectionText
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe, safe_copy, safe_lines

FASTER, SLOWER = 1.25, 0.8


def _key(name: str, key: str, action: str, text: str, *, shown: str | None = None) -> Binding:
    return Binding(key, f"part('steering', {action})", text, key_display=shown, id=f"bench.{name}")


_PICK = _key("pick", "b,enter", "'pick'", "Form", shown="b")


class Steering(ScreenPart):
    """Starts benchmarks, and steers the one that the screen shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _PICK,
        _key("stop", "ctrl+x", "'stop'", "Stop"),
        _key("again", "r", "'again'", "Again"),
        _key("faster", "plus,equals_sign", "'rate', 1", "Faster", shown="+"),
        _key("slower", "minus", "'rate', -1", "Slower", shown="-"),
        _key("add", "a", "'add'", "Add"),
        _key("kill", "k", "'kill'", "Kill"),
        _key("freeze", "f", "'freeze'", "Freeze"),
        _key("hold", "h", "'hold'", "Hold"),
        _key("payload", "P", "'payload'", "Payload"),
    ]

    def __init__(self, screen: LiveScreen) -> None:
        self._screen = screen
        self._last: StartBenchmark | None = None
        self._is_requested = False
        """Whether the engine has a run to do, to whose end it replies."""
        self._planned_before: BenchmarkPlanned | None = None
        """The run that was shown when it was requested."""

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer on a live server what can be done now: to start a run, or to change one."""
        if self._screen.state.replay is not None:
            return False
        match action:
            case "pick":
                return True
            case "again":
                return self._last is not None and not self.runs and not self.is_starting
            case _:
                return self.runs

    @property
    def runs(self) -> bool:
        """Whether a benchmark runs."""
        view = self._view
        return view.planned is not None and view.finished is None and view.summed is None

    @property
    def is_starting(self) -> bool:
        """Whether a run was requested of which nothing is known yet."""
        return self._is_requested and self._view.planned is self._planned_before

    def start(self, scenario: str, overrides: dict[str, str] | None = None) -> None:
        """Run a scenario: its name, or the text of a file."""
        self._last = StartBenchmark(0, scenario, overrides or {})
        run_task(self._screen, self._run, self._last)

    async def _run(self, command: StartBenchmark) -> None:
        self._planned_before, self._is_requested = self._view.planned, True
        self._screen.refresh_bindings()
        self._screen.refresh_state()
        try:
            await request_confirmed(self._screen, command)
        finally:
            self._is_requested = False
        self._screen.refresh_bindings()
        self._screen.refresh_state()

    def action_pick(self) -> None:
        """Open the form, which also leads to the ready scenarios."""
        self._screen.app.post_message(Open("scenarios", ""))

    def action_stop(self) -> None:
        """End the run now; its result is marked partial."""
        self._steer(StopBenchmark(0))

    def action_again(self) -> None:
        """Run the last scenario again."""
        if self._last is not None:
            self.start(self._last.scenario, dict(self._last.overrides))

    def action_rate(self, direction: int) -> None:
        """Let the senders send a quarter more, or a fifth less."""
        factor = FASTER if direction > 0 else SLOWER
        self._steer(ChangeRate(0, factor_ratio=factor))

    def action_add(self) -> None:
        """Start one more worker of the role that receives, else of the first."""
        self._steer(AddWorker(0, _steered(self._screen.state)))

    def action_kill(self) -> None:
        """Kill the last worker of the role that receives, else of the first, as in a crash."""
        self._steer(KillWorker(0, _steered(self._screen.state)))

    def action_freeze(self) -> None:
        """Let the last worker of the role that receives do nothing, or go on."""
        self._steer(HoldWorkers(0, _steered(self._screen.state)))

    def action_hold(self) -> None:
        """Let every worker do nothing, or go on; what a schedule owes is sent then."""
        self._steer(HoldWorkers(0))

    def action_payload(self) -> None:
        """Ask what the senders shall send from now on."""
        if (planned := self._view.planned) is None:
            return
        payload = next((one.payload for one in planned.plan.roles if one.traits.sends), Payload())

        def change(text: str | None) -> None:
            if text is not None:
                self._steer(ChangePayload(0, text))

        prompt = Prompt(
            f"New payload: {HOW}",
            payload_text(payload),
            refusal=lambda text: _payload_understood(text, payload)[1],
            meaning=lambda text: _payload_understood(text, payload)[0],
        )
        self._screen.app.push_screen(prompt, change)

    @property
    def _view(self) -> BenchmarkView:
        return self._screen.state.benchmark or BenchmarkView()

    def _steer(
        self,
        command: StopBenchmark | ChangeRate | ChangePayload | AddWorker | KillWorker | HoldWorkers,
    ) -> None:
        """Ask for a change of the run."""
        # What is done stands in the log; what cannot be done would be seen nowhere.
        run_task(self._screen.app, self._send, command)

    async def _send(self, command: Command) -> None:
        app = self._screen.app
        reply = await self._screen.engine.request(command)
        if reply.status != "done":
            app.notify(safe_copy(reply.text), severity="warning")


def _payload_understood(text: str, now: Payload) -> tuple[str, str]:
    """Return what a payload means, and why it is none."""
    try:
        new = payload_of(text, now)
    except ValueError as error:
        return "", str(error)
    return f"file {new.file}" if new.kind == "file" else payload_words(new), ""


def _pick_hint(screen: LiveScreen) -> str:
    """Return the end of a sentence: which key opens the form, also where none is offered.

    So a replay shows the words that were on the screen.
    """
    return f": {key_of(screen, 'bench.pick') or _PICK.key_display} opens the form of one"


def _steered(state: State) -> str:
    """Return the role whose workers are added and killed; empty before any run."""
    planned = state.benchmark.planned if state.benchmark else None
    return (steered_role(planned.plan) or "") if planned else ""


class RunSummary(Static):
    """The sentence at the end of a run, and its table below."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._shown: tuple[BenchmarkSummed | None, str, bool, int] = (None, "", False, 0)
        self.rows_count = 0
        """How many rows its text takes."""

    def show(
        self, summed: BenchmarkSummed | None, instead: str = "", *, uncorrected: bool = False
    ) -> None:
        """Show what came of the run, or `instead` while nothing has."""
        shown = (summed, instead, uncorrected, self.content_size.width)
        if shown != self._shown:
            self._shown = shown
            drawn = _drawn(*shown)
            self.rows_count = drawn.plain.count("\n") + 1
            self.update(drawn)

    def on_resize(self) -> None:
        """Wrap for the new width, which is another as soon as the run is over."""
        summed, instead, uncorrected, _ = self._shown
        self.show(summed, instead, uncorrected=uncorrected)
        # A text that changes while sizes are told keeps the height it had before.
        self.call_after_refresh(self.refresh, layout=True)


def _drawn(summed: BenchmarkSummed | None, instead: str, uncorrected: bool, width: int) -> Content:
    if summed is None:
        return Content(instead)
    sentence, _, rest = summed.text.partition("\n")
    if not uncorrected:
        rest = "\n".join(one for one in rest.splitlines() if ".uncorrected" not in one)
    body = safe_lines("\n" + hanging(rest, width) if rest and width else "")
    return Content.assemble(safe(sentence, "error" if summed.failed else ""), body)


TEXTS_EVERY_S = 0.5
_MOST_FIGURES = 5
_LEAST_BELOW = 3
"""Lines of the texts below the workers of a narrow screen, else they begin below its edge."""
_LEAST_ROWS = 5
"""Of the distribution, also where one has to scroll to them."""


class FittedText(SectionText):
    """Text that the screen makes for the width it has."""

    class Fitted(Message):
        """It has another width now."""

    def on_resize(self) -> None:
        """Wrap what there is, and have it made again."""
        super().on_resize()
        self.post_message(self.Fitted())


class FigureRow(Horizontal):
    """The figures that are read first, each in a frame of its own."""

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
        """As many frames as there may be figures."""
        for _ in range(_MOST_FIGURES):
            yield Static(markup=False)

    def show(self, shown: Sequence[Figure], *, is_large: bool) -> None:
        """Show figures, from the left; the large ones have three lines."""
        self.set_class(bool(shown), "-shown")
        self.set_class(is_large, "-large")
        colors = series_colors(dark=self.app.current_theme.dark)
        for at, frame in enumerate(self.query(Static)):
            frame.display = at < len(shown)
            if at < len(shown):
                one = shown[at]
                look = one.look if one.color_index is None else colors[one.color_index]
                frame.border_title = one.title
                frame.border_subtitle = one.before
                if is_large:
                    # Beside the number what its frame says, where there is none.
                    beside = ("", "", one.unit)
                    if self.screen.has_class("-narrow"):
                        beside = (one.title, one.before.partition(" ")[0], one.unit)
                    rows = zip(large(one.value), beside, strict=True)
                    lines = [
                        Content.assemble(safe_lines(digits, look), " ", safe(words, "dim"))
                        for digits, words in rows
                    ]
                    frame.update(Content("\n").join(lines))
                else:
                    value = safe(one.text, one.look)
                    frame.update(Content.assemble(value, "  ", safe(one.spark, look)))


def _framed(title: str, text: Widget, *, id: str) -> VerticalScroll:
    """Return a text in a frame with a title."""
    frame = VerticalScroll(text, id=id)
    frame.border_title = title
    return frame


def _bars(screen: LiveScreen) -> tuple[str, ...]:
    """Return the colours of the distribution: up to p50, up to p99, beyond."""
    variables = screen.app.theme_variables
    colors = series_colors(dark=screen.app.current_theme.dark)
    return (colors[LATENCY_COLOR], variables["text-warning"], variables["text-error"])


class BenchmarkScreen(LiveScreen):
    """Charts above; workers, latencies and messages below them, at the bottom the log.

    When a run is over, what came of it stands in the place of its workers.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *Steering.BINDINGS,
        LOG_KEY,
        Binding("u", "uncorrected", "Uncorrected", show=False, id="bench.uncorrected"),
    ]

    caption = getters.query_one("#caption", Static)
    big = getters.query_one(FigureRow)
    workers_text = getters.query_one("#workers", FittedText)
    figures = getters.query_one("#figures", FittedText)
    flow = getters.query_one("#flow", SectionText)
    log_text = getters.query_one("#log", SectionText)
    summary = getters.query_one("#summary", RunSummary)

    def __init__(self) -> None:
        super().__init__()
        self.steering = Steering(self)
        self.reading = ChartReading(self, self._show_charts)
        self._texts_at_s = 0.0
        self._log: tuple[BenchmarkLog, ...] = ()
        self._later: Timer | None = None
        self._with_uncorrected = False
        self._offered_running = False
        """Whether the keys that change a run were offered."""

    def second_line(self) -> list[Cell] | None:
        """Return the figures of the run where there is no room for their frames."""
        view = self.state.benchmark or BenchmarkView()
        shown = main_figures(view)
        if not shown or not self.has_class("-narrow") or view.finished is not None:
            return None
        return [
            Cell(" ".join(filter(None, (one.title, one.spark[-4:], one.text))), one.look)
            for one in shown
        ]

    def action_uncorrected(self) -> None:
        """Show also latencies since messages were sent, not since they were due."""
        self._with_uncorrected = not self._with_uncorrected
        self._texts_at_s = 0.0
        self.refresh_state()

    def body(self) -> Iterable[Widget]:
        """Caption; charts; workers or the summary beside latencies and messages; the log."""
        yield Static(id="caption", markup=False)
        yield FigureRow()
        with Vertical(id="bench"):
            with Horizontal(id="bench-charts"):
                for name in ("throughput", "latency", "cumulative"):
                    yield Chart(id=name)
            with VerticalScroll(id="bench-below", can_focus=False):
                yield _framed("Result", RunSummary(id="summary"), id="bench-summary")
                yield VerticalScroll(FittedText(id="workers"), id="bench-workers")
                yield _framed("Latency", FittedText(id="figures"), id="bench-figures")
                yield _framed("Messages", SectionText(id="flow", value_cells=10), id="bench-flow")
            yield _framed("Log", SectionText(id="log"), id="bench-log")

    def refresh_state(self) -> None:
        """Show the newer state of the benchmark: every half second is as fast as anybody reads."""
        view, now_s = self.state.benchmark or BenchmarkView(), monotonic()
        phases = {"-idle": view.planned is None, "-finished": view.finished is not None}
        if any(self.has_class(name) != on for name, on in phases.items()):
            for name, on in phases.items():
                self.set_class(on, name)
        if self.steering.runs is not self._offered_running:
            self._offered_running = self.steering.runs
            self.refresh_bindings()
        # In a replay a moment may stay: nothing newer comes that would show the rest of it.
        over = view.planned is None or view.finished is not None or self.state.replay is not None
        if over or view.log is not self._log or now_s - self._texts_at_s >= TEXTS_EVERY_S:
            self._texts_at_s, self._log = now_s, view.log
            self._show_texts(view)
            self._show_charts()
        elif self._later is None:
            # The last report of all shall be seen too.
            self._later = self.set_timer(TEXTS_EVERY_S, self._catch_up)

    def _catch_up(self) -> None:
        self._later = None
        self.refresh_state()

    def _show_charts(self) -> None:
        """Show the charts; also when there is nothing: a replay goes back to before a run."""
        view = self.state.benchmark or BenchmarkView()
        shown = (throughput_chart(view), latency_chart(view), cumulative_chart(view))
        charts = list(self.query(Chart))
        for chart, data in zip(charts, shown, strict=True):
            # The others have its room: of a run of a second there is no latency over time.
            chart.set_class(data is None and shown[0] is not None, "-nothing")
        self.reading.show(charts, shown)

    def _show_texts(self, view: BenchmarkView) -> None:
        """Show everything that is read."""
        starts = self.steering.is_starting
        title = "starting the benchmark" if starts else text.title_text(view, self.size.width)
        caption = safe(title)
        full = re.search("█+", caption.plain)
        if full is not None:
            caption = caption.stylize(style_of("primary"), *full.span())
        self.caption.update(caption, layout=False)
        self.big.show(main_figures(view), is_large=view.finished is not None)
        none = f"no benchmark has run{_pick_hint(self)}, with built-in scenarios"
        none = none if view.planned is None and not starts else ""
        self.summary.show(view.summed, none, uncorrected=self._with_uncorrected)
        if view.planned is None:
            for texts in (self.workers_text, self.figures, self.flow, self.log_text):
                texts.show([])
            return
        place = "#bench-below" if self.has_class("-narrow") else "#bench-workers"
        room = self.query_one(place).size.height
        width = self.workers_text.content_size.width
        colors = series_colors(dark=self.app.current_theme.dark)
        workers = worker_sections(view, width, room, colors)
        self.workers_text.show(workers)
        # A title alone at the lower edge says nothing: what follows begins below it.
        left = room - sum(len(section.lines) for section in workers)
        gap = left if self.has_class("-narrow") and 0 < left < _LEAST_BELOW else 0
        self.figures.styles.margin = (gap, 0, 0, 0)
        flow = text.flow_section(view)
        # The summary has the latencies, in more figures.
        figures = (
            []
            if view.finished
            else [
                text.latency_section(
                    view,
                    uncorrected=self._with_uncorrected,
                    framed=not self.has_class("-narrow"),
                )
            ]
        )
        # Where there is no column of their own for them.
        figures += [flow] if self.has_class("-narrow") else []
        beside = sum(len(section.lines) + 2 for section in figures)
        place = "#bench-below" if self.has_class("-narrow") else "#bench-figures"
        room = self.query_one(place).size.height - beside - 1
        width = self.figures.content_size.width
        figures.append(text.distribution_section(view, width, max(_LEAST_ROWS, room), _bars(self)))
        log = text.log_section(view)
        # Beside the summary there is more room for the log than below it.
        figures += [log] if view.finished and not self.has_class("-narrow") else []
        self.figures.show([section for section in figures if section.lines])
        # Their frames have their titles.
        self.flow.show([replace(flow, title="")])
        self.log_text.show([replace(log, title="")])
        self._share_rows(sum(len(section.lines) + 2 for section in figures))

    def _share_rows(self, beside: int) -> None:
        """Give the charts of a run that is over what its summary does not need."""
        below = self.query_one("#bench-below").styles
        if self.has_class("-finished") and self.has_class("-wide"):
            below.height = max(self.summary.rows_count, beside) + 1
        else:
            below.clear_rule("height")

    @on(FittedText.Fitted)
    def _fit(self) -> None:
        """Make texts for their new width, without waiting for their turn."""
        self._texts_at_s = 0.0
        self.refresh_state()
