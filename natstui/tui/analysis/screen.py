"""The analysis screen: the progress, then the results, table by table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from msgspec import Struct
from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from natstui.clean import clean_line
from natstui.clock import steady_s
from natstui.decoding import decoder_of
from natstui.model.records.analysis import StopAnalysis
from natstui.model.records.messages import Answered
from natstui.tui.analysis.run import AnalysisRun
from natstui.tui.analysis.text import (
    CHARTS_TABLE,
    VERDICT_TABLE,
    AnalysisResult,
    CellValue,
    ResultRows,
    meaning_text,
    menu_entries,
    progress_text,
    verdict_text,
)
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.chart.chart import Chart
from natstui.tui.kit.chart.frame import SERIES_COLOR_COUNT, ChartData, Series
from natstui.tui.kit.chart.ticks import Unit
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.lists import SingleChoiceList
from natstui.tui.kit.table.big_table import BigTable, Sort
from natstui.tui.kit.table.view import HeaderSelected
from natstui.tui.kit.text import safe

_MAX_CHART_LINES = SERIES_COLOR_COUNT - 1
"""Maximum number of consumers in one chart: each has its own colour."""

ValueByColumn = dict[str, CellValue]


class _ChartLine(NamedTuple):
    label: str
    rows: list[ValueByColumn]
    column_name: str


class _TimeAxis(Struct, frozen=True):
    """The buckets (time intervals) of a session: the common time axis of all charts."""

    buckets_at_us: tuple[int, ...]
    end_us: int

    def chart(self, title: str, unit: Unit, lines: Sequence[_ChartLine]) -> ChartData:
        """Return a chart with a series for each line."""
        return ChartData(
            title=title,
            unit=unit,
            at_s=[(at_us - self.end_us) / 1e6 for at_us in self.buckets_at_us],
            series=tuple(
                Series(line.label, self._bucket_values(line.rows, line.column_name))
                for line in lines
            ),
            window_s=(self.end_us - self.buckets_at_us[0]) / 1e6,
            ends_at_unix_s=self.end_us / 1e6,
        )

    def _bucket_values(self, rows: list[ValueByColumn], column_name: str) -> list[float | None]:
        value_by_bucket_us = {row["bucket_at_us"]: row[column_name] for row in rows}
        values = [value_by_bucket_us.get(at_us) for at_us in self.buckets_at_us]
        return [float(value) if isinstance(value, int | float) else None for value in values]


def charts_of(result: AnalysisResult) -> tuple[ChartData, ...]:
    """Return the charts of a result; empty unless it has the table of measurements."""
    table = result.tables.get(CHARTS_TABLE)
    names = [column.name for column in table.columns] if table else []
    rows_by_rank: dict[int, list[ValueByColumn]] = {}
    for values in table.rows if table else ():
        row = dict(zip(names, values, strict=True))
        rows_by_rank.setdefault(_require_int(row["rank"]), []).append(row)
    rows = [row for consumer_rows in rows_by_rank.values() for row in consumer_rows]
    axis = _create_axis(rows)
    if axis is None:
        return ()
    total_rows, worst_consumers_rows = (
        rows_by_rank.pop(0, []),
        [rows_by_rank[rank] for rank in sorted(rows_by_rank)][:_MAX_CHART_LINES],
    )
    rate_lines = [
        _ChartLine(label, total_rows, f"{label}_per_s") for label in ("published", "delivered")
    ]
    charts = [
        axis.chart("Load, all streams and consumers", "msgs/s", rate_lines),
        axis.chart(
            "Pending, all consumers", "msgs", [_ChartLine("pending", total_rows, "pending_msgs")]
        ),
    ]
    for title, column_name in (
        ("Pending", "pending_msgs"),
        ("Delivered again", "repeated_msgs"),
    ):
        lines = [
            _ChartLine(_consumer_label(consumer_rows[0]), consumer_rows, column_name)
            for consumer_rows in worst_consumers_rows
            if _has_nonzero_value(consumer_rows, column_name)
        ]
        charts += [axis.chart(f"{title}, the worst consumers", "msgs", lines)] if lines else []
    return tuple(charts)


def _create_axis(rows: list[ValueByColumn]) -> _TimeAxis | None:
    bucket_times_us = sorted({_require_int(row["bucket_at_us"]) for row in rows})
    bucket_widths_s = [_require_int(row["width_s"]) for row in rows]
    return (
        _TimeAxis(tuple(bucket_times_us), bucket_times_us[-1] + max(bucket_widths_s) * 1_000_000)
        if bucket_times_us
        else None
    )


def _has_nonzero_value(rows: list[ValueByColumn], column_name: str) -> bool:
    return any(row[column_name] for row in rows)


def _require_int(value: CellValue) -> int:
    assert isinstance(value, int)
    return value


def _consumer_label(row: ValueByColumn) -> str:
    return clean_line(f"{row['stream']} › {row['consumer']}")


_decoder = decoder_of(AnalysisResult)


class FindingsPage(Static):
    """The page of findings; wraps its text when it becomes visible."""

    DEFAULT_CSS = "FindingsPage { height: auto; }"

    result: AnalysisResult | None = None
    _drawn_width = 0

    def on_resize(self) -> None:
        """Wrap the text for the new width, unless the page is hidden."""
        width = self.content_size.width
        if self.result is not None and width and width != self._drawn_width:
            self._drawn_width = width
            self.update(verdict_text(self.result, width))


class AnalysisScreen(LiveScreen):
    """Shows an analysis, which continues after the screen is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+x", "stop", "Stop", id="analysis.stop"),
        Binding("escape", "back", "Back", id="back"),
        Binding("tab", "app.focus_next", "Other side", show=False, id="analysis.other"),
        Binding("j", "next_table(1)", "Next table", show=False, id="analysis.next"),
        Binding("k", "next_table(-1)", "Table before", show=False, id="analysis.before"),
    ]
    DEFAULT_CSS = """
    AnalysisScreen {
        #caption { text-wrap: nowrap; text-overflow: ellipsis; }
        #progress { height: 1fr; content-align: center middle; text-align: center; }
        #answers { height: 1fr; display: none; }
        #tables {
            width: 27; height: 1fr; padding: 0; border: none !important;
            text-wrap: nowrap; text-overflow: ellipsis; scrollbar-size: 0 1;
        }
        #meaning { height: auto; max-height: 3; padding: 0 1; color: $text-muted; }
        #verdict { padding: 0 1; }
        BigTable { display: none; }
        &.-answered #progress { display: none; }
        &.-answered #answers { display: block; }
        &.-table BigTable { display: block; }
        #charts { display: none; }
        &.-drawn #charts { display: block; }
        &.-table #verdict, &.-drawn #verdict { display: none; }
        &.-wide #tables { width: 34; }
    }
    """

    caption = getters.query_one("#caption", Static)
    progress = getters.query_one("#progress", Static)
    tables = getters.query_one("#tables", OptionList)
    meaning = getters.query_one("#meaning", Static)
    findings = getters.query_one(FindingsPage)
    table = getters.query_one(BigTable)

    def __init__(self, run: AnalysisRun) -> None:
        super().__init__()
        self.analysis_run = run
        self.result: AnalysisResult | None = None
        self._was_reply_shown = False
        self._column_and_reverse_by_table: dict[str, tuple[str, bool]] = {}
        self._has_charts = False

    def body(self) -> Iterable[Widget]:
        """Yield the caption, the progress, and a list of the tables beside the highlighted one."""
        yield Static(id="caption", markup=False)
        yield Static(id="progress", markup=False)
        with Horizontal(id="answers"):
            yield SingleChoiceList(id="tables")
            with Vertical():
                yield Static(id="meaning", markup=False)
                with VerticalScroll(id="verdict"):
                    yield FindingsPage(markup=False)
                yield VerticalScroll(id="charts")
                yield BigTable([], empty="no rows")

    def on_mount(self) -> None:
        """Show the progress of the analysis, and its reply."""
        self.caption.update(safe("Analysis"))
        self.progress.update(safe(f"starting …\n\n{self._keys_text()}", "dim"))
        self.analysis_run.screens.add(self)
        # Its widgets are mounted by then.
        self.call_after_refresh(self.refresh_state)
        self.set_interval(1.0, self._draw_progress)

    def on_unmount(self) -> None:
        """Stop showing the analysis, which continues."""
        self.analysis_run.screens.discard(self)

    def _keys_text(self) -> str:
        """Return the text about the keys: stop the analysis, or leave it running."""
        if self.analysis_run.is_stop_requested:
            return "stopping …"
        back_key, stop_key = (
            key_of(self, "back") or "escape",
            key_of(self, "analysis.stop") or "ctrl+x",
        )
        until_text = "" if self.state.replay is None else " until you leave the replay"
        return (
            f"{stop_key} stops the analysis · {back_key} leaves, and the analysis continues"
            f"{until_text}: :analyze shows it again"
        )

    def refresh_state(self) -> None:
        """Show the progress of the analysis, or its reply once."""
        reply = self.analysis_run.reply
        if self._was_reply_shown or not self.is_open:
            return
        self.refresh_bindings()
        if reply is None:
            self._draw_progress()
        else:
            self._was_reply_shown = self.analysis_run.was_reply_shown = True
            self._show_reply(reply)

    def _draw_progress(self) -> None:
        run = self.analysis_run
        if run.progress is None or run.reply is not None:
            return
        self.caption.update(safe(f"Analysis  ›  {run.session_name}"))
        lines = [progress_text(run.progress, steady_s() - run.started_at_s), Content()]
        self.progress.update(Content("\n").join([*lines, safe(self._keys_text(), "dim")]))

    def _show_reply(self, reply: Answered) -> None:
        title = "  ›  ".join(filter(None, ("Analysis", self.analysis_run.session_name)))
        if reply.body_json is None:
            style_name = "warn" if self.analysis_run.is_stop_requested else "error"
            hint = safe("escape leaves", "dim")
            self.caption.update(safe(title))
            self.progress.update(Content("\n\n").join([safe(reply.text, style_name), hint]))
            return
        self.result = _decoder.decode(reply.body_json)
        self.caption.update(safe(f"{title}  ·  tables in {self.result.out}/gold"))
        self.findings.result = self.result
        for name, table_title, rows_text in menu_entries(self.result):
            style_name = "dim" if rows_text == "0" else ""
            self.tables.add_option(
                Option(safe(f"{table_title[:21]:21} {rows_text:>4}", style_name), id=name)
            )
        charts = charts_of(self.result)
        self._has_charts = bool(charts)
        for data in charts:
            chart = Chart()
            self.query_one("#charts").mount(chart)
            chart.show(data)
        self.add_class("-answered")
        self.tables.highlighted = 0
        self.tables.focus()

    @on(OptionList.OptionHighlighted)
    def _show_highlighted_table(self, message: OptionList.OptionHighlighted) -> None:
        self.show_table(message.option_id or VERDICT_TABLE)

    @on(OptionList.OptionSelected)
    def _focus_page(self) -> None:
        page_id = "#charts" if self.has_class("-drawn") else "#verdict"
        self.table.focus() if self.has_class("-table") else self.query_one(page_id).focus()

    def show_table(self, name: str) -> None:
        """Show a table at the right: as rows, the verdict as text, measurements as charts."""
        if self.result is None:
            return
        self.meaning.update(safe(meaning_text(self.result, name)))
        shows_charts = name == CHARTS_TABLE and self._has_charts
        self.set_class(shows_charts, "-drawn")
        self.set_class(name != VERDICT_TABLE and not shows_charts, "-table")
        if name == VERDICT_TABLE or shows_charts:
            return
        column, reverse = self._column_and_reverse_by_table.get(name, (None, False))
        rows = ResultRows(self.result, name, column, reverse)
        sort = Sort(column, reverse) if column else None
        self.table.show(rows, sort=sort, columns=rows.columns())
        self.table.move(0)
        self.table.scroll_to(x=0, y=0, animate=False, force=True)

    @on(HeaderSelected)
    def _sort_table(self, message: HeaderSelected) -> None:
        rows = self.table.source
        if isinstance(rows, ResultRows):
            column, reverse = self._column_and_reverse_by_table.get(rows.name, (None, False))
            is_same_column = column == message.column_id
            is_reversed = not reverse if is_same_column else rows.descends(message.column_id)
            self._column_and_reverse_by_table[rows.name] = (message.column_id, is_reversed)
            self.show_table(rows.name)

    def action_next_table(self, step: int) -> None:
        """Select the table below (1) or above (-1) in the list."""
        self.tables.action_cursor_down() if step > 0 else self.tables.action_cursor_up()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether stopping is offered: while the analysis runs."""
        if action == "stop":
            run = self.analysis_run
            return run.progress is not None and run.reply is None and not run.is_stop_requested
        return super().check_action(action, parameters)

    def action_stop(self) -> None:
        """Stop the analysis and discard its results."""
        self.analysis_run.is_stop_requested = True
        self.engine.send(StopAnalysis(0))
        self.refresh_bindings()
        self._draw_progress()
