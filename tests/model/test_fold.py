"""Many records at once lead to the same state as one by one."""

from __future__ import annotations

import pytest

from natstui.model.live.known_rows import Roster, RowKey
from natstui.model.live.state import ACK_SAMPLES_KEPT, EVENTS_KEPT, State, apply_records
from natstui.model.records.record import AckSample, Advisory, Noted, Record, Restored, Unavailable
from natstui.model.records.recording import ClockStepped, Gap


def events(count: int) -> list[Record]:
    """Return events of every kind, mostly those that come in rows."""
    records: list[Record] = []
    for at_us in range(1, count):
        records.append(AckSample(at_us, "S", "c", at_us, at_us, 1, 5))
        records.append(Advisory(at_us, "nak", "S", "c", "text", "{}"))
        if at_us % 50 == 0:
            records += [Unavailable(at_us, "INFO", f"reason {at_us}"), Noted(at_us, "note")]
        if at_us % 70 == 0:
            records += [Restored(at_us, "INFO"), Gap(at_us, 0, 0, "x"), ClockStepped(at_us, 1)]
    return records


@pytest.mark.slow
def test_a_row_of_events_is_folded_as_one_by_one() -> None:
    records = events(EVENTS_KEPT + 700)
    one_by_one = before = apply_records(State(), records[: EVENTS_KEPT - 300])
    rest = records[EVENTS_KEPT - 300 :]
    for record in rest:
        one_by_one = one_by_one.after(record)
    at_once = apply_records(apply_records(before, rest[:234]), rest[234:])
    assert at_once.recent_events == one_by_one.recent_events
    assert at_once.ack_samples == one_by_one.ack_samples
    assert at_once.unavailable == one_by_one.unavailable
    assert at_once.now_at_us == one_by_one.now_at_us
    assert len(at_once.recent_events) == EVENTS_KEPT
    assert len(at_once.ack_samples) == ACK_SAMPLES_KEPT


def test_a_roster_with_more_rows_knows_what_one_made_anew_does() -> None:
    keys: tuple[RowKey, ...] = (("S", "A", 1), ("T", "A", 1), ("S", "B", 2))
    for count in range(len(keys) + 1):
        before = Roster(keys[:count])
        rows_before = {name: list(rows) for name, rows in before.rows_of_stream.items()}
        more, anew = before.with_keys(keys[count:]), Roster(keys)
        assert (more.keys, more.row_of, more.rows_of_stream) == (
            anew.keys,
            anew.row_of,
            anew.rows_of_stream,
        )
        assert before.rows_of_stream == rows_before, "what others hold stays as it was"
