"""What `natstui watch` says of what it cannot reach."""

from __future__ import annotations

from natstui.cli.watch.happened import RemovedRow, RestoredRow, UnavailableRow
from natstui.cli.watch.run import Collector
from natstui.cli.watch.server import ServerRow
from natstui.model.records.link import LinkChanged
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


def test_what_is_removed_and_a_lost_connection_are_told_once() -> None:
    collector = Collector()
    rows = [{"name": "A", "created_at_us": 7}, {"name": "B", "created_at_us": 8}]
    collector.add(snapshot(1, rows, [{"stream": "B", "name": "c", "created_at_us": 9}]))
    collector.take_events()
    collector.add(snapshot(2, rows[1:], []))
    told = collector.take_events()
    assert all(isinstance(row, RemovedRow) for row in told)
    removed = [(row.name, row.stream, row.created_at_us) for row in told]
    assert removed == [("A", None, 7), ("c", "B", 9)]
    assert {row.at_us for row in told} == {collector.state.now_at_us}
    collector.add(LinkChanged(3, "reconnecting", "it ended"))
    (lost,) = collector.take_events()
    assert isinstance(lost, ServerRow) and (lost.link, lost.reason) == ("reconnecting", "it ended")
    collector.add(LinkChanged(4, "connected", None))
    assert collector.take_events() == []
