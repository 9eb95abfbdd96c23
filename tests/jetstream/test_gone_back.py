"""A stream that lost its newest messages, and has others under their sequences: it keeps its
creation time, and what was decided before is refused.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from natstui.config.connection import Connection
from natstui.errors import Conflict, NatstuiError, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.storing import has_lost_newest, newest_message
from natstui.jetstream.connection.writer import MissingConfirmation, Writer
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.keys import KeyChange, change_key
from natstui.jetstream.managing.undo import undo
from natstui.jetstream.messages.copying.account import CopyAccount, CopyState
from natstui.jetstream.messages.copying.copy import CopyPace, CopyTarget, MessageCopy, send_copy
from natstui.jetstream.messages.copying.dead_letters import preview_send_again
from natstui.jetstream.messages.copying.selection import (
    SelectionRequest,
    read_source_state,
    select,
)
from natstui.jetstream.messages.keys import read_page, watch
from natstui.jetstream.messages.reading import Reader
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.copies import PreviewResend
from natstui.model.records.managing import Change, Undo
from natstui.model.records.messages import StoredMessage
from natstui.model.records.stores import ReadKeys
from natstui.values import replace

pytestmark = pytest.mark.server
GONE_BACK = "has lost its newest messages"


class Rolling:
    """A server whose store is put back to an earlier state."""

    def __init__(self, broker: Broker, backup: Path, client: Client) -> None:
        self.broker, self.backup, self.client = broker, backup, client

    async def keep(self) -> None:
        """Keep the store as it is."""
        await self._restarted(lambda: shutil.copytree(self.broker.store, self.backup))

    async def undo_key_change(self) -> None:
        """Put the store back to what was kept."""

        def change() -> None:
            shutil.rmtree(self.broker.store)
            shutil.copytree(self.backup, self.broker.store)

        await self._restarted(change)

    async def _restarted(self, change: Any) -> None:
        reconnects_count = self.client.nc.stats["reconnects"]
        self.broker.stop()
        change()
        self.broker.start()
        async with asyncio.timeout(30):
            while self.client.nc.stats["reconnects"] == reconnects_count:
                await asyncio.sleep(0.05)
            while True:
                try:
                    await self.info("S")
                    return
                except NatstuiError:
                    await asyncio.sleep(0.05)

    async def publish(self, payload: bytes, count: int) -> None:
        for _ in range(count):
            await self.client.request_subject("s", payload)

    async def info(self, stream: str) -> StreamRow:
        return await self.client.stream_info(stream)

    async def payloads(self) -> list[bytes]:
        async with Reader(self.client, "S", reads_stored_only=True) as reader:
            return [message.payload async for message in reader]


@pytest.fixture
async def rolling(nats_server: Broker, tmp_path: Path) -> AsyncIterator[Rolling]:
    client = await connect(Connection(servers=(nats_server.url,)))
    rolling = Rolling(nats_server, tmp_path / "kept", client)
    bucket = {"name": "KV_K", "subjects": ["$KV.K.>"], "max_msgs_per_subject": 5}
    for config in ({"name": "S", "subjects": ["s"]}, {**bucket, "allow_rollup_hdrs": True}):
        await client.request(f"STREAM.CREATE.{config['name']}", config)
    yield rolling
    await client.close()


async def test_a_stream_that_went_back_before_its_first_new_message_is_not_read_on(
    rolling: Rolling,
) -> None:
    await rolling.publish(b"old", 2)
    await rolling.keep()
    await rolling.publish(b"lost", 5)
    async with asyncio.timeout(60), Reader(rolling.client, "S", policy="new") as reader:
        await rolling.undo_key_change()
        await rolling.publish(b"theirs", 3)
        with pytest.raises(Conflict, match=f"S {GONE_BACK}.*: nothing was read"):
            await anext(reader)


async def test_what_was_decided_before_a_stream_went_back_is_refused(rolling: Rolling) -> None:
    client = rolling.client
    writer = Writer(client, Journal())
    await rolling.publish(b"old", 5)
    await change_key(writer, KeyChange("put_key", "K", "k", b"first"))
    await rolling.keep()
    await rolling.publish(b"lost", 5)
    await change_key(writer, KeyChange("put_key", "K", "k", b"lost"))
    before = await rolling.info("S")
    made_us, newest = before.created_at_us, newest_message(before.state)
    selection = await select(client, SelectionRequest("S"))
    (row,) = (await read_page(client, ReadKeys(0, "K"))).rows
    changes = [
        Change(0, "purge_stream", "S"),
        Change(0, "delete_stream", "S"),
        Change(0, "delete_message", "S", body_json='{"seq": 8}'),
    ]
    shown = [await preview(writer, change) for change in changes]
    with pytest.raises(Conflict, match=f"KV_K {GONE_BACK}"):
        async with Reader(client, "S") as reader, watch(client, "K", ">", "all") as entries:
            for _ in range(10):
                await anext(reader)
            for _ in range(2):
                await anext(entries)

            await rolling.undo_key_change()
            await rolling.publish(b"theirs", 7)
            await client.request_subject("$KV.K.k", b"theirs")

            with pytest.raises(Conflict, match=f"S {GONE_BACK}"):
                await anext(reader)
            await anext(entries)
    for change, confirmation in zip(changes, shown, strict=True):
        confirmed = replace(
            change, confirmed="S", created_at_us=confirmation.created_at_us,
            previewed_msgs=confirmation.most_msgs, previewed_last_seq=confirmation.last_seq,
            previewed_last_at_us=confirmation.last_at_us,
        )  # fmt: skip
        with pytest.raises(Conflict, match=GONE_BACK):
            await apply(writer, confirmed)
    assert await rolling.payloads() == [b"old"] * 5 + [b"theirs"] * 7
    with pytest.raises(Conflict, match=f"S {GONE_BACK}"):
        await read_source_state(client, selection)
    copy = MessageCopy(CopyTarget(), await select(client, SelectionRequest("S")))
    copy.state = CopyState(end_seq=10, source_created_at_us=made_us, source_newest=newest)
    with pytest.raises(UsageError, match="copy again without --resume"):
        await copy.check_source(client)
    with pytest.raises(Conflict, match="nothing was sent again"):
        await preview_send_again(client, PreviewResend(0, "S", (8,), made_us, newest))
    # The revision is the same by chance.
    deletion = KeyChange(
        "delete_key",
        "K",
        "k",
        required_revision=row.revision_seq,
        required_stored_at_us=row.created_at_us,
    )
    with pytest.raises(Conflict, match="another value at revision 2"):
        await change_key(writer, deletion)
    with pytest.raises(Conflict, match=GONE_BACK):
        await undo(writer, Undo(0, confirmed="k"))
    (row,) = (await read_page(client, ReadKeys(0, "K"))).rows
    assert (row.revision_seq, row.operation) == (2, "PUT")


async def test_a_deletion_for_which_a_name_was_typed_is_of_the_key_that_was_shown(
    rolling: Rolling,
) -> None:
    await rolling.client.request_subject("$KV.K.k", b"old")
    await rolling.keep()
    await rolling.client.request_subject("$KV.K.k", b"shown")
    purge = KeyChange("purge_key", "K", "k")
    with pytest.raises(MissingConfirmation) as told:
        await change_key(Writer(rolling.client, Journal()), purge)
    await rolling.undo_key_change()
    await rolling.client.request_subject("$KV.K.k", b"theirs")
    decided = Writer(rolling.client, Journal(), decided_on=told.value.confirmation)
    with pytest.raises(Conflict, match=GONE_BACK):
        await change_key(decided, replace(purge, confirmed="k"))
    assert (await rolling.info("KV_K")).state.messages == 2


@pytest.mark.parametrize(
    ("others", "kept_msgs"),
    [
        (0, 0),
        (30, 5),
        *(pytest.param(*both, marks=pytest.mark.long) for both in ((0, 5), (30, 0))),
    ],
)
async def test_a_copy_whose_target_goes_back_is_no_success(
    rolling: Rolling, tmp_path: Path, others: int, kept_msgs: int
) -> None:
    """`others`: how many messages somebody else publishes in the meantime; `kept_msgs`: how many
    of the copies are left.
    """
    await rolling.publish(b"old", 5)
    if not kept_msgs:
        await rolling.keep()
    file = tmp_path / "messages.jsonl"
    messages = [StoredMessage(n + 1, "s", 1, (), "eA==", 1) for n in range(60)]
    file.write_bytes(b"\n".join(map(msgspec.json.encode, messages)))
    writer, account = Writer(rolling.client, Journal()), CopyAccount()
    copy = MessageCopy(
        CopyTarget("S"), from_file=file, pace=CopyPace(msgs_per_s=20), account=account
    )
    stop = asyncio.Event()
    copying = asyncio.create_task(
        send_copy(rolling.client, writer, copy, ("messages", None), stop)
    )
    while account.acknowledged_msgs < kept_msgs and not copying.done():
        await asyncio.sleep(0.02)
    if kept_msgs:
        await rolling.keep()
    while account.acknowledged_msgs < kept_msgs + 10 and not copying.done():
        await asyncio.sleep(0.02)
    await rolling.undo_key_change()
    await rolling.publish(b"theirs", others)
    with pytest.raises(NatstuiError, match=f"target stream S {GONE_BACK}"):
        await copying
    if kept_msgs:
        return
    again = MessageCopy(CopyTarget("S"), from_file=file, state=CopyState(
        end_seq=60, target_created_at_us=account.target_created_at_us,
        target_newest=account.target_newest,
    ))  # fmt: skip
    with pytest.raises(UsageError, match="copy again without --resume"):
        await send_copy(rolling.client, writer, again, ("messages", None), stop)


async def test_a_copy_does_not_take_messages_of_others_for_those_that_it_copied_before(
    rolling: Rolling, nats_server_factory: Callable[..., Broker]
) -> None:
    target = await connect(Connection(servers=(nats_server_factory().url,)))
    await target.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})

    async def copied() -> tuple[int, int]:
        copy = MessageCopy(CopyTarget("S"), await select(rolling.client, SelectionRequest("S")))
        writer, stop = Writer(target, Journal()), asyncio.Event()
        await send_copy(rolling.client, writer, copy, ("S", None), stop)
        return copy.account.acknowledged_msgs, copy.account.duplicate_msgs

    await rolling.keep()
    await rolling.publish(b"old", 5)
    assert await copied() == (5, 0)
    assert await copied() == (0, 5)
    await rolling.undo_key_change()
    await rolling.publish(b"theirs", 5)
    assert await copied() == (5, 0)
    async with Reader(target, "S", reads_stored_only=True) as reader:
        assert [message.payload async for message in reader] == [b"old"] * 5 + [b"theirs"] * 5
    await target.close()


async def test_a_stream_that_only_lost_old_messages_has_not_gone_back(rolling: Rolling) -> None:
    client = rolling.client
    await rolling.publish(b"x", 10)
    newest = newest_message((await rolling.info("S")).state)

    async def is_back() -> bool:
        return await has_lost_newest(client, "S", (await rolling.info("S")).state, *newest)

    assert not await is_back()
    await rolling.publish(b"x", 3)
    await client.request("STREAM.MSG.DELETE.S", {"seq": 10})
    assert not await is_back(), "the message was deleted"
    await client.request("STREAM.PURGE.S", {"seq": 12})
    assert not await is_back(), "it was purged with those before it"
    await client.request("STREAM.PURGE.S", {})
    assert not await is_back(), "the stream is empty"


async def test_a_stream_whose_first_message_is_later_than_its_last_has_not_gone_back(
    rolling: Rolling,
) -> None:
    client = rolling.client
    await client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    for _ in range(2):
        await client.request_subject("s", b"x")
    state = (await client.stream_info("S")).state
    later = replace(state, first_ts="2099-01-01T00:00:00Z")
    seq, stored_at_us = newest_message(state)
    assert not await has_lost_newest(client, "S", later, seq, stored_at_us)
    assert await has_lost_newest(client, "S", state, seq, stored_at_us - 1)
