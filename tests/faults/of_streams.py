"""Faults of streams, each on a stream of its own."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.faults.ground import Act, Fault, Ground
from tests.faults.of_consumers import both, publish, purges, then


def stream(name: str, **config: Any) -> Act:
    return lambda g: g.stream(name, **config)


def updates(name: str, **config: Any) -> Act:
    async def do(g: Ground) -> None:
        whole = {"name": name, "subjects": [f"{name}.>"], "storage": "memory"} | config
        await g.api(f"STREAM.UPDATE.{name}", whole)

    return do


def consumer(stream: str, name: str = "C", **config: Any) -> Act:
    return lambda g: g.consumer(stream, name, **config)


def deletes_stream(name: str) -> Act:
    async def do(g: Ground) -> None:
        await g.api(f"STREAM.DELETE.{name}")

    return do


def deletes_consumer(stream: str, name: str) -> Act:
    async def do(g: Ground) -> None:
        await g.api(f"CONSUMER.DELETE.{stream}.{name}")

    return do


async def mirror(g: Ground) -> None:
    await g.stream("ORIGIN")
    await g.publish("ORIGIN", 5)
    await g.api("STREAM.CREATE.MIRROR", {
        "name": "MIRROR", "mirror": {"name": "ORIGIN"}, "storage": "memory",
    })  # fmt: skip


def publishes(stream: str) -> Act:
    async def do(g: Ground) -> None:
        async def once() -> None:
            await g.publish(stream)
            await asyncio.sleep(0.2)

        g.repeat(stream, once)

    return do


def stops(stream: str) -> Act:
    async def do(g: Ground) -> None:
        g.stop(stream)

    return do


def of_stream(name: str, code: str, *acts: Act | None, **more: Any) -> Fault:
    break_it, mend, prepare = acts
    assert break_it is not None and mend is not None
    return Fault(name, code, break_it, mend, prepare, None, **more)


STREAM_FAULTS = (
    of_stream("FULL", "NT-S05", publish("FULL", 10), purges("FULL"),
              stream("FULL", discard="new", max_msgs=10)),
    of_stream("FULLBYTES", "NT-S05", publish("FULLBYTES", 9, 1000), purges("FULLBYTES"),
              stream("FULLBYTES", discard="new", max_bytes=10_000)),
    of_stream("NEARFULL", "NT-S26", publish("NEARFULL", 17), purges("NEARFULL"),
              stream("NEARFULL", discard="new", max_msgs=20), leaves_s=2),
    of_stream("MANYCONS", "NT-S26",
              then(*(consumer("MANYCONS", f"C{n}") for n in range(4))),
              then(*(deletes_consumer("MANYCONS", f"C{n}") for n in range(3))),
              stream("MANYCONS", max_consumers=5), leaves_s=2),
    of_stream("QUEUE", "NT-S21", publish("QUEUE", 3), consumer("QUEUE"),
              stream("QUEUE", retention="workqueue"), after_s=1),
    of_stream("HALFQUEUE", "NT-S21", publish("HALFQUEUE", 3, last="b"),
              consumer("HALFQUEUE", "D", filter_subject="HALFQUEUE.b"),
              then(stream("HALFQUEUE", retention="workqueue",
                          subjects=["HALFQUEUE.a", "HALFQUEUE.b"]),
                   consumer("HALFQUEUE", filter_subject="HALFQUEUE.a")), after_s=1),
    of_stream("INTEREST", "NT-S22",
              then(deletes_consumer("INTEREST", "C"), publishes("INTEREST")),
              then(stops("INTEREST"), consumer("INTEREST")),
              both("INTEREST", retention="interest"), after_s=1),
    of_stream("DELETED", "NT-S31", deletes_stream("DELETED"), stream("DELETED"),
              stream("DELETED")),
    of_stream("MIRROR", "NT-S11", deletes_stream("ORIGIN"), deletes_stream("MIRROR"), mirror,
              after_s=10, since_s=4),
    of_stream("SUBJECTS", "NT-S08",
              then(*(publish("SUBJECTS", last=str(n)) for n in range(4))), purges("SUBJECTS"),
              stream("SUBJECTS", metadata={"io.nats.monitor.subjects-critical": "4"})),
    of_stream("SOMESUBJECTS", "NT-S32",
              then(*(publish("SOMESUBJECTS", last=str(n)) for n in range(4))),
              purges("SOMESUBJECTS"),
              stream("SOMESUBJECTS", metadata={"io.nats.monitor.subjects-warn": "4",
                                               "io.nats.monitor.subjects-critical": "9"})),
    of_stream("TOOFEW", "NT-S08", purges("TOOFEW"), publish("TOOFEW", 5),
              then(stream("TOOFEW"), publish("TOOFEW", 5),
                   updates("TOOFEW", metadata={"io.nats.monitor.msgs-critical": "2"}))),
)  # fmt: skip
