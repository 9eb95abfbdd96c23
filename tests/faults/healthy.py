"""Twenty healthy workloads on a cluster: whatever natstui says above info is a false finding."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from nats.aio.msg import Msg

from tests.faults.grounds import ClusterStage
from tests.faults.judge import Poll, Seen
from tests.faults.observers import Observer, listed_sentences, read_fresh
from tests.faults.site import NS, Site, keep

AFTER_RESTART_S = 10.0
"""How long after a restart what it causes may still be open."""
DOWN_S = (0.0, 10.0, 30.0)
"""How long each node is down when it is restarted."""
_HEARTBEAT_S = 5.0

Workload = Callable[[Site], Awaitable[None]]
_FILE: dict[str, object] = {"storage": "file", "num_replicas": 3}


async def _steady(site: Site, **stream: object) -> None:
    await site.add_stream(**_FILE | stream)
    await site.add_consumer()
    site.publishing(5)
    site.work(batch=50)


async def steady_orders(site: Site) -> None:
    await _steady(site)


async def work_queue(site: Site) -> None:
    await _steady(site, retention="workqueue")


async def interest_of_two(site: Site) -> None:
    await _steady(site, retention="interest")
    await site.add_consumer("D")
    site.work(consumer="D", batch=50)


async def bursts(site: Site) -> None:
    await site.add_stream(**_FILE)
    await site.add_consumer()

    async def burst() -> None:
        await site.publish(300)
        await asyncio.sleep(10)

    site.repeat("publisher", burst)
    site.work(batch=50)


async def batch_each_minute(site: Site) -> None:
    await site.add_stream(**_FILE)
    await site.add_consumer()

    async def batch() -> None:
        await site.publish(500)
        await asyncio.sleep(60)

    site.repeat("publisher", batch)
    site.work(batch=50, pause_s=0.5)


async def etl_every_20_s(site: Site) -> None:
    await site.add_stream(**_FILE)
    await site.add_consumer()
    site.publishing(5)
    site.work(batch=1000, expires_s=0, pause_s=20)


async def retry_of_one_in_50(site: Site) -> None:
    await site.add_stream(**_FILE)
    await site.add_consumer()

    async def handle(message: Msg) -> None:
        of = message.metadata
        again = of.sequence.stream % 50 == 0 and of.num_delivered == 1
        await (message.nak(delay=1) if again else message.ack())

    site.publishing(10)
    site.work(handle, batch=50)


async def last_values(site: Site) -> None:
    """A slow reader of the newest value of each subject."""
    await site.add_stream(**_FILE, max_msgs_per_subject=1)
    await site.add_consumer()
    for number in range(5):
        site.publishing(1, f"sensor.{number}", name=f"sensor {number}")
    site.work(batch=1, pause_s=1)


async def idle_durable(site: Site) -> None:
    await site.add_stream(**_FILE)
    await site.add_consumer()
    await site.publish(5)
    site.work(expires_s=30)


async def idle_durable_without_pull(site: Site) -> None:
    """A job that comes once a day, with nothing to do until then."""
    await site.add_stream(**_FILE)
    await site.add_consumer()
    await site.publish(5)
    site.work()
    await site.until_worked_off()
    site.stop()


async def empty_work_queue(site: Site) -> None:
    await site.add_stream(**_FILE, retention="workqueue")
    await site.add_consumer()
    site.work(expires_s=30)


async def mirror(site: Site) -> None:
    origin = f"{site.stream}_ORIGIN"
    await site.add_stream(origin, **_FILE)
    await site.add_stream(mirror={"name": origin}, **_FILE)
    site.publishing(5, stream=origin)


async def sources(site: Site) -> None:
    names = [f"{site.stream}_{number}" for number in range(2)]
    for name in names:
        await site.add_stream(name, **_FILE)
        site.publishing(3, stream=name, name=f"publisher of {name}")
    await site.add_stream(sources=[{"name": name} for name in names], **_FILE)


async def push_consumer(site: Site) -> None:
    await site.add_stream(**_FILE)
    await site.add_consumer(deliver_subject=f"deliver.{site.stream}")
    await site.subscribe(f"deliver.{site.stream}")
    site.publishing(5)


async def push_queue_group(site: Site) -> None:
    await site.add_stream(**_FILE)
    await site.add_consumer(deliver_subject=f"deliver.{site.stream}", deliver_group="workers")
    for _ in range(2):
        await site.subscribe(f"deliver.{site.stream}", queue="workers")
    site.publishing(5)


async def expiring(site: Site) -> None:
    """A log of which messages expire after they were processed, and later than ack wait."""
    await _steady(site, max_age=60 * NS, duplicate_window=2 * NS)


async def ring_buffer(site: Site) -> None:
    await _steady(site, max_msgs=200)


async def kv_watchers(site: Site) -> None:
    """Watchers of a bucket, as the client libraries create and leave them."""
    bucket = "HEALTHY"
    await site.add_stream(
        f"KV_{bucket}", subjects=[f"$KV.{bucket}.>"], max_msgs_per_subject=5, discard="new",
        allow_rollup_hdrs=True, deny_delete=True, allow_direct=True, **_FILE,
    )  # fmt: skip
    number = 0

    async def put() -> None:
        nonlocal number
        number += 1
        await site.client.publish(f"$KV.{bucket}.key{number % 20}", b"value")
        await asyncio.sleep(0.5)

    async def create(name: str, **config: object) -> None:
        config |= {
            "name": name, "deliver_policy": "last_per_subject", "max_deliver": 1,
            "filter_subject": f"$KV.{bucket}.>", "mem_storage": True, "num_replicas": 1,
            "inactive_threshold": 300 * NS,
        }  # fmt: skip
        await _create(site, f"KV_{bucket}", config)

    async def push(lasts_s: float, rests_s: float, *, deletes: bool) -> None:
        """Watch, and again from the start where heartbeats are missed, as after a restart."""
        name, inbox = f"w{secrets.token_hex(6)}", site.client.new_inbox()
        received_s = time.monotonic()

        async def receive(message: Msg) -> None:
            nonlocal received_s
            received_s = time.monotonic()
            await _read(message)

        subscription = await site.client.subscribe(inbox, cb=receive)
        await create(
            name, deliver_subject=inbox, ack_policy="none", flow_control=True,
            idle_heartbeat=int(_HEARTBEAT_S * NS),
        )  # fmt: skip
        ends_s = time.monotonic() + lasts_s
        while time.monotonic() < min(ends_s, received_s + 3 * _HEARTBEAT_S):
            await asyncio.sleep(0.5)
        await subscription.unsubscribe()
        if deletes:
            await site.try_api(f"CONSUMER.DELETE.KV_{bucket}.{name}")
        await asyncio.sleep(rests_s)

    async def pull(lasts_s: float) -> None:
        """Watch by an ordered consumer that is pulled from, and leave it."""
        name, ends_s = f"w{secrets.token_hex(6)}_1", time.monotonic() + lasts_s
        await create(name, ack_policy="none")
        while time.monotonic() < ends_s:
            await site.pull(name, stream=f"KV_{bucket}", batch=100, expires_s=5, handle=keep)
        await asyncio.sleep(lasts_s)

    site.repeat("puts", put)
    site.repeat("deletes its consumer", lambda: push(15, 15, deletes=True))
    site.repeat("leaves it", lambda: push(30, 30, deletes=False))
    site.repeat("stays", lambda: push(86_400, 1, deletes=True))
    site.repeat("leaves it, pulling", lambda: pull(35))


async def _create(site: Site, stream: str, config: dict[str, object]) -> None:
    """Create a consumer as a client library does: again, until a restarted node is back."""
    body = {"stream_name": stream, "config": config}
    async with asyncio.timeout(60):
        while "error" in await site.try_api(f"CONSUMER.CREATE.{stream}.{config['name']}", body):
            await asyncio.sleep(0.5)


async def _read(message: Msg) -> None:
    """Receive a value, and reply to flow control."""
    headers = message.headers or {}
    stalled = headers.get("Nats-Consumer-Stalled")
    if headers.get("Status") == "100" and (stalled or message.reply):
        await message._client.publish(stalled or message.reply)


async def ordered_consumers(site: Site) -> None:
    """Readers that come, read from the start and leave."""
    await site.add_stream(**_FILE, max_msgs=500)
    site.publishing(5)
    count = 0

    async def read() -> None:
        nonlocal count
        count += 1
        name, inbox = f"o{secrets.token_hex(6)}", site.client.new_inbox()
        subscription = await site.client.subscribe(inbox, cb=_read)
        config = {
            "name": name, "deliver_subject": inbox, "ack_policy": "none", "max_deliver": 1,
            "mem_storage": True, "num_replicas": 1, "flow_control": True,
            "idle_heartbeat": 5 * NS, "inactive_threshold": 300 * NS,
        }  # fmt: skip
        await _create(site, site.stream, config)
        await asyncio.sleep(5)
        await subscription.unsubscribe()
        if count % 2:
            # The others are left behind, and their stream removes what they have not received.
            await site.try_api(f"CONSUMER.DELETE.{site.stream}.{name}")
        await asyncio.sleep(10)

    site.repeat("reader", read)


async def slow_pace(site: Site) -> None:
    """A message a minute, and a client that fetches 500 every 12 s."""
    await site.add_stream(**_FILE)
    await site.add_consumer()
    site.publishing(1 / 60)
    site.work(batch=500, expires_s=0, pause_s=12)


WORKLOADS: tuple[Workload, ...] = (
    steady_orders, work_queue, interest_of_two, bursts, batch_each_minute, etl_every_20_s,
    retry_of_one_in_50, last_values, idle_durable, idle_durable_without_pull, empty_work_queue,
    mirror, sources, push_consumer, push_queue_group, expiring, ring_buffer, kv_watchers,
    ordered_consumers, slow_pace,
)  # fmt: skip


class FalseFinding(NamedTuple):
    """A finding above info that was open though nothing was wrong."""

    seen: Seen
    from_s: float
    until_s: float


@dataclass
class Quarter:
    """What natstui said over a while of healthy work, in seconds since it began."""

    began_s: float = 0.0
    polls: list[Poll] = field(default_factory=list)
    restarts_s: list[tuple[float, float]] = field(default_factory=list)
    """From when to when each node was restarted."""
    fresh: list[tuple[float, tuple[Seen, ...]]] = field(default_factory=list)
    """When processes were started that know nothing of before, and what each said."""
    held_up: list[tuple[float, float]] = field(default_factory=list)
    """When the machine kept the lab's own clients from running, and for how long."""
    stored_msgs: int = 0
    """By all streams together, until the end."""
    acked_msgs: int = 0
    """By all durable consumers together."""

    def false_findings(self) -> list[FalseFinding]:
        """Return what was said above info, except what the restart causes while it may."""
        times_s: dict[Seen, list[float]] = {}
        for at_s, seen in self.seen():
            if seen.severity != "info" and not self._is_restart(at_s):
                times_s.setdefault(seen, []).append(at_s)
        return [FalseFinding(seen, min(at_s), max(at_s)) for seen, at_s in times_s.items()]

    def seen(self) -> list[tuple[float, Seen]]:
        """Return everything that was said, and when."""
        polls = [(poll.at_s - self.began_s, poll.seen) for poll in self.polls] + self.fresh
        return [(at_s, seen) for at_s, findings in polls if at_s >= 0 for seen in findings]

    def held_up_s(self, before_s: float) -> float:
        """Return the longest time the machine held up the lab in the half minute before."""
        return max((s for at_s, s in self.held_up if before_s - 30 <= at_s <= before_s), default=0)

    def _is_restart(self, at_s: float) -> bool:
        return any(
            began_s <= at_s <= ended_s + AFTER_RESTART_S for began_s, ended_s in self.restarts_s
        )


