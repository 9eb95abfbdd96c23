"""What breaks at streams, their publishers, mirrors and sources."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator

from nats.aio.msg import Msg

from tests.faults.site import NS, Site
from tests.faults.stories import makes


@makes("ephemerals-pile-up")
async def ephemerals_pile_up(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(2)
    names: list[str] = []

    async def leak() -> None:
        names.append(f"e{secrets.token_hex(8)}")
        config = {
            "name": names[-1], "ack_policy": "none", "inactive_threshold": 600 * NS,
            "mem_storage": True,
        }  # fmt: skip
        body = {"stream_name": site.stream, "config": config}
        await site.api(f"CONSUMER.CREATE.{site.stream}.{names[-1]}", body)

    yield
    await asyncio.gather(*(leak() for _ in range(40)))

    async def once() -> None:
        await leak()
        await asyncio.sleep(1)

    site.repeat("leak", once)
    yield
    site.stop("leak")
    await asyncio.gather(*(site.delete_consumer(name) for name in names))


@makes("durables-pile-up")
async def durables_pile_up(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    site.publishing(2)
    site.work()
    names: list[str] = []

    async def start_pod() -> None:
        names.append(f"pod-{secrets.token_hex(5)}")
        await site.add_consumer(names[-1])
        await site.pull(names[-1], batch=1, expires_s=0)

    yield
    await asyncio.gather(*(start_pod() for _ in range(34)))

    async def once() -> None:
        await start_pod()
        await asyncio.sleep(2)

    site.repeat("pods", once)
    yield
    site.stop("pods")
    await asyncio.gather(*(site.delete_consumer(name) for name in names))


@makes("max-consumers")
async def max_consumers(site: Site) -> AsyncIterator[None]:
    await site.add_stream(max_consumers=5)
    site.publishing(2)
    for number in range(4):
        await site.add_consumer(f"W{number}")
        site.work(consumer=f"W{number}")
    yield
    await site.add_consumer("W4")
    site.work(consumer="W4")

    async def deploy() -> None:
        config = {"durable_name": "W5", "ack_policy": "explicit"}
        body = {"stream_name": site.stream, "config": config}
        await site.try_api(f"CONSUMER.CREATE.{site.stream}.W5", body)
        await asyncio.sleep(5)

    site.repeat("deployment", deploy)
    yield
    site.stop("deployment")
    for name in ("W3", "W4"):
        site.stop(f"worker of {name}")
        await site.delete_consumer(name)


async def _full(site: Site, size_bytes: int = 10, **config: object) -> AsyncIterator[None]:
    """Fill a stream that discards new messages, and publish on."""
    await site.add_stream(discard="new", **config)
    await site.publish(50, size_bytes=size_bytes)
    yield
    site.publishing(40, size_bytes=size_bytes)
    await asyncio.sleep(2)
    site.publishing(4, size_bytes=size_bytes)
    yield
    site.stop("publisher")
    await site.purge()


@makes("full-max-msgs")
def full_max_msgs(site: Site) -> AsyncIterator[None]:
    return _full(site, max_msgs=100)


@makes("full-max-bytes")
def full_max_bytes(site: Site) -> AsyncIterator[None]:
    return _full(site, 500, max_bytes=40_000)


@makes("nearly-full")
async def nearly_full(site: Site) -> AsyncIterator[None]:
    await site.add_stream(discard="new", max_msgs=1000)
    await site.publish(500)
    yield
    await site.publish(460)
    site.publishing(0.2)
    yield
    site.stop("publisher")
    await site.purge()


@makes("full-per-subject")
async def full_per_subject(site: Site) -> AsyncIterator[None]:
    await site.add_stream(discard="new", discard_new_per_subject=True, max_msgs_per_subject=5)
    for subject in "bcd":
        await site.publish(1, subject)
    yield
    await site.publish(5)
    site.publishing(4)
    yield
    site.stop("publisher")
    await site.purge()


@makes("work-queue-full")
async def work_queue_full(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="workqueue", discard="new", max_msgs=100)
    await site.add_consumer()
    site.publishing(2)

    async def handle(message: Msg) -> None:
        await asyncio.sleep(0.3)
        await message.ack()

    site.work(handle)
    yield
    await site.publish(90)
    site.publishing(20)
    yield
    site.publishing(1)
    site.work(batch=100)


@makes("kv-full")
async def kv_full(site: Site) -> AsyncIterator[None]:
    bucket = "FULL"
    await site.add_stream(
        f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"], max_msgs_per_subject=1, discard="new",
        max_bytes=20_000, allow_rollup_hdrs=True, deny_delete=True, allow_direct=True,
    )  # fmt: skip
    number = 0

    async def put() -> None:
        nonlocal number
        number += 1
        await site.client.publish(f"$KV.{bucket}.key{number}", b"x" * 400)
        await asyncio.sleep(0.05 if number < 60 else 0.5)

    yield
    site.repeat("puts", put)
    await asyncio.sleep(4)
    yield
    site.stop("puts")
    await site.api(f"STREAM.PURGE.KV_{bucket}")


@makes("aggregate-full")
async def aggregate_full(site: Site) -> AsyncIterator[None]:
    origin = f"{site.stream}_ORIGIN"
    await site.add_stream(origin)
    await site.add_stream(sources=[{"name": origin}], discard="new", max_msgs=50)
    site.publishing(1, stream=origin)
    yield
    await site.publish(60, stream=origin)
    site.publishing(4, stream=origin)
    yield
    await site.update_stream(max_msgs=100_000)


@makes("publisher-stopped")
async def publisher_stopped(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(4)
    yield
    site.stop("publisher")
    yield
    site.publishing(4)


@makes("same-message-id")
async def same_message_id(site: Site) -> AsyncIterator[None]:
    # It is broken for longer than the two minutes of the default, after which one is stored.
    await site.add_stream(duplicate_window=600 * NS)
    site.publishing(4)
    yield
    site.publishing(4, headers={"Nats-Msg-Id": "order"})
    yield
    site.publishing(4)


@makes("message-too-large")
async def message_too_large(site: Site) -> AsyncIterator[None]:
    await site.add_stream(max_msg_size=500)
    site.publishing(4, size_bytes=400)
    yield
    site.publishing(4, size_bytes=1000)
    yield
    site.publishing(4, size_bytes=400)


@makes("sealed", lasting=True)
async def sealed(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(4)
    yield
    await site.update_stream(sealed=True)
    yield


@makes("orphans")
async def orphans(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="workqueue")
    await site.add_consumer(filter_subject=f"{site.stream}.a")
    site.publishing(4)
    site.work()
    yield
    await site.publish(50, "b")
    yield
    await site.api(f"STREAM.PURGE.{site.stream}", {"filter": f"{site.stream}.b"})


@makes("orphans-misspelt")
async def orphans_misspelt(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="workqueue")
    await site.add_consumer(filter_subject=f"{site.stream}.orders")
    site.publishing(18, "orders")
    site.work()
    yield
    site.publishing(2, "oders", name="other publisher")
    yield
    site.stop("other publisher")
    await site.api(f"STREAM.PURGE.{site.stream}", {"filter": f"{site.stream}.oders"})


@makes("work-queue-alone")
async def work_queue_alone(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="workqueue")
    yield
    site.publishing(4)
    yield
    await site.add_consumer()
    site.work(batch=100)


@makes("interest-alone")
async def interest_alone(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="interest")
    yield
    site.publishing(4)
    yield
    await site.add_consumer()
    site.work()


@makes("interest-subject-dropped")
async def interest_subject_dropped(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="interest")
    await site.add_consumer(filter_subject=f"{site.stream}.a")
    site.publishing(4)
    site.work()
    yield
    site.publishing(4, "b", name="other publisher")
    yield
    await site.add_consumer("D", filter_subject=f"{site.stream}.b")
    site.work(consumer="D")


@makes("interest-held")
async def interest_held(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="interest")
    for name in "CD":
        await site.add_consumer(name)
        site.work(consumer=name)
    site.publishing(5)
    yield
    site.stop()
    yield
    await site.delete_consumer()


async def _mirrored(site: Site) -> str:
    """Create a stream that mirrors another one; return the other one's name."""
    origin = f"{site.stream}_ORIGIN"
    await site.add_stream(origin)
    await site.publish(100, stream=origin)
    await site.add_stream(mirror={"name": origin})
    site.publishing(2, stream=origin)
    return origin


