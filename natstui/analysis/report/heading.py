"""The heading of a report: system, servers with versions, time, and missing data."""

from __future__ import annotations

from natstui.analysis.report.axis import TIME_ZONE, escape_text
from natstui.analysis.report.sections import Result, ResultRow, is_cut, rows_of
from natstui.clean import clean_line
from natstui.units import counted, duration_text, moment_text

_MISSING_TEXT_BY_KIND = {
    "unavailable": "data that could not be read",
    "disconnected": "the time without a connection",
}
"""Kind of `availability` → text about the data that is missing because of it."""
_MAX_NAMED_SERVERS = 20


def session_facts(result: Result, session: str) -> list[tuple[str, str]]:
    """Return what is known of a session: pairs of name and clean text, as ("Gaps", "none")."""
    header = result.get("headers", {}).get(session, {})
    (row, *_) = rows_of(result, "session", session) or [{}]
    facts = [
        (
            "System",
            _join_parts(header.get("cluster") or header.get("target"), _account_text(header)),
        ),
        ("Connected to", _join_parts(header.get("server_name"), header.get("server_version"))),
        (
            "Servers",
            _servers_text(
                _read_servers(result, session), may_be_more=is_cut(result, "server_role")
            ),
        ),
        ("Recorded", _recording_time_text(header, row)),
        ("Gaps", _gaps_text(row)),
        ("Not recorded", "; ".join(_missing_data(result, session, header, row))),
    ]
    return [(name, clean_line(fact_text)) for name, fact_text in facts if fact_text]


def facts_section(result: Result, sessions: list[str]) -> str:
    """Return the HTML section with the `session_facts` of each session; empty without any."""
    sessions_html = []
    for session in sessions:
        facts = session_facts(result, session)
        if facts:
            facts_html = "".join(
                f"<li><b>{name}</b> {escape_text(fact_text)}</li>" for name, fact_text in facts
            )
            sessions_html.append(
                f'<h3>{escape_text(session)}</h3><ul class="facts">{facts_html}</ul>'
            )
    return (
        f'<section class="about"><h2>About</h2>{"".join(sessions_html)}</section>'
        if sessions_html
        else ""
    )


def _join_parts(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


def _account_text(header: Result) -> str:
    return f"account {header['account']}" if header.get("account") else ""


def _read_servers(result: Result, session: str) -> list[ResultRow]:
    """Return the rows of `server_role`; none if the version of no server is known."""
    servers = rows_of(result, "server_role", session)
    return servers if any(row["versions"] for row in servers) else []


def _servers_text(servers: list[ResultRow], *, may_be_more: bool) -> str:
    """Return the servers with their versions, and whether these differ; empty without servers.

    `may_be_more`: whether only some of the servers may have been read.
    """
    if not servers:
        return ""
    named_servers = servers[:_MAX_NAMED_SERVERS]
    unnamed_count = len(servers) - len(named_servers)
    more_text = f" and {unnamed_count} more" if unnamed_count else ""
    if may_be_more:
        more_text += ", and perhaps others"
    versions = {row["versions"] for row in servers}
    if len(versions) == 1 and not may_be_more:
        names = ", ".join(str(row["server"]) for row in named_servers)
        return f"{names}{more_text}, version {versions.pop()}"
    names = ", ".join(
        f"{row['server']} {row['versions'] or '(version unknown)'}" for row in named_servers
    )
    differ_text = ": their versions differ" if len(versions - {None}) > 1 else ""
    return f"{names}{more_text}{differ_text}"


def _recording_time_text(header: Result, row: ResultRow) -> str:
    first, last = row.get("start_at_us"), row.get("end_at_us")
    if first is None or last is None:
        return ""
    time_text = f"{moment_text(first)} to {moment_text(last)} {TIME_ZONE}"
    duration = duration_text((last - first) / 1e6)
    interval_s = header.get("interval_s")
    interval_text = f"a poll every {interval_s:g} s" if isinstance(interval_s, int | float) else ""
    version = header.get("natstui_version")
    return _join_parts(
        f"{time_text} ({duration})", interval_text, version and f"by natstui {version}"
    )


def _gaps_text(row: ResultRow) -> str:
    count = row.get("gaps_count")
    if count is None:
        return ""
    return f"{counted(count, 'gap')}, {duration_text(row['gaps_s'])} in all" if count else "none"


def _missing_data(result: Result, session: str, header: Result, row: ResultRow) -> list[str]:
    missing_texts = []
    if header and not header.get("payloads"):
        missing_texts.append("payloads of messages, because recording them was not requested")
    # Recorded connections are without their subscriptions.
    missing_texts.append("the clients of consumers, except the ID of a pinned client")
    if not _read_servers(result, session):
        is_unknown = is_cut(result, "server_role")
        missing_texts.append(f"{'perhaps ' * is_unknown}the servers and their versions")
    if header.get("redacted"):
        missing_texts.append("names, which were replaced by pseudonyms")
    dropped_segments = header.get("dropped")
    if isinstance(dropped_segments, dict):
        at_us = dropped_segments.get("until_at_us")
        until_text = moment_text(at_us if isinstance(at_us, int) else None)
        missing_texts.append(
            f"everything before {until_text} {TIME_ZONE}, "
            f"deleted: {dropped_segments.get('reason')}"
        )
    if row.get("damage"):
        missing_texts.append(f"what is damaged: {row['damage']}")
    if row.get("not_judged"):
        missing_texts.append(f"findings: {row['not_judged']}")
    for kind, missing_text in _MISSING_TEXT_BY_KIND.items():
        kind_outages = [
            row for row in rows_of(result, "availability", session) if row["kind"] == kind
        ]
        if kind_outages:
            details = sorted({outage["detail"] for outage in kind_outages if outage["detail"]})
            missing_texts.append(
                f"{missing_text} ({', '.join(details[:3]) or counted(len(kind_outages), 'time')})"
            )
    if is_cut(result, "availability"):
        missing_texts.append(
            "perhaps more: only the first rows of the table availability were read"
        )
    return missing_texts
