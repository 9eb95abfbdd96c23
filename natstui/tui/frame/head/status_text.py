"""Texts of the first two lines of a screen: connection, account, cost of monitoring. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from textual.content import Content

from natstui.clean import clean_line
from natstui.model.findings.catalogue.kind import LEVEL_BY_SEVERITY, Severity
from natstui.model.findings.severities import severity_text
from natstui.model.live.age import (
    oldest_row_us,
    poll_interval_us,
    polls_are_missing,
    state_at_poll_age,
)
from natstui.model.live.polling_limit import POLLING_LIMIT_TEXT
from natstui.model.live.rates import own_requests_per_s
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import EngineStarted
from natstui.model.records.recording import RecordingChanged
from natstui.model.servers.versions import version_problem
from natstui.tui.frame.shared_cells import GLYPHS
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe_cell
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text

# Only these: an unknown name would end the viewer, and recordings come from anywhere.
PROFILE_COLOUR_PATTERN = re.compile(
    "#[0-9a-fA-F]{6}|red|orange|yellow|green|cyan|blue|magenta|white"
)
STRIP_HELP = (
    ("critical, warnings", "Number of open findings; empty if nothing is wrong."),
    ("rtt", "Round trip time of the first request of the newest poll."),
    ("streams", "Streams of the account, and the limit."),
    (
        "consumers",
        "Consumers of the account, including hidden ones of mirrors and sources.",
    ),
    ("file, memory", "Storage that the account uses in files and memory, and the limits."),
    (
        "API req",
        "API requests of all clients of the account, including natstui, since the servers "
        "started.",
    ),
    (
        "err",
        "API requests that failed since the servers started, such as for a stream that does not "
        "exist; yellow while the number grows. :sub $JS.EVENT.ADVISORY.API shows each new request "
        "with its client and reply.",
    ),
    (
        "own requests",
        "API requests per second of natstui over the last minute, and the interval of polls. If "
        "a poll does not read every row: how long a full round takes. Rows in view or with a "
        "finding are read in every poll, active ones every 2 s, the rest within 8 s, as far as "
        f"{POLLING_LIMIT_TEXT} allow.",
    ),
    ("oldest", "Age of the oldest row on the screens, if a poll does not read every row."),
)
"""The figures of the status strip, each with its explanation."""
_GLYPH_AND_STYLE_BY_LINK_STATE = {
    "connecting": ("◌", "warn"),
    "connected": ("●", "ok"),
    "reconnecting": ("▲", "bad"),
    "failed": ("✖", "bad"),
    "closed": ("○", "dim"),
}


def link_parts(state: State, poll_age_us: int) -> list[Cell]:
    """Return the first line: the connection and its status."""
    engine_started, link = state.started, state.link
    parts = [Cell("natstui", "strong")]
    if engine_started:
        parts.append(_target_cell(engine_started))
        if engine_started.production:
            parts.append(Cell(" PRODUCTION ", "bad"))
        if engine_started.read_only:
            account_note = "" if engine_started.account is None else ", through the system account"
            parts.append(Cell(f"read-only{account_note}", "warn"))
    if state.recording is not None and state.recording.on:
        parts.append(recording_cell(state.recording))
    if link is None:
        # A screen without an engine has received nothing yet: it claims nothing.
        return [*parts, Cell("◌ connecting", "warn")] if engine_started else parts
    parts.append(_link_cell(link, is_recorded=state.replay is not None))
    unsupported_text = version_problem(link.server_version)
    if unsupported_text is not None:
        parts.append(Cell(f"▲ {clean_line(unsupported_text)}", "bad"))
    # For another account, the own one does not need JetStream.
    watches_own_account = engine_started is None or engine_started.account is None
    if (
        watches_own_account
        and link.state == "connected"
        and link.jetstream is not True
        and link.reason
    ):
        parts.append(Cell(f"▲ {clean_line(link.reason)}", "bad"))
    if polls_are_missing(state, poll_age_us) and link.state == "connected":
        parts.append(Cell(f"▲ nothing new for {duration_text(poll_age_us / 1e6)}", "bad"))
    parts += findings_parts(state)
    if link.server_version:
        name = clean_line(link.server_name or "")
        parts.append(Cell(f"{name[:24]} v{clean_line(link.server_version)}", ""))
    rtt_us = next(
        (poll.cost.api_rtt_us for poll in reversed(state.costs) if poll.cost.api_rtt_us), None
    )
    if rtt_us is not None and state.replay is None:
        parts.append(Cell(f"rtt {rtt_us / 1000:.1f}ms", ""))
    return parts


def count_open_findings(states: Sequence[State]) -> dict[str, int]:
    """Return the number of open, not silenced findings by severity."""
    counts = {"critical": 0, "warning": 0, "info": 0}
    for state in states:
        for severity, count in state.findings.count_open_findings().open_by_severity_count.items():
            counts[severity] += count
    return counts


def findings_parts(*states: State) -> list[Cell]:
    """Return a cell with the number of open findings for critical and for warning; none for 0."""
    counts = count_open_findings(states)
    severities: tuple[Severity, ...] = ("critical", "warning")
    return [
        Cell(
            f"{GLYPHS[LEVEL_BY_SEVERITY[severity]]} {severity_text(severity, counts[severity])}",
            LEVEL_BY_SEVERITY[severity],
        )
        for severity in severities
        if counts[severity]
    ]


def _has_unreadable_streams(state: State) -> bool:
    """Return whether streams are missing because the stream list cannot be read."""
    is_list_unavailable = any(
        request.startswith(("STREAM.LIST", "answers")) for request in state.unavailable
    )
    return is_list_unavailable and not len(state.streams)


def findings_cell(states: Sequence[State]) -> Cell:
    """Return the cell with the numbers of open critical and warning findings, or `fine`."""
    counts = count_open_findings(states)
    critical_count, warnings_count = counts["critical"], counts["warning"]
    parts = [f"{GLYPHS['bad']}{count_text(critical_count)}"] if critical_count else []
    parts += [f"{GLYPHS['warn']}{count_text(warnings_count)}"] if warnings_count else []
    if not parts and any(map(_has_unreadable_streams, states)):
        return Cell("? not judged", "warn")
    if not parts:
        return Cell(f"{GLYPHS['ok']} fine", "ok")
    if len(parts) == 2:
        return Cell(" ".join(parts), "bad", len(parts[0]), "warn")
    return Cell(parts[0], "bad" if critical_count else "warn")


def recording_cell(recording: RecordingChanged) -> Cell:
    """Return the cell of a recording: its size, or that it cannot be written."""
    if recording.reason:
        return Cell("▲ REC delayed", "warn")
    return Cell(f"● REC {bytes_text(recording.size_bytes)}", "bad")


def _target_cell(engine_started: EngineStarted) -> Cell:
    """Return the cell with the connection target in the colour of its profile."""
    target = clean_line(engine_started.target)
    if engine_started.colour and PROFILE_COLOUR_PATTERN.fullmatch(engine_started.colour):
        return Cell(f" {target} ", f"on {engine_started.colour}")
    return Cell(target, "accent")


def _link_cell(link: LinkChanged, *, is_recorded: bool) -> Cell:
    """Return the cell with the status of the connection; of a recording, the recorded status."""
    glyph, style_name = _GLYPH_AND_STYLE_BY_LINK_STATE[link.state]
    if is_recorded:
        return Cell(f"○ was {link.state}", "dim" if link.state == "connected" else style_name)
    tls_text = " TLS" if link.tls and link.state == "connected" else ""
    return Cell(f"{glyph} {link.state}{tls_text}", style_name)


def _usage_cell(name: str, used_text: str, limit_text: str | None) -> Cell:
    return Cell(f"{name} {used_text}" + (f"/{limit_text}" if limit_text else ""))


def account_parts(state: State, poll_age_us: int = 0) -> list[Cell]:
    """Return the second line: the error of the connection or account, else the usage of the
    account and natstui's requests.
    """
    account, link = state.account, state.link
    if link is not None and link.state != "connected" and link.reason:
        return [Cell(clean_line(link.reason), "bad")]
    if account is None:
        account_failure = next(
            (
                unavailable
                for request, unavailable in state.unavailable.items()
                if request.startswith(("INFO", "answers"))
            ),
            None,
        )
        return (
            [Cell(clean_line(account_failure.reason), "warn")]
            if account_failure
            else [Cell(UNKNOWN, "dim")]
        )
    state = state_at_poll_age(state, poll_age_us)
    age_s = (state.now_mono_us - state.account_mono_us) / 1e6
    is_stale = polls_are_missing(state, state.now_mono_us - state.account_mono_us)
    parts = [Cell(f"stale {duration_text(age_s)}", "stale")] if is_stale else []
    max_streams, max_consumers = account.max_streams_count, account.max_consumers_count
    max_streams_text = count_text(max_streams) if max_streams else None
    max_consumers_text = count_text(max_consumers) if max_consumers else None
    max_storage_text = bytes_text(account.max_storage_bytes) if account.max_storage_bytes else None
    max_memory_text = bytes_text(account.max_memory_bytes) if account.max_memory_bytes else None
    parts += [
        _usage_cell("streams", count_text(account.streams_count), max_streams_text),
        _usage_cell("consumers", count_text(account.consumers_count), max_consumers_text),
        _usage_cell("file", bytes_text(account.storage_bytes), max_storage_text),
        _usage_cell("memory", bytes_text(account.memory_bytes), max_memory_text),
        *api_parts(state),
    ]
    return parts


def api_parts(state: State) -> list[Cell]:
    """Return cells with the API requests of all clients, and those of natstui; the state must
    have an account.
    """
    account, costs = state.account, state.costs
    assert account is not None
    errors = account.api_errors_count
    parts = [
        Cell(f"API {count_text(account.api_requests_count)} req"),
        Cell(f"{count_text(errors)} err", "warn" if _are_errors_increasing(state) else "dim"),
    ]
    own_per_s = own_requests_per_s(costs)
    if own_per_s is not None:
        interval_text = duration_text(poll_interval_us(state) / 1e6)
        parts.append(
            Cell(
                f"own requests {own_per_s:.1f}/s every {interval_text}{_poll_round_text(state)}",
                "dim",
            )
        )
    if costs and costs[-1].cost.backoff_reason:
        parts.append(Cell(f"▲ {clean_line(costs[-1].cost.backoff_reason)}", "warn"))
    if state.unavailable:
        parts.append(Cell(f"▲ {len(state.unavailable)} unavailable (4)", "warn"))
    return parts


def _poll_round_text(state: State) -> str:
    """Return a text with the time in which the polls read all rows, and the age of the oldest
    row; empty if each poll reads all rows.
    """
    max_row_interval_us, oldest_us = state.costs[-1].cost.round_us, oldest_row_us(state)
    if max_row_interval_us is None or oldest_us is None:
        return ""
    round_text, oldest_text = (
        duration_text(max_row_interval_us / 1e6),
        duration_text(oldest_us / 1e6),
    )
    return f", every row in {round_text}, oldest {oldest_text}"


def _are_errors_increasing(state: State) -> bool:
    counts = [
        poll.api_errors_count for poll in state.costs[-10:] if poll.api_errors_count is not None
    ]
    return any(next_count > count for count, next_count in pairwise(counts))


_MIN_CUT_PART_CELLS = 12


def fit_parts(parts: list[Cell], width: int) -> Content:
    """Return the parts as one line of at most `width` cells; parts at the right that do not fit
    are left out.
    """
    line, used_cells = Content(), 0
    for part in parts:
        content = safe_cell(part)
        gap_cells = 2 if used_cells else 0
        free_cells = width - used_cells - gap_cells
        if content.cell_length > free_cells:
            if free_cells >= _MIN_CUT_PART_CELLS and not used_cells:
                line = Content.assemble(
                    line, " " * gap_cells, content.truncate(free_cells, ellipsis=True)
                )
            break
        line = Content.assemble(line, " " * gap_cells, content)
        used_cells += gap_cells + content.cell_length
    return line
