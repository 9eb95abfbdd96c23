"""The lines at the top where several systems are shown: how each is, and all of them together."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.clean import clean_line
from natstui.model.live.age import polls_are_missing
from natstui.model.live.rates import own_requests_per_s
from natstui.tui.frame.head.status_text import findings_parts, link_parts, recording_cell
from natstui.tui.frame.systems import SystemState
from natstui.tui.frame.view import GLYPHS
from natstui.tui.kit.table.rows import Cell
from natstui.units import bytes_text, count_text, counted, duration_text


def trouble_of(one: SystemState) -> str:
    """Return why nothing new comes from a system; empty where something does."""
    link = one.state.link
    if link is None:
        return "connecting" if one.late_us == 0 else f"no word for {_age(one.late_us)}"
    if link.state != "connected":
        return link.reason or link.state
    if polls_are_missing(one.state, one.late_us):
        # Of another account the servers say why they tell nothing.
        refused = one.state.unavailable.get("answers")
        return refused.reason if refused else f"nothing new for {_age(one.late_us)}"
    return ""


def _age(late_us: int) -> str:
    return duration_text(late_us / 1e6)


def system_cell(one: SystemState, *, acting: bool = False) -> Cell:
    """Return a system's name on its colour; in brackets the one that keys act on."""
    name = clean_line(one.name)
    name = f"[{name}]" if acting else name
    if trouble_of(one):
        return Cell(f"{GLYPHS['bad']} {name}", "bad")
    return Cell(f"{GLYPHS['ok']} {name}", one.look)


def all_parts(acting: SystemState, systems: Sequence[SystemState]) -> list[Cell]:
    """Return the first line of a screen over all systems: each of them, and what is wrong."""
    parts = [Cell("natstui", "strong")]
    parts += (system_cell(system, acting=system.name == acting.name) for system in systems)
    parts += findings_parts(*(system.state for system in systems))
    recordings = ((system.name, system.state.recording) for system in systems)
    for name, recording in recordings:
        if recording is not None and recording.on:
            cell = recording_cell(recording)
            parts.append(Cell(f"{cell.text} {clean_line(name)}", cell.look))
    return parts


def trouble_parts(systems: Sequence[SystemState]) -> list[Cell]:
    """Return which systems say nothing new, and why."""
    troubles = ((system.name, trouble_of(system)) for system in systems)
    return [Cell(clean_line(f"{name}: {why}"), "bad") for name, why in troubles if why]


def total_parts(systems: Sequence[SystemState]) -> list[Cell]:
    """Return the second line: which say nothing new, then what all accounts together use."""
    states = [system.state for system in systems]
    known = [one.account for one in states if one.account is not None]
    asked = [own_requests_per_s(state.costs) for state in states]
    asks_per_s = sum(rate for rate in asked if rate is not None)
    missing = f" of {len(known)}" if len(known) < len(systems) else ""
    return [
        *trouble_parts(systems),
        Cell(f"{counted(len(systems), 'system')}, totals{missing}:", "dim"),
        Cell(f"streams {count_text(sum(one.streams_count for one in known))}"),
        Cell(f"consumers {count_text(sum(one.consumers_count for one in known))}"),
        Cell(f"file {bytes_text(sum(one.storage_bytes for one in known))}"),
        Cell(f"memory {bytes_text(sum(one.memory_bytes for one in known))}"),
        Cell(f"API {count_text(sum(one.api_requests_count for one in known))} req"),
        Cell(f"{count_text(sum(one.api_errors_count for one in known))} err", "dim"),
        Cell(f"we ask {asks_per_s:.1f}/s", "dim"),
    ]


def one_parts(acting: SystemState, systems: Sequence[SystemState]) -> list[Cell]:
    """Return the first line of a screen about one of several systems, and others in trouble."""
    head, *rest = link_parts(acting.state, acting.late_us)
    others = [system for system in systems if system.name != acting.name and trouble_of(system)]
    return [head, system_cell(acting, acting=True), *map(system_cell, others), *rest]
