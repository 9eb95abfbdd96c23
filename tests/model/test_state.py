"""The fold keeps the newest row of everything, and knows what is gone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import EVENTS_KEPT, State
from natstui.model.records.record import EngineStarted, Noted, Restored, Unavailable
from tests.model.builders import snapshot


def folded(*snapshots: Snapshot) -> State:
    state = State()
    for one in snapshots:
        state = state.after(one)
    return state


def test_a_complete_poll_replaces_what_was_known() -> None:
    state = folded(
        snapshot(1, [{"name": "A"}, {"name": "B"}]), snapshot(2, [{"name": "B", "last_seq": 5}])
    )
    assert state.streams.columns.name == ("B",)
    assert state.streams.columns.last_seq == (5,)


def test_the_roster_is_shared_while_nobody_comes_or_goes() -> None:
    first = folded(snapshot(1, [{"name": "A"}]))
    second = first.after(snapshot(2, [{"name": "A", "last_seq": 9}]))
    assert second.streams.roster is first.streams.roster


def test_an_unreachable_stream_keeps_its_last_row() -> None:
    state = folded(
        snapshot(1, [{"name": "A", "last_seq": 7}, {"name": "B"}]),
        snapshot(2, [{"name": "B"}], unreachable_streams=("A",)),
    )
    row = state.streams.columns.name.index("A")
    assert state.streams.columns.last_seq[row] == 7
    assert state.streams.columns.sampled_mono_us[row] == 1_000_000
    assert state.unreachable_streams == {"A"}


def test_a_partial_sweep_of_consumers_overwrites_only_what_it_listed() -> None:
    rows = [{"stream": s, "name": n} for s in "AB" for n in ("c1", "c2")]
    state = folded(
        snapshot(1, [{"name": "A"}, {"name": "B"}], rows),
        snapshot(
            2,
            [{"name": "A"}, {"name": "B"}],
            [{"stream": "A", "name": "c1", "pending_msgs": 3}],
            consumers_complete=False,
            swept_streams=("A",),
        ),
    )
    columns = state.consumers.columns
    known = set(zip(columns.stream, columns.name, columns.pending_msgs, strict=True))
    assert known == {("A", "c1", 3), ("B", "c1", 0), ("B", "c2", 0)}


def test_consumers_of_a_deleted_stream_go_with_it() -> None:
    state = folded(
        snapshot(1, [{"name": "A"}, {"name": "B"}], [{"stream": "A", "name": "c"}]),
        snapshot(2, [{"name": "B"}], [], consumers_complete=False),
    )
    assert len(state.consumers) == 0


def test_a_recreated_consumer_replaces_the_old_one_in_a_partial_sweep() -> None:
    state = folded(
        snapshot(1, [{"name": "A"}], [{"stream": "A", "name": "c", "created_at_us": 1}]),
        snapshot(
            2,
            [{"name": "A"}],
            [{"stream": "A", "name": "c", "created_at_us": 9}],
            consumers_complete=False,
            swept_streams=("A",),
        ),
    )
    assert state.consumers.roster.keys == (("A", "c", 9),)


def test_a_recreated_consumer_replaces_the_old_one_though_its_stream_was_not_listed() -> None:
    rows = [{"stream": "A", "name": name, "created_at_us": 1} for name in ("c", "d")]
    state = folded(
        snapshot(1, [{"name": "A"}], [*rows, {"stream": "B", "name": "c", "created_at_us": 1}]),
        snapshot(
            2, None, [{"stream": "A", "name": "c", "created_at_us": 9}], consumers_complete=False
        ),
    )
    assert set(state.consumers.roster.keys) == {("A", "c", 9), ("A", "d", 1), ("B", "c", 1)}


@pytest.mark.slow
def test_history_is_bounded_and_old_samples_are_thinned() -> None:
    state = State()
    for at in range(4000):
        state = state.after(snapshot(at, [{"name": "A", "last_seq": at}]))
    assert all(len(tier.samples) <= 151 for tier in state.stream_history.tiers)
    hour = state.stream_history.series(("A", 1), "last_seq", 3600)
    assert hour[0].mono_us <= 500_000_000
    assert hour[-1].value == 3999
    assert len(state.costs) <= 120


def test_sequences_beyond_63_bits_are_kept() -> None:
    state = folded(snapshot(1, [{"name": "A", "last_seq": 2**64 - 1}]))
    assert state.stream_history.series(("A", 1), "last_seq")[-1].value == 2**64 - 1


def test_what_is_unavailable_is_known_until_it_is_restored() -> None:
    away = Unavailable(1, "STREAM.LIST", "denied", "$JS.API.STREAM.LIST")
    state = State().after(away).after(away)
    assert dict(state.unavailable) == {"STREAM.LIST": away}
    assert len(state.recent_events) == 1
    assert not state.after(Restored(2, "STREAM.LIST")).unavailable


@pytest.mark.parametrize("what", ["silences", "events", "STREAM.LIST", "$SYS.REQ.USER.INFO"])
def test_what_an_engine_could_not_read_ends_with_that_engine(what: str) -> None:
    started = EngineStarted(
        2, "1", 1, "shop", False, False, 1.0, "natstui", False, True, {}
    )  # fmt: skip
    away = Unavailable(1, what, "denied")
    state = State().after(away).after(started)
    assert not state.unavailable
    assert dict(state.after(away).unavailable) == {what: away}


def test_happenings_are_bounded() -> None:
    state = State()
    for at in range(EVENTS_KEPT + 50):
        state = state.after(Noted(at, "x"))
    assert len(state.recent_events) == EVENTS_KEPT
    assert state.recent_events[-1] == Noted(EVENTS_KEPT + 49, "x")


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sets(st.sampled_from("ABCD")), st.booleans()), max_size=12))
def test_rows_and_keys_always_agree(steps: list[tuple[set[str], bool]]) -> None:
    state = State()
    for at, (names, complete) in enumerate(steps):
        rows = [{"name": n, "last_seq": at} for n in sorted(names)]
        state = state.after(snapshot(at, rows, streams_complete=complete))
        columns = state.streams.columns
        assert tuple((n, 1) for n in columns.name) == state.streams.roster.keys
        assert len(set(columns.name)) == len(columns.name) == len(columns.last_seq)
        if complete:
            assert set(columns.name) == names
        assert names <= set(columns.name)


def test_who_led_what_is_unreachable_leads_it_no_more() -> None:
    rows = [{"name": "A", "leader": "n2"}, {"name": "B", "leader": "n1"}]
    consumers = [{"stream": "B", "name": name, "leader": "n2"} for name in "cd"]
    state = folded(
        snapshot(1, rows, consumers),
        snapshot(
            2,
            rows[1:],
            consumers[1:],
            unreachable_streams=("A",),
            unreachable_consumers=(("B", "c"),),
        ),
    )
    assert dict(zip(state.streams.columns.name, state.streams.columns.leader, strict=True)) == {
        "A": None,
        "B": "n1",
    }
    leaders = zip(state.consumers.columns.name, state.consumers.columns.leader, strict=True)
    assert dict(leaders) == {"c": None, "d": "n2"}
    back = state.after(snapshot(3, rows, consumers))
    assert sorted(back.streams.columns.leader) == ["n1", "n2"]
