"""What looks odd and is right: nothing above info may be said of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from nats.aio.msg import Msg

from tests.faults.apart import work_apart
from tests.faults.site import Site, ack
from tests.faults.stories import makes


@makes("fine-schedules", lasting=True)
async def schedules(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="workqueue", allow_msg_schedules=True, allow_msg_ttl=True)
    await site.add_consumer(filter_subject=f"{site.stream}.run.>")
    site.work()
    site.publishing(1, "run.now")
    yield
    for number in range(10):
        headers = {
            "Nats-Schedule": "@at 2030-01-01T00:00:00Z",
            "Nats-Schedule-Target": f"{site.stream}.run.{number}",
        }
        await site.publish(1, f"schedule.{number}", headers=headers)
    yield


@makes("fine-slow-pace", lasting=True)
async def slow_pace(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    site.publishing(1 / 20)
    await site.publish(1)
    site.work(batch=500, expires_s=0, pause_s=12)
    yield
    yield


@makes("fine-batches", lasting=True)
async def batches(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()

    async def batch() -> None:
        await site.publish(200)
        await asyncio.sleep(20)

    site.repeat("publisher", batch)
    site.work(batch=20, pause_s=0.5)
    yield
    yield


@makes("fine-new-consumer", lasting=True)
async def new_consumer(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.publish(100)
    yield
    await site.add_consumer()

    async def start() -> None:
        await asyncio.sleep(7)
        site.work(batch=100)

    site.start("deployment", start())
    yield


@makes("fine-retries", lasting=True)
async def retries(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()

    async def handle(message: Msg) -> None:
        of = message.metadata
        again = of.sequence.stream % 5 == 0 and of.num_delivered == 1
        await (message.nak(delay=0.5) if again else message.ack())

    site.publishing(5)
    site.work(handle)
    yield
    yield


@makes("fine-replay-original", lasting=True)
async def replay_original(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.publish(3)
    site.start("later", _publish_later(site))
    yield
    await site.publish(1)
    await site.add_consumer(replay_policy="original")
    site.work()
    yield


async def _publish_later(site: Site) -> None:
    await asyncio.sleep(4)
    await site.publish(1)


@makes("fine-last-value", lasting=True)
async def last_value(site: Site) -> AsyncIterator[None]:
    await site.add_stream(max_msgs_per_subject=1)
    await site.add_consumer()
    for subject in "abcde":
        site.publishing(2, subject, name=f"publisher of {subject}")
    site.work(batch=1, pause_s=0.5)
    yield
    yield


@makes("fine-sourcing-consumer", lasting=True)
async def sourcing_consumer(site: Site) -> AsyncIterator[None]:
    origin = f"{site.stream}_ORIGIN"
    await site.add_stream(origin, retention="workqueue")
    site.publishing(4, stream=origin)
    await site.add_stream(sources=[{"name": origin}])
    yield
    yield


@makes("fine-filtered", lasting=True)
async def filtered(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(filter_subject=f"{site.stream}.rare")
    site.publishing(10, "often", name="other publisher")
    site.publishing(0.5, "rare")
    site.work()
    yield
    yield


@makes("fine-fast-work-queue", lasting=True)
async def fast_work_queue(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="workqueue")
    await site.add_consumer(filter_subject=f"{site.stream}.>", max_ack_pending=20_000)
    site.start("process", work_apart(site, "fine-fast-work-queue", 1500))
    yield
    yield


@makes("fine-long-job", lasting=True)
async def long_job(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    site.publishing(4)
    is_next_long = False

    async def handle(message: Msg) -> None:
        nonlocal is_next_long
        if is_next_long:
            is_next_long = False
            await asyncio.sleep(18)
        await message.ack()

    site.work(handle, batch=1)
    yield
    is_next_long = True
    yield


@makes("fine-one-stop", lasting=True)
async def one_stop(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    site.publishing(5)
    site.work()
    yield
    site.stop()

    async def deploy() -> None:
        await asyncio.sleep(5)
        site.work(ack, batch=50)

    site.start("deployment", deploy())
    yield


@makes("fine-idle", lasting=True)
async def idle(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    await site.publish(5)
    site.work(expires_s=30)
    yield
    yield


@makes("fine-purged-backlog", lasting=True)
async def purged_backlog(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    await site.publish(300)
    site.publishing(4)
    site.work(batch=2, pause_s=0.3)
    yield
    await site.purge()
    yield
