"""The line of totals at the top of the overview: findings, rates, pending, storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from natstui.clean import clean_line
from natstui.model.live.state import State
from natstui.model.live.totals import Total, delivered_per_s, pending_msgs, stored_per_s
from natstui.tui.frame.head.status_text import findings_cell
from natstui.tui.frame.systems import SystemState
from natstui.tui.kit.table.rows import Cell
from natstui.tui.overview.panels import storage_cell, total_text
from natstui.units import count_text, rate_text

VITALS_HELP = (
    ("IN", "Messages stored per second by clients (without mirrors), over a minute."),
    ("OUT", "Messages delivered per second to consumers, redeliveries included."),
    ("PENDING", "Messages waiting for delivery, over all consumers."),
    (
        "STORAGE",
        "File storage that the account uses, as a share of its limit; without a limit, as a share "
        "of what all servers have.",
    ),
)
"""The figures of the line, each with its explanation."""

_WIDE_FROM_COLUMNS = 110
_MAX_NAME_CELLS_IF_NARROW = 12


def vitals(systems: Sequence[SystemState], width: int) -> list[Cell]:
    """Return the cells with the totals of these systems, for a line of `width` cells."""
    states = [system.state for system in systems]
    is_narrow = width < _WIDE_FROM_COLUMNS
    spark_cells, bar_cells = (4, 4) if is_narrow else (12, 10)
    name = _account_or_target_name(systems)
    parts = [Cell(name[:_MAX_NAME_CELLS_IF_NARROW] if is_narrow else name, "strong")]
    if any(not state.costs for state in states):
        return [*parts, Cell("waiting for the first poll", "dim")]
    if not is_narrow:
        parts.append(findings_cell(states))
    for title, get_total, format_value in _FIGURES:
        minute_sparkline, current_text = total_text(systems, get_total, format_value, spark_cells)
        parts.append(Cell(f"{title} {minute_sparkline} {current_text}"))
    storage = storage_cell(states, bar_cells)
    parts.append(Cell(f"STORAGE {storage.text}", "", len("STORAGE "), storage.style_name))
    return parts


def _rate_text(value: float | None) -> str:
    return f"{rate_text(value)}/s"


class _Figure(NamedTuple):
    """A figure of the line: its title, how it is read from a state, and its text."""

    title: str
    get_total: Callable[[State], Total]
    format_value: Callable[[float | None], str]


_FIGURES = (
    _Figure("IN", stored_per_s, _rate_text),
    _Figure("OUT", delivered_per_s, _rate_text),
    _Figure("PENDING", pending_msgs, count_text),
)


def _account_or_target_name(systems: Sequence[SystemState]) -> str:
    """Return the name of the account, else the connection target; of several systems their
    number.
    """
    if len(systems) > 1:
        return f"{len(systems)} systems"
    state = systems[0].state
    link, engine_started = state.link, state.started
    account = engine_started.account if engine_started is not None else None
    name = account or (link.account if link is not None else None)
    return clean_line(name or (engine_started.target if engine_started is not None else ""))
