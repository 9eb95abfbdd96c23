"""What the tables of findings must hold, in plain Python over the reports of a recording."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from tests.analysis.by_format import Record, of_kind
from tests.analysis.oracle_advice import CATALOGUE
from tests.analysis.oracle_recorded import covered_us

Row = dict[str, Any]
SEVERITIES = {"critical": 3000, "warning": 2000, "info": 1000}


def reports(segments: list[tuple[Record, list[Record]]]) -> list[Record]:
    """Return the reports of findings as they happened, by segments with their keyframes.

    What was open before a loss of records, and is not in the keyframe behind it, ends there.
    """
    found: list[Record] = []
    for number, (keyframe, records) in enumerate(segments):
        losses = [gap for gap in of_kind(records[:1], "gap") if gap.lost_records_count]
        if keyframe.findings and (losses or not number):
            still = keyframe.findings.findings
            for gap in losses:
                found += _ended(found, {_key(report) for report in still}, gap.from_at_us)
            found += still
        for record in of_kind(records, "findings_changed"):
            found += record.findings
    return found


def _key(report: Record) -> tuple[Any, ...]:
    return (*_about(report), report.since_at_us)


def _about(report: Record) -> tuple[Any, ...]:
    names = report.stream, report.consumer, report.created_at_us, report.part
    return (report.code, *names)


def _ended(before: list[Record], still: set[tuple[Any, ...]], at_us: int) -> list[Record]:
    last = {_key(report): report for report in before}
    return [
        SimpleNamespace(**vars(report) | {"until_at_us": max(at_us, report.since_at_us)})
        for key, report in last.items()
        if report.until_at_us is None and key not in still
    ]


def findings(session: str, many: list[Record], polled_us: int) -> list[Row]:
    """Return the rows of a session, by its reports and the time of its last poll."""
    rows, open_rows = list[Row](), dict[tuple[Any, ...], Row]()
    for report in many:
        row = open_rows.get(_about(report))
        if row is None or row["start_at_us"] != report.since_at_us:
            if row is not None:
                row["end_at_us"] = report.since_at_us
            row = {"session": session, "code": report.code, "start_at_us": report.since_at_us}
            rows.append(row)
            open_rows[_about(report)] = row
        row |= {
            "stream": report.stream or None,
            "consumer": report.consumer or None,
            "part": report.part or None,
            "created_at_us": report.created_at_us,
            "end_at_us": report.until_at_us,
            "evidence": report.text,
            "sequences": " ".join(map(str, report.sequences)),
            "numbers": report.numbers or None,
        }
        if report.until_at_us is not None:
            del open_rows[_about(report)]
    return [_finished(row, polled_us) for row in rows]


def _finished(row: Row, polled_us: int) -> Row:
    kind = CATALOGUE[row["code"]]
    start, end = row["start_at_us"], row["end_at_us"]
    until = max(polled_us, start) if end is None else end
    return row | {
        "severity": kind.severity,
        "severity_id": SEVERITIES[kind.severity] - int(row["code"][-2:]),
        "entity": kind.entity,
        "word": kind.word,
        "open": end is None,
        "duration_s": (until - start) / 1e6,
    }


def finding_groups(rows: list[Row]) -> list[Row]:
    """Return the findings by what they are about, from the rows of all sessions."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["start_at_us"]):
        who = filter(None, (row["stream"], row["consumer"] and ">", row["consumer"], row["part"]))
        groups[row["session"], row["code"], " ".join(who) or row["entity"]].append(row)
    return [_group(subject, many) for (_, _, subject), many in groups.items()]


def _group(subject: str, many: list[Row]) -> Row:
    spans = [
        (row["start_at_us"], row["start_at_us"] + round(row["duration_s"] * 1e6)) for row in many
    ]
    ends = [row["end_at_us"] for row in many]
    same = ("session", "severity", "severity_id", "code", "word", "evidence", "sequences")
    return {name: many[-1][name] for name in same} | {
        "subject": subject,
        "times_count": len(many),
        "open": None in ends,
        "start_at_us": many[0]["start_at_us"],
        "end_at_us": None if None in ends else max(ends),
        "duration_s": covered_us(spans, spans[0][0], max(end for _, end in spans)) / 1e6,
    }
