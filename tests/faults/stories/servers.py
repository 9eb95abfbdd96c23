"""What breaks at a server: its limits, its store, its clients, itself."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from nats.errors import Error

from tests.faults.grounds import ServerStage
from tests.faults.site import Site
from tests.faults.stories import makes


@makes("slow-consumer")
async def slow_consumer(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("slow-consumer")
    host, port = "127.0.0.1", stage.broker.ports[0]

    async def never_read() -> None:
        # Its buffer is small, so that the server notices soon.
        reader, writer = await asyncio.open_connection(host, port, limit=1024)
        await reader.readline()
        writer.write(
            b'CONNECT {"user":"app","pass":"app","name":"slow-reader","verbose":false,'
            b'"pedantic":false,"lang":"lab","version":"1","protocol":1}\r\nSUB flood 1\r\nPING\r\n'
        )
        await writer.drain()
        await asyncio.sleep(8)
        writer.close()

    async def flood() -> None:
        await site.client.publish("flood", b"x" * 200_000)
        await asyncio.sleep(0.05)

    yield
    site.repeat("reader", never_read)
    site.repeat("flood", flood)
    yield
    site.stop("reader")
    site.stop("flood")


async def _fill(site: Site, count: int, storage: str) -> None:
    """Store messages of 100 kB in a stream."""
    await site.add_stream(storage=storage)
    await site.publish(count, size_bytes=100_000)


@makes("storage-nearly-full")
async def storage_nearly_full(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("storage-nearly-full")
    await _fill(site, 10, "file")
    yield
    await site.publish(180, size_bytes=100_000)
    yield
    await site.purge()


@makes("memory-nearly-full")
async def memory_nearly_full(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("memory-nearly-full")
    await _fill(site, 10, "memory")
    yield
    await site.publish(180, size_bytes=100_000)
    yield
    await site.purge()


@makes("storage-full")
async def storage_full(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("storage-full")
    await _fill(site, 10, "file")
    yield
    site.publishing(40, size_bytes=100_000)
    await asyncio.sleep(7)
    site.publishing(4, size_bytes=100_000)
    yield
    site.stop("publisher")
    await site.purge()


@makes("authentication-failures")
async def authentication_failures(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("authentication-failures")

    async def log_in() -> None:
        try:
            await site.connect(
                user="app", password="wrong", name="old-password", allow_reconnect=False
            )
        except (Error, OSError):
            await asyncio.sleep(1)

    yield
    site.repeat("client", log_in)
    yield
    site.stop("client")


@makes("certificate-expires", lasting=True)
async def certificate_expires(stage: ServerStage) -> AsyncIterator[None]:
    yield
    yield


@makes("restarted", lasting=True)
async def restarted(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("restarted")
    await site.add_stream(storage="file")
    site.publishing(2)
    yield
    await stage.restart()
    yield


@makes("restarts")
async def restarts(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("restarts")
    await site.add_stream(storage="file")
    site.publishing(2)

    async def once() -> None:
        await asyncio.sleep(15)
        await stage.restart()

    yield
    site.repeat("restarts", once)
    yield
    site.stop("restarts")
    await stage.start()


@makes("frozen")
async def frozen(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("frozen")
    await site.add_stream()
    site.publishing(2)
    yield
    stage.broker.freeze()
    yield
    stage.broker.thaw()


@makes("store-rolled-back", "blocks-lost")
async def store_damaged(stage: ServerStage) -> AsyncIterator[None]:
    back, lost = stage.site("store-rolled-back"), stage.site("blocks-lost")
    for site in (back, lost):
        await site.add_stream(storage="file", max_bytes=120_000)
        await site.add_consumer()
        await site.publish(90, size_bytes=1000)
        site.work(batch=100)
        await site.until_worked_off()
    old = stage.folder / "yesterday"
    await stage.stop()
    shutil.copytree(_stream_folder(stage, back), old)
    await stage.start()
    await back.publish(15, size_bytes=1000)
    await back.until_worked_off()
    yield
    await stage.stop()
    shutil.rmtree(_stream_folder(stage, back))
    shutil.copytree(old, _stream_folder(stage, back))
    lose_block(_stream_folder(stage, lost))
    await stage.start()
    yield
    await back.delete_stream()
    await lost.delete_stream()


def lose_block(stream: Path) -> None:
    """Delete a block of messages in the middle of a stream's store, as a damaged disk does."""
    messages = stream / "msgs"
    blocks = sorted(messages.glob("*.blk"), key=lambda block: int(block.stem))
    assert len(blocks) > 2, [block.name for block in blocks]
    blocks[len(blocks) // 2].unlink()
    (messages / "index.db").unlink(missing_ok=True)


def _stream_folder(stage: ServerStage, site: Site) -> Path:
    return stage.broker.store / "jetstream" / "APP" / "streams" / site.stream


@makes("offline-newer-level")
async def offline_newer_level(stage: ServerStage) -> AsyncIterator[None]:
    site = stage.site("offline-newer-level")
    await site.add_stream(storage="file", allow_batched=True)
    newer = stage.broker.binary
    yield
    await stage.stop()
    stage.broker.binary = stage.older_binary()
    await stage.start()
    yield
    await stage.stop()
    stage.broker.binary = newer
    await stage.start()


@makes("leaf-gone")
async def leaf_gone(stage: ServerStage) -> AsyncIterator[None]:
    site, leaf = stage.site("leaf-gone"), stage.beside[0]
    client = await stage.connect_to(leaf)
    at_leaf = Site("leaf-gone-origin", client, site.connect)
    await at_leaf.add_stream(storage="file")
    await at_leaf.publish(50)
    at_leaf.publishing(4)
    stage.sites.append(at_leaf)
    await site.add_stream(
        mirror={"name": at_leaf.stream, "external": {"api": "$JS.LEAF.API", "deliver": ""}}
    )
    async with asyncio.timeout(30):
        while not (await site.api(f"STREAM.INFO.{site.stream}"))["state"]["messages"]:
            await asyncio.sleep(0.2)
    yield
    leaf.kill()
    yield
    await stage.start(leaf)
    await site.runs()
