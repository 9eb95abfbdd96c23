"""What the tables of rates, load and capacity must hold, in plain Python over the records."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from tests.analysis.by_format import (
    Record,
    Series,
    consumer_series,
    of_kind,
    polls_of,
    stream_series,
)
from tests.analysis.oracle_growth import forecast

Row = dict[str, Any]
BUCKET_US = 60_000_000
LARGEST_PAUSE_US = 5_000_000


def bucket(at_us: int) -> int:
    """Return the start of the minute."""
    return at_us - at_us % BUCKET_US


def between_gaps(samples: list[Row]) -> list[list[Row]]:
    """Return the samples in parts, each of the time between two gaps."""
    parts: list[list[Row]] = []
    for before, now in zip([None, *samples], samples, strict=False):
        if before is None or now["sampled_mono_us"] - before["sampled_mono_us"] > LARGEST_PAUSE_US:
            parts.append([])
        parts[-1].append(now)
    return parts


def pieces(
    samples: list[Row], counters: tuple[str, ...], width_us: int = BUCKET_US
) -> dict[int, dict[str, Any]]:
    """Return, per minute, its samples, the steps that count, and how often counters fell."""
    found: dict[int, dict[str, Any]] = {}
    for before, now in zip([None, *samples], samples, strict=False):
        start = now["at_us"] - now["at_us"] % width_us
        here = found.setdefault(start, {"samples": [], "steps": [], "resets": 0})
        here["samples"].append(now)
        if before is None:
            continue
        fell = any(now[name] < before[name] for name in counters)
        here["resets"] += fell
        pause_us = now["sampled_mono_us"] - before["sampled_mono_us"]
        if not fell and pause_us < LARGEST_PAUSE_US:
            here["steps"].append((before, now))
    return found


def _common(identity: Row, at_us: int, piece: dict[str, Any]) -> Row:
    covered_us = sum(n["sampled_mono_us"] - b["sampled_mono_us"] for b, n in piece["steps"])
    return {
        **identity,
        "bucket_at_us": at_us,
        "last_at_us": piece["samples"][-1]["at_us"],
        "covered_s": covered_us / 1e6,
        "samples_count": len(piece["samples"]),
        "resets_count": piece["resets"],
    }


def _sum(piece: dict[str, Any], name: str) -> int | None:
    steps = [now[name] - before[name] for before, now in piece["steps"]]
    return sum(steps) if steps else None


def _latest(piece: dict[str, Any], name: str) -> int | None:
    return max((s[name] for s in piece["samples"] if s[name] is not None), default=None)


def _per_s(value: int | None, covered_s: float) -> float | None:
    return None if value is None or not covered_s else value / covered_s


def stream_rate(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = []
    for (name, born), samples in stream_series(polls_of(records)).items():
        identity = {"session": session, "stream": name, "created_at_us": born}
        for at_us, piece in pieces(samples, ("last_seq",)).items():
            row, last = _common(identity, at_us, piece), piece["samples"][-1]
            published, grown = _sum(piece, "last_seq"), _sum(piece, "stored_bytes")
            row |= {
                "published_msgs": published,
                "published_per_s": _per_s(published, row["covered_s"]),
                "grown_msgs": _sum(piece, "stored_msgs"),
                "grown_bytes": grown,
                "grown_bytes_per_s": _per_s(grown, row["covered_s"]),
                "stored_msgs": last["stored_msgs"],
                "stored_bytes": last["stored_bytes"],
                "last_seq": last["last_seq"],
                "first_at_us": last["first_at_us"],
                "last_stored_at_us": _latest(piece, "last_at_us"),
            }
            rows.append(row)
    return rows


def consumer_rate(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = []
    for (stream, name, born), samples in consumer_series(polls_of(records)).items():
        identity = {"session": session, "stream": stream, "consumer": name, "created_at_us": born}
        found = pieces(samples, ("delivered_consumer_seq", "ack_floor_stream_seq"))
        rows += [_consumer_row(_common(identity, at_us, one), one) for at_us, one in found.items()]
    return rows


def _consumer_row(row: Row, piece: dict[str, Any]) -> Row:
    delivered, settled = (_sum(piece, n) for n in ("delivered_consumer_seq",
                                                   "ack_floor_consumer_seq"))  # fmt: skip
    repeated = [
        max(0, now["delivered_consumer_seq"] - before["delivered_consumer_seq"]
            - now["delivered_stream_seq"] + before["delivered_stream_seq"])
        for before, now in piece["steps"]
    ]  # fmt: skip
    pending = [sample["pending_msgs"] for sample in piece["samples"]]
    ages = [s["at_us"] - s["next_at_us"] for s in piece["samples"] if s["next_at_us"] is not None]
    return row | {
        "delivered_msgs": delivered,
        "delivered_per_s": _per_s(delivered, row["covered_s"]),
        "settled_msgs": settled,
        "settled_per_s": _per_s(settled, row["covered_s"]),
        "repeated_msgs": sum(repeated) if repeated else None,
        "pending_first_msgs": pending[0],
        "pending_last_msgs": pending[-1],
        "pending_min_msgs": min(pending),
        "pending_max_msgs": max(pending),
        "pending_mean_msgs": sum(pending) / len(pending),
        "ack_pending_max_msgs": max(s["ack_pending_msgs"] for s in piece["samples"]),
        "redelivered_max_msgs": max(s["redelivered_msgs"] for s in piece["samples"]),
        "behind_max_s": max(ages) / 1e6 if ages else None,
        "last_delivered_at_us": _latest(piece, "delivered_at_us"),
    }


def members_of(polls: list[Record], series: Series, width_s: int) -> dict[int, float]:
    """Return how many of the series there were, on average over each bucket."""
    begun, over = polls[0].taken_at_us, polls[-1].taken_at_us
    width_us = width_s * 1_000_000
    there: dict[int, int] = defaultdict(int)
    count: Counter[int] = Counter()
    for who, samples in series.items():
        first, last = samples[0]["at_us"], samples[-1]["at_us"]
        since = max(begun, min(first, max(who[-1], begun)))
        step = (last - first) / max(len(samples) - 1, 1)
        until = over if last + 2 * step >= over else min(last, over)
        at = min(first, since) // width_us * width_us
        while at <= max(last, until):
            there[at] += max(0, min(until, at + width_us) - max(since, at))
            count[at] += 1
            at += width_us
    found = {}
    for at, there_us in there.items():
        watched = min(over, at + width_us) - max(begun, at)
        found[at] = there_us / watched if watched > 0 and there_us else float(count[at])
    return found


def _at_once(rows: list[Row], members: float, name: str, covered: str) -> float | None:
    """Return the mean of all series, times how many there were at once."""
    known = [row for row in rows if row[name] is not None]
    watched = sum(row[covered] for row in known)
    return members * sum(row[name] for row in known) / watched if watched else None


def load(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    polls = polls_of(records)
    rates = (
        (stream_rate, stream_series, {"published_msgs": "published_per_s",
                                      "grown_bytes": "grown_bytes_per_s"}),
        (consumer_rate, consumer_series, {"delivered_msgs": "delivered_per_s",
                                          "settled_msgs": "settled_per_s"}),
    )  # fmt: skip
    found: dict[int, Row] = {}
    for rate, series, names in rates:
        members = members_of(polls, series(polls), BUCKET_US // 1_000_000)
        rows = sorted(rate(session, records), key=lambda row: row["bucket_at_us"])
        for at_us, many in itertools.groupby(rows, key=lambda row: row["bucket_at_us"]):
            cell, here = found.setdefault(at_us, {}), list(many)
            for name, per_s in names.items():
                cell[per_s] = _at_once(here, members[at_us], name, "covered_s")
            if rate is consumer_rate:
                each = [row | {"sum": row["pending_mean_msgs"] * row["samples_count"]}
                        for row in here]  # fmt: skip
                pending = _at_once(each, members[at_us], "sum", "samples_count")
                cell["pending_mean_msgs"] = pending
    return [{"session": session, "bucket_at_us": at, **found[at]} for at in sorted(found)]


def busiest(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = sorted(load(session, records), key=lambda r: (-r["published_per_s"], r["bucket_at_us"]))
    kept = [{k: v for k, v in row.items() if k != "settled_per_s"} for row in rows[:10]]
    return [{**row, "rank": place} for place, row in enumerate(kept, 1)]


def may_tell(left_s: float, watched_s: float) -> bool:
    """Whether a forecast is told: a minute was watched, and a hundredth of what is left."""
    return left_s == 0 or (watched_s >= 60 and left_s <= 100 * watched_s)


def _paces(samples: list[Row], steps: list[tuple[Row, Row]], what: str) -> list[float | None]:
    """Return the growth per second in each bucket; None where little of it was watched."""
    cells = {bucket(one["at_us"]): [0.0, 0.0] for one in samples}
    for before, now in steps:
        cell = cells[bucket(now["at_us"])]
        cell[0] += now[f"stored_{what}"] - before[f"stored_{what}"]
        cell[1] += (now["sampled_mono_us"] - before["sampled_mono_us"]) / 1e6
    return [grown / seconds if seconds >= 30 else None for grown, seconds in cells.values()]


def capacity(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    limits: dict[tuple[str, int], Any] = {}
    for record in of_kind(records, "configured"):
        limits |= {(one.name, one.created_at_us): one for one in record.streams}
    rows = []
    series = stream_series(polls_of(records))
    ended_us = max(samples[-1]["at_us"] for samples in series.values())
    for identity, samples in series.items():
        steps = [
            (before, now)
            for before, now in itertools.pairwise(samples)
            if now["last_seq"] >= before["last_seq"]
            and now["sampled_mono_us"] - before["sampled_mono_us"] < LARGEST_PAUSE_US
        ]
        time_s = sum(n["sampled_mono_us"] - b["sampled_mono_us"] for b, n in steps) / 1e6
        last, limit = samples[-1], limits.get(identity)
        growth = {
            what: sum(n[f"stored_{what}"] - b[f"stored_{what}"] for b, n in steps) / time_s
            for what in ("msgs", "bytes")
        }
        row = {"session": session, "stream": identity[0], "created_at_us": identity[1],
               "stored_msgs": last["stored_msgs"], "stored_bytes": last["stored_bytes"],
               "message_bytes": last["stored_bytes"] / last["stored_msgs"],
               "discard": limit.discard if limit else None,
               "resets_count": sum(
                   now["last_seq"] < before["last_seq"]
                   for before, now in itertools.pairwise(samples)
               )}  # fmt: skip
        row["watched_s"] = time_s
        row["unseen_s"] = (ended_us - last["at_us"]) / 1e6
        of_subject, subjects = limit and limit.max_msgs_per_subject, last["subjects_count"]
        ceiling = None
        if of_subject and subjects <= samples[0]["subjects_count"]:
            ceiling = {"msgs": of_subject * subjects,
                       "bytes": of_subject * subjects * row["message_bytes"]}  # fmt: skip
        row["max_msgs"], row["max_bytes"] = (
            getattr(limit, f"max_{what}") if limit else None for what in ("msgs", "bytes")
        )
        published = sum(n["last_seq"] - b["last_seq"] for b, n in steps)
        losing = published > sum(n["stored_msgs"] - b["stored_msgs"] for b, n in steps)
        age_s = (last["at_us"] - last["first_at_us"]) / 1e6 if last["first_at_us"] else None
        max_age_ns = limit.max_age_ns if limit else None
        ends: list[tuple[float | None, float | None]] = []
        for what, pace in growth.items():
            most, stored = row[f"max_{what}"], last[f"stored_{what}"]
            room = None if most is None else most - stored
            left_s, *bounds_s = forecast(_paces(samples, steps, what), 60.0, room)
            row[f"growth_{what}_per_s"] = pace
            if left_s is not None and max_age_ns is not None and age_s is not None:
                left_s = left_s if left_s <= max(max_age_ns / 1e9 - age_s, 0.0) else None
            if left_s and ceiling and ceiling[what] < most:
                left_s = None
            if what == "bytes" and room is not None:
                held = losing and stored >= 0.98 * most
                left_s = 0.0 if held or room < row["message_bytes"] else left_s
            if left_s is not None and not may_tell(left_s, time_s):
                left_s = None
            row[f"{what}_full_in_s"] = left_s
            if left_s == 0:
                ends.append((0.0, 0.0))
            elif left_s is not None:
                ends.append((bounds_s[0], bounds_s[1]))
        for place, name in enumerate(("earliest_s", "latest_s")):
            known = [one[place] for one in ends if one[place] is not None]
            row[name] = min(known, default=None)
        rows.append(row)
    return rows


def account_capacity(session: str, records: list[Record]) -> list[Row]:
    """Return the row of a session."""
    told = [(poll.taken_at_us / 1e6, poll.account) for poll in polls_of(records) if poll.account]
    (first_s, first), (last_s, last) = told[0], told[-1]
    growth = (last.storage_bytes - first.storage_bytes) / (last_s - first_s)
    counts = [account.api_errors_count for _, account in told]
    # A counter that goes back began anew.
    grown = [b - a if b >= a else b for a, b in itertools.pairwise(counts)]
    return [
        {
            "session": session,
            "storage_bytes": last.storage_bytes,
            "growth_bytes_per_s": growth,
            "max_storage_bytes": last.max_storage_bytes,
            "api_errors_count": sum(grown),
        }
    ]


def session_summary(
    session: str,
    records: list[Record],
    folder: Path,
    damage: tuple[int, int, int, int, str | None],
) -> list[Row]:
    """Return the row of a session.

    `damage`: corrupt segments, torn, unfinished and unknown lines, and where they are.
    """
    polls = polls_of(records)
    pauses = [b.taken_mono_us - a.taken_mono_us for a, b in itertools.pairwise(polls)]
    files = list(folder.glob("records-*"))
    return [
        {
            "session": session,
            "start_at_us": polls[0].taken_at_us,
            "end_at_us": polls[-1].taken_at_us,
            "duration_s": (polls[-1].taken_at_us - polls[0].taken_at_us) / 1e6,
            "polls_count": len(polls),
            "gaps_count": sum(pause > LARGEST_PAUSE_US for pause in pauses),
            "gaps_s": sum(pause for pause in pauses if pause > LARGEST_PAUSE_US) / 1e6,
            "streams_count": len(stream_series(polls)),
            "consumers_count": len(consumer_series(polls)),
            "consumer_samples_count": sum(len(poll.consumers.name) for poll in polls),
            "segments_count": len(files),
            "corrupt_segments_count": damage[0],
            "torn_lines_count": damage[1],
            "unfinished_lines_count": damage[2],
            "unknown_lines_count": damage[3],
            "damage": damage[4],
            "not_judged": None,
            "size_bytes": sum(file.stat().st_size for file in files),
        }
    ]
