"""What recorded findings must say to those of the other tables, in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from tests.analysis.oracle_advice import advice, harm_of

Row = dict[str, Any]
Gold = dict[str, list[Row]]
HELD_BACK = ("C01", "C02", "C03", "C27", "C04", "C05", "C42", "C09", "C29", "C26", "C53", "C41",
             "C40", "C39", "C16", "C17", "C08", "C07", "C44", "C45", "C06", "C11", "C15", "C25",
             "C52")  # fmt: skip
"""Findings that explain why messages waited; of several the first."""
REPEATED = ("C04", "C05", "C42", "C29", "C26")
REASONS = {"stuck": HELD_BACK, "lag": (*HELD_BACK, "C23"), "redelivery": REPEATED}
JUDGED = {"stuck", "lag", "redelivery", "poison", "availability", "capacity"}


def with_recorded(gold: Gold, found: list[Row]) -> list[Row]:
    """Return what was found with its reasons, and what was recorded beside it."""
    found = [_with_servers(gold, _with_reason(gold, row)) for row in found]
    return [*found, *(row for row in _worst(gold) if not _told_already(row, found))]


def named(span: Row) -> str:
    """Return what a recorded finding is about, as people read it."""
    names = [name for name in (span["stream"], span["consumer"]) if name]
    return " > ".join(names) or str(span["entity"])


def _with_reason(gold: Gold, row: Row) -> Row:
    kind = row["kind"]
    if kind not in REASONS or (kind != "stuck" and row["cause"] != kind):
        return row
    (session,) = (one for one in gold["session"] if one["session"] == row["session"])
    reason = _reason(gold, row, session)
    if reason is None:
        told = f"{row['sentence']}: {row['cause']}" if kind == "stuck" else row["sentence"]
        return row | {"sentence": told}
    return row | {
        "cause": reason["code"],
        "sentence": row["sentence"]
        + ("" if reason["code"] == "NT-C23" else f": {reason['word']}"),
        "evidence": joined(reason["evidence"], row["evidence"]),
    }


def _with_servers(gold: Gold, row: Row) -> Row:
    """Return a row of a lost contact with the servers that were down at the time."""
    if row["cause"] not in ("leader_absent", "unreachable", "replica_away"):
        return row
    first, last = row["start_at_us"], row["end_at_us"]
    last = first if last is None else last
    down = sorted(
        (span["start_at_us"], span["part"])
        for span in gold["findings"]
        if (span["session"], span["code"]) == (row["session"], "NT-V01")
        and span["start_at_us"] <= last
        and (span["end_at_us"] is None or span["end_at_us"] >= first)
    )
    names = list(dict.fromkeys(name for _, name in down))
    if not names:
        return row
    text = f"{' and '.join(names)} {'was' if len(names) == 1 else 'were'} down at that time"
    return row | {"evidence": joined(row["evidence"], text)}


def with_recorded_cause(gold: Gold, row: Row) -> Row:
    """Return a row of the table `stuck` with the cause that was recorded at the time."""
    (session,) = (one for one in gold["session"] if one["session"] == row["session"])
    subject = f"{row['stream']} > {row['consumer']}"
    reason = _reason(gold, {**row, "kind": "stuck", "subject": subject}, session)
    return row if reason is None else {**row, "cause": reason["word"]}


def _reason(gold: Gold, row: Row, session: Row) -> Row | None:
    whole = row["start_at_us"] is None
    first, last = row["start_at_us"], row["end_at_us"]
    first = session["start_at_us"] if first is None else first
    last = session["end_at_us"] if last is None else last
    for digits in REASONS[row["kind"]]:
        spans = [
            span
            for span in gold["findings"]
            if (span["session"], span["code"]) == (row["session"], f"NT-{digits}")
            and span["consumer"]
            and named(span) == row["subject"]
        ]
        ends = [last if span["end_at_us"] is None else span["end_at_us"] for span in spans]
        pairs = [(span["start_at_us"], end) for span, end in zip(spans, ends, strict=True)]
        open_us = covered_us(pairs, first, last)
        if 2 * open_us > last - first or (whole and any(span["open"] for span in spans)):
            then = [
                span
                for span, (start, end) in zip(spans, pairs, strict=True)
                if start <= last and end >= first
            ]
            return max(then, key=lambda s: (s["start_at_us"], s["end_at_us"] or -1))
    return None


def covered_us(spans: list[tuple[int, int]], first: int, last: int) -> int:
    """Return how much of a time lies in at least one of some spans."""
    moments = sorted({first, last, *(at for span in spans for at in span)})
    return sum(
        end - start
        for start, end in itertools.pairwise(moments)
        if first <= start and end <= last and any(a <= start and end <= b for a, b in spans)
    )


def _worst(gold: Gold) -> Iterator[Row]:
    """Yield the worst of each entity, as a row of the verdict."""
    seen = set()
    order = sorted(
        (span for span in gold["findings"] if span["severity"] != "info"),
        key=lambda s: (
            not _loses(s["code"]),
            -s["severity_id"],
            -s["duration_s"],
            s["start_at_us"],
            s["part"] or "",
        ),
    )
    for span in order:
        who = (span["session"], named(span))
        if who in seen:
            continue
        seen.add(who)
        lasted = span["duration_s"]
        of = f" ({span['part']})" if span["part"] else ""
        brief = not span["open"] and lasted < 30
        weight = 52 if span["severity"] == "critical" and not brief else 31
        weight += 15 if _loses(span["code"]) and not brief else 0
        yield {
            "session": span["session"],
            "kind": "finding",
            "subject": who[1],
            "sentence": f"{span['word']}{of} for {time_text(lasted)}",
            "evidence": span["evidence"],
            "start_at_us": span["start_at_us"],
            "end_at_us": span["end_at_us"],
            "cause": span["code"],
            "weight": weight + min(lasted / 360, 10.0),
        }


def _loses(code: str) -> bool:
    return harm_of(code) == "lost"


def _told_already(row: Row, found: list[Row]) -> bool:
    same = [one for one in found if all(one[n] == row[n] for n in ("session", "subject"))]
    if _loses(row["cause"]):
        same = [one for one in same if advice(one["kind"], one["cause"]).harm == "lost"]
    return any(
        advice(one["kind"], one["cause"]).code == row["cause"]
        or (one["kind"] in JUDGED and one["weight"] >= row["weight"])
        for one in same
    )


def joined(*evidence: str) -> str:
    """Return the parts of an evidence as one text, without those that are empty."""
    return "; ".join(filter(None, evidence))


def time_text(time_s: float) -> str:
    """Return a time in the unit that fits it."""
    for least, unit_s, digits, unit in (
        (172_800, 86_400, 1, "days"), (7200, 3600, 1, "h"), (120, 60, 0, "min"),
    ):  # fmt: skip
        if time_s >= least:
            return f"{time_s / unit_s:.{digits}f} {unit}"
    return "less than 1 s" if time_s < 0.5 else f"{time_s:.0f} s"
