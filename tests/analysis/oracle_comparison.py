"""What the table of comparisons must hold, in plain Python."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tests.analysis.by_format import Record, consumer_series, of_kind, polls_of, stream_series
from tests.analysis.oracle_bench import is_summed, patterns
from tests.analysis.oracle_rates import load, pieces
from tests.session.by_document.sessions import bucket_of, middle_ns

Row = dict[str, Any]
Values = dict[tuple[str, str | None, str | None], list[float]]
"""By metric, stream and consumer."""
SURE = 0.998
BLOCK_US = 10_000_000


def blocks(session: str, records: list[Record]) -> Values:
    """Return the values of every metric of a session, stream and consumer, in order of time."""
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
    whole = found | _bench_blocks(records)
    everything: Values = {(metric, None, None): values for metric, values in whole.items()}
    return everything | _of_consumers(records) | _of_streams(records) | _ack_times(records)


def _of_streams(records: list[Record]) -> Values:
    found: dict[str, dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for (name, _), samples in stream_series(polls_of(records)).items():
        for at_us, piece in pieces(samples, ("last_seq",), BLOCK_US).items():
            found[name][at_us].append(piece)
    values: Values = {}
    for name, by_block in found.items():
        rates = [
            _sum(parts, "last_seq") / _covered_s(parts)
            for _, parts in sorted(by_block.items()) if _covered_s(parts)
        ]  # fmt: skip
        values["published (msg/s)", name, None] = rates
    return values


def _sum(parts: list[Row], name: str) -> int:
    steps = [step for part in parts for step in part["steps"]]
    return sum(now[name] - before[name] for before, now in steps)


def _covered_s(parts: list[Row]) -> float:
    steps = [step for part in parts for step in part["steps"]]
    return sum(n["sampled_mono_us"] - b["sampled_mono_us"] for b, n in steps) / 1e6


def _of_consumers(records: list[Record]) -> Values:
    found: dict[tuple[str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    counters = ("delivered_consumer_seq", "ack_floor_stream_seq")
    for (stream, name, _), samples in consumer_series(polls_of(records)).items():
        for at_us, piece in pieces(samples, counters, BLOCK_US).items():
            found[stream, name][at_us].append(piece)
    values: Values = {}
    for who, by_block in found.items():
        for _, parts in sorted(by_block.items()):
            for metric, value in _of_block(parts).items():
                if value is not None:
                    values.setdefault((metric, *who), []).append(value)
    return values


def _of_block(parts: list[Row]) -> dict[str, float | None]:
    samples = [sample for part in parts for sample in part["samples"]]
    delivered, covered_s = _sum(parts, "delivered_consumer_seq"), _covered_s(parts)
    repeated = sum(
        max(n["delivered_consumer_seq"] - b["delivered_consumer_seq"]
            - n["delivered_stream_seq"] + b["delivered_stream_seq"], 0)
        for part in parts for b, n in part["steps"]
    )  # fmt: skip
    pending = [sample["pending_msgs"] for sample in samples]
    ages = [s["at_us"] - s["next_at_us"] for s in samples if s["next_at_us"] is not None]
    taken = (delivered - repeated) / covered_s if covered_s else None
    return {
        "throughput (msg/s)": taken,
        "pending (messages)": statistics.fmean(pending),
        "lag (s)": statistics.fmean(ages) / 1e6 if ages else None,
        "repeated deliveries (share)": repeated / delivered if delivered else None,
        "waiting": float(min(pending) > (taken or 0)),
    }


def _ack_times(records: list[Record]) -> Values:
    found: dict[Any, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for record in of_kind(records, "ack_sample", "acks_counted"):
        if record.kind == "ack_sample":
            at_us, pairs = record.at_us, [(bucket_of(record.ack_ns), 1)]
        else:
            # They were counted in the second before.
            at_us = record.at_us - 500_000
            pairs = [*zip(record.times.buckets, record.times.counts, strict=True)]
        if pairs:
            found[record.stream, record.consumer][at_us // BLOCK_US] += pairs
    values: Values = {}
    for who, by_block in found.items():
        means = []
        for _, counted in sorted(by_block.items()):
            times = [(middle_ns(bucket) / 1e3, count) for bucket, count in counted]
            means.append(sum(v * n for v, n in times) / sum(n for _, n in times))
        values["time to acknowledge (µs)", *who] = means
    return values


def _bench_blocks(records: list[Record]) -> dict[str, list[float]]:
    phases = sorted((r.at_us, r.phase) for r in of_kind(records, "benchmark_phase"))
    counted: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    timed: dict[str, dict[int, list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
    known = patterns(records)
    for report in of_kind(records, "benchmark_report"):
        second, roles = report.at_us // 1_000_000, known.get(report.run_id)
        for counter in ("sent", "acked", "received", "acks_sent"):
            if roles is None or is_summed(roles[report.role], counter):
                msgs = getattr(report.counts, f"{counter}_msgs")
                counted[f"bench {counter} (msg/s)"][second] += msgs
        phase = [name for at, name in phases if at <= report.at_us][-1]
        if phase in ("starting", "warmup", "ramp"):
            continue
        for metric in ("ack", "e2e", "store", "rtt", "response", "late"):
            one = getattr(report.latencies, metric)
            pairs = [(middle_ns(b) / 1e3, n)
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


def comparison(first: str, second: str, values: dict[str, Values]) -> list[Row]:
    """Return the rows of one session against another."""
    rows: list[Row] = []
    for alone in (False, True):
        part: list[Row] = []
        for what in sorted(values[first].keys() & values[second].keys(), key=str):
            if (what[1] is not None) != alone or what[0] == "waiting":
                continue
            before, after = (np.array(values[name][what]) for name in (first, second))
            waited = [values[name].get(("waiting", *what[1:]), [0.0]) for name in (first, second)]
            head = (first, second, *what, float(before.mean()), float(after.mean()))
            names = ("baseline", "compared", "metric", "stream", "consumer", "baseline_mean",
                     "compared_mean")  # fmt: skip
            row = dict(zip(names, head, strict=True)) | _welch(before, after)
            part.append(row | _worded(row) | {"waited": [statistics.fmean(one) for one in waited]})
        known = sorted((r for r in part if r["p_value"] is not None), key=lambda r: r["p_value"])
        worst = 0.0
        for place, row in enumerate(known):
            worst = max(worst, min(1.0, row["p_value"] * (len(known) - place)))
            row["p_value"] = worst
        part = [{**row, "verdict": _verdict(row)} for row in part]
        told = ("slower", "faster", "more", "less")
        rows += [row for row in part if not alone or row["verdict"] in told]
    return [{k: v for k, v in row.items() if k not in ("waited", "gap", "ends")} for row in rows]


def _worded(row: Row) -> Row:
    """Return the difference and its interval as people read them."""
    if row["p_value"] is None:
        return {"words": None, "interval": None}
    name, unit = row["metric"][:-1].rsplit(" (", 1)
    words = f"{_number(row['compared_mean'])} instead of {_number(row['baseline_mean'])} {unit}"
    if row["mean_change"] is None:
        low, high = map(_number, row["ends"])
        return {
            "words": f"{name} {words}",
            "interval": f"{name} between {low} and {high} {unit} more",
        }
    change, low, high = (100 * row[of] for of in ("mean_change", "low_change", "high_change"))
    return {
        "words": f"{name} {change:+.1f} % ({words})",
        "interval": f"{name} between {low:+.1f} and {high:+.1f} %",
    }


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


LEAST = {"pending (messages)": 10, "behind its origin (messages)": 10, "lag (s)": 0.1,
         "repeated deliveries (share)": 0.01}  # fmt: skip


def _verdict(row: Row) -> str:
    if row["p_value"] is None:
        return "unknown"
    gap, metric = row["gap"], row["metric"]
    small = abs(gap) < max(0.02 * row["baseline_mean"], LEAST.get(metric, 0))
    if row["p_value"] >= 1 - SURE or small:
        return "no significant change"
    more = gap > 0
    if metric == "throughput (msg/s)" and row["waited"][0 if more else 1] >= 0.5:
        return "faster" if more else "slower"
    if metric in ("published (msg/s)", "delivered (msg/s)", "throughput (msg/s)"):
        return "more" if more else "less"
    low_is_good = "(µs)" in metric or metric in LEAST
    return "slower" if more == low_is_good else "faster"


def _welch(before: Any, after: Any) -> Row:
    """Compare two means by Welch's test, the distribution of t integrated numerically."""
    nothing = dict.fromkeys(("mean_change", "low_change", "high_change", "p_value"))
    (n, error), (other_n, other_error) = _weighed(before), _weighed(after)
    if min(n, other_n) < 5:
        return nothing
    parts, mean = (error**2, other_error**2), float(before.mean())
    gap, whole = float(after.mean()) - mean, math.sqrt(sum(parts))
    if not whole:
        told = {"mean_change": gap, "low_change": gap, "high_change": gap,
                "p_value": float(abs(gap) <= 1e-9 * abs(mean))}  # fmt: skip
    else:
        below = parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (other_n - 1)
        reach, p_value = _students_t(gap / whole, sum(parts) ** 2 / below)
        told = {"mean_change": gap, "low_change": gap - reach * whole,
                "high_change": gap + reach * whole, "p_value": p_value}  # fmt: skip
    ends = told["low_change"], told["high_change"]
    for name in ("mean_change", "low_change", "high_change"):
        told[name] = told[name] / mean if mean > 0 else None
    return {**told, "gap": gap, "ends": ends}