async def run_healthy(
    folder: Path, lasts_s: float, say: Callable[[str], None], *, restarts: bool = True
) -> Quarter:
    """Let the workloads run while natstui watches; restart one node after the other meanwhile."""
    stage = ClusterStage("healthy", (), folder)
    quarter = Quarter()
    try:
        await stage.open()
        for workload in WORKLOADS:
            await workload(stage.site(workload.__name__))
        say(f"healthy: {len(WORKLOADS)} workloads run")
        observer = Observer(stage.systems[0], await listed_sentences(stage.folder))
        await observer.start()
        quarter.polls, quarter.began_s = stage.systems[0].polls, time.monotonic()
        measuring = asyncio.create_task(_measure(quarter))
        try:
            nodes = list(zip(stage.cluster.nodes, DOWN_S, strict=True)) if restarts else []
            phase_s = lasts_s / (len(nodes) + 1)
            await _phase(stage, quarter, phase_s)
            for node, down_s in nodes:
                began_s = time.monotonic() - quarter.began_s
                say(f"healthy: restarting {node.name}, which is down for {down_s:.0f} s")
                await stage.stop(node.name)
                await asyncio.sleep(down_s)
                await stage.start(node.name)
                await _until_current(stage)
                ended_s = time.monotonic() - quarter.began_s
                quarter.restarts_s.append((began_s, ended_s))
                await _phase(stage, quarter, phase_s - (ended_s - began_s))
            await _count(stage.sites[0], quarter)
        finally:
            measuring.cancel()
            await observer.stop()
    finally:
        await stage.close()
    return quarter


