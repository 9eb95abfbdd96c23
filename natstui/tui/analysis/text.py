"""Texts of an analysis: progress, verdict and tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from msgspec import Struct
from textual.content import Content

from natstui.clean import clean_line
from natstui.model.records.analysis import AnalysisProgress
from natstui.tui.frame.columns import sort_rows
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.widths import ColumnLayout
from natstui.tui.kit.text import safe
from natstui.units import UNKNOWN, column_title_text, duration_text, moment_text, quantity_text

VERDICT_TABLE = "verdict"
CHARTS_TABLE = "picture"
"""The table that is shown as charts."""
_SPECIAL_TABLE_TITLES = {VERDICT_TABLE: "Needs attention", CHARTS_TABLE: "Charts"}
_PROGRESS_BAR_CELLS = 32
_MIN_COLUMN_CELLS, _MAX_COLUMN_CELLS, _MAX_FLEX_COLUMN_CELLS = 5, 28, 140
_WIDTH_SAMPLE_ROWS = 200
"""Number of rows from which a column's width is computed; other cells are cut to it."""

_INDENT = " " * 4
_COLUMNS_HIDDEN_FIRST = (
    "start_at_us", "first_at_us", "last_at_us", "open", "created_at_us", "end_at_us", "covered_s",
    "pending_first_msgs", "pending_mean_msgs", "ack_floor_stream_seq", "latencies_count",
    "seconds_count", "samples_count",
)  # fmt: skip
"""Columns that are hidden first: times, parts of an identity, derived values."""
_NAME_COLUMNS = ("session", "stream", "consumer", "subject")
_MIN_NAME_COLUMN_CELLS = 14
"""Minimum width of a column of names, which gets the remaining space."""
_WORST_HARMS = ("lost", "stuck")
"""Harms that are shown in red."""
_NEVER_SHOWN_COLUMNS = ("series_id",)
"""Columns that are never shown: they are for notebooks."""

CellValue = str | int | float | bool | None


class ResultColumn(Struct, frozen=True):
    """A column of a result table; its name ends with its unit."""

    name: str
    type: str
    unit: str
    meaning: str


class ResultTable(Struct, frozen=True):
    """A result table with its first rows."""

    meaning: str
    columns: tuple[ResultColumn, ...]
    rows: tuple[tuple[CellValue, ...], ...]
    cut: bool
    """Whether the complete table has more rows."""

    def index_of(self, name: str) -> int:
        """Return the index of a column; raises StopIteration for an unknown name."""
        return next(index for index, column in enumerate(self.columns) if column.name == name)


class AnalysisResult(Struct, frozen=True):
    """The results of an analysis."""

    out: str
    """Folder of the complete tables."""
    sessions: tuple[str, ...]
    tables: dict[str, ResultTable]


def progress_text(progress: AnalysisProgress, elapsed_s: float) -> Content:
    """Return a bar, the current step, and the elapsed time."""
    steps_count = max(progress.steps_count, 1)
    done_ratio = progress.done_count / steps_count
    if progress.tasks_count:
        done_ratio += progress.tasks_done_count / progress.tasks_count / steps_count
    done_ratio = min(done_ratio, 1.0)
    filled_cells = round(done_ratio * _PROGRESS_BAR_CELLS)
    bar = (
        safe("█" * filled_cells, "primary"),
        safe("░" * (_PROGRESS_BAR_CELLS - filled_cells), "dim"),
    )
    percent_and_time = f"  {done_ratio * 100:3.0f} %   {duration_text(elapsed_s)}"
    step_text = f"step {min(progress.done_count + 1, steps_count)} of {steps_count}: "
    step = safe(f"{step_text}{progress.text}" if progress.steps_count else f"{progress.text} …")
    return Content("\n").join([Content.assemble(*bar, percent_and_time), step])


def menu_entries(result: AnalysisResult) -> tuple[tuple[str, str, str], ...]:
    """Return (name, title, number of rows) of every table; verdict and charts first.

    The charts have an empty number of rows.
    """
    leading_names = [*_SPECIAL_TABLE_TITLES]
    names = sorted(
        result.tables,
        key=lambda name: (
            leading_names.index(name) if name in leading_names else len(leading_names)
        ),
    )
    return tuple(
        (name, _table_title(name), "" if name == CHARTS_TABLE else _rows_text(result.tables[name]))
        for name in names
    )


def _table_title(name: str) -> str:
    return clean_line(_SPECIAL_TABLE_TITLES.get(name, name.replace("_", " ")))


def _rows_text(table: ResultTable) -> str:
    return f"{len(table.rows)}{'+' if table.cut else ''}"


def meaning_text(result: AnalysisResult, name: str) -> str:
    """Return the meaning of a table, and the path of its complete rows if it is cut."""
    table = result.tables[name]
    cut_text = f" The first {len(table.rows)} rows; all are in {result.out}/gold/{name}."
    return clean_line(table.meaning + (cut_text if table.cut else ""))


