"""The first two lines of a screen with several systems: the status of each, and totals."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.clean import clean_line
from natstui.model.live.age import polls_are_missing
from natstui.model.live.rates import own_requests_per_s
from natstui.tui.frame.head.status_text import findings_parts, link_parts, recording_cell
from natstui.tui.frame.shared_cells import GLYPHS
from natstui.tui.frame.systems import SystemState
from natstui.tui.kit.table.rows import Cell
from natstui.units import bytes_text, count_text, counted, duration_text


def find_silence_reason(system: SystemState) -> str:
    """Return the reason why a system sends no new state; empty if it sends one."""
    link = system.state.link
    if link is None:
        return (
            "connecting"
            if system.poll_age_us == 0
            else f"no word for {_poll_age_text(system.poll_age_us)}"
        )
    if link.state != "connected":
        return link.reason or link.state
    if polls_are_missing(system.state, system.poll_age_us):
        # For another account the servers report why they do not reply.
        failed_replies = system.state.unavailable.get("answers")
        return (
            failed_replies.reason
            if failed_replies
            else f"nothing new for {_poll_age_text(system.poll_age_us)}"
        )
    return ""


def _poll_age_text(poll_age_us: int) -> str:
    return duration_text(poll_age_us / 1e6)


def system_cell(system: SystemState, *, is_acting: bool = False) -> Cell:
    """Return the cell with a system's name in its colour; in brackets for the system on which the
    screen's keys act.
    """
    name = clean_line(system.name)
    name = f"[{name}]" if is_acting else name
    if find_silence_reason(system):
        return Cell(f"{GLYPHS['bad']} {name}", "bad")
    return Cell(f"{GLYPHS['ok']} {name}", system.style_name)


def all_systems_parts(acting: SystemState, systems: Sequence[SystemState]) -> list[Cell]:
    """Return the first line of a screen over all systems: systems, findings, recordings."""
    parts = [Cell("natstui", "strong")]
    parts += (system_cell(system, is_acting=system.name == acting.name) for system in systems)
    parts += findings_parts(*(system.state for system in systems))
    names_and_recordings = ((system.name, system.state.recording) for system in systems)
    for name, recording in names_and_recordings:
        if recording is not None and recording.on:
            cell = recording_cell(recording)
            parts.append(Cell(f"{cell.text} {clean_line(name)}", cell.style_name))
    return parts


def silent_system_cells(systems: Sequence[SystemState]) -> list[Cell]:
    """Return a cell for each system that sends no new state, with the reason."""
    names_and_reasons = ((system.name, find_silence_reason(system)) for system in systems)
    return [
        Cell(clean_line(f"{name}: {reason}"), "bad")
        for name, reason in names_and_reasons
        if reason
    ]


def total_parts(systems: Sequence[SystemState]) -> list[Cell]:
    """Return the second line: systems that send no new state, then totals of all accounts."""
    states = [system.state for system in systems]
    accounts = [state.account for state in states if state.account is not None]
    own_rates = [own_requests_per_s(state.costs) for state in states]
    requests_per_s = sum(rate for rate in own_rates if rate is not None)
    total_suffix = f" of {len(accounts)}" if len(accounts) < len(systems) else ""
    return [
        *silent_system_cells(systems),
        Cell(f"{counted(len(systems), 'system')}, totals{total_suffix}:", "dim"),
        Cell(f"streams {count_text(sum(account.streams_count for account in accounts))}"),
        Cell(f"consumers {count_text(sum(account.consumers_count for account in accounts))}"),
        Cell(f"file {bytes_text(sum(account.storage_bytes for account in accounts))}"),
        Cell(f"memory {bytes_text(sum(account.memory_bytes for account in accounts))}"),
        Cell(f"API {count_text(sum(account.api_requests_count for account in accounts))} req"),
        Cell(f"{count_text(sum(account.api_errors_count for account in accounts))} err", "dim"),
        Cell(f"own requests {requests_per_s:.1f}/s", "dim"),
    ]


def acting_system_parts(acting: SystemState, systems: Sequence[SystemState]) -> list[Cell]:
    """Return the first line of a screen about one of several systems; other systems are included
    if they send no new state.
    """
    first_cell, *other_cells = link_parts(acting.state, acting.poll_age_us)
    failing_systems = [
        system for system in systems if system.name != acting.name and find_silence_reason(system)
    ]
    return [
        first_cell,
        system_cell(acting, is_acting=True),
        *map(system_cell, failing_systems),
        *other_cells,
    ]
