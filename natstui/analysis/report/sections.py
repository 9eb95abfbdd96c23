"""What a report shows of a result: the section that each answer brings, with its cells as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from natstui.analysis.gold.telling.family import family_of
from natstui.analysis.section import Section
from natstui.clean import clean_line
from natstui.units import UNKNOWN, moment_text, quantity_text, title_text


def cell_text(name: str, value: Any) -> str:
    """Return a cell by the unit its column's name ends with; harmless, one line."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return clean_line(value)
    return quantity_text(name, value)


Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shown:
    """A section with its rows, as clean text."""

    table: str
    section: Section
    titles: tuple[str, ...]
    numeric: tuple[bool, ...]
    rows: tuple[tuple[str, ...], ...]
    cut: bool
    """There are more rows in the table."""


def heads(names: Sequence[str]) -> tuple[str, ...]:
    """Return the heads of some columns: without the unit, but where two would be the same."""
    titles = [title_text(name) for name in names]
    return tuple(
        name.replace("_", " ") if titles.count(title) > 1 else title
        for name, title in zip(names, titles, strict=True)
    )


def shown(result: Result, name: str) -> Shown:
    """Return the section of a table; a session that is the same in every row is left out."""
    table = result["tables"][name]
    section = Section(**table["section"])
    types = {column["name"]: column["type"] for column in table["columns"]}
    alone = len(result["sessions"]) == 1 and name != "session"
    kept = tuple(one for one in section.columns if not (alone and one == "session"))
    rows = tuple(
        tuple(cell_text(column, row[column]) for column in kept)
        for row in _as_families(result, name)
    )
    return Shown(
        name,
        section,
        heads(kept),
        tuple(types[column] in ("bigint", "double") for column in kept),
        rows,
        bool(table["cut"]),
    )


Family = tuple[str, str, str]
"""Session, stream, and how the names of its ephemeral consumers begin."""
_MOMENTS = ("bucket_at_us", "start_at_us")
"""Columns of tables that have several rows of one consumer."""


def families(result: Result) -> dict[Family, int]:
    """Return how many ephemeral consumers there are of each family."""
    return {
        (row["session"], row["stream"], row["name"]): row["consumers_count"]
        for row in rows_of(result, "ephemeral")
    }


def family(row: Result, known: Mapping[Family, int]) -> Family | None:
    """Return the family of the consumer that a row is about; None for one by itself."""
    name = family_of(row.get("consumer") or "")
    found = (row["session"], row.get("stream") or "", name or "")
    return found if found in known else None


def _as_families(result: Result, name: str) -> list[Result]:
    """Return the rows of a table, of each family of ephemeral consumers the first one.

    Tables with several rows of one consumer have all of theirs.
    """
    rows, known = rows_of(result, name), families(result)
    names = {column["name"] for column in result["tables"][name]["columns"]}
    if not known or "created_at_us" not in names or names & {*_MOMENTS}:
        return rows
    kept, seen = [], set[Family]()
    for row in rows:
        of = family(row, known)
        if of is None:
            kept.append(row)
        elif of not in seen:
            seen.add(of)
            kept.append(row | {"consumer": f"{row['consumer']} (1 of {known[of]} {of[2]})"})
    return kept


def sections(result: Result) -> list[Shown]:
    """Return every section of the answers, in their order; optional ones only with rows."""
    filled = [shown(result, name) for name, table in result["tables"].items() if table["section"]]
    return [one for one in filled if one.rows or not one.section.optional]


def damaged_sessions(result: Result) -> list[str]:
    """Return the sessions of which something could not be read, as clean text."""
    table = result["tables"]["session"]
    names = [column["name"] for column in table["columns"]]
    session, damage = names.index("session"), names.index("damage")
    return [clean_line(row[session]) for row in table["rows"] if row[damage] is not None]


def rows_of(result: Result, name: str, session: str | None = None) -> list[Result]:
    """Return rows of a table by column; none where there is no such table."""
    table = result["tables"].get(name)
    if table is None:
        return []
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    return [row for row in rows if session is None or row["session"] == session]


def series(result: Result, session: str, column: str) -> tuple[list[int], list[float | None]]:
    """Return (moments, values) of a column of what is drawn of everything in one session."""
    rows = [row for row in rows_of(result, "picture", session) if not row["rank"]]
    return [row["bucket_at_us"] for row in rows], [row[column] for row in rows]


def only_bucket(result: Result, session: str, lines: Sequence[tuple[str, str]]) -> str:
    """Return the one value of each line (name, column of `picture`) of a session of one bucket.

    Empty where there are more, which are a chart, or none: one point has no length to draw.
    """
    points = [
        (at, f"{name} {cell_text(column, value)}")
        for name, column in lines
        for at, value in zip(*series(result, session, column), strict=True)
        if value is not None
    ]
    if len({at for at, _ in points}) != 1:
        return ""
    return f"{moment_text(points[0][0])}: {', '.join(text for _, text in points)}"