def _weighed(values: Any) -> tuple[float, float]:
    """Return how many independent values there are, and the standard error of their mean."""
    variance = float(values.var(ddof=1)) if len(values) > 1 else 0.0
    if math.sqrt(variance) <= 1e-9 * abs(values.mean()):
        return len(values), 0.0
    length = math.ceil(len(values) / 24)
    count = len(values) // length
    means = values[: count * length].reshape(count, length).mean(axis=1)
    n, spread = len(values) * _share(values), float(means.var(ddof=1)) if count > 1 else 0.0
    if spread:
        n = min(n, count * _share(means) * variance / spread)
    if n >= 5:
        return n, math.sqrt(variance / n)
    steps = np.diff(means)
    share = _share(steps)
    return (count - 1) * share, math.sqrt(
        (float(steps.var(ddof=1)) if len(steps) > 1 else 0.0) / share * count / 2
    )


def _share(values: Any) -> float:
    if len(values) < 3 or not values[1:].var() or not values[:-1].var():
        return 1.0
    alike = float(np.corrcoef(values[1:], values[:-1])[0, 1])
    alike = min(max(alike, 0.0), 0.99)
    return (1 - alike) / (1 + alike)


def _students_t(t: float, freedom: float) -> tuple[float, float]:
    """Return the t within which 99.8 % lie, and the chance of one at least this far out."""
    # x = tan(angle) turns the infinite tail into a finite one, on which sums converge quickly.
    angles = np.linspace(0, math.pi / 2, 100_001)[:-1]
    density = (1 + np.tan(angles) ** 2 / freedom) ** (-(freedom + 1) / 2) / np.cos(angles) ** 2
    steps = (density[1:] + density[:-1]) / 2
    below = np.concatenate(([0.0], np.cumsum(steps)))
    below /= below[-1]
    reach = math.tan(float(np.interp(SURE, below, angles)))
    return reach, 1 - float(np.interp(math.atan(abs(t)), angles, below))