def cell_text(name: str, value: CellValue) -> str:
    """Return a value as one line, formatted by the unit at the end of its column's name."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean_line(value) if isinstance(value, str) else quantity_text(name, value)


def verdict_text(result: AnalysisResult, width: int) -> Content:
    """Return the verdict page, `width` cells wide: each finding with its evidence and time."""
    table = result.tables[VERDICT_TABLE]
    if not table.rows:
        return safe("Nothing stands out.", "ok")
    names = [column.name for column in table.columns]
    has_many_sessions = len(result.sessions) > 1
    findings = [
        _finding_content(number, dict(zip(names, row, strict=True)), has_many_sessions, width)
        for number, row in enumerate(table.rows, start=1)
    ]
    return Content("\n\n").join(findings)


def _finding_content(
    number: int, finding: dict[str, CellValue], has_many_sessions: bool, width: int
) -> Content:
    harm, code = finding.get("harm"), finding.get("code")
    subject = cell_text("subject", finding.get("subject"))
    heading = Content.assemble(
        safe(f"{number:2}  ", "dim"),
        safe(subject, "bad" if harm in _WORST_HARMS else "strong warn"),
        safe(f"  {harm or ''}" + (f"  {code}" if code else ""), "dim"),
    )
    sentence = safe(cell_text("sentence", finding.get("sentence")))
    details = [cell_text("evidence", finding.get("evidence")), _time_text(finding)]
    details += [cell_text("session", finding.get("session"))] if has_many_sessions else []
    details_text = "  ·  ".join(detail for detail in details if detail not in ("", UNKNOWN))
    advice = finding.get("advice")
    paragraphs = [sentence, safe(details_text, "dim")] if details_text else [sentence]
    paragraphs += [safe(f"→ {advice}")] if advice else []
    text_cells = max(width - len(_INDENT), 20)
    lines = [
        Content(_INDENT) + line for paragraph in paragraphs for line in paragraph.wrap(text_cells)
    ]
    return Content("\n").join([heading, *lines])


def _time_text(finding: dict[str, CellValue]) -> str:
    start_at_us, end_at_us = finding.get("start_at_us"), finding.get("end_at_us")
    if not isinstance(start_at_us, int | float):
        return ""
    has_span = isinstance(end_at_us, int | float) and end_at_us > start_at_us
    duration_suffix = (
        f" for {duration_text((float(end_at_us or 0) - start_at_us) / 1e6)}" if has_span else ""
    )
    return f"{moment_text(start_at_us)} UTC{duration_suffix}"


def titles_of(names: Sequence[str]) -> list[str]:
    """Return the titles of columns: names without units, unless two would be equal."""
    short_titles = [column_title_text(name).upper() for name in names]
    return [
        title if short_titles.count(title) == 1 else name.replace("_", " ").upper()
        for name, title in zip(names, short_titles, strict=True)
    ]


class ResultRows:
    """The sorted rows and shown columns of a result table, for the table widget."""

    def __init__(
        self, result: AnalysisResult, name: str, sort: str | None = None, reverse: bool = False
    ) -> None:
        self.name = name
        self.table = table = result.tables[name]
        # The same name in every row says nothing.
        hides_session = len(result.sessions) == 1 and name != "session" and len(table.columns) > 1
        names = [column.name for column in table.columns]
        hidden_names = (
            ("session", *_NEVER_SHOWN_COLUMNS) if hides_session else _NEVER_SHOWN_COLUMNS
        )
        self._shown_column_indexes = [
            index for index, column_name in enumerate(names) if column_name not in hidden_names
        ]
        rows = range(len(table.rows))
        if sort is None:
            self.order: Sequence[int] = rows
        else:
            column_index = table.index_of(sort)
            self.order = sort_rows([row[column_index] for row in table.rows], rows, reverse)

    def __len__(self) -> int:
        return len(self.table.rows)

    def key(self, row: int) -> Hashable:
        """Return the name of the table and the row: all tables share one widget."""
        return (self.name, row)

    def cells(self, row: int) -> Sequence[Cell]:
        """Return the cells of a row."""
        return [
            self._table_cell(index, self.table.rows[row][index])
            for index in self._shown_column_indexes
        ]

    def _table_cell(self, index: int, value: CellValue) -> Cell:
        text = cell_text(self.table.columns[index].name, value)
        return Cell(text, "dim" if value is None else "")

    def columns(self) -> list[ColumnLayout]:
        """Return the shown columns, as wide as their contents."""
        titles = titles_of(
            [self.table.columns[index].name for index in self._shown_column_indexes]
        )
        return [
            self._table_column(shown_position, index, title)
            for shown_position, (index, title) in enumerate(
                zip(self._shown_column_indexes, titles, strict=True)
            )
        ]

    def _table_column(self, shown_position: int, index: int, title: str) -> ColumnLayout:
        column = self.table.columns[index]
        cell_texts = [
            cell_text(column.name, row[index]) for row in self.table.rows[:_WIDTH_SAMPLE_ROWS]
        ]
        # Two cells more than the title, for the arrow of the sort.
        needed_cells = max([_MIN_COLUMN_CELLS, len(title) + 2, *map(len, cell_texts)])
        max_cells = _MIN_NAME_COLUMN_CELLS if column.name in _NAME_COLUMNS else _MAX_COLUMN_CELLS
        is_number = column.type in ("bigint", "double") and not column.name.endswith("_at_us")
        return ColumnLayout(
            column.name,
            title,
            min(needed_cells, max_cells),
            "right" if is_number else "left",
            flex=int(needed_cells > max_cells),
            max_width=min(needed_cells, _MAX_FLEX_COLUMN_CELLS),
            priority=shown_position + 100 * (column.name in _COLUMNS_HIDDEN_FIRST),
        )

    def descends(self, name: str) -> bool:
        """Return whether the first click on a column's title sorts descending: not for strings."""
        return self.table.columns[self.table.index_of(name)].type != "string"
