"""What the tables of benchmarks must hold, with NumPy over the reports."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from tests.analysis.by_format import Record, of_kind
from tests.session.by_document.sessions import middle_ns

Row = dict[str, Any]
COUNTERS = ("sent", "acked", "received", "acks_sent")
METRICS = ("ack", "e2e", "store", "rtt", "response", "late")
UNCORRECTED = ("ack", "e2e", "rtt")
STORING = ("js-publish-sync", "js-publish-async", "js-publish-atomic", "js-publish-fast",
           "js-request", "kv-put")  # fmt: skip
"""Patterns whose messages are stored and acked."""
SENDING = ("publish", "request", *STORING)
TAKING = ("subscribe", "js-consume", "js-fetch", "js-push", "js-ordered", "js-respond")
"""Patterns that receive what others send."""
TAKING_REPLIES = ("request", "js-request", "js-get", "js-get-batch", "kv-get")
"""Patterns that receive what they asked for."""
SUMMED = (
    "sent_msgs", "acked_msgs", "duplicate_acked_msgs", "refused_msgs", "unanswered_msgs",
    "missed_msgs", "received_msgs", "redelivered_msgs", "duplicate_msgs",
)  # fmt: skip
PERCENTS = {"p50_us": 50, "p90_us": 90, "p99_us": 99, "p999_us": 99.9, "p9999_us": 99.99}


def _reports(records: list[Record]) -> dict[str, list[Record]]:
    runs = defaultdict(list)
    for record in of_kind(records, "benchmark_report"):
        runs[record.run_id].append(record)
    return runs


def patterns(records: list[Record]) -> dict[str, dict[str, str]]:
    """Return, by run and role, the pattern of a role; only for runs that ended."""
    return {
        record.run_id: {one.role: one.pattern for one in record.result.workers}
        for record in of_kind(records, "benchmark_finished")
    }


def is_summed(pattern: str, counter: str) -> bool:
    """Return whether a counter of a role is part of the sum over all roles.

    A service's replies are no load, and responses are not what others sent.
    """
    if counter == "sent":
        return pattern in SENDING
    return counter != "received" or pattern != "js-request"


def _seconds(reports: list[Record], counter: str) -> dict[str, dict[int, dict[int, int]]]:
    """Return messages by role, worker and second."""
    found: dict[str, dict[int, dict[int, int]]] = {}
    for report in reports:
        worker = found.setdefault(report.role, {}).setdefault(report.worker_id, {})
        second = report.at_us // 1_000_000
        worker[second] = worker.get(second, 0) + getattr(report.counts, f"{counter}_msgs")
    return found


def _steady(workers: dict[int, dict[int, int]]) -> tuple[int, int, int] | None:
    """Return the first second with messages, and the first and last of the steady part."""
    sums: dict[int, int] = defaultdict(int)
    for by_second in workers.values():
        for second, msgs in by_second.items():
            sums[second] += msgs
    busy = {second: msgs for second, msgs in sums.items() if msgs}
    if not busy:
        return None
    usual = float(np.median(list(busy.values())))
    full = [second for second, msgs in busy.items() if msgs >= 0.9 * usual]
    return min(busy), min(full), max(full)


def bench_steady(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = []
    for run_id, reports in _reports(records).items():
        for counter in COUNTERS:
            for role, workers in _seconds(reports, counter).items():
                if found := _steady(workers):
                    begin, first, last = found
                    rows.append(
                        {"session": session, "run_id": run_id, "role": role, "counter": counter,
                         "start_at_us": first * 1_000_000, "end_at_us": (last + 1) * 1_000_000,
                         "duration_s": float(last + 1 - first), "dropped_s": float(first - begin)}
                    )  # fmt: skip
    return rows


def bench_throughput(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows = []
    for run_id, reports in _reports(records).items():
        for counter in COUNTERS:
            for role, workers in _seconds(reports, counter).items():
                if found := _steady(workers):
                    span = range(found[1], found[2] + 1)
                    each = {w: np.array([by.get(s, 0) for s in span]) for w, by in workers.items()}
                    key = {"session": session, "run_id": run_id, "role": role, "counter": counter}
                    totals = np.array([values.sum() for values in each.values()], float)
                    squares = len(totals) * float((totals**2).sum())
                    fairness = float(totals.sum()) ** 2 / squares if squares else None
                    whole = np.sum(list(each.values()), axis=0)
                    rows.append(key | _spread(None, whole, fairness))
                    rows += [key | _spread(w, values, None) for w, values in each.items()]
    return rows


def _spread(worker_id: int | None, values: Any, fairness: float | None) -> Row:
    return {
        "worker_id": worker_id,
        "seconds_count": len(values),
        "total_msgs": int(values.sum()),
        "mean_per_s": float(values.mean()),
        **{f"p{percent}_per_s": float(np.percentile(values, percent)) for percent in (5, 50, 95)},
        "max_per_s": float(values.max()),
        "min_per_s": float(values.min()),
        "fairness_ratio": fairness,
    }


def _measured(report: Record) -> list[tuple[str, bool, Record]]:
    found = []
    for metric in METRICS:
        found.append((metric, True, getattr(report.latencies, metric)))
        if metric in UNCORRECTED:
            found.append((metric, False, getattr(report.latencies, f"{metric}_uncorrected")))
    return found


def _values_us(histogram: Record) -> list[float]:
    """Return every latency of a histogram by itself."""
    pairs = zip(histogram.buckets, histogram.counts, strict=True)
    return [middle_ns(bucket) / 1e3 for bucket, count in pairs for _ in range(count)]


def bench_latency_summary(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    phases = sorted((r.at_us, r.run_id, r.phase) for r in of_kind(records, "benchmark_phase"))
    values: dict[tuple[str, str, bool], list[float]] = defaultdict(list)
    for run_id, reports in _reports(records).items():
        for report in reports:
            entered = [p for at, run, p in phases if run == run_id and at <= report.at_us]
            if entered and entered[-1] in ("starting", "warmup", "ramp"):
                continue
            for metric, corrected, histogram in _measured(report):
                values[run_id, metric, corrected] += _values_us(histogram)
    return [
        {"session": session, "run_id": run, "metric": metric, "corrected": corrected,
         "latencies_count": len(many), "mean_us": float(np.mean(many)), "max_us": max(many),
         **{name: _percentile(many, percent) for name, percent in PERCENTS.items()}}
        for (run, metric, corrected), many in values.items() if many
    ]  # fmt: skip


def _percentile(values: list[float], percent: float) -> float:
    """Return the value that this share of all is not above: the nearest rank, no mixing."""
    return float(np.percentile(values, percent, method="inverted_cdf"))


def bench_account(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    ends = {r.run_id: r.result for r in of_kind(records, "benchmark_finished")}
    rows, known = [], patterns(records)
    for run_id, reports in _reports(records).items():
        sums = {name: sum(getattr(r.counts, name) for r in reports) for name in SUMMED}
        stored: list[Record] = []
        if roles := known.get(run_id):
            sending = [r.counts for r in reports if roles[r.role] in SENDING]
            sums["sent_msgs"] = sum(counts.sent_msgs for counts in sending)
            takers = [r.counts for r in reports if roles[r.role] in TAKING]
            takers = takers or [r.counts for r in reports if roles[r.role] in TAKING_REPLIES]
            sums["received_msgs"] = sum(counts.received_msgs for counts in takers)
            stored = [r for r in reports if roles[r.role] in STORING]
        outcomes = sum(getattr(r.counts, name) for r in stored for name in SUMMED[1:5])
        end = ends.get(run_id)
        alike = [
            sums[name] == getattr(end.accounting, name)
            for name in ("sent_msgs", "acked_msgs", "received_msgs")
            if end
        ]
        rows.append(
            {"session": session, "run_id": run_id, **sums,
             "title": end.title if end else None,
             "verdict": end.verdict if end else None,
             "lost_msgs": end.accounting.lost_msgs if end else None,
             "unaccounted_msgs": sum(r.counts.sent_msgs for r in stored) - outcomes
             if stored else None,
             "closes": all(alike) if end else None}
        )  # fmt: skip
    return rows


def bench_knee(session: str, records: list[Record]) -> list[Row]:
    """Return the rows of a session."""
    rows, known = [], patterns(records)
    for run_id, reports in _reports(records).items():
        load: dict[int, int] = defaultdict(int)
        roles = known.get(run_id)
        for report in reports:
            if roles is None or roles[report.role] in SENDING:
                load[report.at_us // 1_000_000] += report.counts.sent_msgs
        order = sorted((msgs, second) for second, msgs in load.items() if msgs)
        # The first levels take one more when it does not come out even, as SQL's ntile.
        parts = [part.tolist() for part in np.array_split(np.array(order), 10)]
        for metric in METRICS:
            levels = [_level(part, reports, metric) for part in parts]
            if not all(p99 for _, p99 in levels):
                continue
            limit = 3 * min(p99 for _, p99 in levels)
            last = max(place for place, (_, p99) in enumerate(levels, 1) if p99 <= limit)
            loads = [mean for mean, _ in levels[2:]]
            rises = max(loads) >= 1.5 * min(loads)
            rows += [
                {"session": session, "run_id": run_id, "metric": metric, "level": place,
                 "load_per_s": mean, "p99_us": p99,
                 "knee": rises and place == last < 10}
                for place, (mean, p99) in enumerate(levels, 1)
            ]  # fmt: skip
    return rows


def _level(part: list[list[int]], reports: list[Record], metric: str) -> tuple[float, float]:
    seconds = {second for _, second in part}
    values = [
        value
        for report in reports
        if report.at_us // 1_000_000 in seconds
        for value in _values_us(getattr(report.latencies, metric))
    ]
    mean = float(np.mean([msgs for msgs, _ in part]))
    return mean, _percentile(values, 99) if values else 0.0
