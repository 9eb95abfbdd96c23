"""What is drawn of a session, in plain Python over the records."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import Any

from tests.analysis.by_format import Record, Series, consumer_series, polls_of, stream_series
from tests.analysis.oracle_consumers import lag, redelivery, stuck
from tests.analysis.oracle_rates import members_of, pieces

Row = dict[str, Any]
COUNTERS = ("delivered_consumer_seq", "ack_floor_stream_seq")
SESSIONS_COUNT = 3


def picture(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    polls = polls_of(records)
    lasted_s = (polls[-1].taken_at_us - polls[0].taken_at_us) / 1e6
    width_s = next(width for width in (1, 2, 5, 10, 15, 30, 60) if lasted_s <= width * 120)
    consumers = consumer_series(polls)
    found = _drawn(consumers, width_s, members_of(polls, consumers, width_s))
    for at_us, row in _published(polls, width_s).items():
        found[at_us] |= row
    rows = [_row(session, width_s, at_us, 0, (None, None), row) for at_us, row in found.items()]
    for rank, who in enumerate(_worst(session, records), 1):
        for at_us, row in _drawn({who: consumers[who]}, width_s, None).items():
            rows.append(_row(session, width_s, at_us, rank, who[:2], row))
    return rows


def _row(session: str, width_s: int, at_us: int, rank: int, who: tuple[Any, ...], row: Row) -> Row:
    names = {"session": session, "rank": rank, "stream": who[0], "consumer": who[1]}
    place = {"bucket_at_us": at_us, "width_s": width_s}
    return {**names, **place, "published_per_s": None, **row}


def _worst(session: str, records: list[Record]) -> list[tuple[Any, ...]]:
    def who(row: Row) -> tuple[Any, ...]:
        return row["stream"], row["consumer"], row["created_at_us"]

    stuck_s: dict[tuple[Any, ...], float] = defaultdict(float)
    for row in stuck(session, records):
        stuck_s[who(row)] += row["duration_s"]
    wasted = {who(row): row for row in redelivery(session, records)}
    worst = sorted(
        lag(session, records),
        key=lambda row: (
            -wasted[who(row)]["given_up_count"], -stuck_s[who(row)], -row["pending_max_msgs"],
            -wasted[who(row)]["repeated_msgs"], who(row),
        ),
    )  # fmt: skip
    return [who(row) for row in worst[: 24 // SESSIONS_COUNT]]


def _steps(series: Series, width_s: int, counters: tuple[str, ...]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for samples in series.values():
        for at_us, piece in pieces(samples, counters, width_s * 1_000_000).items():
            found[at_us].append(piece)
    return found


def _rate(many: list[Row], members: float, name: str) -> float | None:
    steps = [step for piece in many for step in piece["steps"]]
    watched_us = sum(now["sampled_mono_us"] - old["sampled_mono_us"] for old, now in steps)
    changed = sum(now[name] - old[name] for old, now in steps)
    return members * changed / (watched_us / 1e6) if watched_us else None


def _drawn(series: Series, width_s: int, members: dict[int, float] | None) -> dict[int, Row]:
    return {
        at_us: _bucket(many, members[at_us] if members else 1.0)
        for at_us, many in _steps(series, width_s, COUNTERS).items()
    }


def _bucket(many: list[Row], members: float) -> Row:
    samples = [sample for piece in many for sample in piece["samples"]]
    ages = [s["at_us"] - s["next_at_us"] for s in samples if s["next_at_us"] is not None]
    repeated = [
        now["delivered_consumer_seq"] - old["delivered_consumer_seq"]
        - now["delivered_stream_seq"] + old["delivered_stream_seq"]
        for piece in many
        for old, now in piece["steps"]
    ]  # fmt: skip
    return {
        "delivered_per_s": _rate(many, members, "delivered_consumer_seq"),
        "pending_msgs": members * statistics.fmean(s["pending_msgs"] for s in samples),
        "repeated_msgs": sum(max(0, one) for one in repeated),
        "behind_max_s": max(ages) / 1e6 if ages else None,
    }


def _published(polls: list[Record], width_s: int) -> dict[int, Row]:
    series = stream_series(polls)
    members = members_of(polls, series, width_s)
    return {
        at_us: {"published_per_s": _rate(many, members[at_us], "last_seq")}
        for at_us, many in _steps(series, width_s, ("last_seq",)).items()
    }