def series_of(values: Sequence[float]) -> dict[str, Any]:
    """Return the statistics of values in order of time, of which at most 24 batches are made."""
    length = math.ceil(len(values) / 24)
    ends = range(0, len(values) + 1, length)
    means = [_mean(values[start:end]) for start, end in pairwise(ends)]
    steps = [now - before for before, now in pairwise(means)]
    return {
        "n": len(values),
        "mean": _mean(values),
        "variance": _sample_variance(values),
        "autocorrelation": _neighbours(values),
        "batch_means_variance": _sample_variance(means),
        "batch_means_autocorrelation": _neighbours(means),
        "steps_variance": _sample_variance(steps),
        "steps_autocorrelation": _neighbours(steps),
    }


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _sample_variance(values: Sequence[float]) -> float:
    if len(values) < 2:
        return 0.0
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _neighbours(values: Sequence[float]) -> float | None:
    if len(values) < 3:
        return None
    before, now = values[:-1], values[1:]
    means = _mean(before), _mean(now)
    pairs = [(a - means[0], b - means[1]) for a, b in zip(before, now, strict=True)]
    spread = math.sqrt(math.fsum(a * a for a, _ in pairs) * math.fsum(b * b for _, b in pairs))
    return math.fsum(a * b for a, b in pairs) / spread if spread else None
