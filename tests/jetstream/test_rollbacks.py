"""A store that is an older one: the same stream, and what it had stored last is gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from natstui.jetstream.connection.decode.streams import StreamRow, read_stream
from natstui.jetstream.polling.bulk.view import KnownConfigurations, read_view
from natstui.jetstream.polling.rollbacks import ROLLED_BACK, RollbackDetector
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Advisory, Record
from tests.jetstream.polling import Polled, api, polling
from tests.jetstream.test_bulk import consumer, stream, told


async def _publish(polled: Polled, count: int, last_seq: int) -> None:
    for _ in range(count):
        await polled.client.nc.request("s", b"x", timeout=5)
    await polled.until(Snapshot, lambda s: s.streams.last_seq == (last_seq,))


@pytest.mark.server
async def test_a_store_put_back_from_a_backup_is_told(nats_server: Broker, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    async with polling(nats_server.url) as polled:
        await api(polled.client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        await _publish(polled, 5, last_seq=5)
        nats_server.stop()
        shutil.copytree(nats_server.store, backup)
        nats_server.start()
        await polled.until(Snapshot, lambda s: s.streams.last_seq == (5,))
        await _publish(polled, 5, last_seq=10)
        assert not [r for r in polled.records if isinstance(r, Advisory)]
        nats_server.stop()
        shutil.rmtree(nats_server.store)
        shutil.copytree(backup, nats_server.store)
        nats_server.start()
        told = await polled.until(Advisory)
        assert (told.type, told.stream) == (ROLLED_BACK, "S")
        assert told.text.startswith("stream S went back from sequence 10 to 5")
        await polled.until(Snapshot)
        assert len([r for r in polled.records if isinstance(r, Advisory)]) == 1


class _Kept(list[Record]):
    """A sink that keeps what it gets."""

    add = list.append


def _row(at_s: float, last_seq: int, created: str = "2026-11-20T12:00:00Z") -> StreamRow:
    replicas: list[Any] = [{"name": "n2", "current": True}]
    reply = {
        "config": {"name": "S"},
        "created": created,
        "state": {"last_seq": last_seq},
        "cluster": {"leader": "n1", "replicas": replicas},
    }
    return read_stream(json.dumps(reply).encode(), round(at_s * 1e6))


def _told(*rows: StreamRow) -> list[str]:
    kept = _Kept()
    rollbacks, newest = RollbackDetector(kept), None
    for row in rows:
        if rollbacks.accept_row(newest, row):
            newest = row if newest is None else max(newest, row, key=lambda r: r.sampled_mono_us)
    return [record.text for record in kept if isinstance(record, Advisory)]


def test_a_new_leader_that_catches_up_is_no_rollback() -> None:
    assert _told(_row(1, 100), _row(2, 90), _row(3, 95), _row(4, 100), _row(20, 101)) == []


def test_a_memory_stream_that_a_restart_emptied_is_told_at_once() -> None:
    before, empty = (
        read_stream(json.dumps({"config": {"name": "S", "storage": "memory"},
                                "created": "2026-11-20T12:00:00Z", "state": {"last_seq": seq},
                                "cluster": {"leader": "n1"}}).encode(), at_s * 1_000_000)
        for at_s, seq in ((1, 100), (2, 0))
    )  # fmt: skip
    (text,) = _told(before, empty)
    assert text.startswith("stream S went back from sequence 100 to 0")


def test_what_a_frozen_leader_still_says_is_left_out() -> None:
    rollbacks, ahead = RollbackDetector(_Kept()), _row(1, 100)
    assert not rollbacks.accept_row(ahead, _row(2, 90))
    assert rollbacks.accept_row(ahead, _row(3, 100)) and rollbacks.accept_row(ahead, _row(7, 90))


def test_a_replicated_stream_that_stays_behind_is_told_once() -> None:
    rows = [_row(at_s, 90) for at_s in range(2, 30)]
    assert len(_told(_row(1, 100), *rows)) == 1


def test_a_row_in_a_bulk_reply_is_not_newer_than_what_was_stored_after_it() -> None:
    """A stream is written first, and the consumers of the next one up to seconds later."""
    later = consumer("n1", 0) | {"stream_name": "B", "ts": "2026-01-01T00:00:04.9Z"}
    first = stream("n1") | {"name": "A", "config": {"name": "A"}, "state": {"last_seq": 10}}
    second = stream("n1", later) | {"name": "B", "config": {"name": "B"}}
    bulk_row = read_view([told("n1", first, second)], None, KnownConfigurations()).streams["A"]
    info = first | {"ts": "2026-01-01T00:00:04.5Z", "state": {"last_seq": 12}}
    info_row = read_stream(json.dumps(info).encode(), 1_600_000, 1_000)
    clocks, kept = ServerClocks(), _Kept()
    for row in (info_row, bulk_row):
        assert clocks.set_time(row, trusts_reply=True)
    assert bulk_row.sampled_mono_us < info_row.sampled_mono_us
    assert RollbackDetector(kept).accept_row(info_row, bulk_row) and not kept


def test_an_older_answer_and_a_stream_made_again_are_no_rollback() -> None:
    assert _told(_row(2, 100), _row(1, 90), _row(3, 100)) == []
    assert _told(_row(1, 100), _row(2, 3, created="2026-11-21T12:00:00Z"), _row(9, 4)) == []
