"""A restore that is stopped: afterwards the stream is whole, or it is not there."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import nats
import pytest
from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.errors import Conflict, NotFound, RequestFailed
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Config, Writer
from natstui.jetstream.managing.backup import back_up_stream
from natstui.jetstream.managing.backup_folder import read_backup
from natstui.jetstream.managing.restore import (
    RESTORE_MARK,
    RestoredStream,
    RestoreRequest,
    _remove_remains,
    restore_stream,
)
from natstui.jetstream.managing.snapshot import (
    RateLimit,
    finish_uninterrupted,
    send_snapshot,
)
from natstui.jetstream.testbed.broker import Broker
from tests.jetstream.flushing import flushed

_MESSAGES_COUNT = 8_000
_TURNS_COUNT = 8


@pytest.mark.server
async def test_a_restore_stopped_after_its_last_byte_leaves_all_of_the_stream_or_nothing(
    nats_server: Broker, tmp_path: Path
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    await _backed_up(nats_server.url, client, tmp_path / "kept")
    wanted = RestoreRequest(read_backup(tmp_path / "kept"), "S")
    writer = Writer(client, Journal(tmp_path / "journal.jsonl"))
    took_s, seen = 0.0, set[str]()
    for turn in range(_TURNS_COUNT + 1):
        # The first turn is not stopped, the second at once.
        after_s = took_s * 1.1 * (turn - 1) / (_TURNS_COUNT - 1) if turn else None
        done = list[RestoredStream]()
        took_s = max(took_s, await _stopped(writer, wanted, done, after_s))
        found = await _info(client)
        # A server that was left alone with all the data would have a stream in a moment.
        await asyncio.sleep(0.0 if found else 2 * took_s)
        assert (await _info(client) is None) == (found is None)
        seen.add("nothing" if found is None else "whole")
        entry = writer.journal.entries()[-1]
        reason = entry.reason or ""
        if found is None:
            assert entry.outcome == ("failed" if "was removed" in reason else "unknown"), reason
            assert reason.startswith("it was stopped: "), reason
        else:
            assert entry.outcome == "done"
        assert bool(done) == (found is not None)
        if found is not None:
            assert RESTORE_MARK not in (found["config"].get("metadata") or {})
            assert found["state"]["messages"] == _MESSAGES_COUNT
            await client.request("STREAM.DELETE.S")
    assert seen == {"nothing", "whole"}
    await client.close()


@pytest.mark.server
async def test_what_clients_published_to_a_stream_that_is_restored_already_stays(
    nats_server: Broker, tmp_path: Path
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    await _backed_up(nats_server.url, client, tmp_path / "kept", 10)
    backup = read_backup(tmp_path / "kept")
    marked = {**backup.config, "metadata": {RESTORE_MARK: "now"}}
    await client.request("STREAM.CREATE.S", marked)
    nc = await nats.connect(nats_server.url)
    for number in range(12):
        await nc.jetstream().publish(f"s.{number}", b"x")
    with pytest.raises(Conflict, match=r"stays on the server.* published 2 messages to it"):
        await _remove_remains(client, marked, backup)
    assert (await _info(client) or {})["state"]["messages"] == 12
    await nc.jetstream().delete_stream("S")
    await client.request("STREAM.CREATE.S", marked)
    assert (
        await _remove_remains(client, marked, backup) == "the part restored until then was removed"
    )
    assert await _info(client) is None
    # Without the mark it is not what was restored.
    await client.request("STREAM.CREATE.S", backup.config)
    theirs = "somebody else created the stream S that is on the server: it stays"
    assert await _remove_remains(client, marked, backup) == theirs
    assert await _info(client) is not None
    await nc.close()
    await client.close()


async def test_who_wants_to_leave_waits_for_the_end_but_not_for_ever() -> None:
    ended = list[str]()

    async def work(lasts_s: float) -> None:
        await asyncio.sleep(lasts_s)
        ended.append("whole")

    for lasts_s, leaving_s, cancels_count, expected in (
        (0.2, 60.0, 1, ["whole"]),
        (60.0, 0.2, 1, ["no reply yet"]),
        (60.0, 60.0, 2, []),
    ):
        ended.clear()
        task = asyncio.create_task(finish_uninterrupted(work(lasts_s), "no reply yet", leaving_s))
        for _ in range(cancels_count):
            await asyncio.sleep(0.05)
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=30)
        assert done
        if not task.cancelled():
            ended.append(str(task.exception()))
        assert ended == expected


async def test_what_failed_while_somebody_wanted_to_leave_is_told() -> None:
    async def work() -> None:
        await asyncio.sleep(0.1)
        raise RequestFailed("not as it was")

    task = asyncio.create_task(finish_uninterrupted(work(), "no reply yet"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(RequestFailed, match="not as it was"):
        await task


async def _backed_up(
    url: str, client: Client, folder: Path, messages_count: int = _MESSAGES_COUNT
) -> None:
    """Make a stream, its backup, and remove it."""
    nc = await nats.connect(url)
    await nc.jetstream().add_stream(name="S", subjects=["s.>"])
    for number in range(messages_count):
        if number % 1_000 == 999:
            # A stream drops what comes faster than it stores.
            await nc.request(f"s.{number}", b"x" * 500, timeout=30)
        else:
            await nc.publish(f"s.{number}", b"x" * 500)
    await flushed(nc)
    while (await nc.jetstream().stream_info("S")).state.messages < messages_count:
        await asyncio.sleep(0.05)
    await back_up_stream(client, "S", folder, RateLimit(), lambda *_: None, consumers=True)
    await nc.jetstream().delete_stream("S")
    await nc.close()


async def _stopped(
    writer: Writer, wanted: RestoreRequest, done: list[RestoredStream], after_s: float | None
) -> float:
    """Restore and stop so long after the last byte was sent; return how long that went on."""
    loop, last_s = asyncio.get_running_loop(), 0.0

    def progress(sent_bytes: int) -> None:
        nonlocal last_s
        if sent_bytes == wanted.backup.data_bytes:
            last_s = loop.time()
            if after_s is not None:
                loop.call_later(after_s, restoring.cancel)

    restoring = asyncio.create_task(restore_stream(writer, wanted, RateLimit(), progress, done))
    with suppress(asyncio.CancelledError):
        await restoring
    return loop.time() - last_s


async def _info(client: Client) -> Config | None:
    try:
        info: Config = json.loads(await client.request("STREAM.INFO.S"))
    except NotFound:
        return None
    return info


_DATA_SUBJECT = "$JS.SNAPSHOT.RESTORE.S.x"


@pytest.mark.server
@pytest.mark.parametrize("subscribes", [True, False])
async def test_the_subscription_to_the_data_may_arrive_after_the_reply(
    nats_server_factory: Callable[..., Broker], subscribes: bool
) -> None:
    """In a cluster they come on different connections; a scripted server makes it certain."""
    broker = nats_server_factory(jetstream=False)
    server = await nats.connect(broker.url)
    client = await connect(Connection(servers=(broker.url,)))
    received = list[bytes]()

    async def on_data(message: Msg) -> None:
        received.append(message.data)
        await message.respond(b"" if message.data else json.dumps({"config": {}}).encode())

    async def on_restore(message: Msg) -> None:
        await message.respond(json.dumps({"deliver_subject": _DATA_SUBJECT}).encode())

    await server.subscribe("$JS.API.STREAM.RESTORE.S", cb=on_restore)
    await flushed(server)
    config: Config = {"name": "S"}
    data = io.BytesIO(b"x" * 200_000)
    sending = asyncio.create_task(
        send_snapshot(client, config, {"bytes": 1}, data, RateLimit(), lambda _bytes: None)
    )
    if subscribes:
        await asyncio.sleep(0.5)
        await server.subscribe(_DATA_SUBJECT, cb=on_data)
        assert await sending == {"config": {}}
        assert b"".join(received) == b"x" * 200_000
    else:
        with pytest.raises(RequestFailed, match="accepts no more data: it has aborted"):
            await sending
    await client.close()
    await server.close()
