"""Stamps, digits, seen sets and buckets: arrays say what single values say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natstui.bench.job.digits import read_digits, write_digits
from natstui.bench.job.sequences import (
    FOREIGN_PUBLISHER,
    ReceivedSequences,
    SequenceSet,
    merge_dumps,
)
from natstui.bench.job.stamps import (
    StampLayout,
    binary_stamp_layout,
    layout_of_run,
    read_stamps,
    write_stamps,
)
from natstui.bench.job.tally import LatencyHistogram, Tally, buckets_of
from natstui.model.bench import latency


@given(st.lists(st.integers(0, 10**18), min_size=1))
def test_digits_come_back(numbers: list[int]) -> None:
    columns = np.zeros((len(numbers), 19), np.uint8)
    write_digits(columns, np.array(numbers))
    assert read_digits(columns).tolist() == numbers
    assert bytes(columns[0]) == b"%019d" % numbers[0]


LONG_UP_NS = 10**17
"""CLOCK_MONOTONIC of a machine that has been up for three years."""
RUNS = [f"{number:x}" for number in range(300)]


@pytest.mark.parametrize("layout", [StampLayout(0, 24), StampLayout(6, 24, is_hex=True)])
@pytest.mark.parametrize("run_id", RUNS[:8])
def test_a_stamp_comes_back(layout: StampLayout, run_id: str) -> None:
    payloads = np.zeros((3, 128), np.uint8)
    layout = layout_of_run(layout, run_id, LONG_UP_NS)
    due_ns, seqs = LONG_UP_NS + np.array([0, 6, 2**52 - 1]), np.array([0, 9, 2**40 - 1])
    write_stamps(payloads, layout, due_ns, 4095, seqs, 77)
    stamps = read_stamps(payloads, layout)
    assert stamps is not None and stamps.own_run_mask is None
    assert stamps.due_ns.tolist() == due_ns.tolist()
    assert stamps.publisher.tolist() == [4095] * 3
    assert stamps.seq.tolist() == [0, 9, 2**40 - 1]
    one = layout.pack(int(due_ns[2]), 4095, 2**40 - 1, 77)
    assert payloads[2, layout.offset : layout.offset + layout.width].tobytes() == one
    assert stamps.sent_ns is not None
    assert stamps.sent_ns.tolist() == [77] * 3


@pytest.mark.parametrize("size", [16, 24])
def test_stamps_of_every_other_run_and_no_stamp_at_all_are_foreign(size: int) -> None:
    places = [layout_of_run(binary_stamp_layout(size), run_id, LONG_UP_NS) for run_id in RUNS]
    payloads = np.zeros((len(RUNS) + 2, size), np.uint8)
    times, seqs = np.array([LONG_UP_NS + 5]), np.array([7])
    for row, layout in enumerate(places):
        write_stamps(payloads[row : row + 1], layout, times, 1, seqs, 77)
    payloads[-1] = 0xFF
    # What was read from a socket cannot be written to.
    came = np.frombuffer(payloads.tobytes(), np.uint8).reshape(payloads.shape)
    for row, layout in enumerate(places):
        stamps = read_stamps(came, layout)
        assert stamps is not None and stamps.own_run_mask is not None
        assert np.flatnonzero(stamps.own_run_mask).tolist() == [row]
        assert (stamps.due_ns.tolist(), stamps.seq.tolist()) == ([LONG_UP_NS + 5], [7])


def test_foreign_messages_are_counted_and_are_in_no_other_count() -> None:
    own, other = (layout_of_run(binary_stamp_layout(24), run_id, 0) for run_id in ("a", "b"))
    payloads = np.zeros((5, 24), np.uint8)
    write_stamps(payloads[:2], own, np.array([1, 2]), 0, np.array([0, 1]), 3)
    write_stamps(payloads[2:], other, np.array([1, 2, 2]), 0, np.array([0, 1, 1]), 3)
    tally = Tally()
    tally.steady_ns = 0
    tally.count_received(payloads, own, 10, np.array([1, 2, 3, 4, 4]))
    tally.count_received(payloads[2:], own, 11, np.array([3, 4, 4]))
    tally.count_received(payloads[:, :8], own, 12)
    counts, latencies = tally.pop_new()
    assert (counts.received_msgs, counts.received_bytes, counts.foreign_msgs) == (2, 48, 11)
    assert (counts.duplicate_msgs, counts.steady_received_msgs) == (0, 2)
    assert latencies.e2e.total_count == 2
    seen = tally.received_sequences.sequences_by_publisher
    assert (seen[0].count, seen[FOREIGN_PUBLISHER].count) == (2, 2)


def test_a_small_payload_has_a_short_stamp_or_none() -> None:
    assert [binary_stamp_layout(size).length for size in (0, 15, 16, 23, 24)] == [0, 0, 16, 16, 24]
    payloads = np.zeros((1, 16), np.uint8)
    write_stamps(payloads, binary_stamp_layout(16), np.array([5]), 1, np.array([2]), 77)
    stamps = read_stamps(payloads, binary_stamp_layout(16))
    assert stamps is not None
    assert (stamps.due_ns[0], stamps.sent_ns) == (5, None)


@settings(max_examples=15)
@given(st.lists(st.lists(st.integers(0, 200_000), min_size=1)))
def test_a_seen_set_is_a_set(batches: list[list[int]]) -> None:
    seen, truth = SequenceSet(), set()
    for batch in batches:
        assert seen.add(np.array(batch)) == len(set(batch) - truth)
        truth |= set(batch)
    assert SequenceSet.load(seen.dump()).count == len(truth)
    assert seen.missing_below(100_000) == len(set(range(100_000)) - truth)


def test_full_chunks_are_kept_as_a_mark_and_repeats_in_them_are_found() -> None:
    seen = SequenceSet()
    assert seen.add(np.arange(200_000)) == 200_000
    assert seen.add(np.arange(100_000, 100_010)) == 0
    assert len(seen.dump()) == 4
    assert seen.missing_below(200_001) == 1


def test_repeats_and_wrong_order_are_found_by_publisher() -> None:
    seen = ReceivedSequences()
    assert seen.add(np.array([0, 1, 0]), np.array([0, 0, 1])) == (3, 0)
    assert seen.add(np.array([0, 0, 0]), np.array([3, 2, 1])) == (2, 2)
    together = merge_dumps([seen.dump(), {"0": {}}])
    assert (together[0].count, together[1].count) == (4, 1)


@given(st.lists(st.integers(-5, 2**52), min_size=1))
def test_array_buckets_are_those_of_the_model(values: list[int]) -> None:
    assert buckets_of(np.array(values)).tolist() == [latency.bucket_of(v) for v in values]


def test_a_recorder_hands_out_deltas() -> None:
    recorder = LatencyHistogram()
    recorder.add(np.array([1, 1, 5_000_000]))
    assert recorder.pop_new() == latency.from_latencies([1, 1, 5_000_000])
    assert recorder.pop_new() == latency.LatencyCounts()


def test_what_came_before_it_is_steady_counts_and_is_no_part_of_the_rate() -> None:
    tally = Tally()
    tally.steady_ns = 100
    tally.count_unstamped(2, 10, 99)
    assert (tally.count("received_msgs"), tally.count("received_bytes")) == (2, 20)
    assert (tally.count("steady_received_msgs"), tally.last_received_ns) == (0, 0)
    tally.count_unstamped(3, 10, 100)
    assert (tally.count("received_msgs"), tally.count("received_bytes")) == (5, 50)
    assert tally.count("steady_received_msgs") == 3
    assert (tally.count("steady_received_bytes"), tally.last_received_ns) == (30, 100)
