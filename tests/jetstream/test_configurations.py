"""A configuration is new when something was set, not when the server words it otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from natstui.errors import RequestFailed
from natstui.jetstream.connection.decode.consumers import ConsumerRow, read_consumer
from natstui.jetstream.connection.decode.streams import StreamRow, read_stream
from natstui.jetstream.polling.configurations import ConfigurationHashes
from natstui.jetstream.polling.snapshot import PolledConsumers, PolledStreams


def _told(known: ConfigurationHashes, metadata: dict[str, str] | None, **words: Any) -> int:
    config = {"name": "S", "subjects": ["s"], **words}
    if metadata is not None:
        config["metadata"] = metadata
    reply = {"config": config, "created": "2026-11-20T12:00:00Z", "state": {}}
    row = read_stream(json.dumps(reply).encode(), 0)
    return len(known.update_streams([row]))


def test_what_info_adds_to_the_metadata_is_no_change() -> None:
    known = ConfigurationHashes()
    listed = {"_nats.req.level": "0"}
    asked = {"_nats.level": "5", "_nats.req.level": "0", "_nats.ver": "2.15.1"}
    assert [_told(known, each) for each in (listed, asked, listed, asked)] == [1, 0, 0, 0]
    assert _told(known, asked, description="new") == 1
    assert _told(known, listed, description="new") == 0
    assert _told(known, listed, description="newer") == 1


def test_metadata_of_ours_that_changes_is_a_change() -> None:
    known = ConfigurationHashes()
    assert _told(known, {"_nats.ver": "2.15.1"}) == 1
    assert _told(known, None) == 0
    assert _told(known, {"team": "a", "_nats.ver": "2.15.1"}) == 1
    assert _told(known, {"team": "b", "_nats.ver": "2.15.1"}) == 1


def test_spaces_and_lines_of_the_monitoring_ports_are_no_change() -> None:
    known = ConfigurationHashes()
    config = {
        "name": "S",
        "subjects": ["s"],
        "description": 'a ": b',
        "metadata": {"_nats.ver": "2"},
    }
    for number, words in enumerate(({"separators": (",", ":")}, {"indent": 2}, {"indent": 2})):
        reply: dict[str, Any] = {"config": config, "created": "2026-11-20T12:00:00Z", "state": {}}
        row = read_stream(json.dumps(reply, **words).encode(), 0)
        assert len(known.update_streams([row])) == (number == 0)


def _stream(replicas_count: object, name: str = "S") -> StreamRow:
    config = {"name": name, "num_replicas": replicas_count}
    reply = {"config": config, "created": "2026-11-20T12:00:00Z", "state": {}}
    return read_stream(json.dumps(reply).encode(), 0)


def _consumer(
    name: str, replicas_count: object, created: str = "2026-11-20T12:00:00Z"
) -> ConsumerRow:
    config = {"durable_name": name, "num_replicas": replicas_count}
    reply = {"stream_name": "S", "name": name, "created": created, "config": config}
    return read_consumer(json.dumps(reply | {"delivered": {}, "ack_floor": {}}).encode(), 0)


def test_consumers_with_the_replicas_of_their_stream_change_with_it() -> None:
    known, rows = ConfigurationHashes(), (_consumer("OWN", 1), _consumer("SAME", 0))

    def told() -> dict[str, int]:
        return {each.name: each.replicas_count for each in known.update_consumers(rows)}

    # Before its stream was read, a consumer has one replica.
    assert told() == {"OWN": 1, "SAME": 1}
    known.update_streams([_stream(1)])
    assert told() == {}
    for count in (3, 1, 5):
        known.update_streams([_stream(count)])
        assert told() == {"SAME": count}
        assert told() == {}
    known.update_streams([_stream(3)])
    rows = (_consumer("OWN", 1, "2026-11-21T12:00:00Z"), rows[1])
    assert told() == {"OWN": 1, "SAME": 3}
    known.update_streams([_stream(1)])
    known.keep_consumers("S", {"OWN"})
    assert told() == {"SAME": 1}


def _changed_names(
    known: ConfigurationHashes, streams: list[StreamRow], consumers: list[ConsumerRow]
) -> tuple[list[str], list[str]]:
    consumer_rows = {(row.stream_name, row.name): row for row in consumers}
    changes = known.find_changes(
        0, PolledStreams(streams), PolledConsumers(consumer_rows), {row.name for row in streams}
    )
    if changes is None:
        return [], []
    return [stream.name for stream in changes.streams], [
        consumer.name for consumer in changes.consumers
    ]


def test_configurations_read_with_an_unreadable_one_are_reported_by_the_next_poll() -> None:
    known, own, same = ConfigurationHashes(), _consumer("OWN", 1), _consumer("SAME", 0)
    with pytest.raises(RequestFailed):
        _changed_names(known, [_stream(1, "A"), _stream("none", "BAD")], [own])
    with pytest.raises(RequestFailed):
        _changed_names(known, [_stream(1, "A")], [own, _consumer("BAD", "none")])
    assert _changed_names(known, [_stream(1, "A"), _stream(1)], [own, same]) == (
        ["A", "S"], ["OWN", "SAME"],
    )  # fmt: skip
    # Only what changed is reported again, consumers with the replicas of their stream as well.
    with pytest.raises(RequestFailed):
        _changed_names(known, [_stream(1, "A"), _stream(3)], [own, same, _consumer("BAD", "none")])
    assert _changed_names(known, [_stream(1, "A"), _stream(3)], [own, same]) == (["S"], ["SAME"])
    assert _changed_names(known, [_stream(1, "A"), _stream(3)], [own, same]) == ([], [])