@makes("origin-deleted", lasting=True)
async def origin_deleted(site: Site) -> AsyncIterator[None]:
    origin = await _mirrored(site)
    yield
    site.stop("publisher")
    await site.delete_stream(origin)
    yield


@makes("origin-recreated")
async def origin_recreated(site: Site) -> AsyncIterator[None]:
    origin = await _mirrored(site)
    yield
    site.stop("publisher")
    await site.delete_stream(origin)
    await site.add_stream(origin)
    await site.publish(5, stream=origin)
    yield
    await site.delete_stream()
    await site.add_stream(mirror={"name": origin})


@makes("source-filter")
async def source_filter(site: Site) -> AsyncIterator[None]:
    origin = f"{site.stream}_ORIGIN"
    await site.add_stream(origin)
    site.publishing(4, "orders.created", stream=origin)
    yield
    await site.add_stream(sources=[{"name": origin, "filter_subject": f"{origin}.order.*"}])
    yield
    await site.update_stream(sources=[{"name": origin, "filter_subject": f"{origin}.orders.*"}])


@makes("source-missing")
async def source_missing(site: Site) -> AsyncIterator[None]:
    origin = f"{site.stream}_ORIGIN"
    await site.add_stream(origin)
    site.publishing(4, stream=origin)
    yield
    await site.add_stream(sources=[{"name": origin.replace("ORIGIN", "ORIGN")}])
    yield
    await site.update_stream(sources=[{"name": origin}])


