"""Results as an analysis of an hour of 200 consumers hands them on, made without Spark."""

from __future__ import annotations

import random
from typing import Any

from msgspec import to_builtins

from natstui.analysis.defaults import MAX_TABLE_ROWS_COUNT
from natstui.analysis.gold.build import GOLD_TABLES
from natstui.analysis.gold.picture import MAX_CHARTED_CONSUMERS, MAX_POINTS_COUNT
from natstui.analysis.gold.shared.harm import ADVICE_BY_KIND_AND_CAUSE
from natstui.analysis.tables import Column
from natstui.model.findings.catalogue.every import KINDS

START_US = 1_790_000_000_000_000
Row = dict[str, Any]


def _any(
    pick: random.Random, column: Column, number: int, names: tuple[str, ...], lasted_s: int
) -> Any:
    """A value that fits a column: times within the session, names of its assets."""
    if column.type == "boolean":
        return pick.random() < 0.5
    if column.name.endswith("at_us"):
        return START_US + pick.randrange(lasted_s * 1_000_000)
    if column.type == "bigint":
        return pick.randrange(100_000)
    if column.type == "double":
        return pick.random() * 1000
    return names[number % len(names)]


def result(
    sessions: tuple[str, ...] = ("20261120T100000Z-hour",),
    names: tuple[str, ...] = tuple(f"ORDERS-{n:03d}" for n in range(200)),
    lasted_s: int = 3600,
) -> Row:
    """A result with as many rows in every table as it may have."""
    tables, pick = {}, random.Random(1)
    for gold_table in GOLD_TABLES:
        count = max(gold_table.max_rows_count or MAX_TABLE_ROWS_COUNT, 1)
        rows = [
            {
                column.name: sessions[number % len(sessions)]
                if column.name in ("session", "compared", "baseline")
                else _any(pick, column, number, names, lasted_s)
                for column in gold_table.table.columns
            }
            for number in range(count)
        ]
        made = _MADE.get(gold_table.table.name)
        rows = made(rows, sessions, names, lasted_s) if made else rows
        tables[gold_table.table.name] = {
            "meaning": gold_table.table.meaning,
            "section": gold_table.section and to_builtins(gold_table.section),
            "columns": [to_builtins(c) | {"unit": c.unit} for c in gold_table.table.columns],
            "rows": [[row[c.name] for c in gold_table.table.columns] for row in rows],
            "cut": True,
        }
    return {"out": "/out", "sessions": list(sessions), "tables": tables}


def _sessions(rows: list[Row], sessions: tuple[str, ...], _: Any, lasted_s: int) -> list[Row]:
    ends = {"start_at_us": START_US, "end_at_us": START_US + lasted_s * 1_000_000}
    return [
        row | ends | {"session": session} for row, session in zip(rows, sessions, strict=False)
    ]


def _verdict(rows: list[Row], sessions: Any, names: Any, lasted_s: int) -> list[Row]:
    found = []
    for rank, (row, ((kind, cause), one)) in enumerate(
        zip(rows[:10], ADVICE_BY_KIND_AND_CAUSE.items(), strict=False), 1
    ):
        told = {"harm": one.harm, "code": one.code or None, "advice": one.advice}
        spans = {"end_at_us": row["start_at_us"] + 60_000_000, "rank": rank}
        found.append(row | told | spans | {"kind": kind, "sentence": f"{row['sentence']} {cause}"})
    return found


def _findings(rows: list[Row], *_: Any) -> list[Row]:
    kinds = list(KINDS.values())
    found = []
    for number, row in enumerate(rows):
        kind = kinds[number * 7 % len(kinds)]
        told = {"code": kind.code, "severity": kind.severity, "word": kind.word}
        found.append(row | told | {"end_at_us": row["start_at_us"] + 90_000_000})
    return found


def _spans(rows: list[Row], *_: Any) -> list[Row]:
    return [row | {"end_at_us": row["start_at_us"] + 45_000_000} for row in rows]


def _comparison(rows: list[Row], *_: Any) -> list[Row]:
    verdicts = ("slower", "faster", "more", "less", "unknown")
    found = []
    for number, row in enumerate(rows):
        change = (number % 7 - 3) / 10
        ends = {"low_change": change - 0.05, "high_change": change + 0.05, "mean_change": change}
        means = {"compared_mean": row["baseline_mean"] * (1 + change)}
        found.append(row | ends | means | {"verdict": verdicts[number % 5]})
    return found


def _picture(
    _: list[Row], sessions: tuple[str, ...], names: tuple[str, ...], lasted_s: int
) -> list[Row]:
    pick, width_s = random.Random(1), max(1, lasted_s // MAX_POINTS_COUNT)
    found = []
    for session in sessions:
        for rank in range(MAX_CHARTED_CONSUMERS // len(sessions) + 1):
            who = names[rank % len(names)] if rank else None
            for point in range(MAX_POINTS_COUNT):
                found.append({
                    "session": session, "rank": rank, "stream": who, "consumer": who,
                    "bucket_at_us": START_US + point * width_s * 1_000_000, "width_s": width_s,
                    "published_per_s": pick.random() * 1e4 if not rank else None,
                    "delivered_per_s": pick.random() * 1e4 if point % 17 else None,
                    "pending_msgs": pick.random() * 1e5,
                    "repeated_msgs": pick.choice((0, 0, 0, 5, 300)),
                    "behind_max_s": pick.random() * 60,
                })  # fmt: skip
    return found


_MADE = {
    "session": _sessions, "verdict": _verdict, "findings": _findings, "stuck": _spans,
    "lag_period": _spans, "availability": _spans, "bench_steady": _spans, "picture": _picture,
    "comparison": _comparison,
}  # fmt: skip
