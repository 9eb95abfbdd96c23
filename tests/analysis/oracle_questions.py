"""What the questions asked of other answers must find, in plain Python over the records."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tests.analysis.by_format import Record, consumer_series, of_kind, polls_of, stream_series
from tests.analysis.oracle_consumers import hot_spot, lag_period, redelivery, stuck
from tests.analysis.oracle_growth import Part, forecast
from tests.analysis.oracle_picture import picture
from tests.analysis.oracle_rates import (
    capacity,
    consumer_rate,
    may_tell,
    pieces,
)
from tests.analysis.oracle_rest import availability

Row = dict[str, Any]
HOUR_US = 3_600_000_000


def account_full(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = []
    for what in ("storage", "memory"):
        told = [
            (poll.taken_at_us, poll.taken_at_us, getattr(poll.account, f"{what}_bytes"))
            for poll in polls_of(records)
            if poll.account
        ]
        last = polls_of(records)[-1]
        assert last.account is not None
        limit = getattr(last.account, f"max_{what}_bytes")
        rows.append(_full(session, what, told, limit))
    return rows


def _full(session: str, what: str, told: list[tuple[int, int, int]], limit: int | None) -> Row:
    first_us, last_us = told[0][0], told[-1][0]
    parts: dict[int, list[float]] = defaultdict(lambda: [0, 0.0])
    for (before_us, _, before), (now_us, _, now) in itertools.pairwise(told):
        cell = parts[min(int((now_us - first_us) * 12 / (last_us - first_us)), 11)]
        cell[0] += now - before
        cell[1] += (now_us - before_us) / 1e6
    paces = [grown / seconds for grown, seconds in parts.values()]
    growth = (told[-1][2] - told[0][2]) / ((last_us - first_us) / 1e6)
    every = Part(paces, range(len(paces)))
    reach = every.t * every.error
    end_us, used = told[-1][1], told[-1][2]
    watched_s = (last_us - first_us) / 1e6
    room = None if limit is None else limit - used
    ends = forecast(paces, watched_s / len(paces), room)
    full_in = ends[0]
    foreseen = full_in is not None and may_tell(full_in, watched_s)

    def at(left_s: float | None) -> int | None:
        if left_s is None or not foreseen or left_s > 100 * 365 * 86_400:
            return None
        return end_us + round(left_s) * 1_000_000

    return {
        "session": session,
        "what": what,
        "used_bytes": used,
        "limit_bytes": limit,
        "growth_bytes_per_s": growth,
        "low_bytes_per_s": growth - reach,
        "high_bytes_per_s": growth + reach,
        "watched_s": watched_s,
        "full_at_us": at(full_in),
        "earliest_at_us": at(ends[1]),
        "latest_at_us": at(ends[2]),
        "parts_count": len(paces),
        "end_at_us": end_us,
    }


def _spent(rows: list[Row]) -> dict[int, int]:
    found: dict[int, int] = defaultdict(int)
    for row in rows:
        at_us = row["start_at_us"]
        while at_us < row["end_at_us"]:
            hour = at_us - at_us % HOUR_US
            until = min(hour + HOUR_US, row["end_at_us"])
            found[hour] += until - at_us
            at_us = until
    return found


def hour(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    polls: dict[int, int] = defaultdict(int)
    for poll in polls_of(records):
        polls[poll.taken_at_us - poll.taken_at_us % HOUR_US] += 1
    still = _spent([row for row in stuck(session, records) if row["cause"] != "paused"])
    behind = _spent(lag_period(session, records))
    lost: dict[int, int] = defaultdict(int)
    for record in of_kind(records, "advisory"):
        if record.type == "max_deliver":
            lost[record.at_us - record.at_us % HOUR_US] += 1
    again: dict[int, int] = defaultdict(int)
    for row in consumer_rate(session, records):
        again[row["bucket_at_us"] // HOUR_US * HOUR_US] += row["repeated_msgs"] or 0
    order = sorted(polls, key=lambda at: (-lost[at], -still[at], -behind[at], -again[at], at))
    return [
        {
            "session": session,
            "hour_at_us": at,
            "rank": place,
            "given_up_count": lost[at],
            "stuck_s": still[at] / 1e6,
            "behind_s": behind[at] / 1e6,
            "repeated_msgs": again[at],
            "polls_count": polls[at],
        }
        for place, at in enumerate(order, 1)
    ]


def redelivery_cost(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    sizes = {
        row["stream"]: row["message_bytes"]
        for row in sorted(capacity(session, records), key=lambda row: row["created_at_us"])
    }
    streams: dict[str, list[Row]] = defaultdict(list)
    for row in redelivery(session, records):
        streams[row["stream"]].append(row)
    rows = []
    for stream, many in streams.items():
        repeated = sum(row["repeated_msgs"] for row in many)
        known = [row for row in many if row["repeated_share"] is not None]
        of_known = sum(row["repeated_msgs"] for row in known)
        rows.append(
            {
                "session": session,
                "stream": stream,
                "consumers_count": sum(row["repeated_msgs"] > 0 for row in many),
                "delivered_msgs": sum(row["delivered_msgs"] for row in many),
                "repeated_msgs": repeated,
                "repeated_share": of_known / sum(row["delivered_msgs"] for row in known)
                if known
                else None,
                "message_bytes": sizes[stream],
                "repeated_bytes": repeated * sizes[stream],
            }
        )
    return rows


def idle(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    polls, rows, read = polls_of(records), [], set()
    for (stream, name, created), samples in consumer_series(polls).items():
        first, last = samples[0], samples[-1]
        if last["delivered_consumer_seq"] != first["delivered_consumer_seq"]:
            read.add(stream)
        elif (
            last["ack_floor_consumer_seq"] == first["ack_floor_consumer_seq"]
            and not any(one["pending_msgs"] + one["ack_pending_msgs"] for one in samples)
        ):  # fmt: skip
            rows.append(_idle(session, (stream, name, created), samples, "delivered_at_us"))
    for (stream, created), samples in stream_series(polls).items():
        if samples[0]["last_seq"] == samples[-1]["last_seq"] and stream not in read:
            row = _idle(session, (stream, None, created), samples, "last_at_us")
            kept = {n: samples[-1][n] for n in ("stored_msgs", "stored_bytes")}
            rows.append(row | kept)
    return rows


def _idle(session: str, who: tuple[Any, ...], samples: list[Row], last: str) -> Row:
    times = [one["sampled_mono_us"] for one in samples]
    watched = [b - a for a, b in itertools.pairwise(times) if b - a < 5_000_000]
    known = [one[last] for one in samples if one[last] is not None]
    at_us = max(known) if known else None
    since = who[2] if at_us is None else at_us
    return {
        "session": session,
        "stream": who[0],
        "consumer": who[1],
        "created_at_us": who[2],
        "watched_s": sum(watched) / 1e6,
        "last_at_us": at_us,
        "idle_s": (samples[-1]["at_us"] - since) / 1e6,
        "stored_msgs": None,
        "stored_bytes": None,
    }


_OF_STREAM = {"replicas_count": "replicas_count", "retention": "retention", "discard": "discard",
              "max_msgs": "max_msgs", "max_bytes": "max_bytes",
              "max_age_ns": "max_age_ns"}  # fmt: skip
_OF_CONSUMER = {"replicas_count": "replicas_count", "pull": "pull", "ack_policy": "ack_policy",
                "max_ack_pending_msgs": "max_ack_pending_msgs",
                "max_deliver_count": "max_deliver_count",
                "filtered": "filter_subjects"}  # fmt: skip


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple):
        value = bool(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _changes(records: list[Record]) -> list[tuple[int, str, str | None, str]]:
    """Return moment, stream, consumer (None for a stream) and words of each change."""
    found, before = [], dict[tuple[Any, ...], Any]()
    for record in sorted(of_kind(records, "configured"), key=lambda record: record.at_us):
        told = [((one.name, None, one.created_at_us), one, _OF_STREAM) for one in record.streams]
        told += [
            ((one.stream, one.name, one.created_at_us), one, _OF_CONSUMER)  # type: ignore[misc]
            for one in record.consumers
        ]
        for who, now, names in told:
            old = before.get(who)
            if old is not None and old.config_json != now.config_json:
                words = [
                    f"{column} {_text(getattr(old, name))} → {_text(getattr(now, name))}"
                    for column, name in names.items()
                    if _text(getattr(old, name)) != _text(getattr(now, name))
                ]
                found.append((record.at_us, who[0], who[1], ", ".join(words) or "other settings"))
            before[who] = now
    return found


def _first_spots(spots: list[Row]) -> list[Row]:
    hot = {(row["stream"], row["consumer"], row["bucket_at_us"]) for row in spots}
    return [
        row
        for row in spots
        if (row["stream"], row["consumer"], row["bucket_at_us"] - 60_000_000) not in hot
    ]


def change(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    troubles = [
        (row, "stuck", row["start_at_us"], 10_000_000, row["cause"])
        for row in stuck(session, records)
        if row["cause"] != "paused"
    ]
    troubles += [
        (
            row,
            "lagging",
            row["start_at_us"],
            10_000_000,
            f"up to {row['pending_max_msgs']} pending",
        )
        for row in lag_period(session, records)
    ]
    troubles += [
        (row, "redelivery", row["bucket_at_us"], 60_000_000,
         f"{row['repeated_msgs']} messages again")
        for row in _first_spots(hot_spot(session, records))
    ]  # fmt: skip
    changes, rows = _changes(records), []
    for row, trouble, start, slack, detail in troubles:
        near = [
            (at, of is not None, words)
            for at, stream, of, words in changes
            if stream == row["stream"] and of in (None, row["consumer"])
            and start - 300_000_000 < at <= start + slack
        ]  # fmt: skip
        if near:
            at, own, words = max(near)
            rows.append(
                {
                    "session": session,
                    "stream": row["stream"],
                    "consumer": row["consumer"],
                    "trouble": trouble,
                    "start_at_us": start,
                    "detail": detail,
                    "changed_at_us": at,
                    "changed": "consumer" if own else "stream",
                    "change": words,
                    "after_s": max(start - at, 0) / 1e6,
                }
            )
    return rows


def delay(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    drawn: dict[int, list[Row]] = defaultdict(list)
    for row in picture(session, records):
        drawn[row["rank"]].append(row)
    return [
        found
        for rank, rows in drawn.items()
        if rank and any(row["delivered_per_s"] for row in rows)
        for found in _delays(session, records, sorted(rows, key=lambda row: row["bucket_at_us"]))
    ]


def _delays(session: str, records: list[Record], rows: list[Row]) -> list[Row]:
    width, (stream, consumer) = rows[0]["width_s"], (rows[0]["stream"], rows[0]["consumer"])
    pending = {row["bucket_at_us"]: row["pending_msgs"] for row in rows}
    stored = _stored(records, stream, width)
    elected = _elections(session, records, stream, consumer, width)
    again = {row["bucket_at_us"]: float(row["repeated_msgs"] or 0) for row in rows}
    drivers: dict[str, Callable[[int], float | None]] = {
        "bursts": lambda at: stored.get(at),
        "repeats": lambda at: again[at],
        "elections": lambda at: float(at in elected),
    }
    taken = [row["delivered_per_s"] for row in rows if row["delivered_per_s"] is not None]
    wait_s = max(pending.values()) / statistics.fmean(taken)
    steps = [
        now - pending[at - width * 1_000_000]
        for at, now in pending.items()
        if at - width * 1_000_000 in pending
    ]
    growths = sum(3 * step >= max(*steps, 1) for step in steps) if steps else 0
    found = []
    series = consumer_series(polls_of(records))
    if any(
        who[:2] == (stream, consumer) and all(sample["pending_msgs"] for sample in samples)
        for who, samples in series.items()
    ):
        del drivers["bursts"]
    for driver, value in drivers.items():
        events = sum((value(at) or 0) > 0 for at in pending)
        best = None
        for later in range(6):
            pairs = [
                (value(at - later * width * 1_000_000), now - pending[at - width * 1_000_000])
                for at, now in pending.items()
                if at - width * 1_000_000 in pending
                and at - later * width * 1_000_000 in pending
                and value(at - later * width * 1_000_000) is not None
            ]
            r = _correlation(pairs)
            if r is not None and (best is None or r > best[0]):
                best = (r, later, len(pairs))
        if best and best[2] >= 8:
            r, later, count = best
            z = math.atanh(min(r, 0.999999)) * math.sqrt(count - 3)
            found.append(
                {
                    "session": session,
                    "stream": stream,
                    "consumer": consumer,
                    "driver": driver,
                    "strength_ratio": r,
                    "after_s": float(later * width),
                    "width_s": width,
                    "buckets_count": count,
                    "certain": r >= 0.5 and z >= 4.5 and min(events, growths) >= 3 and wait_s >= 1,
                }
            )
    return found


def _stored(records: list[Record], stream: str, width: int) -> dict[int, float]:
    """Return what a stream stored in a microsecond, by bucket; nothing where it is not known."""
    steps: dict[int, list[Any]] = defaultdict(list)
    for (name, _), samples in stream_series(polls_of(records)).items():
        if name == stream:
            for at, piece in pieces(samples, ("last_seq",), width * 1_000_000).items():
                steps[at] += piece["steps"]
    return {
        at: sum(n["last_seq"] - b["last_seq"] for b, n in many)
        / sum(n["sampled_mono_us"] - b["sampled_mono_us"] for b, n in many)
        for at, many in steps.items()
        if many
    }


def _elections(
    session: str, records: list[Record], stream: str, consumer: str, width: int
) -> set[int]:
    moments = [
        record.at_us
        for record in of_kind(records, "advisory")
        if record.type in ("stream_leader_elected", "consumer_leader_elected")
        and record.stream == stream
        and record.consumer in (None, consumer)
    ]
    moments += [
        row["start_at_us"]
        for row in availability(session, records)
        if row["kind"] == "leader_change" and row["stream"] == stream
    ]
    return {at - at % (width * 1_000_000) for at in moments}


def _correlation(pairs: list[tuple[Any, float]]) -> float | None:
    if len(pairs) < 2:
        return None
    try:
        return round(statistics.correlation(*zip(*pairs, strict=True)), 9)
    except statistics.StatisticsError:
        return None


OF_A_SESSION: dict[str, Callable[[str, list[Record]], list[Row]]] = {
    "account_full": account_full,
    "hour": hour,
    "redelivery_cost": redelivery_cost,
    "idle": idle,
    "change": change,
    "delay": delay,
}
