"""What a report is about: system, server, versions, from when to when, and what is not in it."""

from __future__ import annotations

from natstui.analysis.report.axis import ZONE, text
from natstui.analysis.report.sections import Result, rows_of
from natstui.clean import clean_line
from natstui.units import counted, duration_text, moment_text

Fact = tuple[str, str]
_AWAY = {
    "unavailable": "data that could not be read",
    "disconnected": "the time without a connection",
}
"""Kind of availability → what was not recorded because of it."""


def heading(result: Result, session: str) -> list[Fact]:
    """Return the facts about a session, each a name and a clean text."""
    about = result.get("headers", {}).get(session, {})
    (row, *_) = rows_of(result, "session", session) or [{}]
    facts = [
        ("System", _joined(about.get("cluster") or about.get("target"), _account(about))),
        ("Server", _joined(about.get("server_name"), about.get("server_version"))),
        ("Recorded", _recorded(about, row)),
        ("Gaps", _gaps(result, session, row)),
        ("Not recorded", "; ".join(_not_recorded(result, session, about, row))),
    ]
    return [(name, clean_line(words)) for name, words in facts if words]


def heading_section(result: Result, sessions: list[str]) -> str:
    """Return the facts of sessions for the page; empty where nothing is known."""
    parts = []
    for session in sessions:
        facts = heading(result, session)
        if facts:
            lines = "".join(f"<li><b>{name}</b> {text(words)}</li>" for name, words in facts)
            parts.append(f'<h3>{text(session)}</h3><ul class="facts">{lines}</ul>')
    return f'<section class="about"><h2>About</h2>{"".join(parts)}</section>' if parts else ""


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


def _account(about: Result) -> str:
    return f"account {about['account']}" if about.get("account") else ""


def _recorded(about: Result, row: Result) -> str:
    first, last = row.get("start_at_us"), row.get("end_at_us")
    if first is None or last is None:
        return ""
    when = f"{moment_text(first)} to {moment_text(last)} {ZONE}"
    lasted = duration_text((last - first) / 1e6)
    every = about.get("interval_s")
    pace = f"a poll every {every:g} s" if isinstance(every, int | float) else ""
    version = about.get("natstui_version")
    return _joined(f"{when} ({lasted})", pace, version and f"by natstui {version}")


def _gaps(result: Result, session: str, row: Result) -> str:
    count = row.get("gaps_count")
    if count is None:
        return ""
    if not count:
        return "none"
    lost_s = sum(
        outage["duration_s"] or 0.0
        for outage in rows_of(result, "availability", session)
        if outage["kind"] == "gap"
    )
    return f"{counted(count, 'gap')}, {duration_text(lost_s)} in all"


def _not_recorded(result: Result, session: str, about: Result, row: Result) -> list[str]:
    found = []
    if about and not about.get("payloads"):
        found.append("payloads of messages, because recording them was not requested")
    if about.get("redacted"):
        found.append("names, which were replaced by pseudonyms")
    dropped = about.get("dropped")
    if isinstance(dropped, dict):
        at_us = dropped.get("until_at_us")
        until = moment_text(at_us if isinstance(at_us, int) else None)
        found.append(f"everything before {until} {ZONE}, deleted: {dropped.get('reason')}")
    if row.get("damage"):
        found.append(f"what is damaged: {row['damage']}")
    if row.get("not_judged"):
        found.append(f"findings: {row['not_judged']}")
    for kind, words in _AWAY.items():
        outages = [row for row in rows_of(result, "availability", session) if row["kind"] == kind]
        if outages:
            details = sorted({outage["detail"] for outage in outages if outage["detail"]})
            found.append(f"{words}: {'; '.join(details[:3]) or counted(len(outages), 'time')}")
    return found
