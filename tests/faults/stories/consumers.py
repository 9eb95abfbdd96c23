"""What breaks at consumers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from nats.aio.msg import Msg

from tests.faults.site import NS, Handle, Site, ack, keep
from tests.faults.stories import makes

_HOUR = 3600 * NS
_TOMORROW = "2030-01-01T00:00:00Z"


async def _busy(site: Site, per_s: float = 4, **consumer: object) -> None:
    """Create a stream and a consumer, and let a publisher and a worker run."""
    await site.add_stream()
    await site.add_consumer(**consumer)
    site.publishing(per_s)
    site.work()


@makes("worker-crashed")
async def worker_crashed(site: Site) -> AsyncIterator[None]:
    await _busy(site)
    yield
    await site.end()
    yield
    site.work()


@makes("never-pulled")
async def never_pulled(site: Site) -> AsyncIterator[None]:
    yield
    await site.add_stream()
    await site.add_consumer()
    await site.publish(100)
    yield
    site.work(batch=100)


@makes("died-unacked")
async def died_unacked(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(ack_wait=5 * NS)
    await site.publish(20)
    site.work()
    yield
    await site.until_worked_off()
    site.stop()
    await site.until_no_pull()
    await site.publish(5)
    await site.keep_some(5)
    yield
    site.work()


@makes("died-with-acks")
async def died_with_acks(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(ack_wait=_HOUR)
    site.publishing(4)
    site.work()
    yield
    site.stop("publisher")
    await site.until_worked_off()
    site.stop()
    await site.until_no_pull()
    # A client of its own receives five, and its connection ends without an ack.
    client = await site.connect(name="billing-7")
    await site.publish(5)
    received = await site.pull(batch=5, client=client)
    assert len(received) == 5, [each.headers for each in received]
    await client.close()
    yield
    site.work()
    site.publishing(4)


@makes("one-of-two-dead")
async def one_of_two_dead(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="workqueue")
    for name, subject in (("C", "a"), ("D", "b")):
        await site.add_consumer(name, filter_subject=f"{site.stream}.{subject}")
        site.publishing(4, subject, name=f"publisher of {subject}")
        site.work(consumer=name)
    yield
    await site.end()
    yield
    site.work()


@makes("push-no-subscriber")
async def push_no_subscriber(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(4)
    yield
    await site.add_consumer(deliver_subject=f"deliver.{site.stream}")
    yield
    await site.subscribe(f"deliver.{site.stream}")


@makes("push-subscriber-left")
async def push_subscriber_left(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(deliver_subject=f"deliver.{site.stream}")
    subscription = await site.subscribe(f"deliver.{site.stream}")
    site.publishing(4)
    yield
    await subscription.unsubscribe()
    yield
    await site.subscribe(f"deliver.{site.stream}")


async def _other_queue(site: Site, queue: str) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(4)
    yield
    await site.add_consumer(deliver_subject=f"deliver.{site.stream}", deliver_group="workers")
    subscription = await site.subscribe(f"deliver.{site.stream}", queue=queue)
    yield
    await subscription.unsubscribe()
    await site.subscribe(f"deliver.{site.stream}", queue="workers")


@makes("push-other-group")
def push_other_group(site: Site) -> AsyncIterator[None]:
    return _other_queue(site, "worker")


@makes("push-without-group")
def push_without_group(site: Site) -> AsyncIterator[None]:
    return _other_queue(site, "")


@makes("push-twice")
async def push_twice(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(deliver_subject=f"deliver.{site.stream}")
    await site.subscribe(f"deliver.{site.stream}", client=await site.connect(name="instance-1"))
    site.publishing(4)
    yield
    second = await site.connect(name="instance-2")
    await site.subscribe(f"deliver.{site.stream}", client=second)
    yield
    await second.close()


@makes("flow-control-unanswered")
async def flow_control_unanswered(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(
        deliver_subject=f"deliver.{site.stream}", flow_control=True, idle_heartbeat=NS,
        max_ack_pending=-1,
    )  # fmt: skip
    await site.subscribe(f"deliver.{site.stream}")
    yield

    # More than the server sends before a first reply (2 MB), and little: all of it comes at once
    # when it is fixed, and over 64 MB the server would cut off the client that the others share.
    await site.publish(20, size_bytes=200_000)
    site.publishing(4)
    yield

    async def reply(message: Msg) -> None:
        stalled = (message.headers or {}).get("Nats-Consumer-Stalled")
        if stalled or (message.reply and not message.reply.startswith("$JS.ACK")):
            await site.client.publish(stalled or message.reply)

    await site.client.subscribe(f"deliver.{site.stream}", cb=reply)


@makes("rate-limited")
async def rate_limited(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(10, size_bytes=1000)
    yield
    await site.add_consumer(
        deliver_subject=f"deliver.{site.stream}", rate_limit_bps=16_000, deliver_policy="new"
    )
    await site.subscribe(f"deliver.{site.stream}")
    # The server lets one largest payload (1 MiB) pass before it limits.
    await site.publish(12, size_bytes=100_000)
    yield
    await site.delete_consumer()


@makes("paused")
async def paused(site: Site) -> AsyncIterator[None]:
    await _busy(site)
    yield
    verb = f"CONSUMER.PAUSE.{site.stream}.C"
    await site.api(verb, {"pause_until": _TOMORROW})
    yield
    await site.api(verb, {})


@makes("ack-pending-full")
async def ack_pending_full(site: Site) -> AsyncIterator[None]:
    await _busy(site, ack_wait=_HOUR, max_ack_pending=64)
    yield

    forgets = True

    async def forget(message: Msg) -> None:
        if forgets:
            site.kept.append(message)
        else:
            await message.ack()

    site.work(forget)
    await site.publish(100)
    yield
    # A worker in its place would lose what was under way to this one.
    forgets = False
    await site.ack_kept()


@makes("ack-pending-dead-owner")
async def ack_pending_dead_owner(site: Site) -> AsyncIterator[None]:
    await _busy(site, ack_wait=_HOUR, max_ack_pending=20)
    yield
    site.stop()
    await site.publish(20)
    await site.keep_some(20)
    site.work()
    yield
    await site.ack_kept()


@makes("ack-pending-push")
async def ack_pending_push(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(
        deliver_subject=f"deliver.{site.stream}", max_ack_pending=16, ack_wait=_HOUR
    )
    hangs = False

    async def handle(message: Msg) -> None:
        if hangs:
            site.kept.append(message)
        else:
            await message.ack()

    await site.subscribe(f"deliver.{site.stream}", handle)
    site.publishing(4)
    yield
    hangs = True
    await site.publish(20)
    yield
    hangs = False
    await site.ack_kept()


@makes("ack-pending-too-small")
async def ack_pending_too_small(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(max_ack_pending=2)

    async def handle(message: Msg) -> None:
        await asyncio.sleep(0.5)
        await message.ack()

    for number in range(6):
        site.work(handle, batch=1, name=f"worker {number}")
    site.publishing(2)
    yield
    site.publishing(9)
    yield
    await site.add_consumer(max_ack_pending=1000)


@makes("never-acked")
async def never_acked(site: Site) -> AsyncIterator[None]:
    await _busy(site, ack_wait=2 * NS)
    yield
    site.publishing(1)
    site.work(keep)
    yield
    site.work()


@makes("acks-denied")
async def acks_denied(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(ack_wait=2 * NS)
    site.publishing(1)
    site.work()
    yield
    site.stop()
    denied = await site.connect(user="noack", name="denied-worker")
    site.work(client=denied)
    yield
    site.work()


async def _late(site: Site, every: int) -> AsyncIterator[None]:
    """Ack each message of a number only after four seconds, which is twice the ack wait."""
    await _busy(site, per_s=3, ack_wait=2 * NS)
    yield

    def seconds(message: Msg) -> float:
        return 4.0 if message.metadata.sequence.stream % every == 0 else 0.1

    site.work_apart(seconds)
    yield
    await site.add_consumer(ack_wait=30 * NS)


@makes("acked-too-late")
def acked_too_late(site: Site) -> AsyncIterator[None]:
    return _late(site, 1)


@makes("some-acked-too-late")
def some_acked_too_late(site: Site) -> AsyncIterator[None]:
    return _late(site, 3)


@makes("floor-blocked")
async def floor_blocked(site: Site) -> AsyncIterator[None]:
    await _busy(site, ack_wait=_HOUR)
    yield
    forgotten: list[Msg] = []

    async def forget_one(message: Msg) -> None:
        if forgotten:
            await message.ack()
        else:
            forgotten.append(message)

    site.work(forget_one)
    yield
    await forgotten[0].ack()


@makes("floor-blocked-in-progress")
async def floor_blocked_in_progress(site: Site) -> AsyncIterator[None]:
    # A machine that is held up for some seconds must not let the ack wait pass.
    await _busy(site, ack_wait=15 * NS)
    yield

    async def report_progress(message: Msg) -> None:
        while True:
            await message.in_progress()
            await asyncio.sleep(1)

    async def hang_on_one(message: Msg) -> None:
        if site.kept:
            await message.ack()
        else:
            site.kept.append(message)
            site.start("progress", report_progress(message))

    site.work(hang_on_one)
    yield
    site.stop("progress")
    await site.ack_kept()
    site.work()


async def _poison(site: Site, handle_poison: Handle, ack_wait_s: int) -> AsyncIterator[None]:
    await _busy(site, ack_wait=ack_wait_s * NS)
    yield

    async def handle(message: Msg) -> None:
        await (handle_poison(message) if message.subject.endswith(".poison") else message.ack())

    site.work(handle)
    await site.publish(1, "poison")
    yield
    site.work()


@makes("poison")
def poison(site: Site) -> AsyncIterator[None]:
    return _poison(site, keep, 2)


@makes("poison-nak")
def poison_nak(site: Site) -> AsyncIterator[None]:
    async def refuse(message: Msg) -> None:
        await message.nak(delay=0.5)

    return _poison(site, refuse, 30)


@makes("all-nakd")
async def all_nakd(site: Site) -> AsyncIterator[None]:
    await _busy(site, per_s=1)
    yield

    async def refuse(message: Msg) -> None:
        await message.nak(delay=2)

    site.work(refuse)
    yield
    site.work()


@makes("all-terminated")
async def all_terminated(site: Site) -> AsyncIterator[None]:
    await _busy(site)
    yield

    async def terminate(message: Msg) -> None:
        await message.term()

    site.work(terminate)
    yield
    site.work()


@makes("backoff-an-hour")
async def backoff_an_hour(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(backoff=[NS, _HOUR], max_deliver=5)
    await site.publish(20)
    site.work()
    yield
    await site.until_worked_off()

    async def fail(message: Msg) -> None:
        site.kept.append(message)

    site.work(fail)
    await site.publish(5)
    yield
    await site.ack_kept()


async def _dropped(
    site: Site, retention: str, every: int, per_s: float = 2
) -> AsyncIterator[None]:
    """Never ack what comes on one subject, of a consumer that drops it after few deliveries."""
    await site.add_stream(retention=retention)
    await site.add_consumer(max_deliver=3, ack_wait=NS)
    site.publishing(per_s)

    async def handle(message: Msg) -> None:
        if not message.subject.endswith(".bad"):
            await message.ack()

    site.work(handle, expires_s=1)
    yield
    if every:
        site.publishing(per_s / every, "bad", name="bad publisher")
    else:
        await site.publish(1, "bad")
    yield
    site.stop("bad publisher")
    info = await site.api(f"STREAM.INFO.{site.stream}", {"subjects_filter": f"{site.stream}.bad"})
    if info["state"].get("subjects"):
        await site.api(f"STREAM.PURGE.{site.stream}", {"filter": f"{site.stream}.bad"})


@makes("dropped-work-queue")
def dropped_work_queue(site: Site) -> AsyncIterator[None]:
    return _dropped(site, "workqueue", 0)


@makes("dropped-interest")
def dropped_interest(site: Site) -> AsyncIterator[None]:
    return _dropped(site, "interest", 10)


@makes("dropped-limits")
def dropped_limits(site: Site) -> AsyncIterator[None]:
    return _dropped(site, "limits", 10)


@makes("dropped-at-once", lasting=True)
async def dropped_at_once(site: Site) -> AsyncIterator[None]:
    await _busy(site, max_deliver=1, ack_wait=2 * NS)
    yield
    site.stop()
    await site.publish(20)
    await site.keep_some(20)
    site.work()
    yield


@makes("filter-misspelt")
async def filter_misspelt(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(4, "orders.created")
    yield
    await site.add_consumer(filter_subject=f"{site.stream}.order.created")
    site.work()
    yield
    await site.add_consumer(filter_subject=f"{site.stream}.orders.created")


@makes("filters-misspelt")
async def filters_misspelt(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(4, "orders.created")
    yield
    await site.add_consumer(
        filter_subjects=[f"{site.stream}.order.*", f"{site.stream}.orders.*.created"]
    )
    site.work()
    yield
    await site.add_consumer(filter_subjects=[f"{site.stream}.orders.created"])


@makes("start-beyond-end")
async def start_beyond_end(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(4)
    yield
    await site.add_consumer(deliver_policy="by_start_sequence", opt_start_seq=1_000_000)
    site.work()
    yield
    await site.delete_consumer()


@makes("overflow-below")
async def overflow_below(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    yield
    await site.add_consumer(priority_policy="overflow", priority_groups=["g"])
    await site.publish(10)
    site.work(group="g", min_pending=100)
    yield
    site.work(group="g")


@makes("pinned-idle")
async def pinned_idle(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    site.publishing(4)
    yield
    await site.add_consumer(
        priority_policy="pinned_client", priority_groups=["g"], priority_timeout=300 * NS
    )
    await site.pull(batch=5, group="g", handle=ack)
    site.work(group="g", name="other worker")
    yield
    site.stop("other worker")
    await site.until_no_pull()
    await site.api(f"CONSUMER.UNPIN.{site.stream}.C", {"group": "g"})
    (pinned,) = await site.pull(batch=1, group="g", handle=ack)
    site.work(group="g", id=(pinned.headers or {})["Nats-Pin-Id"], name="other worker")


async def _refused(
    site: Site, config: dict[str, object], pull: dict[str, object], size_bytes: int = 10
) -> AsyncIterator[None]:
    """Pull in a way that the server refuses."""
    await site.add_stream()
    site.publishing(4, size_bytes=size_bytes)
    yield
    await site.add_consumer(**config)
    site.work(**pull)
    yield
    site.work(**({"group": "g"} if "priority_groups" in config else {}))


@makes("group-missing")
def group_missing(site: Site) -> AsyncIterator[None]:
    return _refused(site, {"priority_policy": "overflow", "priority_groups": ["g"]}, {})


@makes("max-bytes-too-small")
def max_bytes_too_small(site: Site) -> AsyncIterator[None]:
    return _refused(site, {}, {"max_bytes": 1000}, 2000)


@makes("max-batch-refused")
def max_batch_refused(site: Site) -> AsyncIterator[None]:
    return _refused(site, {"max_batch": 100}, {"batch": 500})


@makes("max-expires-refused")
def max_expires_refused(site: Site) -> AsyncIterator[None]:
    return _refused(site, {"max_expires": 5 * NS}, {"expires_s": 60.0})


@makes("max-waiting-reached")
async def max_waiting_reached(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer(max_waiting=2)
    site.publishing(0.2)
    site.work(expires_s=5, batch=1)
    yield
    for number in range(5):
        site.work(expires_s=5, batch=1, name=f"worker {number}")
    yield
    for number in range(5):
        site.stop(f"worker {number}")


@makes("too-slow")
async def too_slow(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()

    async def handle(message: Msg) -> None:
        await asyncio.sleep(0.25)
        await message.ack()

    site.publishing(2)
    site.work(handle)
    yield
    site.publishing(10)
    yield
    site.work(batch=100)


@makes("etl-missed")
async def etl_missed(site: Site) -> AsyncIterator[None]:
    await site.add_stream()
    await site.add_consumer()
    site.publishing(2)
    site.work(batch=500, expires_s=0, pause_s=5)
    yield
    site.stop()
    yield
    site.work(batch=500, expires_s=0, pause_s=5)


@makes("lost-max-msgs")
async def lost_max_msgs(site: Site) -> AsyncIterator[None]:
    await site.add_stream(max_msgs=50)
    await site.add_consumer()
    site.publishing(1)
    site.work(batch=1, pause_s=0.5)
    yield
    site.publishing(20)
    yield
    site.publishing(1)
    site.work(batch=100)


@makes("lost-work-queue")
async def lost_work_queue(site: Site) -> AsyncIterator[None]:
    await site.add_stream(max_msgs=50, retention="workqueue")
    await site.add_consumer()
    site.publishing(1)
    site.work(batch=1, pause_s=0.5)
    yield
    site.publishing(20)
    yield
    site.publishing(1)
    site.work(batch=100)


@makes("lost-max-age")
async def lost_max_age(site: Site) -> AsyncIterator[None]:
    await site.add_stream(max_age=5 * NS, duplicate_window=2 * NS)
    await site.add_consumer()
    site.publishing(4)
    site.work()
    yield
    site.work(batch=1, pause_s=1.5)
    yield
    site.work()


@makes("lost-unacked")
async def lost_unacked(site: Site) -> AsyncIterator[None]:
    await site.add_stream(max_msgs=50)
    await site.add_consumer(ack_wait=30 * NS)
    site.publishing(1)
    site.work_apart(lambda message: 6.0)
    yield
    site.publishing(20)
    yield
    site.publishing(1)


@makes("threshold-removed-it")
async def threshold_removed_it(site: Site) -> AsyncIterator[None]:
    await site.add_stream(retention="workqueue")
    await site.add_consumer(inactive_threshold=5 * NS, ack_wait=2 * NS)
    site.publishing(4)
    site.work()
    yield
    site.stop()
    async with asyncio.timeout(60):
        while "error" not in await site.try_api(f"CONSUMER.INFO.{site.stream}.C"):
            await asyncio.sleep(2)
    yield
    await site.add_consumer()
    site.work(batch=100)


@makes("consumer-deleted")
async def consumer_deleted(site: Site) -> AsyncIterator[None]:
    await _busy(site)
    yield
    await site.delete_consumer()
    yield
    await site.add_consumer()


@makes("recreate-loop")
async def recreate_loop(site: Site) -> AsyncIterator[None]:
    await _busy(site)
    yield
    site.stop()

    async def begin_again() -> None:
        await site.delete_consumer()
        await site.add_consumer()
        await site.pull(handle=ack)
        await asyncio.sleep(0.8)

    site.repeat("recreating", begin_again)
    yield
    site.stop("recreating")
    await site.add_consumer()
    site.work(batch=100)
