"""Stamps, digits, seen sets and buckets: arrays say what single values say."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from natstui.bench.job.digits import read_digits, write_digits
from natstui.bench.job.seen import Seen, SeenSeqs, union
from natstui.bench.job.stamps import StampPlace, place_for, read_stamps, write_stamps
from natstui.bench.job.tally import Recorder, buckets_of
from natstui.model.bench import latency


@given(st.lists(st.integers(0, 10**18), min_size=1))
def test_digits_come_back(numbers: list[int]) -> None:
    columns = np.zeros((len(numbers), 19), np.uint8)
    write_digits(columns, np.array(numbers))
    assert read_digits(columns).tolist() == numbers
    assert bytes(columns[0]) == b"%019d" % numbers[0]


@pytest.mark.parametrize("place", [StampPlace(0, 24), StampPlace(6, 24, as_hex=True)])
def test_a_stamp_comes_back(place: StampPlace) -> None:
    payloads = np.zeros((3, 128), np.uint8)
    write_stamps(payloads, place, np.array([5, 6, 2**62]), 30_000, np.array([0, 9, 2**47]), 77)
    stamps = read_stamps(payloads, place)
    assert stamps is not None
    assert stamps.due_ns.tolist() == [5, 6, 2**62]
    assert stamps.publisher.tolist() == [30_000] * 3
    assert stamps.seq.tolist() == [0, 9, 2**47]
    assert stamps.sent_ns is not None
    assert stamps.sent_ns.tolist() == [77] * 3


def test_a_small_payload_has_a_short_stamp_or_none() -> None:
    assert [place_for(size).length for size in (0, 15, 16, 23, 24)] == [0, 0, 16, 16, 24]
    payloads = np.zeros((1, 16), np.uint8)
    write_stamps(payloads, place_for(16), np.array([5]), 1, np.array([2]), 77)
    stamps = read_stamps(payloads, place_for(16))
    assert stamps is not None
    assert (stamps.due_ns[0], stamps.sent_ns) == (5, None)


@given(st.lists(st.lists(st.integers(0, 200_000), min_size=1)))
def test_a_seen_set_is_a_set(batches: list[list[int]]) -> None:
    seen, truth = SeenSeqs(), set()
    for batch in batches:
        assert seen.add(np.array(batch)) == len(set(batch) - truth)
        truth |= set(batch)
    assert SeenSeqs.load(seen.dump()).seen_count == len(truth)
    assert seen.missing_below(100_000) == len(set(range(100_000)) - truth)


def test_full_chunks_are_kept_as_a_mark_and_repeats_in_them_are_found() -> None:
    seen = SeenSeqs()
    assert seen.add(np.arange(200_000)) == 200_000
    assert seen.add(np.arange(100_000, 100_010)) == 0
    assert len(seen.dump()) == 4
    assert seen.missing_below(200_001) == 1


def test_repeats_and_wrong_order_are_found_by_publisher() -> None:
    seen = Seen()
    assert seen.add(np.array([0, 1, 0]), np.array([0, 0, 1])) == (3, 0)
    assert seen.add(np.array([0, 0, 0]), np.array([3, 2, 1])) == (2, 2)
    together = union([seen.dump(), {"0": {}}])
    assert (together[0].seen_count, together[1].seen_count) == (4, 1)


@given(st.lists(st.integers(-5, 2**52), min_size=1))
def test_array_buckets_are_those_of_the_model(values: list[int]) -> None:
    assert buckets_of(np.array(values)).tolist() == [latency.bucket_of(v) for v in values]


def test_a_recorder_hands_out_deltas() -> None:
    recorder = Recorder()
    recorder.add(np.array([1, 1, 5_000_000]))
    assert recorder.take() == latency.from_latencies([1, 1, 5_000_000])
    assert recorder.take() == latency.LatencyCounts()
