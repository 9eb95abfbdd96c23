"""What the table of availability must hold, in plain Python."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.analysis.by_format import Record, consumer_series, of_kind, polls_of, stream_series
from tests.analysis.oracle_rates import (
    BUCKET_US,
    LARGEST_PAUSE_US,
    between_gaps,
    bucket,
    pieces,
)

Row = dict[str, Any]
SURE = 0.998


def availability(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    found = [*_gaps(records), *_unavailable(records), *_disconnected(records), *_slow(records),
             *_streams(records), *_unreachable(records)]  # fmt: skip
    return [{"session": session, **row, "duration_s": _duration(row)} for row in found]


def _duration(row: Row) -> float | None:
    return None if row["end_at_us"] is None else (row["end_at_us"] - row["start_at_us"]) / 1e6


def _row(kind: str, stream: str | None, start: int, end: int | None, *more: Any) -> Row:
    value, detail = more
    return {"kind": kind, "stream": stream, "consumer": None, "start_at_us": start,
            "end_at_us": end, "value": value, "detail": detail}  # fmt: skip


def _gaps(records: list[Record]) -> Iterator[Row]:
    for before, now in itertools.pairwise(polls_of(records)):
        pause_us = now.taken_mono_us - before.taken_mono_us
        if pause_us > LARGEST_PAUSE_US:
            start = now.taken_at_us - pause_us
            yield _row("gap", None, start, now.taken_at_us, pause_us / 1e6, None)


def _unreachable(records: list[Record]) -> Iterator[Row]:
    """Yield the periods in which a leader did not reply, until the poll in which it did."""
    polls = polls_of(records)
    seen: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for place, poll in enumerate(polls):
        for stream in poll.unreachable_streams:
            seen[stream, None].append(place)
        for stream, consumer in poll.unreachable_consumers:
            seen[stream, consumer].append(place)

    def is_gap(before: int, now: int) -> bool:
        between = itertools.pairwise(polls[before : now + 1])
        return any(b.taken_mono_us - a.taken_mono_us > LARGEST_PAUSE_US for a, b in between)

    for (stream, consumer), places in seen.items():
        runs = [[places[0]]]
        for before, now in itertools.pairwise(places):
            if now - before > 3 or is_gap(before, now):
                runs.append([])
            runs[-1].append(now)
        for run in runs:
            end = run[-1] + 1 if run[-1] + 1 < len(polls) else run[-1]
            end = run[-1] if is_gap(run[-1], end) else end
            times = polls[run[0]].taken_at_us, polls[end].taken_at_us
            told = "its leader did not reply to the server"
            yield _row("unreachable", stream, *times, None, told) | {"consumer": consumer}


def _unavailable(records: list[Record]) -> Iterator[Row]:
    open_: dict[str, Record] = {}
    news = of_kind(records, "unavailable", "restored")
    for record in sorted(news, key=lambda record: record.at_us):
        if record.kind == "unavailable":
            open_.setdefault(record.what, record)
        elif begin := open_.pop(record.what, None):
            detail = f"{begin.what}: {begin.reason}"
            yield _row("unavailable", None, begin.at_us, record.at_us, None, detail)
    for begin in open_.values():
        detail = f"{begin.what}: {begin.reason}"
        yield _row("unavailable", None, begin.at_us, None, None, detail)


def _disconnected(records: list[Record]) -> Iterator[Row]:
    links = sorted(of_kind(records, "link_changed"), key=lambda link: link.at_us)
    lost: Record | None = None
    for link in links:
        if link.state == "connected":
            if lost:
                yield _row("disconnected", None, lost.at_us, link.at_us, None, lost.reason)
            lost = None
        elif link.state not in ("connecting", "closed") and lost is None:
            lost = link
    if lost:
        yield _row("disconnected", None, lost.at_us, None, None, lost.reason)


def _slow(records: list[Record]) -> Iterator[Row]:
    told: dict[int, list[int]] = defaultdict(list)
    for poll in polls_of(records):
        if poll.cost.api_rtt_us is not None:
            told[bucket(poll.taken_at_us)].append(poll.cost.api_rtt_us)
    usual = statistics.median(rtt for many in told.values() for rtt in many)
    for start, many in told.items():
        middle = statistics.median(many)
        if middle >= 3 * usual:
            detail = f"usual {math.floor(usual + 0.5)} µs"
            yield _row("api_slow", None, start, start + BUCKET_US, float(middle), detail)


def _streams(records: list[Record]) -> Iterator[Row]:
    for (name, _), samples in stream_series(polls_of(records)).items():
        for before, now in itertools.pairwise(samples):
            leaders = (before["leader"], now["leader"])
            if now["peers"] and None not in leaders and leaders[0] != leaders[1]:
                yield _row("leader_change", name, now["at_us"], None, None, " → ".join(leaders))
        groups = (itertools.groupby(part, _trouble) for part in between_gaps(samples))
        for kind, group in itertools.chain.from_iterable(groups):
            run = list(group)
            if kind:
                lag = max(peer.lag_msgs for s in run for peer in s["peers"])
                gone = max(sum(map(_is_away, s["peers"])) for s in run)
                span = (run[0]["at_us"], run[-1]["at_us"])
                told = f"up to {lag} entries behind" if lag > 1000 else None
                if gone:
                    told = f"{gone} replica{'s' * (gone != 1)} without contact"
                yield _row(kind, name, *span, float(lag) if kind == "replica_lag" else None, told)


def _trouble(sample: Row) -> str | None:
    peers = sample["peers"]
    if not peers:
        return None
    if sample["leader"] is None:
        return "leader_absent"
    if any(map(_is_away, peers)):
        return "replica_away"
    return "replica_lag" if any(peer.lag_msgs > 1000 for peer in peers) else None


def _is_away(peer: Record) -> bool:
    if peer.offline:
        return True
    return bool(peer.active_ns > 5_000_000_000 if peer.active_ns else not peer.current)


def notes(session: str, records: list[Record]) -> list[Row]:
    """Return the notes of a session."""
    return [
        {"session": session, "at_us": record.at_us, "text": record.text}
        for record in of_kind(records, "noted")
    ]


def message_size(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = []
    for (name, born), samples in stream_series(polls_of(records)).items():
        for hour, piece in pieces(samples, ("last_seq",), 3_600_000_000).items():
            kept = [one for one in piece["samples"] if one["stored_msgs"]]
            published = sum(now["last_seq"] - was["last_seq"] for was, now in piece["steps"])
            if kept or published:
                sizes = [one["stored_bytes"] / one["stored_msgs"] for one in kept] or [None]
                rows.append(
                    {
                        "session": session, "stream": name, "created_at_us": born,
                        "hour_at_us": hour,
                        "published_msgs": published,
                        "message_bytes": sizes[-1],
                        "message_min_bytes": min(sizes),
                        "message_max_bytes": max(sizes),
                    }
                )  # fmt: skip
    return rows


def lag_share(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = []
    for (stream, consumer, born), samples in consumer_series(polls_of(records)).items():
        waits = [
            0.0 if not s["pending_msgs"] else max(s["at_us"] - s["next_at_us"], 0) / 1e6
            for s in samples
            if not s["pending_msgs"] or s["next_at_us"] is not None
        ]
        p50, p95, p99 = (float(np.percentile(waits, q)) if waits else None for q in (50, 95, 99))
        over_us = known_us = 0
        for piece in pieces(samples, ("delivered_consumer_seq", "ack_floor_stream_seq")).values():
            for before, now in piece["steps"]:
                lasted_us = now["sampled_mono_us"] - before["sampled_mono_us"]
                if not now["pending_msgs"] or now["next_at_us"] is not None:
                    known_us += lasted_us
                    waited_us = now["at_us"] - now["next_at_us"] if now["pending_msgs"] else 0
                    over_us += lasted_us if waited_us > 10_000_000 else 0
        led = [s for s in samples if s["leader"] is not None]
        pinned = [s for s in samples if s["pinned_client"] is not None]
        rows.append(
            {
                "session": session, "stream": stream, "consumer": consumer,
                "created_at_us": born, "known_count": len(waits),
                "p50_s": p50, "p95_s": p95, "p99_s": p99,
                "max_s": max(waits, default=None),
                "over_share": over_us / known_us if known_us else None,
                "leader": led[-1]["leader"] if led else None,
                "pinned_client": pinned[-1]["pinned_client"] if pinned else None,
            }
        )  # fmt: skip
    return rows


def api_use(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    cells: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    before = None
    for poll in polls_of(records):
        if poll.account is None:
            continue
        cell = cells[bucket(poll.taken_at_us)]
        cell["rtt"] += [] if poll.cost.api_rtt_us is None else [poll.cost.api_rtt_us]
        for name in ("api_requests_count", "api_errors_count"):
            now = getattr(poll.account, name)
            was = now if before is None else getattr(before, name)
            cell[name].append(now if now < was else now - was)
        before = poll.account
    return [
        {
            "session": session, "bucket_at_us": at_us,
            "requests_count": sum(cell["api_requests_count"]),
            "errors_count": sum(cell["api_errors_count"]),
            "rtt_median_us": float(statistics.median(cell["rtt"])) if cell["rtt"] else None,
        }
        for at_us, cell in cells.items()
    ]  # fmt: skip


def server_role(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    polls, rows = polls_of(records), dict[str, Row]()
    every: Counter[str] = Counter()
    nothing = dict.fromkeys(("streams_count", "consumers_count", "left_count"), 0)
    for name, series in (
        ("streams_count", stream_series(polls)), ("consumers_count", consumer_series(polls)),
    ):  # fmt: skip
        for samples in series.values():
            leaders = [s["leader"] for s in samples if s["leader"] is not None]
            every.update(leaders)
            for server in leaders:
                rows.setdefault(server, {"session": session, "server": server, **nothing})
            for was, now in itertools.pairwise(leaders):
                rows[was]["left_count"] += was != now
            if leaders:
                rows[leaders[-1]][name] += 1
    versions = _server_versions(records)
    for server in versions:
        rows.setdefault(server, {"session": session, "server": server, **nothing})
    return [
        row | {"led_share": every[server] / every.total(), "versions": versions.get(server)}
        for server, row in rows.items()
    ]


def _server_versions(records: list[Record]) -> dict[str, str | None]:
    """Return server → its versions in the order of time."""
    versions: dict[str, list[str]] = {}
    readings = of_kind(records, "servers_read")
    for reading in sorted(readings, key=lambda reading: reading.at_us):
        for server in reading.servers.rows:
            told = versions.setdefault(server.name, [])
            if server.version is not None and server.version not in told:
                told.append(server.version)
    return {name: " → ".join(told) or None for name, told in versions.items()}
