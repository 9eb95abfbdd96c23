"""The benchmark tables against the model's own histograms and plain sums."""

from __future__ import annotations

import statistics
from collections import defaultdict

import pytest

from benchmarks._bench_run import COOL_S, STEADY_S, WARM_S
from natstui.model.bench.latency import LatencyCounts, bucket_middle_ns, merge
from tests.analysis.by_format import Record, of_kind
from tests.analysis.planted import Analysed

pytestmark = pytest.mark.spark


def reports(analysed: Analysed) -> list[Record]:
    return of_kind(analysed.first, "benchmark_report")


def steady(analysed: Analysed) -> list[Record]:
    """The reports that are no warm-up: those whose phase had come by then."""
    return reports(analysed)[WARM_S * 3 :]


def test_percentiles_are_those_of_the_merged_histogram(analysed: Analysed) -> None:
    acks = [report.latencies.ack for report in steady(analysed)]
    merged = merge(LatencyCounts(one.buckets, one.counts) for one in acks)
    rows = analysed.rows("bench_latency_summary")
    assert {(row["metric"], row["corrected"]) for row in rows} == {("ack", True), ("ack", False)}
    for row in rows:
        assert row["latencies_count"] == merged.total_count
        for name, percent in {
            "p50": 50,
            "p90": 90,
            "p99": 99,
            "p999": 99.9,
            "p9999": 99.99,
        }.items():
            expected_ns = merged.percentile_ns(percent)
            assert expected_ns is not None
            assert row[f"{name}_us"] == pytest.approx(expected_ns / 1e3)
        assert merged.max_ns is not None and merged.mean_ns is not None
        assert row["max_us"] == pytest.approx(merged.max_ns / 1e3)
        assert row["mean_us"] == pytest.approx(merged.mean_ns / 1e3)


def test_every_bucket_stands_for_the_latency_the_model_says(analysed: Analysed) -> None:
    rows = analysed.silver.bench_latency.select("bucket_id", "latency_ns").distinct().collect()
    assert all(row["latency_ns"] == bucket_middle_ns(row["bucket_id"]) for row in rows)


def test_the_steady_part_leaves_warm_up_and_cool_down_out(analysed: Analysed) -> None:
    row = next(r for r in analysed.rows("bench_steady") if r["counter"] == "sent")
    assert row["dropped_s"] == WARM_S
    assert row["duration_s"] == STEADY_S
    assert COOL_S > 0


def test_throughput_and_fairness_are_those_of_the_steady_seconds(analysed: Analysed) -> None:
    window = reports(analysed)[WARM_S * 3 : (WARM_S + STEADY_S) * 3]
    by_worker: dict[int, list[int]] = defaultdict(list)
    for report in window:
        by_worker[report.worker_id].append(report.counts.sent_msgs)
    rows = {r["worker_id"]: r for r in analysed.rows("bench_throughput") if r["counter"] == "sent"}
    for worker, values in by_worker.items():
        row = rows[worker]
        assert row["total_msgs"] == sum(values)
        assert row["mean_per_s"] == pytest.approx(statistics.fmean(values))
        assert row["p50_per_s"] == pytest.approx(statistics.median(values))
        edges = statistics.quantiles(values, n=20, method="inclusive")
        assert row["p5_per_s"] == pytest.approx(edges[0])
        assert row["p95_per_s"] == pytest.approx(edges[-1])
        assert (row["min_per_s"], row["max_per_s"]) == (min(values), max(values))
    totals = [sum(values) for values in by_worker.values()]
    jain = sum(totals) ** 2 / (len(totals) * sum(total**2 for total in totals))
    assert rows[None]["fairness_ratio"] == pytest.approx(jain)
    assert rows[None]["total_msgs"] == sum(totals)


def test_the_account_sums_the_reports_and_closes(analysed: Analysed) -> None:
    (row,) = analysed.rows("bench_account")
    counts = [report.counts for report in reports(analysed)]
    assert row["sent_msgs"] == sum(c.sent_msgs for c in counts)
    assert row["acked_msgs"] == sum(c.acked_msgs for c in counts)
    assert row["unanswered_msgs"] == sum(c.unanswered_msgs for c in counts) > 0
    assert (row["unaccounted_msgs"], row["lost_msgs"], row["closes"]) == (0, 0, True)
    (finished,) = of_kind(analysed.first, "benchmark_finished")
    assert row["sent_msgs"] == finished.result.accounting.sent_msgs


def test_the_load_curve_has_ten_levels_of_rising_load(analysed: Analysed) -> None:
    rows = sorted(analysed.rows("bench_knee"), key=lambda row: row["level"])
    assert [row["level"] for row in rows] == list(range(1, 11))
    loads = [row["load_per_s"] for row in rows]
    assert loads == sorted(loads)
    # Its latency does not depend on the load, so there is no knee to tell.
    assert not any(row["knee"] for row in rows)
