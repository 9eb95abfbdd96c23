"""Sampled acknowledgement times: one histogram of the newest minutes, whatever way they came."""

from __future__ import annotations

import random

from natstui.lines import decode_record, encode_record
from natstui.model.bench.latency import from_latencies
from natstui.model.live.ack_times import NO_ACKS, WINDOW_MINUTES
from natstui.model.live.evidence import evidence_from_record, evidence_to_record
from natstui.model.live.state import State, apply_records
from natstui.model.records.evidence import AcksCounted
from natstui.model.records.record import AckSample

MINUTE_US = 60_000_000


def sample(at_us: int, ack_ns: int, deliveries: int = 1) -> AckSample:
    return AckSample(at_us, "S", "C", 1, 1, deliveries, ack_ns)


def test_percentiles_are_those_of_all_samples_however_these_came() -> None:
    chance = random.Random(4)
    times_ns = [chance.randrange(10**6, 10**9) for _ in range(2000)]
    one_by_one = [sample(MINUTE_US + n, ns, 1 + n % 2) for n, ns in enumerate(times_ns[:300])]
    rest = from_latencies(times_ns[300:])
    state = apply_records(
        State(), [*one_by_one, AcksCounted(MINUTE_US + 5000, "S", "C", rest, 7, 12)]
    )
    window = state.evidence.entries["S", "C"].acks.until(MINUTE_US + 5000)
    assert window.times == from_latencies(times_ns)
    assert (window.repeated_count, window.left_out_count) == (157, 12)
    slowly = State()
    for record in one_by_one:
        slowly = slowly.after(record)
    assert slowly.evidence == apply_records(State(), one_by_one).evidence


def test_only_the_newest_minutes_are_kept_and_counted() -> None:
    times = NO_ACKS
    for minute in range(60):
        times = times.after(minute * MINUTE_US, from_latencies([minute + 1]), 0)
    assert len(times.minutes) == WINDOW_MINUTES
    assert times.until(59 * MINUTE_US).times.total_count == WINDOW_MINUTES
    assert times.until(61 * MINUTE_US).times.total_count == WINDOW_MINUTES - 2
    assert times.until(80 * MINUTE_US).times.total_count == 0


def test_what_comes_late_is_counted_and_changes_no_order() -> None:
    times = NO_ACKS.after(2 * MINUTE_US, from_latencies([5]), 0)
    times = times.after(MINUTE_US, from_latencies([6]), 1)
    assert [one.times.total_count for one in times.minutes] == [2]


def test_samples_survive_in_a_keyframe() -> None:
    state = apply_records(State(), [sample(MINUTE_US, 5), sample(MINUTE_US + 1, 70_000, 3)])
    so_far = evidence_to_record(state.evidence, MINUTE_US + 2)
    assert so_far is not None
    read = decode_record(encode_record(so_far))
    assert read == so_far
    assert evidence_from_record(so_far) == state.evidence
