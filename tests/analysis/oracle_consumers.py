"""What the tables about lag, stuck consumers and redelivery must hold, in plain Python."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.analysis.by_format import (
    Record,
    consumer_series,
    of_kind,
    polls_of,
    stream_series,
)
from tests.analysis.oracle_rates import (
    BUCKET_US,
    between_gaps,
    bucket,
    consumer_rate,
    stream_rate,
)
from tests.session.by_document.sessions import bucket_of, middle_ns

Row = dict[str, Any]
Identity = tuple[str, str, int]
GIVEN_UP = ("max_deliver",)
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p999": 99.9, "p9999": 99.99}


def _named(session: str, identity: Identity) -> Row:
    return {"session": session, "stream": identity[0], "consumer": identity[1],
            "created_at_us": identity[2]}  # fmt: skip


def _identity(row: Row) -> Identity:
    return row["stream"], row["consumer"], row["created_at_us"]


def _slope(points: list[tuple[float, float]]) -> float | None:
    if len(points) < 2:
        return None
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def _slope_error(points: list[tuple[float, float]]) -> float | None:
    """Return the standard error of a slope whose residuals resemble the ones before them."""
    n = len(points)
    if n < 3:
        return None
    slope, middle = _slope(points), statistics.fmean(x for x, _ in points)
    mean = statistics.fmean(y for _, y in points)
    assert slope is not None
    residuals = [y - mean - slope * (x - middle) for x, y in points]
    squares = math.fsum(one * one for one in residuals)
    if squares <= n * (max(y for _, y in points) * 1e-9) ** 2:
        return 0.0
    r = sum(a * b for a, b in itertools.pairwise(residuals)) / squares
    r = min(max(r, 0.0), 0.95)
    spread = math.fsum((x - middle) ** 2 for x, _ in points)
    return math.sqrt(squares / (n - 2) / spread * (1 + r) / (1 - r))


def lag(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    pace: dict[str, tuple[int, float | None]] = {}
    for row in stream_rate(session, records):
        now = (row["bucket_at_us"], row["published_per_s"])
        pace[row["stream"]] = max(pace.get(row["stream"], now), now, key=lambda pair: pair[0])
    minutes = defaultdict(list)
    for row in consumer_rate(session, records):
        minutes[_identity(row)].append(row)
    polls = polls_of(records)
    series, made = consumer_series(polls), Counter(name for name, _ in stream_series(polls))
    every = (*series.values(), *stream_series(polls).values())
    ended_us = max(samples[-1]["at_us"] for samples in every)
    earlier = {who: sum(o[:2] == who[:2] and o[2] < who[2] for o in series) for who in series}
    return [
        _named(session, who)
        | _lag_row(minutes[who], samples, pace[who[0]][1])
        | {"made_again": earlier[who] >= made[who[0]]}
        | {"unseen_s": (ended_us - samples[-1]["at_us"]) / 1e6}
        for who, samples in series.items()
    ]


def _middle(row: Row) -> float:
    """Return the middle of the time that was watched in a bucket, in minutes."""
    watched_us = row["covered_s"] * 1_000_000
    return float(row["last_at_us"] - watched_us / 2) / 60_000_000


def _lag_row(minutes: list[Row], samples: list[Row], published: float | None) -> Row:
    recent_us = minutes[-1]["bucket_at_us"] - 5 * BUCKET_US
    points = [(_middle(row), row["pending_mean_msgs"]) for row in minutes]
    recent = _slope(
        [
            point
            for point, row in zip(points, minutes, strict=True)
            if row["bucket_at_us"] > recent_us
        ]
    )
    pending = [sample["pending_msgs"] for sample in samples]
    last = pending[-1]
    ages = [s["at_us"] - s["next_at_us"] for s in samples if s["next_at_us"] is not None]
    falls = recent is not None and recent < 0
    estimate = 0.0 if not last else last / published if published else None
    return {
        "first_at_us": minutes[0]["bucket_at_us"],
        "last_at_us": minutes[-1]["bucket_at_us"],
        "watched_s": sum(row["covered_s"] for row in minutes),
        "pending_first_msgs": pending[0],
        "pending_last_msgs": last,
        "pending_max_msgs": max(pending),
        "pending_mean_msgs": statistics.fmean(pending),
        "growth_per_min": _slope(points),
        "growth_error_per_min": _slope_error(points),
        "buckets_count": len(points),
        "recent_growth_per_min": recent,
        "drain_s": 0.0 if not last else last / (-recent / 60) if recent and falls else None,
        "behind_max_s": max(ages) / 1e6 if ages else None,
        "behind_last_s": estimate
        if minutes[-1]["behind_max_s"] is None
        else minutes[-1]["behind_max_s"],
        "behind_estimate_s": estimate,
        "never_caught_up": all(pending),
    }


def lag_period(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = []
    for who, samples in consumer_series(polls_of(records)).items():
        for part in between_gaps(samples):
            for behind, group in itertools.groupby(part, lambda one: one["pending_msgs"] > 0):
                run = list(group)
                if behind and run[-1]["at_us"] - run[0]["at_us"] >= 10_000_000:
                    rows.append(_named(session, who) | _period(run, samples[-1]["at_us"]))
    return rows


def _period(run: list[Row], end_us: int) -> Row:
    ages = [s["at_us"] - s["next_at_us"] for s in run if s["next_at_us"] is not None]
    return {
        "start_at_us": run[0]["at_us"],
        "end_at_us": run[-1]["at_us"],
        "duration_s": (run[-1]["at_us"] - run[0]["at_us"]) / 1e6,
        "pending_max_msgs": max(sample["pending_msgs"] for sample in run),
        "pending_end_msgs": run[-1]["pending_msgs"],
        "behind_max_s": max(ages) / 1e6 if ages else None,
        "open": run[-1]["at_us"] == end_us,
    }


def _configurations(records: list[Record]) -> list[Record]:
    return sorted(of_kind(records, "configured"), key=lambda record: record.at_us)


def _configured(records: list[Record]) -> dict[Identity, Any]:
    newest: dict[Identity, Any] = {}
    for record in _configurations(records):
        newest |= {(c.stream, c.name, c.created_at_us): c for c in record.consumers}
    return newest


def _still(samples: list[Row]) -> Iterator[list[Row]]:
    """Yield the runs of samples with messages outstanding at an unmoved floor."""
    run: list[Row] = []
    for sample in samples:
        outstanding = sample["pending_msgs"] > 0 or sample["ack_pending_msgs"] > 0
        moved = run and run[-1]["ack_floor_stream_seq"] != sample["ack_floor_stream_seq"]
        if run and (moved or not outstanding):
            yield run
            run = []
        if outstanding:
            run.append(sample)
    if run:
        yield run


def stuck(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    configured, rows = _configured(records), []
    for who, samples in consumer_series(polls_of(records)).items():
        for run in _still(samples):
            if run[-1]["at_us"] - run[0]["at_us"] >= 30_000_000:
                row = _stuck_row(run, samples[-1]["at_us"], configured.get(who))
                rows.append(_named(session, who) | row)
    return rows


def _stuck_row(run: list[Row], end_us: int, configuration: Any) -> Row:
    delivered = fresh = 0
    for before, now in itertools.pairwise(run):
        if now["sampled_mono_us"] - before["sampled_mono_us"] < 5_000_000:
            delivered += now["delivered_consumer_seq"] - before["delivered_consumer_seq"]
            fresh += now["delivered_stream_seq"] - before["delivered_stream_seq"]
    pulls = [s["waiting_pulls_count"] == 0 and not s["push_bound"] for s in run]
    row = {
        "start_at_us": run[0]["at_us"],
        "end_at_us": run[-1]["at_us"],
        "duration_s": (run[-1]["at_us"] - run[0]["at_us"]) / 1e6,
        "open": run[-1]["at_us"] == end_us,
        "ack_floor_stream_seq": run[0]["ack_floor_stream_seq"],
        "pending_max_msgs": max(s["pending_msgs"] for s in run),
        "pending_end_msgs": run[-1]["pending_msgs"],
        "ack_pending_max_msgs": max(s["ack_pending_msgs"] for s in run),
        "max_ack_pending_msgs": configuration.max_ack_pending_msgs if configuration else None,
        "delivered_msgs": delivered,
        "fresh_msgs": fresh,
        "redelivered_max_msgs": max(s["redelivered_msgs"] for s in run),
        "no_pull_share": sum(pulls) / len(run),
        "paused_share": sum(s["paused"] for s in run) / len(run),
        "leaderless_share": sum(s["leader"] is None for s in run) / len(run),
        "samples_count": len(run),
    }
    quiet = [
        none and (s["delivered_at_us"] is None or s["at_us"] - s["delivered_at_us"] > 10_000_000)
        for none, s in zip(pulls, run, strict=True)
    ]
    push = bool(configuration) and not configuration.pull
    return row | {"cause": _cause(row, sum(quiet) / len(run), push=push)}


def _cause(row: Row, quiet_share: float, *, push: bool) -> str:
    limit, pending = row["max_ack_pending_msgs"], row["pending_max_msgs"] > 0
    causes = {
        "no leader": row["leaderless_share"] > 0.5,
        "paused": row["paused_share"] > 0.5,
        "poison message": limit == 1
        and row["delivered_msgs"] >= row["fresh_msgs"] + 4
        and row["redelivered_max_msgs"] > 0,
        "max ack pending reached": limit is not None and row["ack_pending_max_msgs"] >= limit,
        "redelivered again and again": row["delivered_msgs"] > row["fresh_msgs"]
        and row["redelivered_max_msgs"] > 0,
        "no subscriber": row["no_pull_share"] > 0.5 and push and pending,
        "no open pulls": quiet_share > 0.5 and not push and pending,
        "not acked within ack wait": row["ack_pending_max_msgs"] > 0,
        "unknown": True,
    }
    return next(name for name, fits in causes.items() if fits)


def _about(records: list[Record], who: Identity, every: Iterable[Identity]) -> list[Record]:
    """Return the advisories about a consumer: those of its name while it was there."""
    created = sorted({other[2] for other in every if other[:2] == who[:2]})
    begin = 0 if who[2] == created[0] else who[2]
    end = next((at_us for at_us in created if at_us > who[2]), math.inf)
    return [
        advisory
        for advisory in of_kind(records, "advisory")
        if (advisory.stream, advisory.consumer) == who[:2] and begin <= advisory.at_us < end
    ]


def redelivery(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    sums: dict[Identity, list[int]] = defaultdict(lambda: [0, 0, 0])
    for row in consumer_rate(session, records):
        cell = sums[_identity(row)]
        cell[0] += row["delivered_msgs"] or 0
        cell[1] += row["repeated_msgs"] or 0
        cell[2] = max(cell[2], row["redelivered_max_msgs"])
    configured, rows = _configured(records), []
    for who, (delivered, repeated, most) in sums.items():
        told = [advisory.type for advisory in _about(records, who, sums)]
        filtered = who in configured and bool(configured[who].filter_subjects)
        rows.append(
            _named(session, who)
            | {
                "delivered_msgs": delivered,
                "repeated_msgs": repeated,
                "repeated_share": repeated / delivered if delivered and not filtered else None,
                "redelivered_max_msgs": most,
                "naks_count": told.count("nak"),
                "given_up_count": sum(kind in GIVEN_UP for kind in told),
                "terminated_count": told.count("terminated"),
            }
        )
    return rows


def _changes(records: list[Record]) -> dict[Identity, list[int]]:
    """Return when the configuration of each consumer became another one."""
    found: dict[Identity, list[int]] = defaultdict(list)
    before: dict[Identity, str] = {}
    for record in _configurations(records):
        for one in record.consumers:
            who = (one.stream, one.name, one.created_at_us)
            if before.setdefault(who, one.config_json) != one.config_json:
                found[who].append(record.at_us)
            before[who] = one.config_json
    return found


def hot_spot(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    changes, rows = _changes(records), []
    every = consumer_series(polls_of(records))
    for minute in consumer_rate(session, records):
        if (minute["repeated_msgs"] or 0) < 5:
            continue
        who, start = _identity(minute), minute["bucket_at_us"]
        end = start + BUCKET_US
        here = [
            a
            for a in of_kind(records, "advisory")
            if bucket(a.at_us) == start and a.stream == who[0]
        ]
        own = [a.type for a in _about(records, who, every) if bucket(a.at_us) == start]
        of_stream = [a.type for a in here if a.consumer is None]
        near = [at for at in changes[who] if end - 300_000_000 <= at < end]
        rows.append(
            _named(session, who)
            | {
                "bucket_at_us": start,
                "repeated_msgs": minute["repeated_msgs"],
                "naks_count": own.count("nak"),
                "given_up_count": sum(kind in GIVEN_UP for kind in own),
                "leader_changes_count": own.count("consumer_leader_elected")
                + of_stream.count("stream_leader_elected"),
                "configured_at_us": max(near) if near else None,
            }
        )
    return rows


def poison(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    told: dict[tuple[Any, ...], list[tuple[str, int | None, int]]] = defaultdict(list)
    for record in records:
        if record.kind == "advisory":
            body = json.loads(record.body_json)
            if "stream_seq" in body:
                who = (record.stream, record.consumer, body["stream_seq"])
                told[who].append((record.type, body.get("deliveries"), record.at_us))
        elif record.kind == "ack_sample" and record.deliveries_count > 1:
            who = (record.stream, record.consumer, record.stream_seq)
            told[who].append(("ack", record.deliveries_count, record.at_us))
    unnamed: dict[tuple[str, str], int] = {}
    for record in of_kind(records, "acks_counted"):
        if record.repeated_count + record.left_out_count:
            who = (record.stream, record.consumer)
            unnamed[who] = max(unnamed.get(who, 0), record.at_us)
    rows = []
    for (stream, consumer, seq), news in told.items():
        kinds = [kind for kind, _, _ in news]
        most = max((n for _, n, _ in news if n is not None), default=None)
        given_up = any(kind in GIVEN_UP for kind in kinds)
        if not given_up and (most is None or most < 5):
            continue
        last_us, acked = max(at for _, _, at in news), "ack" in kinds
        known = acked or unnamed.get((stream, consumer), 0) <= last_us
        rows.append(
            {"session": session, "stream": stream, "consumer": consumer, "stream_seq": seq,
             "deliveries_count": most, "naks_count": kinds.count("nak"), "given_up": given_up,
             "terminated": "terminated" in kinds, "acked": acked if known else None,
             "first_at_us": min(at for _, _, at in news),
             "last_at_us": last_us}
        )  # fmt: skip
    return rows


def ack_time(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session: of the histogram of all samples."""
    times: dict[tuple[str, str], Counter[int]] = defaultdict(Counter)
    repeated: Counter[tuple[str, str]] = Counter()
    left_out: Counter[tuple[str, str]] = Counter()
    for record in of_kind(records, "ack_sample", "acks_counted"):
        who = (record.stream, record.consumer)
        if record.kind == "ack_sample":
            times[who][bucket_of(record.ack_ns)] += 1
            repeated[who] += record.deliveries_count > 1
        else:
            counts = zip(record.times.buckets, record.times.counts, strict=True)
            times[who].update(dict(counts))
            repeated[who] += record.repeated_count
            left_out[who] += record.left_out_count
    rows = []
    for who, buckets in times.items():
        values = [middle_ns(bucket) / 1e3 for bucket in sorted(buckets.elements())]
        named = {f"{n}_us": values[_rank(len(values), p) - 1] for n, p in PERCENTILES.items()}
        rows.append(
            {"session": session, "stream": who[0], "consumer": who[1],
             "samples_count": len(values), "repeated_count": repeated[who],
             "left_out_count": left_out[who], "max_us": values[-1]} | named
        )  # fmt: skip
    return rows


def _rank(count: int, percent: float) -> int:
    """Return which of so many sorted values is not exceeded by so many of them."""
    return max(1, math.ceil(round(count * percent / 100, 6)))
