"""An analysis as people read it: how far it is, what it found, and each of its tables."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from textual.content import Content

from natstui.clean import clean_line
from natstui.model.records.analysis import AnalysisProgress
from natstui.tui.frame.columns import arranged
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.widths import Column
from natstui.tui.kit.text import safe
from natstui.units import UNKNOWN, duration_text, moment_text, quantity_text, title_text

VERDICT = "verdict"
DRAWN = "picture"
"""The table that is shown as charts."""
_CALLED = {VERDICT: "Worth looking at", DRAWN: "Charts"}
_BAR_CELLS = 32
_LEAST_CELLS, _MOST_CELLS, _WIDEST_CELLS = 5, 28, 140
_MEASURED_ROWS = 200
"""Rows a column's width is taken from; the others are cut to it."""

_INDENT = " " * 4
_GIVES_WAY = (
    "start_at_us", "first_at_us", "last_at_us", "open", "created_at_us", "end_at_us", "covered_s",
    "pending_first_msgs", "pending_mean_msgs", "ack_floor_stream_seq", "latencies_count",
    "seconds_count", "samples_count",
)  # fmt: skip
"""What says less where room is short: moments, part of an identity, what follows from others."""
_NAMES = ("session", "stream", "consumer", "subject")
_NAME_CELLS = 14
"""A name is at least this wide and takes what room is left."""
_WORST = ("lost", "stuck")
"""Harms that stand out; the verdict is sorted by harm."""
_HIDDEN = ("series_id",)
"""Of use in a notebook only."""

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a table; its name ends with its unit."""

    name: str
    type: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ResultTable:
    """One answer: its first rows."""

    meaning: str
    columns: tuple[ResultColumn, ...]
    rows: tuple[tuple[Value, ...], ...]
    cut: bool
    """There are more rows than these."""

    def place(self, name: str) -> int:
        """Return where a column stands; raises StopIteration for one there is none of."""
        return next(at for at, column in enumerate(self.columns) if column.name == name)


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """What an analysis answered."""

    out: str
    """Folder of the whole tables."""
    sessions: tuple[str, ...]
    tables: dict[str, ResultTable]


def progress_text(progress: AnalysisProgress, elapsed_s: float) -> Content:
    """Return a bar, the step it is at, and for how long it runs."""
    steps = max(progress.steps_count, 1)
    share = progress.done_count / steps
    if progress.tasks_count:
        share += progress.tasks_done_count / progress.tasks_count / steps
    share = min(share, 1.0)
    filled = round(share * _BAR_CELLS)
    bar = safe("█" * filled, "primary"), safe("░" * (_BAR_CELLS - filled), "dim")
    after = f"  {share * 100:3.0f} %   {duration_text(elapsed_s)}"
    at = f"step {min(progress.done_count + 1, steps)} of {steps}: "
    step = safe(f"{at}{progress.text}" if progress.steps_count else f"{progress.text} …")
    return Content("\n").join([Content.assemble(*bar, after), step])


def menu(result: AnalysisResult) -> tuple[tuple[str, str, str], ...]:
    """Return (name, title, number of rows) of every table; verdict and charts first.

    What is drawn has no number of rows: they are the points of its lines.
    """
    first = [*_CALLED]
    names = sorted(result.tables, key=lambda n: first.index(n) if n in first else len(first))
    return tuple(
        (name, _title(name), "" if name == DRAWN else _rows_text(result.tables[name]))
        for name in names
    )


def _title(name: str) -> str:
    return clean_line(_CALLED.get(name, name.replace("_", " ")))


def _rows_text(table: ResultTable) -> str:
    return f"{len(table.rows)}{'+' if table.cut else ''}"


def meaning_text(result: AnalysisResult, name: str) -> str:
    """Return what a table says, and where the rest of it is."""
    table = result.tables[name]
    rest = f" The first {len(table.rows)} rows; all are in {result.out}/gold/{name}."
    return clean_line(table.meaning + (rest if table.cut else ""))


def cell_text(name: str, value: Value) -> str:
    """Return a cell by the unit its column's name ends with; harmless, one line."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return clean_line(value) if isinstance(value, str) else quantity_text(name, value)


def verdict_text(result: AnalysisResult, width: int) -> Content:
    """Return the verdict page, `width` cells wide: each finding with its evidence and its time."""
    table = result.tables[VERDICT]
    if not table.rows:
        return safe("Nothing stands out.", "ok")
    names = [column.name for column in table.columns]
    many = len(result.sessions) > 1
    findings = [
        _finding(number, dict(zip(names, row, strict=True)), many, width)
        for number, row in enumerate(table.rows, start=1)
    ]
    return Content("\n\n").join(findings)


