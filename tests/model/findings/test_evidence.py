"""Announcements are joined to consumer and message, and counted right in bounded memory."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natstui.lines import decode_record, encode_record
from natstui.model.live.advisory_counts import MAX_MESSAGES, MessageCount, MessageCounts
from natstui.model.live.evidence import (
    MAX_ASSETS_WITH_EVIDENCE,
    evidence_from_record,
    evidence_to_record,
)
from natstui.model.live.known_rows import Roster
from natstui.model.live.state import EVENTS_KEPT, State, apply_records
from natstui.model.records.evidence import AdvisoriesCounted, BatchCounts
from natstui.model.records.record import AckSample, Advisory
from tests.model.findings.life import Life, at_us


def advisory(
    kind: str, seq: int, deliveries: int = 1, at_s: int = 0, consumer: str = "C"
) -> Advisory:
    body = json.dumps({"stream_seq": seq, "deliveries": deliveries})
    return Advisory(1_000_000 * (at_s + 1), kind, "S", consumer, "", body)


@pytest.mark.slow
def test_every_give_up_is_counted_though_the_list_of_events_is_bounded() -> None:
    records = [advisory("max_deliver", seq) for seq in range(1, EVENTS_KEPT + 512)]
    state = apply_records(State(), records)
    one_by_one = apply_records(State(), records[: EVENTS_KEPT - 200])
    for record in records[EVENTS_KEPT - 200 :]:
        one_by_one = one_by_one.after(record)
    assert len(state.recent_events) == EVENTS_KEPT
    assert state.evidence.entries["S", "C"].give_ups.total_count == EVENTS_KEPT + 511
    assert state.evidence == one_by_one.evidence


def test_a_new_consumer_keeps_its_counts_if_its_server_is_ahead() -> None:
    life = Life({"max_deliver_count": 5})
    life.is_there = False
    life.polls(3)
    life.is_there = True
    life.advise("max_deliver", 1, 5)
    life.poll(created_at_us=at_us(life.second + 5), redelivered_msgs=1)
    assert life.state.evidence.entries["S", "C"].give_ups.total_count == 1


def test_counts_of_a_deleted_consumer_are_dropped_before_a_new_one_has_its_name() -> None:
    life = Life({"max_deliver_count": 5})
    life.polls(2)
    life.advise("max_deliver", 1, 5)
    life.is_there = False
    life.polls(2)
    life.is_there = True
    life.poll(created_at_us=at_us(life.second - 100))
    assert not life.state.evidence.entries


class _KeyCountingHashes(tuple[str | int, ...]):
    __slots__ = ()
    hashed_count = 0

    def __hash__(self) -> int:
        type(self).hashed_count += 1
        return super().__hash__()


def test_rows_without_advisories_cost_nothing_when_a_consumer_comes_or_goes() -> None:
    evidence = apply_records(State(), [advisory("nak", 1)]).evidence
    keys = tuple(_KeyCountingHashes(("S", name, 7)) for name in ("C", *map(str, range(1_000))))
    before, after = Roster(keys), Roster(keys[:-1])
    assert len(before.row_of) == len(after.row_of) + 1
    _KeyCountingHashes.hashed_count = 0
    kept = evidence.without_recreated(before, after)
    assert kept.entries == evidence.entries
    assert _KeyCountingHashes.hashed_count == 0


@given(st.lists(st.integers(1, 300), max_size=2000), st.integers(1, 50))
def test_no_count_of_a_message_is_too_low_or_further_off_than_its_error(
    told: list[int], together: int
) -> None:
    counts, true = MessageCounts(), Counter(told)
    for start in range(0, len(told), together):
        part = Counter(told[start : start + together])
        named = [MessageCount(seq, count) for seq, count in part.most_common(MAX_MESSAGES)]
        counts = counts.after(start + 1, named, sum(part.values()))
    assert counts.total_count == len(told) and len(counts.messages) <= MAX_MESSAGES
    for one in counts.messages:
        assert one.said_count - one.error_count <= true[one.stream_seq] <= one.said_count
    seen = {one.stream_seq for one in counts.messages}
    most = [seq for seq, count in true.items() if count > len(told) / MAX_MESSAGES]
    assert together > 1 or set(most) <= seen


def test_a_storm_counted_in_the_engine_adds_up_with_what_came_one_by_one() -> None:
    state = apply_records(State(), [advisory("nak", 7, n) for n in range(1, 501)])
    many = (MessageCount(7, 300, 0, 800), MessageCount(9, 20, 0, 3))
    state = state.after(AdvisoriesCounted(2_000_000, "nak", "S", "C", 320, many))
    naks = state.evidence.entries["S", "C"].naks
    assert naks.total_count == 820
    assert naks.most_frequent()[0] == MessageCount(7, 800, 0, 800)
    assert naks.most_frequent()[1] == MessageCount(9, 20, 0, 3)


def test_what_is_made_again_under_a_name_begins_without_evidence() -> None:
    state = apply_records(State(), [advisory("nak", 1), advisory("nak", 2, consumer="D")])
    deleted = Advisory(5, "consumer_action", "S", "C", "", '{"action": "delete"}')
    state = state.after(deleted)
    assert set(state.evidence.entries) == {("S", "D"), ("S", "")}
    # That consumers come and go is said of their stream.
    assert state.evidence.entries["S", ""].deleted_at_us == (5,)
    state = state.after(Advisory(6, "stream_action", "S", None, "", '{"action": "create"}'))
    assert not state.evidence.entries


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    names = [f"C{n}" for n in range(MAX_ASSETS_WITH_EVIDENCE + 10)]
    state = apply_records(
        State(), [advisory("nak", 1, 1, n, name) for n, name in enumerate(names)]
    )
    assert len(state.evidence.entries) == MAX_ASSETS_WITH_EVIDENCE
    assert {name for _, name in state.evidence.entries} == set(names[10:])


def test_a_message_that_its_stream_removed_was_terminated_by_nobody() -> None:
    body = '{"stream_seq": 7, "deliveries": 1, "reason": "Unacknowledged message was deleted"}'
    state = apply_records(State(), [Advisory(5, "terminated", "S", "C", "", body)])
    trouble = state.evidence.entries["S", "C"]
    assert trouble.removed.sequences == (7,) and trouble.terms.total_count == 0
    told = AdvisoriesCounted(6, "removed", "S", "C", 3, ())
    trouble = state.after(told).evidence.entries["S", "C"]
    assert trouble.removed.total_count == 4 and trouble.terms.total_count == 0


def test_abandoned_batches_are_counted_with_their_newest_reason() -> None:
    records = [
        Advisory(at_us, "stream_batch_abandoned", "S", None, "", f'{{"reason": "{reason}"}}')
        for at_us, reason in ((5, "timeout"), (6, "incomplete"))
    ]
    batches = apply_records(State(), records).evidence.entries["S", ""].abandoned_batches
    assert batches == BatchCounts(2, 6, "incomplete")


def test_consumers_that_come_and_go_are_counted_for_their_stream() -> None:
    records = [
        Advisory(at_us, "consumer_action", "S", f"C{at_us}", "", f'{{"action": "{action}"}}')
        for at_us in range(100)
        for action in ("create", "delete")
    ]
    trouble = apply_records(State(), records).evidence.entries["S", ""]
    assert trouble.created_at_us == trouble.deleted_at_us == tuple(range(36, 100))


def test_text_that_is_no_json_is_still_an_announcement() -> None:
    state = State().after(Advisory(5, "nak", "S", "C", "", "(redacted)"))
    naks = state.evidence.entries["S", "C"].naks
    assert (naks.total_count, naks.messages) == (1, ())


def test_a_keyframe_repeats_all_evidence() -> None:
    randomly = random.Random(1)
    records = [advisory("nak", randomly.randrange(1, 90), 2, n) for n in range(500)]
    records.append(Advisory(9_000_000, "consumer_leader_elected", "S", "D", "", "{}"))
    state = apply_records(State(), records)
    told = evidence_to_record(state.evidence, 5)
    assert told is not None
    again = decode_record(encode_record(told))
    assert evidence_from_record(again) == state.evidence  # type: ignore[arg-type]
    assert State().after(again).evidence == state.evidence


def acked(life: Life, ack_s: float, deliveries: int = 1) -> AckSample:
    now_us = at_us(life.second + 0.5)
    return AckSample(now_us, "S", "C", 1, 1, deliveries, round(ack_s * 1e9))


def test_acknowledgements_near_ack_wait_are_told_until_ack_wait_is_raised() -> None:
    life = Life({"ack_wait_ns": 30_000_000_000})
    life.polls(2)
    life.add(*(acked(life, 0.1) for _ in range(980)), *(acked(life, 1.0) for _ in range(9)))
    life.poll()
    assert "NT-C29" not in life.open
    life.add(*(acked(life, 28.0) for _ in range(20)))
    life.poll()
    finding = life.open["NT-C29"]
    assert finding.text == (
        "acked after p50 100ms, p99 28s, most 28s, of 1,009 samples in "
        f"{finding.text.partition('samples in ')[2].partition(';')[0]}; ack wait is 30s"
    )
    assert abs(finding.numbers["p99_s"] - 28) < 0.3
    life.configure({"ack_wait_ns": 60_000_000_000}, {})
    life.polls(3)
    assert "NT-C29" not in life.open


def test_messages_that_come_again_and_were_not_refused_show_a_short_ack_wait() -> None:
    life = Life({"ack_wait_ns": 1_000_000_000})
    life.polls(2)
    life.add(*(acked(life, 0.5, 1 + n % 2) for n in range(20)))
    life.poll()
    assert "10 messages came again" in life.open["NT-C29"].text
    life.advise("nak", 7)
    life.polls(3)
    assert "NT-C29" not in life.open


def test_repeats_that_are_acknowledged_at_once_have_another_cause() -> None:
    life = Life({"ack_wait_ns": 30_000_000_000})
    life.polls(2)
    life.add(*(acked(life, 0.01, 2) for _ in range(50)))
    life.poll()
    assert "NT-C29" not in life.open
