"""Copies between streams that vanish, are created again, or refuse: no message is forgotten."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nats
import pytest
from hypothesis import given
from hypothesis import strategies as st

from natstui.jetstream.messages.copying import account as copy_account
from natstui.jetstream.messages.copying.account import (
    Ranges,
    add_seq,
    merged_ranges,
    ranges_from,
    seqs_of,
)
from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_core import connected, run
from tests.cli.test_manage import Shell
from tests.cli.test_messages_copy import copied, counts, filled, some_stored, started

pytestmark = pytest.mark.server
TO_T = ("S", "--to-stream", "T", "--map", "s.>:t.>", "--json")


@pytest.fixture
def shell(nats_server: Broker, tmp_path: Any) -> Shell:
    return Shell(nats_server.url, tmp_path)


@given(st.lists(st.integers(1, 60)), st.lists(st.integers(1, 60)), st.integers(1, 70))
def test_ranges_hold_what_was_added(some: list[int], others: list[int], from_seq: int) -> None:
    left: Ranges = []
    right: Ranges = []
    for seq in some:
        add_seq(left, seq)
    for seq in others:
        add_seq(right, seq)
    merged = merged_ranges(left, right)
    assert list(seqs_of(merged)) == sorted({*some, *others})
    expected = [seq for seq in sorted({*some, *others}) if seq >= from_seq]
    assert list(seqs_of(ranges_from(merged, from_seq))) == expected


async def test_more_refused_than_can_be_kept_stops_the_copy_and_none_is_forgotten(
    shell: Shell, nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_account, "MOST_RANGES", 20)
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        for number in range(200):
            # Every second one is too large for the target: ranges of one.
            await js.publish(f"s.{number}", b"x" * (1000 if number % 2 else 10))
        config = {"name": "T", "subjects": ["t.>"], "max_msg_size": 500}
        await js.add_stream(**config)
        words, resume = TO_T, ()
        for _ in range(10):
            done = await run(shell, "messages", "copy", *words, *resume)
            resume = ("--resume",)
            if done.returncode == 0:
                break
            assert done.returncode == 4
            await js.update_stream(**{**config, "max_msg_size": -1})
        assert done.returncode == 0, done.stderr
        assert await counts(nc, "T") == {f"t.{number}": 1 for number in range(200)}


@pytest.mark.parametrize("recreated", ["S", "T"])
async def test_a_stream_that_was_created_again_is_not_continued(
    shell: Shell, nats_server: Broker, recreated: str
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 10)
        config = {"name": "T", "subjects": ["t.>"], "discard": "new", "max_msgs": 4}
        await js.add_stream(**config)
        assert (await run(shell, "messages", "copy", *TO_T)).returncode == 4
        await js.delete_stream(recreated)
        if recreated == "S":
            await filled(nc, "S", 10)
        else:
            await js.add_stream(**{**config, "max_msgs": 100})
        refused = await run(shell, "messages", "copy", *TO_T, "--resume")
        assert refused.returncode == 2
        assert "created again since" in refused.stderr
        assert "copy again without --resume" in refused.stderr


async def test_a_payload_that_no_longer_fits_with_headers_is_refused_by_name(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        await js.add_stream(name="T", subjects=["t.>"])
        most_bytes = nc.max_payload
        await js.publish("s.1", b"before")
        await js.publish("s.2", b"x" * most_bytes)
        await js.publish("s.3", b"behind")
        async with asyncio.timeout(60):
            done = await run(shell, "messages", "copy", *TO_T)
        account = copied(done.stdout)
        assert done.returncode == 4
        assert (account["acknowledged_msgs"], account["refused_ranges"]) == (2, [[2, 2]])
        (reason,) = account["refusals"]
        assert "message 2 has" in reason and f"{most_bytes:,}" in reason
        assert await counts(nc, "T") == {"t.1": 1, "t.3": 1}


async def test_a_target_that_is_deleted_meanwhile_ends_the_copy(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 3_000)
        await js.add_stream(name="T", subjects=["t.>"])
        process = started(shell, "S", "--to-stream", "T", "--map", "s.>:t.>", "--rate", "500")
        await some_stored(nc, "T", 300)
        await js.delete_stream("T")
        async with asyncio.timeout(60):
            out, error = await asyncio.to_thread(process.communicate)
        assert process.returncode == 4, error
        assert "no stream stores" in error and "the target was deleted" in error
        assert json.loads(out)["acknowledged_msgs"] >= 300


async def test_a_target_that_is_created_again_meanwhile_is_no_success(
    shell: Shell, nats_server: Broker
) -> None:
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await filled(nc, "S", 1_500)
        await js.add_stream(name="T", subjects=["t.>"])
        process = started(shell, "S", "--to-stream", "T", "--map", "s.>:t.>", "--rate", "1k")
        await some_stored(nc, "T", 300)
        await js.delete_stream("T")
        await js.add_stream(name="T", subjects=["t.>"])
        _, error = await asyncio.to_thread(process.communicate)
        assert process.returncode == 4, error


async def test_the_order_is_kept_when_the_server_restarts_and_there_is_a_rate(
    shell: Shell, nats_server: Broker
) -> None:
    count = 2_000
    async with connected(nats_server.url) as nc:
        await filled(nc, "S", count)
        await nc.jetstream().add_stream(name="T", subjects=["t.>"])
        process = started(shell, "S", "--to-stream", "T", "--map", "s.>:t.>", "--rate", "1k")
        await some_stored(nc, "T", 500)
    await asyncio.to_thread(nats_server.restart)
    out, error = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, error
    assert copied(out)["acknowledged_msgs"] == count
    nc = await nats.connect(nats_server.url)
    try:
        js = nc.jetstream()
        subscription = await js.subscribe("t.>", stream="T", ordered_consumer=True)
        numbers = [int((await subscription.next_msg(timeout=10)).data) for _ in range(count)]
    finally:
        await nc.close()
    assert numbers == list(range(1, count + 1))