@makes("stream-recreated")
async def stream_recreated(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    site.publishing(4)
    site.work()
    yield
    await site.delete_stream()
    await site.add_stream()
    yield
    await site.add_consumer()


@makes("stream-deleted")
async def stream_deleted(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    site.publishing(4)
    site.work()
    yield
    await site.delete_stream()
    yield
    await site.add_stream()
    await site.add_consumer()


@makes("purged", lasting=True)
async def purged(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    await site.publish(200)
    site.publishing(4)
    site.work(batch=2, pause_s=0.3)
    yield
    await site.purge()
    yield


@makes("batch-abandoned")
async def batch_abandoned(site: Site) -> AsyncIterator[None]:
    await site.add_stream(allow_atomic=True)
    site.publishing(2)

    async def begin() -> None:
        batch = secrets.token_hex(8)
        for sequence in range(1, 6):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(sequence)}
            await site.send(headers=headers, reply=site.client.new_inbox())
        await asyncio.sleep(1)

    yield
    site.repeat("batches", begin)
    yield
    site.stop("batches")


@makes("object-chunks")
async def object_chunks(site: Site) -> AsyncIterator[None]:
    bucket = "CHUNKS"
    await site.add_stream(
        f"OBJ_{bucket}", subjects=[f"$O.{bucket}.C.>", f"$O.{bucket}.M.>"], discard="new",
        allow_rollup_hdrs=True, allow_direct=True,
    )  # fmt: skip
    store = await site.client.jetstream().object_store(bucket)
    await store.put("complete", b"x" * 200_000)
    yield
    upload = secrets.token_hex(11).upper()
    for _ in range(40):
        await site.client.request(f"$O.{bucket}.C.{upload}", b"x" * 10_000, timeout=10)
    yield
    await site.api(f"STREAM.PURGE.OBJ_{bucket}", {"filter": f"$O.{bucket}.C.{upload}"})
