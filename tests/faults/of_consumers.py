"""Faults of consumers, each on a stream of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from nats.aio.msg import Msg

from tests.faults.ground import Act, Fault, Ground, done
from tests.jetstream.flushing import flushed

SECOND_NS = 1_000_000_000


def both(name: str, config: dict[str, Any] | None = None, **stream: Any) -> Act:
    """Make a stream and its consumer."""

    async def make(g: Ground) -> None:
        await g.stream(name, **stream)
        await g.consumer(name, **(config or {}))

    return make


def then(*acts: Callable[[Ground], Any]) -> Act:
    """Do one thing after the other."""

    async def do(g: Ground) -> None:
        for act in acts:
            await done(act(g))

    return do


def publish(name: str, count: int = 1, size: int = 1, last: str = "a") -> Act:
    return lambda g: g.publish(name, count, size, last)


def works(name: str) -> Act:
    """Let a good worker take everything, and wait until it has: then the fault is mended."""

    async def do(g: Ground) -> None:
        g.acknowledge(name)
        await g.settled(name)

    return do


async def nak(message: Msg) -> None:
    await message.nak()
    await asyncio.sleep(0.01)


def holds(name: str, count: int) -> Act:
    """Fetch messages and never acknowledge them."""

    async def do(g: Ground) -> None:
        assert len(await g.fetch(name, count)) == count

    return do


def nak_only(name: str, seq: int) -> Callable[[Ground], None]:
    async def handle(message: Msg) -> None:
        if message.metadata.sequence.stream == seq:
            await nak(message)
        else:
            await message.ack()

    return lambda g: g.work(name, handle)


def refetches(name: str, count: int) -> Callable[[Ground], None]:
    """Fetch again and again without acknowledging."""

    async def ignore(message: Msg) -> None:
        pass

    return lambda g: g.work(name, ignore, count, wait_s=0.3)


def push_to(name: str) -> dict[str, Any]:
    return {"deliver_subject": f"to.{name}"}


def subscribes(name: str, *, acks: bool = True, answers: bool = True) -> Act:
    """Listen on the deliver subject, with or without acknowledging and answering flow control."""

    async def handle(message: Msg) -> None:
        is_control = bool(message.headers) and "100" in str(message.headers.get("Status", ""))
        if is_control and not answers:
            return
        if message.reply and (acks or is_control):
            await message.respond(b"")

    async def do(g: Ground) -> None:
        await g.nc.subscribe(f"to.{name}", cb=handle)
        await flushed(g.nc)

    return do


async def _pull_open(
    g: Ground, name: str, batch: int = 10, expires_s: int = 60, **more: Any
) -> None:
    """Open a pull request and keep it open."""
    inbox = g.nc.new_inbox()
    await g.nc.subscribe(inbox)
    body = {"batch": batch, "expires": expires_s * SECOND_NS} | more
    await g.nc.publish(f"$JS.API.CONSUMER.MSG.NEXT.{name}.C", json.dumps(body).encode(), inbox)
    await flushed(g.nc)


def pulls_open(name: str, count: int, **more: Any) -> Act:
    async def do(g: Ground) -> None:
        for _ in range(count):
            await _pull_open(g, name, **more)

    return do


def purges(name: str) -> Act:
    async def do(g: Ground) -> None:
        g.stop(name)
        await g.api(f"STREAM.PURGE.{name}", {})

    return do


def deletes(name: str) -> Act:
    async def do(g: Ground) -> None:
        g.stop(name)
        await g.api(f"CONSUMER.DELETE.{name}.C")

    return do


def changes(name: str, **config: Any) -> Act:
    return lambda g: g.consumer(name, **config)


def paused_until(name: str, year: int) -> Act:
    async def do(g: Ground) -> None:
        body = {"pause_until": f"{year}-01-01T00:00:00Z"} if year else {}
        await g.api(f"CONSUMER.PAUSE.{name}.C", body)

    return do


def falls_behind(name: str) -> Callable[[Ground], None]:
    async def some(g: Ground) -> None:
        await g.publish(name, 5)
        await asyncio.sleep(0.1)

    return lambda g: g.repeat(f"{name}-publisher", lambda: some(g))


def acknowledges_late(name: str) -> Callable[[Ground], None]:
    """Take 10 messages at a time, and acknowledge the last of them after 1.8 s."""

    async def handle(message: Msg) -> None:
        await asyncio.sleep(0.18)
        await message.ack()

    return lambda g: g.work(name, handle)


def stops(name: str) -> Callable[[Ground], None]:
    return lambda g: g.stop(name)


def slow(name: str) -> Callable[[Ground], None]:
    return lambda g: g.work(name, lambda m: m.ack(), 1, wait_s=0.3)


_FULL_ONLY: dict[str, Any] = {"group": "g", "min_pending": 1000, "expires_s": 300}
"""A pull that is served only while there is more to take than ever comes."""

CONSUMER_FAULTS = (
    Fault("NOPULL", "NT-C54", publish("NOPULL", 20), works("NOPULL"), both("NOPULL"),
          after_s=10),
    Fault("NOSUB", "NT-C08", publish("NOSUB", 20), subscribes("NOSUB"),
          both("NOSUB", push_to("NOSUB")), after_s=6),
    Fault("ACKLIMIT", "NT-C09", then(publish("ACKLIMIT", 20), holds("ACKLIMIT", 5)),
          changes("ACKLIMIT", max_ack_pending=100),
          both("ACKLIMIT", {"max_ack_pending": 5}), after_s=2, sequences=(1,)),
    Fault("PAUSED", "NT-C27", paused_until("PAUSED", 2100), paused_until("PAUSED", 0),
          both("PAUSED")),
    Fault("ALLNAK", "NT-C04", then(publish("ALLNAK", 8), lambda g: g.work("ALLNAK", nak)),
          works("ALLNAK"), both("ALLNAK"), leaves_s=1, sequences=(1, 2, 3)),
    Fault("POISON", "NT-C05", then(publish("POISON", 30), nak_only("POISON", 7)),
          works("POISON"), both("POISON"), sequences=(7,)),
    Fault("GAVEUP", "NT-C21", then(publish("GAVEUP", 25), lambda g: g.work("GAVEUP", nak)),
          purges("GAVEUP"), both("GAVEUP", {"max_deliver": 2}), number=("given_up_msgs", 25)),
    Fault("TERMED", "NT-C22",
          then(publish("TERMED", 9), lambda g: g.work("TERMED", lambda m: m.term())),
          works("TERMED"), both("TERMED"), leaves_s=12),
    Fault("FLOW", "NT-C06", then(subscribes("FLOW", acks=True, answers=False),
                                 publish("FLOW", 2000, 1000)),
          deletes("FLOW"), both("FLOW", push_to("FLOW") | {
              "flow_control": True, "idle_heartbeat": 5 * SECOND_NS, "max_ack_pending": 5000}),
          after_s=4),
    Fault("REFUSED", "NT-C39", then(publish("REFUSED", 20), pulls_open("REFUSED", 1)),
          changes("REFUSED", max_batch=0), both("REFUSED", {"max_batch": 5}), after_s=10),
    Fault("UNGROUPED", "NT-C39", then(publish("UNGROUPED", 5), pulls_open("UNGROUPED", 1)),
          purges("UNGROUPED"),
          both("UNGROUPED", {"priority_groups": ["g"], "priority_policy": "pinned_client",
                             "priority_timeout": 60 * SECOND_NS}), after_s=10),
    Fault("NOMATCH", "NT-C32", changes("NOMATCH", filter_subject="other.x"),
          changes("NOMATCH", filter_subject="NOMATCH.a"), both("NOMATCH")),
    Fault("LATER", "NT-C33",
          both("LATER", {"deliver_policy": "by_start_sequence", "opt_start_seq": 10}),
          publish("LATER", 12), sequences=(10,)),
    Fault("EXPIRES", "NT-C35", both("EXPIRES", {"inactive_threshold": 40 * SECOND_NS}),
          pulls_open("EXPIRES", 1), after_s=34, since_s=32),
    Fault("ORIGINAL", "NT-C52", pulls_open("ORIGINAL", 1), purges("ORIGINAL"),
          # The server takes a message out of what is pending before it waits until it is due.
          then(lambda g: g.stream("ORIGINAL"), publish("ORIGINAL"), lambda g: asyncio.sleep(20),
               publish("ORIGINAL", 2), changes("ORIGINAL", replay_policy="original"))),
    Fault("RATE", "NT-C53", then(subscribes("RATE"), publish("RATE", 300, 1000)), deletes("RATE"),
          both("RATE", push_to("RATE") | {"rate_limit_bps": 16_000}, max_msg_size=2000)),
    Fault("BEHIND", "NT-C23", falls_behind("BEHIND"),
          then(stops("BEHIND-publisher"), works("BEHIND")),
          then(both("BEHIND"), slow("BEHIND")), after_s=12, leaves_s=5),
    Fault("REPEATS", "NT-C42", then(publish("REPEATS", 40), refetches("REPEATS", 3)),
          works("REPEATS"), both("REPEATS", {"ack_wait": SECOND_NS // 5}), after_s=10),
    Fault("HELD", "NT-C45", then(publish("HELD", 3), holds("HELD", 3)), works("HELD"),
          both("HELD", {"ack_wait": 2 * SECOND_NS}), after_s=2, sequences=(1,)),
    Fault("BACKOFF", "NT-C05", then(publish("BACKOFF", 3), nak_only("BACKOFF", 2)),
          works("BACKOFF"),
          both("BACKOFF", {"backoff": [SECOND_NS // 5] * 2, "max_deliver": 900}),
          after_s=2, sequences=(2,)),
    Fault("ACKWAIT", "NT-C29", then(publish("ACKWAIT", 900), acknowledges_late("ACKWAIT")),
          changes("ACKWAIT", ack_wait=60 * SECOND_NS),
          both("ACKWAIT", {"ack_wait": 2 * SECOND_NS, "sample_freq": "100"}), after_s=2,
          since_s=2),
    Fault("PULLS", "NT-C30", pulls_open("PULLS", 2), deletes("PULLS"),
          both("PULLS", {"max_waiting": 2}), after_s=1),
    Fault("GONE", "NT-C38", deletes("GONE"), changes("GONE"), both("GONE")),
    Fault("NEARACK", "NT-C51", then(publish("NEARACK", 10), holds("NEARACK", 9)),
          purges("NEARACK"), both("NEARACK", {"max_ack_pending": 10}), after_s=2, leaves_s=2),
    Fault("SKIPPED", "NT-C12", publish("SKIPPED", 60), deletes("SKIPPED"),
          then(both("SKIPPED", max_msgs=10), publish("SKIPPED", 5),
               lambda g: _take(g, "SKIPPED", 5)), sequences=(6,)),
    Fault("REDELIVER", "NT-C42", then(publish("REDELIVER", 500), refetches("REDELIVER", 7)),
          works("REDELIVER"), both("REDELIVER", {"ack_wait": 2 * SECOND_NS}), after_s=10),
    Fault("OVERFLOW", "NT-C40",
          then(publish("OVERFLOW", 5), pulls_open("OVERFLOW", 1, **_FULL_ONLY)),
          purges("OVERFLOW"), both("OVERFLOW", {"priority_groups": ["g"],
                                                "priority_policy": "overflow"}), after_s=8),
    Fault("OWN", "NT-C13", publish("OWN", 6), works("OWN"),
          both("OWN", {"metadata": {"io.nats.monitor.unprocessed-critical": "5"}})),
    Fault("OWNACKS", "NT-C13", then(publish("OWNACKS", 4), holds("OWNACKS", 4)), purges("OWNACKS"),
          both("OWNACKS", {"metadata": {"io.nats.monitor.outstanding-ack-critical": "3"}})),
    Fault("NEXTCENTURY", "NT-C33", both("NEXTCENTURY", {
              "deliver_policy": "by_start_time", "opt_start_time": "2100-01-01T00:00:00Z"}),
          deletes("NEXTCENTURY")),
)  # fmt: skip


async def _take(g: Ground, name: str, count: int) -> None:
    for message in await g.fetch(name, count):
        await message.ack_sync(timeout=30)
