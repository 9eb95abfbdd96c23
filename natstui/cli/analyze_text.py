"""The answers as text: tables, and charts of the load drawn by plotext."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from natstui.analysis.report import Shown, sections, series
from natstui.clean import clean_line
from natstui.cli.text_table import Column, table
from natstui.units import UNKNOWN

ROWS_SHOWN = 12
_CHART_ROWS = 10
_WIDEST_CELLS = 160
_SESSIONS_DRAWN = 3


def report_lines(result: dict[str, Any], width_cells: int | None) -> list[str]:
    """Return the whole report; None for a width is that of a pipe."""
    lines: list[str] = []
    for number, one in enumerate(sections(result)):
        lines += ["", one.section.title.upper()]
        if one.section.table == "verdict" and one.rows:
            lines += _verdict(one, min(width_cells or 100, _WIDEST_CELLS))
        else:
            lines += _table(one, width_cells) if one.rows else [one.section.empty]
        if number == 0:
            lines += _charts(result, min(width_cells or 100, _WIDEST_CELLS))
    return [*lines, "", f"Tables: {clean_line(result['out'])}/gold (DICTIONARY.md explains them)"]


def _verdict(one: Shown, width_cells: int) -> list[str]:
    """Return each finding as a paragraph: in a table its evidence would be cut first."""
    lines = []
    for row in one.rows:
        said = dict(zip(one.titles, row, strict=True))
        rank = f"{said['rank']:>2}  "
        details = (said["evidence"], said["start"], said.get("session", ""))
        kept = "  ·  ".join(text for text in details if text not in ("", UNKNOWN))
        wrapped = wrap(f"{said['subject']}: {said['sentence']}", width_cells - len(rank))
        wrapped += wrap(kept, width_cells - len(rank))
        lines += [(rank if place == 0 else " " * len(rank)) + text
                  for place, text in enumerate(wrapped)]  # fmt: skip
    return lines


def _table(one: Shown, width_cells: int | None) -> list[str]:
    columns = [
        Column(title, numeric, sheds=place if numeric else 0, shrinks=not numeric)
        for place, (title, numeric) in enumerate(zip(one.titles, one.numeric, strict=True))
    ]
    lines = table(columns, one.rows[:ROWS_SHOWN], width_cells)
    left = len(one.rows) - ROWS_SHOWN
    if left > 0 or one.cut:
        lines.append(f"… {'at least ' if one.cut else ''}{max(left, 1)} more in the tables")
    return lines


def _charts(result: dict[str, Any], width_cells: int) -> list[str]:
    import plotext

    lines: list[str] = []
    for session in result["sessions"][:_SESSIONS_DRAWN]:
        plotext.clear_figure()
        plotext.theme("clear")
        plotext.plotsize(width_cells, _CHART_ROWS)
        drawn = False
        for label, column in (
            ("published/s", "published_per_s"),
            ("delivered/s", "delivered_per_s"),
        ):
            ats, values = series(result, session, column)
            points = [(at, v) for at, v in zip(ats, values, strict=True) if v is not None]
            if len(points) > 1:
                start = ats[0]
                minutes = [(at - start) / 60e6 for at, _ in points]
                plotext.plot(minutes, [v for _, v in points], label=label, marker="braille")
                drawn = True
        if drawn:
            plotext.xlabel("minutes")
            lines += [
                "",
                f"LOAD OF {clean_line(session)}",
                *plotext.uncolorize(plotext.build()).splitlines(),
            ]
    return lines