def _finding(number: int, found: dict[str, Value], many: bool, width: int) -> Content:
    harm, code = found.get("harm"), found.get("code")
    subject = cell_text("subject", found.get("subject"))
    head = Content.assemble(
        safe(f"{number:2}  ", "dim"),
        safe(subject, "bad" if harm in _WORST else "strong warn"),
        safe(f"  {harm or ''}" + (f"  {code}" if code else ""), "dim"),
    )
    said = safe(cell_text("sentence", found.get("sentence")))
    details = [cell_text("evidence", found.get("evidence")), _when(found)]
    details += [cell_text("session", found.get("session"))] if many else []
    kept = "  ·  ".join(detail for detail in details if detail not in ("", UNKNOWN))
    advice = found.get("advice")
    parts = [said, safe(kept, "dim")] if kept else [said]
    parts += [safe(f"→ {advice}")] if advice else []
    room = max(width - len(_INDENT), 20)
    lines = [Content(_INDENT) + line for part in parts for line in part.wrap(room)]
    return Content("\n").join([head, *lines])


def _when(found: dict[str, Value]) -> str:
    start, end = found.get("start_at_us"), found.get("end_at_us")
    if not isinstance(start, int | float):
        return ""
    lasted = isinstance(end, int | float) and end > start
    long = f" for {duration_text((float(end or 0) - start) / 1e6)}" if lasted else ""
    return f"{moment_text(start)} UTC{long}"


def titles_of(names: Sequence[str]) -> list[str]:
    """Return the titles of columns; where two would be the same, both keep their units."""
    short = [title_text(name).upper() for name in names]
    return [
        title if short.count(title) == 1 else name.replace("_", " ").upper()
        for name, title in zip(names, short, strict=True)
    ]


class ResultRows:
    """The rows of one table, as the big table asks for them."""

    def __init__(
        self, result: AnalysisResult, name: str, sort: str | None = None, reverse: bool = False
    ) -> None:
        self.name = name
        self.table = table = result.tables[name]
        # The same name in every row says nothing.
        alone = len(result.sessions) == 1 and name != "session" and len(table.columns) > 1
        names = [column.name for column in table.columns]
        hidden = ("session", *_HIDDEN) if alone else _HIDDEN
        self._shown = [at for at, one in enumerate(names) if one not in hidden]
        rows = range(len(table.rows))
        if sort is None:
            self.order: Sequence[int] = rows
        else:
            at = table.place(sort)
            self.order = arranged([row[at] for row in table.rows], rows, reverse)

    def __len__(self) -> int:
        return len(self.table.rows)

    def key(self, row: int) -> Hashable:
        """Return the table and the row: tables share one widget."""
        return (self.name, row)

    def cells(self, row: int) -> Sequence[Cell]:
        """Return the texts of one row."""
        return [self._cell(at, self.table.rows[row][at]) for at in self._shown]

    def _cell(self, at: int, value: Value) -> Cell:
        text = cell_text(self.table.columns[at].name, value)
        return Cell(text, "dim" if value is None else "")

    def columns(self) -> list[Column]:
        """Return the columns, as wide as their contents."""
        titles = titles_of([self.table.columns[at].name for at in self._shown])
        return [
            self._column(place, at, title)
            for place, (at, title) in enumerate(zip(self._shown, titles, strict=True))
        ]

    def _column(self, place: int, at: int, title: str) -> Column:
        column = self.table.columns[at]
        texts = [cell_text(column.name, row[at]) for row in self.table.rows[:_MEASURED_ROWS]]
        # Two cells more than the title, for the arrow of the sort.
        wanted = max([_LEAST_CELLS, len(title) + 2, *map(len, texts)])
        most = _NAME_CELLS if column.name in _NAMES else _MOST_CELLS
        number = column.type in ("bigint", "double") and not column.name.endswith("_at_us")
        return Column(
            column.name,
            title,
            min(wanted, most),
            "right" if number else "left",
            flex=int(wanted > most),
            max_width=min(wanted, _WIDEST_CELLS),
            priority=place + 100 * (column.name in _GIVES_WAY),
        )

    def descends(self, name: str) -> bool:
        """Return whether the first press on a title puts the largest on top."""
        return self.table.columns[self.table.place(name)].type != "string"
