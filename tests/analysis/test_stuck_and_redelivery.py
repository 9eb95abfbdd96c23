"""Answers 3, 4, 5 and 9: the planted faults are found, with their times, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from benchmarks._fleet import START_AT_US
from natstui.analysis.gold.shared.harm import MEANING_BY_HARM
from tests.analysis.by_format import consumer_series, of_kind
from tests.analysis.planted import GAP, INTERVAL_S, Analysed

pytestmark = pytest.mark.spark

STUCK_AFTER_US = 30_000_000


def tick(at_us: int) -> int:
    """The poll of the simulation at which something happened."""
    return round((at_us - START_AT_US) / 1e6 / INTERVAL_S)


def stuck_runs(samples: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Runs of samples with messages outstanding at an unmoved floor."""
    runs: list[list[dict[str, Any]]] = []
    for before, now in zip([None, *samples], samples, strict=False):
        outstanding = now["pending_msgs"] > 0 or now["ack_pending_msgs"] > 0
        same = (
            before is not None
            and runs
            and runs[-1]
            and runs[-1][-1] is before
            and before["ack_floor_stream_seq"] == now["ack_floor_stream_seq"]
        )
        if outstanding and same:
            runs[-1].append(now)
        elif outstanding:
            runs.append([now])
    times = [(run[0]["at_us"], run[-1]["at_us"]) for run in runs]
    return [(start, end) for start, end in times if end - start >= STUCK_AFTER_US]


def test_stretches_without_progress_are_those_of_the_recorded_floors(analysed: Analysed) -> None:
    expected = {
        (*identity, start, end)
        for identity, samples in consumer_series(analysed.polls).items()
        for start, end in stuck_runs(samples)
    }
    keys = ("stream", "consumer", "created_at_us", "start_at_us", "end_at_us")
    assert {tuple(row[key] for key in keys) for row in analysed.rows("stuck")} == expected


def test_each_planted_fault_is_found_with_its_times_and_its_cause(analysed: Analysed) -> None:
    found = {row["consumer"]: row for row in analysed.rows("stuck")}
    # The gap of the recording hides the end of the first one.
    planted = {
        "archiver-0003": ("max ack pending reached", 50, GAP[1]),
        "search-0005": ("no open pulls", 60, 150),
        "webhook-0007": ("paused", 25, 100),
        "mailer-0001": ("no leader", 75, 130),
        "mailer-0009": ("poison message", 30, 70),
    }
    assert found.keys() == planted.keys()
    for consumer, (cause, start, end) in planted.items():
        row = found[consumer]
        assert row["cause"] == cause
        assert abs(tick(row["start_at_us"]) - start) <= 1
        assert abs(tick(row["end_at_us"]) - end) <= 1 or end == GAP[1]
    assert found["archiver-0003"]["ack_pending_max_msgs"] == 1000


def test_the_second_session_without_faults_has_none(analysed: Analysed) -> None:
    second = analysed.folders[1].name
    assert analysed.rows("stuck", second) == []
    assert analysed.rows("poison", second) == []
    assert analysed.rows("availability", second) == []


def test_redelivery_sums_are_those_of_the_recorded_counters(analysed: Analysed) -> None:
    found = {
        (r["stream"], r["consumer"], r["created_at_us"]): r for r in analysed.rows("redelivery")
    }
    naks: dict[str, int] = defaultdict(int)
    for record in of_kind(analysed.first, "advisory"):
        if record.type == "nak":
            naks[str(record.consumer)] += 1
    rates: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    for row in analysed.rows("consumer_rate"):
        cell = rates[row["stream"], row["consumer"], row["created_at_us"]]
        cell[0] += row["delivered_msgs"] or 0
        cell[1] += row["repeated_msgs"] or 0
    for identity, (delivered, repeated) in rates.items():
        row = found[identity]
        assert (row["delivered_msgs"], row["repeated_msgs"]) == (delivered, repeated)
        share = repeated / delivered if delivered else None
        assert row["repeated_share"] == (share if share is None else pytest.approx(share))
        assert row["naks_count"] == naks[identity[1]]


def test_the_poison_message_is_told_with_its_sequence(analysed: Analysed) -> None:
    advisories = of_kind(analysed.first, "advisory")
    told = [record for record in advisories if record.consumer == "mailer-0009"]
    (row,) = analysed.rows("poison")
    assert row["consumer"] == "mailer-0009"
    assert f'"stream_seq": {row["stream_seq"]}' in told[0].body_json
    assert (row["given_up"], row["acked"]) == (True, False)
    assert row["naks_count"] == len(told) - 1
    assert row["deliveries_count"] == 20
    stuck = next(r for r in analysed.rows("stuck") if r["consumer"] == "mailer-0009")
    assert stuck["ack_floor_stream_seq"] + 1 == row["stream_seq"]


def test_hot_spots_are_the_buckets_of_the_poison(analysed: Analysed) -> None:
    rows = analysed.rows("redelivery_hot_spot")
    assert {row["consumer"] for row in rows} == {"mailer-0009"}
    assert sum(row["naks_count"] + row["given_up_count"] for row in rows) == 20


def test_gaps_elections_absent_leaders_and_late_replicas_are_told(analysed: Analysed) -> None:
    rows = {(r["kind"], r["stream"]): r for r in analysed.rows("availability")}
    assert rows.keys() == {
        ("gap", None),
        ("unavailable", None),
        ("leader_change", "ORDERS-000"),
        ("leader_absent", "EVENTS-001"),
        ("replica_lag", "EVENTS-001"),
    }
    gap = rows["gap", None]
    assert (tick(gap["start_at_us"]), tick(gap["end_at_us"])) == (GAP[0] - 1, GAP[1])
    assert rows["unavailable", None]["duration_s"] == (GAP[1] - GAP[0] - 1) * INTERVAL_S
    assert tick(rows["leader_change", "ORDERS-000"]["start_at_us"]) == 85
    absent = rows["leader_absent", "EVENTS-001"]
    assert (tick(absent["start_at_us"]), tick(absent["end_at_us"])) == (75, 129)
    late = rows["replica_lag", "EVENTS-001"]
    assert (tick(late["start_at_us"]), tick(late["end_at_us"])) == (10, 29)
    assert (late["value"], late["detail"]) == (5000, "up to 5000 entries behind")
    assert absent["value"] is None


def test_the_verdict_tells_ten_things_in_order_and_each_has_evidence(analysed: Analysed) -> None:
    rows = analysed.gold["verdict"]
    assert sorted(row["rank"] for row in rows) == list(range(1, 11))
    rows = sorted(rows, key=lambda row: row["rank"])
    order = [(list(MEANING_BY_HARM).index(row["harm"]), -row["weight"]) for row in rows]
    assert order == sorted(order)
    assert all(row["sentence"] and row["subject"] and row["advice"] for row in rows)
    kinds = {row["kind"] for row in rows}
    assert {"stuck", "availability", "comparison"} <= kinds
    # What else was found of the same stream or consumer is told beside it.
    subjects = [(row["session"], row["subject"]) for row in rows if " > " in row["subject"]]
    assert len(subjects) == len({*subjects})
    assert any("also: " in row["evidence"] for row in rows)
