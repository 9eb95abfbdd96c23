"""What `natstui watch` says of what it cannot reach."""

from __future__ import annotations

from natstui.cli.watch.happened import RestoredRow, UnavailableRow
from natstui.cli.watch.run import Collector
from tests.model.builders import snapshot


def test_streams_and_consumers_that_become_unreachable_are_named_and_named_again_when_back() -> (
    None
):
    collector = Collector()
    rows = [{"name": "A"}, {"name": "B"}]
    consumers = [{"stream": "A", "name": "c"}]
    collector.add(snapshot(1, rows, consumers))
    lost = snapshot(
        2, rows[1:], [], unreachable_streams=("A",), unreachable_consumers=(("A", "c"),)
    )
    collector.add(lost)
    told = [row for row in collector.take_events() if isinstance(row, UnavailableRow)]
    assert [row.name for row in told] == ["STREAM.INFO.A", "CONSUMER.INFO.A.c"]
    assert {row.reason for row in told} == {"the leader does not reply"}
    collector.add(lost)
    assert collector.take_events() == []
    collector.add(snapshot(3, rows, consumers))
    back = [row.name for row in collector.take_events() if isinstance(row, RestoredRow)]
    assert back == ["STREAM.INFO.A", "CONSUMER.INFO.A.c"]
