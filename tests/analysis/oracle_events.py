"""What the list of events must hold, in plain Python over the records and the other tables."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tests.analysis.by_format import Record, of_kind
from tests.analysis.oracle_rates import BUCKET_US

Row = dict[str, Any]
Gold = dict[str, list[Row]]
KINDS = ("note", "configuration", "command", "recorder", "connection", "benchmark", "dropped",
         "stuck", "availability", "finding", "lag", "redelivery", "election")  # fmt: skip
OF_A_TURN, ELECTION_NEAR_US = 15, 120_000_000
COMPARED = {
    "stream": ("replicas_count", "retention", "discard", "max_msgs", "max_bytes", "max_age_ns",
               "max_msgs_per_subject"),
    "consumer": ("replicas_count", "pull", "ack_policy", "max_ack_pending_msgs",
                 "max_deliver_count", "filter_subjects"),
}  # fmt: skip


def timeline_event(session: str, records: list[Record], gold: Gold) -> list[Row]:
    """Return the rows of a session."""
    gold = {
        name: [row for row in rows if row.get("session") == session] for name, rows in gold.items()
    }
    rows = [*_recorded(records), *_of_tables(gold), *_outages(records, gold["availability"])]
    rows.sort(key=_order)
    seen: Counter[str] = Counter()
    turns = []
    for row in rows:
        turns.append(seen[row["kind"]] // OF_A_TURN)
        seen[row["kind"]] += 1
    rows = [row for _, row in sorted(zip(turns, rows, strict=True), key=lambda pair: pair[0])]
    return [{"session": session, "rank": rank, **row} for rank, row in enumerate(rows, 1)]


def _order(row: Row) -> tuple[Any, ...]:
    rest = (row[name] for name in ("end_at_us", "stream", "consumer", "text"))
    return (KINDS.index(row["kind"]), row["at_us"],
            *((value is not None, value or 0) for value in rest))  # fmt: skip


def _row(kind: str, at_us: int, text: str, end: int | None = None, *who: str | None) -> Row:
    stream, consumer = (*who, None, None)[:2]
    return {"kind": kind, "at_us": at_us, "end_at_us": end, "stream": stream,
            "consumer": consumer, "text": text}  # fmt: skip


def _recorded(records: list[Record]) -> Iterator[Row]:
    starts = sorted(of_kind(records, "engine_started"), key=lambda r: r.at_us)
    for start in starts[1:]:
        text = f"the recorder started again: natstui {start.natstui_version}"
        yield _row("recorder", start.at_us, text)
    for record in records:
        if record.kind == "outcome":
            yield _row("command", record.at_us, f"command {record.status}: {record.text}")
        elif record.kind == "gap":
            text = f"records before this may be missing: {record.reason}"
            yield _row("recorder", record.at_us, text)
        elif record.kind == "advisory" and record.type.endswith("leader_elected"):
            leader = json.loads(record.body_json)["leader"]
            yield _row("election", record.at_us, f"{leader} was elected leader", None,
                       record.stream, record.consumer)  # fmt: skip
    yield from _changes(records)


def _changes(records: list[Record]) -> Iterator[Row]:
    known: dict[tuple[Any, ...], Any] = {}
    told = sorted(of_kind(records, "configured"), key=lambda r: r.at_us)
    for record in told:
        for kind, many in (("stream", record.streams), ("consumer", record.consumers)):
            for one in many:
                who = (one.name,) if kind == "stream" else (one.stream, one.name)
                was = known.get((*who, one.created_at_us))
                known[(*who, one.created_at_us)] = one
                if was is not None and was.config_json != one.config_json:
                    text = _difference(kind, was, one)
                    yield _row("configuration", record.at_us, text, None, *who)


def _difference(kind: str, was: Any, now: Any) -> str:
    changed = [
        f"{name} {getattr(was, name)} → {getattr(now, name)}"
        for name in COMPARED[kind]
        if getattr(was, name) != getattr(now, name)
    ]
    return f"configuration changed: {', '.join(changed) or 'other settings'}"


def _of_tables(gold: Gold) -> Iterator[Row]:
    for row in gold["note"]:
        yield _row("note", row["at_us"], row["text"])
    runs: dict[str, list[Row]] = {}
    for row in gold["bench_steady"]:
        runs.setdefault(row["run_id"], []).append(row)
    for run_id, rows in runs.items():
        yield _row("benchmark", min(row["start_at_us"] for row in rows), f"benchmark {run_id}",
                   max(row["end_at_us"] for row in rows))  # fmt: skip
    for row in gold["poison"]:
        if row["given_up"]:
            text = f"message {row['stream_seq']} dropped after max deliver"
            yield _row("dropped", row["last_at_us"], text, None, *_who(row))
    for row in gold["stuck"]:
        yield _span(row, "stuck", f"stuck: {row['cause']}")
    for row in gold["lag_period"]:
        yield _span(row, "lag", f"lagging, up to {row['pending_max_msgs']} pending")
    for row in gold["findings"]:
        if row["severity"] in ("critical", "warning"):
            yield _span(row, "finding", f"{row['word']} ({row['code']}): {row['evidence']}")
    for row in gold["redelivery_hot_spot"]:
        start, count = row["bucket_at_us"], row["repeated_msgs"]
        text = f"{count} message{'s' * (count != 1)} delivered again"
        yield _row("redelivery", start, text, start + BUCKET_US, *_who(row))


def _outages(records: list[Record], rows: list[Row]) -> Iterator[Row]:
    elected = [r for r in of_kind(records, "advisory") if r.type == "stream_leader_elected"]
    for row in rows:
        kind, detail = row["kind"], f": {row['detail']}" if row["detail"] else ""
        if kind == "disconnected":
            yield _span(row, "connection", f"connection lost{detail}")
            if row["end_at_us"] is not None:
                yield _row("connection", row["end_at_us"], "connection restored")
        elif kind != "leader_change" or not any(
            e.stream == row["stream"] and abs(e.at_us - row["start_at_us"]) <= ELECTION_NEAR_US
            for e in elected
        ):
            if kind == "api_slow":
                detail = f": median {math.floor(row['value'] + 0.5)} µs, {row['detail']}"
            yield _span(row, "availability", f"{kind.replace('_', ' ')}{detail}")


def _who(row: Row) -> tuple[str | None, str | None]:
    return row["stream"], row["consumer"]


def _span(row: Row, kind: str, text: str) -> Row:
    return _row(kind, row["start_at_us"], text, row["end_at_us"], *_who(row))
