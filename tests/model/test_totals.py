"""The totals of a system: what flows, what waits, how full it is, which rows stand out."""

from __future__ import annotations

from natstui.model.live.snapshot import Account
from natstui.model.live.state import State
from natstui.model.live.totals import (
    StorageUse,
    busiest_streams,
    can_read_streams,
    delivered_per_s,
    lagging_consumers,
    pending_msgs,
    storage_use,
    stored_per_s,
)
from natstui.model.records.record import Configured, Unavailable
from natstui.values import replace
from tests.model.builders import large_history, snapshot
from tests.tui.engine_records import stream_configuration


def state_of(*polls: dict[str, int], pending: tuple[int, ...] = ()) -> State:
    """Return the state after polls a second apart; each has stream → last sequence."""
    state = State()
    for at_s, poll in enumerate(polls, start=1):
        streams = [{"name": name, "last_seq": seq} for name, seq in poll.items()]
        first = next(iter(poll))
        consumers = [
            {
                "stream": first,
                "name": f"C{at}",
                "pending_msgs": count,
                "delivered_consumer_seq": at_s * 5,
            }
            for at, count in enumerate(pending)
        ]
        state = state.after(snapshot(at_s, streams, consumers))
    return state


def test_what_flows_is_the_growth_of_all_rows_a_second() -> None:
    state = state_of({"A": 0, "B": 100}, {"A": 10, "B": 104}, {"A": 30, "B": 108}, pending=(1, 2))
    stored, delivered = stored_per_s(state), delivered_per_s(state)
    assert stored.current_value == 24.0
    assert [point.value for point in stored.points] == [14.0, 24.0]
    assert delivered.current_value == 10.0
    assert pending_msgs(state).current_value == 3.0


def test_what_may_not_be_read_is_unknown_and_not_0() -> None:
    denied = Unavailable(2, "CONSUMER.LIST.B", "no permission", "$JS.API.CONSUMER.LIST.B")
    state = state_of({"A": 0, "B": 100}, pending=(3,)).after(denied)
    assert pending_msgs(state).current_value is None
    # What was known grows stale, and is shown so.
    state = state_of({"A": 0, "B": 100}, pending=(3,)).after(
        replace(denied, what="CONSUMER.LIST.A")
    )
    assert pending_msgs(state).current_value == 3.0
    nothing = State().after(snapshot(1, [], [])).after(replace(denied, what="STREAM.LIST"))
    assert (pending_msgs(nothing).current_value, can_read_streams(nothing)) == (None, False)


def test_the_total_of_rows_that_no_poll_reads_all_is_that_of_all_of_them() -> None:
    """The history is shorter than a round, so that some rows have only one poll in it."""
    history = large_history(20_010, polls_count=22, round_count=10)
    assert len(history.recent) < 10
    assert delivered_per_s(replace(State(), consumer_history=history)).current_value == 20_010


def test_a_poll_that_reads_only_new_rows_shows_no_growth() -> None:
    rows = [{"stream": "A", "name": f"c{n}", "delivered_consumer_seq": n} for n in range(3)]
    state = State()
    for at_s, poll in enumerate((rows[:1], rows[1:2], rows[2:]), start=1):
        state = state.after(snapshot(at_s, [{"name": "A"}], poll, consumers_complete=False))
    total = delivered_per_s(state)
    assert (total.current_value, [point.value for point in total.points]) == (None, [None, None])


def test_a_stream_that_comes_or_goes_moves_no_rate() -> None:
    state = state_of({"A": 10}, {"A": 20, "B": 5000}, {"A": 30})
    assert [point.value for point in stored_per_s(state).points] == [10.0, 10.0]


def test_copies_in_mirrors_are_not_counted_again() -> None:
    state = state_of({"A": 0, "COPY": 0}, {"A": 10, "COPY": 10})
    mirror = replace(stream_configuration("COPY"), subjects=(), mirror="A")
    state = state.after(Configured(2, (stream_configuration("A"), mirror), ()))
    assert stored_per_s(state).current_value == 10.0


def test_nothing_is_known_before_two_polls() -> None:
    assert stored_per_s(State()).current_value is None
    assert pending_msgs(State()).current_value is None
    assert storage_use(State()) is None
    assert stored_per_s(state_of({"A": 1})).current_value is None


def test_the_storage_is_that_of_the_account_and_of_its_limit() -> None:
    account = Account(0, 500, 1, 1, None, 2000, None, None, 1, 0, 0, 1, None)
    assert storage_use(replace(State(), account=account)) == StorageUse(500, 2000)
    free = storage_use(replace(State(), account=replace(account, max_storage_bytes=None)))
    assert free == StorageUse(500, None)
    assert free.share is None


def test_the_rows_that_stand_out_come_first() -> None:
    state = state_of({"A": 0, "B": 0, "C": 0}, {"A": 5, "B": 50, "C": 7}, pending=(3, 0, 9))
    names = state.streams.columns.name
    assert [names[row] for row in busiest_streams(state, 2)] == ["B", "C"]
    # A consumer without pending messages does not lag.
    assert [state.consumers.columns.name[row] for row in lagging_consumers(state, 9)] == [
        "C2",
        "C0",
    ]
