"""What the tables of availability, comparison and the verdict must hold, in plain Python."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from natstui.model.bench.latency import bucket_middle_ns
from natstui.model.records.benchmark import BenchmarkPhase, BenchmarkReport
from natstui.model.records.record import LinkChanged, Record, Restored, Unavailable
from tests.analysis.oracle_rates import (
    BUCKET_US,
    LARGEST_PAUSE_US,
    bucket,
    load,
    polls_of,
)
from tests.analysis.planted import stream_series

Row = dict[str, Any]
SURE = 0.998


def availability(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    found = [*_gaps(records), *_unavailable(records), *_disconnected(records), *_slow(records),
             *_streams(records)]  # fmt: skip
    return [{"session": session, **row, "duration_s": _duration(row)} for row in found]


def _duration(row: Row) -> float | None:
    return None if row["end_at_us"] is None else (row["end_at_us"] - row["start_at_us"]) / 1e6


def _row(kind: str, stream: str | None, start: int, end: int | None, *more: Any) -> Row:
    value, detail = more
    return {"kind": kind, "stream": stream, "start_at_us": start, "end_at_us": end,
            "value_count": value, "detail": detail}  # fmt: skip


def _gaps(records: list[Record]) -> Iterator[Row]:
    for before, now in itertools.pairwise(polls_of(records)):
        pause_us = now.taken_mono_us - before.taken_mono_us
        if pause_us > LARGEST_PAUSE_US:
            start = now.taken_at_us - pause_us
            yield _row("gap", None, start, now.taken_at_us, pause_us / 1e6, None)


def _unavailable(records: list[Record]) -> Iterator[Row]:
    open_: dict[str, Unavailable] = {}
    news = [r for r in records if isinstance(r, Unavailable | Restored)]
    for record in sorted(news, key=lambda record: record.at_us):
        if isinstance(record, Unavailable):
            open_.setdefault(record.what, record)
        elif begin := open_.pop(record.what, None):
            detail = f"{begin.what}: {begin.reason}"
            yield _row("unavailable", None, begin.at_us, record.at_us, None, detail)
    for begin in open_.values():
        detail = f"{begin.what}: {begin.reason}"
        yield _row("unavailable", None, begin.at_us, None, None, detail)


def _disconnected(records: list[Record]) -> Iterator[Row]:
    links = sorted((r for r in records if isinstance(r, LinkChanged)), key=lambda r: r.at_us)
    lost: LinkChanged | None = None
    for link in links:
        if link.state == "connected":
            if lost:
                detail = _link_detail(lost)
                yield _row("disconnected", None, lost.at_us, link.at_us, None, detail)
            lost = None
        elif link.state not in ("connecting", "closed") and lost is None:
            lost = link
    if lost:
        yield _row("disconnected", None, lost.at_us, None, None, _link_detail(lost))


def _link_detail(link: LinkChanged) -> str:
    return f"link: {link.reason}"


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
            if None not in leaders and leaders[0] != leaders[1]:
                yield _row("leader_change", name, now["at_us"], None, None, " → ".join(leaders))
        for kind, group in itertools.groupby(samples, _trouble):
            run = list(group)
            if kind:
                lag = max(peer.lag_msgs for s in run for peer in s["peers"])
                down = max(sum(p.offline or not p.current for p in s["peers"]) for s in run)
                span = (run[0]["at_us"], run[-1]["at_us"])
                yield _row(kind, name, *span, float(lag), f"{down} replicas down")


def _trouble(sample: Row) -> str | None:
    peers = sample["peers"]
    if not peers:
        return None
    if sample["leader"] is None:
        return "leader_absent"
    late = any(peer.lag_msgs >= 100 or peer.offline or not peer.current for peer in peers)
    return "replica_lag" if late else None


def blocks(session: str, records: list[Record]) -> dict[str, list[float]]:
    """Return the values of every metric of a session, in order of time."""
    rtt: dict[int, list[int]] = defaultdict(list)
    for poll in polls_of(records):
        if poll.cost.api_rtt_us is not None:
            rtt[poll.taken_at_us // 10_000_000].append(poll.cost.api_rtt_us)
    found = {"api round trip (µs)": [statistics.fmean(rtt[at]) for at in sorted(rtt)]}
    for metric, name in {"published (msg/s)": "published_per_s",
                         "delivered (msg/s)": "delivered_per_s",
                         "pending (messages)": "pending_mean_msgs"}.items():  # fmt: skip
        values = [row[name] for row in load(session, records)]
        found[metric] = [value for value in values if value is not None]
    return found | _bench_blocks(records)


def _bench_blocks(records: list[Record]) -> dict[str, list[float]]:
    phases = sorted((r.at_us, r.phase) for r in records if isinstance(r, BenchmarkPhase))
    counted: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    timed: dict[str, dict[int, list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
    for report in (r for r in records if isinstance(r, BenchmarkReport)):
        second = report.at_us // 1_000_000
        for counter in ("sent", "acked", "received", "acks_sent"):
            msgs = getattr(report.counts, f"{counter}_msgs")
            counted[f"bench {counter} (msg/s)"][second] += msgs
        phase = [name for at, name in phases if at <= report.at_us][-1]
        if phase in ("starting", "warmup", "ramp"):
            continue
        for metric in ("ack", "e2e", "store", "rtt"):
            one = getattr(report.latencies, metric)
            pairs = [(bucket_middle_ns(b) / 1e3, n)
                     for b, n in zip(one.buckets, one.counts, strict=True)]  # fmt: skip
            timed[f"bench {metric} latency (µs)"][second] += pairs
    found: dict[str, list[float]] = {}
    for metric, sums in counted.items():
        busy = {second: msgs for second, msgs in sums.items() if msgs}
        half = statistics.median(busy.values()) / 2 if busy else 0
        found[metric] = [busy[second] for second in sorted(busy) if busy[second] >= half]
    for metric, seconds in timed.items():
        found[metric] = [
            float(np.average([v for v, _ in pairs], weights=[n for _, n in pairs]))
            for _, pairs in sorted(seconds.items()) if pairs
        ]  # fmt: skip
    return {metric: values for metric, values in found.items() if values}


def comparison(first: str, second: str, values: dict[str, dict[str, list[float]]]) -> list[Row]:
    """Return the rows of one session against another."""
    rows = []
    for metric in sorted(values[first].keys() & values[second].keys()):
        before, after = (np.array(values[name][metric]) for name in (first, second))
        row = {
            "baseline": first,
            "compared": second,
            "metric": metric,
            "baseline_mean": float(before.mean()),
            "compared_mean": float(after.mean()),
        }
        rows.append(row | _welch(before, after))
    known = sorted((r for r in rows if r["p_value"] is not None), key=lambda r: r["p_value"])
    worst = 0.0
    for place, row in enumerate(known):
        worst = max(worst, min(1.0, row["p_value"] * (len(known) - place)))
        row["p_value"] = worst
    return [{**row, "verdict": _verdict(row)} for row in rows]


def _verdict(row: Row) -> str:
    if row["p_value"] is None:
        return "unknown"
    if row["p_value"] >= 1 - SURE or abs(row["mean_change"]) < 0.02:
        return "no significant change"
    more = row["mean_change"] > 0
    if row["metric"] in ("published (msg/s)", "delivered (msg/s)"):
        return "more" if more else "less"
    low_is_good = "(µs)" in row["metric"] or row["metric"].startswith("pending")
    return "slower" if more == low_is_good else "faster"


def _welch(before: Any, after: Any) -> Row:
    """Compare two means by Welch's test, the distribution of t integrated numerically."""
    nothing = dict.fromkeys(("mean_change", "low_change", "high_change", "p_value"))
    weights = [len(one) * _independent(one) for one in (before, after)]
    if min(weights) < 5:
        return nothing
    parts = [float(one.var(ddof=1)) / n for one, n in zip((before, after), weights, strict=True)]
    gap, error = float(after.mean() - before.mean()), math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / sum(p**2 / (n - 1) for p, n in zip(parts, weights, strict=True))
    reach, p_value = _students_t(gap / error, freedom)
    mean = float(before.mean())
    return {"mean_change": gap / mean, "low_change": (gap - reach * error) / mean,
            "high_change": (gap + reach * error) / mean, "p_value": p_value}  # fmt: skip


def _independent(values: Any) -> float:
    alike = float(np.corrcoef(values[1:], values[:-1])[0, 1])
    alike = min(max(alike, 0.0), 0.99)
    return (1 - alike) / (1 + alike)


def _students_t(t: float, freedom: float) -> tuple[float, float]:
    """Return the t within which 99.8 % lie, and the chance of one at least this far out."""
    # x = tan(angle) turns the infinite tail into a finite one, on which sums converge quickly.
    angles = np.linspace(0, math.pi / 2, 1_000_001)[:-1]
    density = (1 + np.tan(angles) ** 2 / freedom) ** (-(freedom + 1) / 2) / np.cos(angles) ** 2
    steps = (density[1:] + density[:-1]) / 2
    below = np.concatenate(([0.0], np.cumsum(steps)))
    below /= below[-1]
    reach = math.tan(float(np.interp(SURE, below, angles)))
    return reach, 1 - float(np.interp(math.atan(abs(t)), angles, below))
