"""Answers 1, 2 and 6 against sums made in plain Python over the recorded lines."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from typing import Any

import pytest

from benchmarks._fleet import START_AT_US
from natstui.analysis.gold.capacity import CAPACITY, find_recreated_streams
from tests.analysis.by_format import consumer_series, stream_series
from tests.analysis.planted import FIRST, GAP, INTERVAL_S, TICKS, Analysed

pytestmark = pytest.mark.spark

BUCKET_US = 60_000_000
LARGEST_PAUSE_US = 5_000_000


def bucket(at_us: int) -> int:
    return at_us - at_us % BUCKET_US


def watched(before: dict[str, Any], now: dict[str, Any], counters: tuple[str, ...]) -> bool:
    """A change counts when there is no gap between, and no counter went backwards."""
    pause_us = now["sampled_mono_us"] - before["sampled_mono_us"]
    return pause_us < LARGEST_PAUSE_US and all(now[name] >= before[name] for name in counters)


def test_stream_rates_are_the_changes_of_the_sequence_over_the_time_watched(
    analysed: Analysed,
) -> None:
    expected: dict[Any, list[float]] = defaultdict(lambda: [0, 0.0])
    for identity, samples in stream_series(analysed.polls).items():
        expected[*identity, bucket(samples[0]["at_us"])]
        for before, now in itertools.pairwise(samples):
            cell = expected[*identity, bucket(now["at_us"])]
            if watched(before, now, ("last_seq",)):
                cell[0] += now["last_seq"] - before["last_seq"]
                cell[1] += (now["sampled_mono_us"] - before["sampled_mono_us"]) / 1e6
    found = {
        (r["stream"], r["created_at_us"], r["bucket_at_us"]): r
        for r in analysed.rows("stream_rate")
    }
    assert found.keys() == expected.keys()
    for key, (msgs, covered_s) in expected.items():
        assert found[key]["covered_s"] == pytest.approx(covered_s)
        assert (found[key]["published_msgs"] or 0) == msgs
        rate = found[key]["published_per_s"]
        assert rate == (pytest.approx(msgs / covered_s) if covered_s else None)


def test_consumer_rates_and_repeats_are_those_of_the_recorded_counters(
    analysed: Analysed,
) -> None:
    counters = ("delivered_consumer_seq", "ack_floor_stream_seq")
    expected: dict[Any, list[float]] = defaultdict(lambda: [0, 0, 0, 0.0, 0])
    for identity, samples in consumer_series(analysed.polls).items():
        expected[*identity, bucket(samples[0]["at_us"])]
        for before, now in itertools.pairwise(samples):
            cell = expected[*identity, bucket(now["at_us"])]
            if not watched(before, now, counters):
                backwards = any(now[name] < before[name] for name in counters)
                cell[4] += backwards
                continue
            delivered = now["delivered_consumer_seq"] - before["delivered_consumer_seq"]
            fresh = now["delivered_stream_seq"] - before["delivered_stream_seq"]
            cell[0] += delivered
            cell[1] += now["ack_floor_consumer_seq"] - before["ack_floor_consumer_seq"]
            cell[2] += max(delivered - fresh, 0)
            cell[3] += (now["sampled_mono_us"] - before["sampled_mono_us"]) / 1e6
    found = {
        (r["stream"], r["consumer"], r["created_at_us"], r["bucket_at_us"]): r
        for r in analysed.rows("consumer_rate")
    }
    assert found.keys() == expected.keys()
    for key, (delivered, settled, repeated, covered_s, resets) in expected.items():
        row = found[key]
        assert [row["delivered_msgs"] or 0, row["settled_msgs"] or 0] == [delivered, settled]
        assert [row["repeated_msgs"] or 0, row["resets_count"]] == [repeated, resets]
        rate = row["delivered_per_s"]
        assert rate == (pytest.approx(delivered / covered_s) if covered_s else None)


def test_a_gap_is_no_time_watched_and_a_reset_is_no_negative_rate(analysed: Analysed) -> None:
    rows = analysed.rows("stream_rate")
    whole = {
        (r["stream"], r["created_at_us"]): sum(
            o["covered_s"] for o in rows if o["series_id"] == r["series_id"]
        )
        for r in rows
    }
    # What is between the first poll and the last, less the gap and the pause on its edge.
    ticks = TICKS - 1 - (GAP[1] - GAP[0] + 1)
    assert max(whole.values()) == pytest.approx(ticks * INTERVAL_S)
    consumers = analysed.rows("consumer_rate")
    assert all((row["delivered_msgs"] or 0) >= 0 for row in consumers)
    reset = [r for r in consumers if r["resets_count"]]
    assert [(r["consumer"], r["resets_count"]) for r in reset] == [("report-0014", 1)]


def test_a_recreated_stream_is_another_stream(analysed: Analysed) -> None:
    made = {r["created_at_us"] for r in analysed.rows("capacity") if r["stream"] == "JOBS-012"}
    assert len(made) == 2
    assert START_AT_US + 200_000_000 in made
    told = find_recreated_streams(analysed.answers.frame(CAPACITY.name)).collect()
    assert [(row["session"], row["subject"]) for row in told] == [(FIRST, "JOBS-012")]


def test_lag_is_the_slope_of_the_mean_and_the_time_to_drain_follows_from_it(
    analysed: Analysed,
) -> None:
    found = {(r["stream"], r["consumer"], r["created_at_us"]): r for r in analysed.rows("lag")}
    for identity, samples in consumer_series(analysed.polls).items():
        means: dict[int, list[int]] = defaultdict(list)
        ends: dict[int, int] = {}
        covered_us: dict[int, int] = defaultdict(int)
        for before, now in zip([None, *samples], samples, strict=False):
            at = bucket(now["at_us"])
            means[at].append(now["pending_msgs"])
            ends[at] = now["at_us"]
            if before and watched(before, now, ("delivered_consumer_seq", "ack_floor_stream_seq")):
                covered_us[at] += now["sampled_mono_us"] - before["sampled_mono_us"]
        points = [
            ((ends[at] - covered_us[at] / 2) / 60e6, statistics.fmean(values))
            for at, values in means.items()
        ]
        row = found[identity]
        if len(points) > 1:
            slope = statistics.linear_regression(*zip(*points, strict=True)).slope
            assert row["growth_per_min"] == pytest.approx(slope, rel=1e-6, abs=1e-6)
        last = samples[-1]["pending_msgs"]
        assert row["pending_last_msgs"] == last
        assert row["pending_max_msgs"] == max(s["pending_msgs"] for s in samples)
        assert row["never_caught_up"] == all(s["pending_msgs"] for s in samples)
        first_at = [*means][-1] - 5 * 60_000_000
        recent = [p for p, at in zip(points, means, strict=True) if at > first_at]
        pace = statistics.linear_regression(*zip(*recent, strict=True)).slope
        expected = 0.0 if not last else last / (-pace / 60) if pace < 0 else None
        assert row["drain_s"] == (expected if expected is None else pytest.approx(expected))


def test_the_consumer_that_never_caught_up_is_the_slow_one(analysed: Analysed) -> None:
    never = [r["consumer"] for r in analysed.rows("lag") if r["never_caught_up"]]
    assert never == ["archiver-0011"]


def test_periods_of_lag_are_the_runs_of_samples_with_messages_pending(
    analysed: Analysed,
) -> None:
    expected = set()
    for identity, samples in consumer_series(analysed.polls).items():
        run: list[dict[str, Any]] = []
        for before, sample in zip([None, *samples], [*samples, None], strict=True):
            # Of the time of a gap nothing is known.
            is_after_gap = before and sample and not watched(before, sample, ())
            if run and (sample is None or is_after_gap or not sample["pending_msgs"]):
                if run[-1]["at_us"] - run[0]["at_us"] >= 10_000_000:
                    most = max(s["pending_msgs"] for s in run)
                    open_end = run[-1] is samples[-1]
                    expected.add((*identity, run[0]["at_us"], run[-1]["at_us"], most, open_end))
                run = []
            if sample is not None and sample["pending_msgs"]:
                run.append(sample)
    keys = ("stream", "consumer", "created_at_us", "start_at_us", "end_at_us",
            "pending_max_msgs", "open")  # fmt: skip
    assert {tuple(r[k] for k in keys) for r in analysed.rows("lag_period")} == expected
    assert expected


def test_capacity_is_growth_over_the_time_watched_and_the_room_left(analysed: Analysed) -> None:
    found = {(r["stream"], r["created_at_us"]): r for r in analysed.rows("capacity")}
    for number, (identity, samples) in enumerate(stream_series(analysed.polls).items()):
        grown_bytes, covered_s = 0, 0.0
        for before, now in itertools.pairwise(samples):
            if watched(before, now, ("last_seq",)):
                grown_bytes += now["stored_bytes"] - before["stored_bytes"]
                covered_s += (now["sampled_mono_us"] - before["sampled_mono_us"]) / 1e6
        row, last = found[identity], samples[-1]
        growth = grown_bytes / covered_s
        assert row["growth_bytes_per_s"] == pytest.approx(growth)
        assert row["message_bytes"] == pytest.approx(last["stored_bytes"] / last["stored_msgs"])
        if row["max_bytes"] is not None:
            left = (2_000_000_000 - last["stored_bytes"]) / growth
            # The pace is that of the newest third, which the oracle works out exactly; it is near
            # the mean here. Further ahead than a hundred times what was watched nothing is told.
            told = pytest.approx(max(left, 0.0), rel=0.1) if left <= 100 * covered_s else None
            assert row["bytes_full_in_s"] == told
        assert (row["max_bytes"] is not None) == (number < 15 and number % 3 == 0)


def test_the_busiest_bucket_is_the_one_with_the_highest_sum_of_rates(analysed: Analysed) -> None:
    sums: dict[int, float] = defaultdict(float)
    for row in analysed.rows("stream_rate"):
        sums[row["bucket_at_us"]] += row["published_per_s"] or 0.0
    first = next(r for r in analysed.rows("busiest") if r["rank"] == 1)
    assert first["bucket_at_us"] == max(sums, key=lambda at: sums[at])
    assert first["published_per_s"] == pytest.approx(max(sums.values()))
