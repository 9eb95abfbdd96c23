"""The sections of a report: tables of a result with their cells as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from natstui.analysis.gold.shared.family import family_of
from natstui.analysis.section import Section
from natstui.clean import clean_line
from natstui.units import UNKNOWN, column_title_text, moment_text, quantity_text


def cell_text(name: str, value: Any) -> str:
    """Return the value of column `name` as clean text, in the unit at the end of the name."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean_line(value)
    return quantity_text(name, value)


Result = dict[str, Any]
"""The result of an analysis: its JSON fields."""
ResultRow = dict[str, Any]
"""A row of a table: column → value."""


class SectionText(Struct, frozen=True):
    """A section with the clean texts of its rows."""

    table: str
    section: Section
    titles: tuple[str, ...]
    is_numeric_by_column: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    has_more_rows: bool
    """Whether the table has more rows than the result."""


def titles_of(names: Sequence[str]) -> tuple[str, ...]:
    """Return the titles of columns, without units; equal titles keep their units."""
    titles = [column_title_text(name) for name in names]
    return tuple(
        name.replace("_", " ") if titles.count(title) > 1 else title
        for name, title in zip(names, titles, strict=True)
    )


def section_text(result: Result, name: str) -> SectionText:
    """Return a table's section as text; of a single session, without the column `session`."""
    table = result["tables"][name]
    section = Section(**table["section"])
    types = {column["name"]: column["type"] for column in table["columns"]}
    is_single_session = len(result["sessions"]) == 1 and name != "session"
    columns = tuple(
        column for column in section.columns if not (is_single_session and column == "session")
    )
    rows = tuple(
        tuple(cell_text(column, row[column]) for column in columns)
        for row in _merge_families(result, name)
    )
    return SectionText(
        name,
        section,
        titles_of(columns),
        tuple(types[column] in ("bigint", "double") for column in columns),
        rows,
        bool(table["cut"]),
    )


class EphemeralFamily(NamedTuple):
    """Ephemeral consumers of a stream whose names have a common prefix, in a session."""

    session: str
    stream: str
    name: str
    """The common prefix, and `*`."""


_PERIOD_COLUMNS = ("bucket_at_us", "start_at_us")
"""Columns that only tables with several rows per consumer have."""


def family_sizes(result: Result) -> dict[EphemeralFamily, int]:
    """Return family of ephemeral consumers → number of consumers in it."""
    return {
        EphemeralFamily(row["session"], row["stream"], row["name"]): row["consumers_count"]
        for row in rows_of(result, "ephemeral")
    }


def find_family(
    row: ResultRow, size_by_family: Mapping[EphemeralFamily, int]
) -> EphemeralFamily | None:
    """Return the family of the consumer of a row; None if it has none in `size_by_family`."""
    name = family_of(row.get("consumer") or "")
    row_family = EphemeralFamily(row["session"], row.get("stream") or "", name or "")
    return row_family if row_family in size_by_family else None


def _merge_families(result: Result, name: str) -> list[ResultRow]:
    """Return the rows of a table, only the first row of each family of ephemeral consumers.

    Tables with several rows per consumer keep all rows.
    """
    rows, size_by_family = rows_of(result, name), family_sizes(result)
    names = {column["name"] for column in result["tables"][name]["columns"]}
    if not size_by_family or "created_at_us" not in names or names & {*_PERIOD_COLUMNS}:
        return rows
    kept_rows, seen_families = [], set[EphemeralFamily]()
    for row in rows:
        row_family = find_family(row, size_by_family)
        if row_family is None:
            kept_rows.append(row)
        elif row_family not in seen_families:
            seen_families.add(row_family)
            family_size_text = f"(1 of {size_by_family[row_family]} {row_family.name})"
            kept_rows.append(row | {"consumer": f"{row['consumer']} {family_size_text}"})
    return kept_rows


def sections(result: Result) -> list[SectionText]:
    """Return all sections in the order of the gold tables; optional ones only with rows."""
    section_texts = [
        section_text(result, name) for name, table in result["tables"].items() if table["section"]
    ]
    return [section for section in section_texts if section.rows or not section.section.optional]


def damaged_sessions(result: Result) -> list[str]:
    """Return the clean names of the sessions of which something could not be read."""
    table = result["tables"]["session"]
    names = [column["name"] for column in table["columns"]]
    session_index, damage_index = names.index("session"), names.index("damage")
    return [
        clean_line(row[session_index]) for row in table["rows"] if row[damage_index] is not None
    ]


def rows_of(result: Result, name: str, session: str | None = None) -> list[ResultRow]:
    """Return the rows of a table as column → value, of one session or all; empty if missing."""
    table = result["tables"].get(name)
    if table is None:
        return []
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    return [row for row in rows if session is None or row["session"] == session]


def is_cut(result: Result, name: str) -> bool:
    """Return whether a table has more rows than the result."""
    table = result["tables"].get(name)
    return table is not None and bool(table["cut"])


def series(result: Result, session: str, column: str) -> tuple[list[int], list[float | None]]:
    """Return the times (UTC µs) and values of a column of `picture`, of all consumers together."""
    rows = [row for row in rows_of(result, "picture", session) if not row["rank"]]
    return [row["bucket_at_us"] for row in rows], [row[column] for row in rows]


def single_bucket_text(result: Result, session: str, lines: Sequence[tuple[str, str]]) -> str:
    """Return the values of a session with a single bucket as text; empty for other sessions.

    It replaces a chart, which needs more buckets. `lines` are pairs of a name and a column of
    `picture`.
    """
    points = [
        (at_us, f"{name} {cell_text(column, value)}")
        for name, column in lines
        for at_us, value in zip(*series(result, session, column), strict=True)
        if value is not None
    ]
    if len({at_us for at_us, _ in points}) != 1:
        return ""
    return f"{moment_text(points[0][0])}: {', '.join(text for _, text in points)}"