async def _phase(stage: ClusterStage, quarter: Quarter, lasts_s: float) -> None:
    """Let the workloads run for a while, and a process judge that is started in the middle."""
    ends_s = time.monotonic() + lasts_s
    await asyncio.sleep(lasts_s / 2)
    system = stage.systems[0]
    began_s = time.monotonic() - quarter.began_s
    await read_fresh(system, None)
    quarter.fresh.append((began_s, system.fresh["default"]))
    await asyncio.sleep(max(0.0, ends_s - time.monotonic()))


async def _measure(quarter: Quarter) -> None:
    """Note when this process had to wait for its turn: its clients had, too."""
    while True:
        began_s = time.monotonic()
        await asyncio.sleep(0.5)
        held_up_s = time.monotonic() - began_s - 0.5
        if held_up_s > 0.2:
            quarter.held_up.append((began_s - quarter.began_s, held_up_s))


async def _count(site: Site, quarter: Quarter) -> None:
    """Count what the workloads did."""
    for stream in (await site.api("STREAM.LIST"))["streams"]:
        quarter.stored_msgs += stream["state"]["last_seq"]
        listed = await site.api(f"CONSUMER.LIST.{stream['config']['name']}")
        quarter.acked_msgs += sum(
            consumer["ack_floor"]["consumer_seq"]
            for consumer in listed["consumers"] or ()
            if "durable_name" in consumer["config"]
        )


