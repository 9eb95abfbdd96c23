"""What `natstui watch` says of what it cannot reach."""

from __future__ import annotations

import json
import time

import pytest

from natstui.cli.watch.assets import consumer_rows, stream_rows
from natstui.cli.watch.events import RemovedRow, RestoredRow, UnavailableRow
from natstui.cli.watch.lines import json_line
from natstui.cli.watch.run import WatchCollector, WrittenRows
from natstui.cli.watch.server import ServerRow
from natstui.model.live.age import state_at_poll_age
from natstui.model.records.link import LinkChanged
from tests.model.builders import snapshot


def test_streams_and_consumers_that_become_unreachable_are_named_and_named_again_when_back() -> (
    None
):
    collector = WatchCollector()
    rows = [{"name": "A"}, {"name": "B"}]
    consumers = [{"stream": "A", "name": "c"}]
    collector.add(snapshot(1, rows, consumers))
    lost = snapshot(
        2, rows[1:], [], unreachable_streams=("A",), unreachable_consumers=(("A", "c"),)
    )
    collector.add(lost)
    told = [row for row in collector.pop_events() if isinstance(row, UnavailableRow)]
    assert [row.name for row in told] == ["STREAM.INFO.A", "CONSUMER.INFO.A.c"]
    assert {row.reason for row in told} == {"the leader does not reply"}
    collector.add(lost)
    assert collector.pop_events() == []
    collector.add(snapshot(3, rows, consumers))
    back = [row.name for row in collector.pop_events() if isinstance(row, RestoredRow)]
    assert back == ["STREAM.INFO.A", "CONSUMER.INFO.A.c"]


def test_what_is_removed_and_a_lost_connection_are_told_once() -> None:
    collector = WatchCollector()
    rows = [{"name": "A", "created_at_us": 7}, {"name": "B", "created_at_us": 8}]
    collector.add(snapshot(1, rows, [{"stream": "B", "name": "c", "created_at_us": 9}]))
    collector.pop_events()
    collector.add(snapshot(2, rows[1:], []))
    told = collector.pop_events()
    assert all(isinstance(row, RemovedRow) for row in told)
    removed = [(row.name, row.stream, row.created_at_us) for row in told]
    assert removed == [("A", None, 7), ("c", "B", 9)]
    assert {row.at_us for row in told} == {collector.state.now_at_us}
    collector.add(LinkChanged(3, "reconnecting", "it ended"))
    (lost,) = collector.pop_events()
    assert isinstance(lost, ServerRow) and (lost.link, lost.reason) == ("reconnecting", "it ended")
    collector.add(LinkChanged(4, "connected", None))
    assert collector.pop_events() == []


def test_rows_that_grow_old_are_stale_and_written_again_and_so_are_those_that_are_fresh() -> None:
    collector, written = WatchCollector(), WrittenRows()
    rows, consumers = [{"name": "A"}], [{"stream": "A", "name": "c"}]
    collector.add(snapshot(1, rows, consumers))
    assert written.update(collector.state) == ([0], [0])
    for ago_s, is_stale in ((1, False), (30, True)):
        state = state_at_poll_age(collector.state, ago_s * 1_000_000)
        assert written.update(state) == (([0], [0]) if is_stale else ([], []))
        for row in (*stream_rows(state, [0]), *consumer_rows(state, [0])):
            values = json.loads(json_line(row))
            assert (values["stale"], values["sampled_ago_s"]) == (is_stale, ago_s)
    collector.add(snapshot(2, rows, consumers))
    assert written.update(collector.state) == ([0], [0])
    assert not any(row.is_stale for row in stream_rows(collector.state))


def test_rows_that_were_polled_before_a_sleep_of_the_machine_are_as_old_as_the_sleep_was_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector = WatchCollector()
    collector.add(snapshot(1, [{"name": "A"}], []))
    asleep_us = collector.state.now_mono_us + 3_600_000_000
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: asleep_us * 1000)
    assert collector.current_state.now_mono_us == asleep_us