async def _until_current(stage: ClusterStage) -> None:
    """Wait until the restarted node has everything again."""
    async with asyncio.timeout(180):
        while not all(node.is_healthy() for node in stage.cluster.nodes):
            await asyncio.sleep(0.2)


def report_of(quarter: Quarter) -> str:
    """Return a line for each false finding, and their number."""
    polls_s = [poll.at_s - quarter.began_s for poll in quarter.polls]
    longest_s = max((later - earlier for earlier, later in pairwise(polls_s)), default=0.0)
    lines = [
        f"{len(WORKLOADS)} workloads: {quarter.stored_msgs} messages stored, "
        f"{quarter.acked_msgs} deliveries acked",
        f"read {len(polls_s)} times in {polls_s[-1]:.0f} s, {longest_s:.1f} s apart at most; "
        f"{len(quarter.fresh)} times by a process that was started then",
    ]
    lines += [
        f"a node was restarted from {began_s:.0f} to {ended_s:.0f} s"
        for began_s, ended_s in quarter.restarts_s
    ]
    for severity in ("info", "warning", "critical"):
        kinds = Counter(seen.code for _, seen in quarter.seen() if seen.severity == severity)
        named = ", ".join(f"{code} in {count}" for code, count in kinds.most_common())
        lines.append(f"{severity}, while nodes restart as well: {named or 'none'}")
    held_up_s = max((seconds for _, seconds in quarter.held_up), default=0.0)
    lines.append(f"the machine held up the lab's own clients for at most {held_up_s:.1f} s")
    false = quarter.false_findings()
    lines += [
        f"{each.seen.code} {each.seen.severity} {each.seen.stream} {each.seen.consumer} "
        f"{each.seen.part} {each.seen.text}: {each.from_s:.0f}…{each.until_s:.0f} s; "
        f"held up for {quarter.held_up_s(each.from_s):.1f} s before"
        for each in false
    ]
    critical = sum(1 for each in false if each.seen.severity == "critical")
    lines.append(f"{len(false)} false findings, {critical} of them critical")
    return "\n".join(lines)
