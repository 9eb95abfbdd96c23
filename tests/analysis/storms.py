"""Sessions of many advisories, recorded singly, as counts, and half of each."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import write_records, write_session
from natstui.analysis.gold.redelivery import MAX_DELIVER_KIND
from natstui.model.bench.latency import from_latencies
from natstui.model.live.advisory_counts import MAX_MESSAGES, MessageCount
from natstui.model.records.evidence import AcksCounted, AdvisoriesCounted, MessageAdvisoryType
from natstui.model.records.record import AckSample, Advisory, Record
from natstui.values import replace

SECONDS = 2
KINDS: tuple[MessageAdvisoryType, ...] = ("nak", "max_deliver", "terminated")


def storm(messages_count: int) -> list[Advisory]:
    """Return what a server announces of a few consumers, many times a second."""
    chance, deliveries = random.Random(7), defaultdict(int)
    found = []
    for number in range(SECONDS * 200):
        kind, consumer = chance.choice(KINDS), chance.choice("AB")
        seq = chance.randrange(1, messages_count + 1)
        deliveries[consumer, seq] += 1
        body = {"stream_seq": seq, "deliveries": deliveries[consumer, seq]}
        at_us = START_AT_US + number * 5_000
        found.append(Advisory(at_us, kind, "S", consumer, "said", json.dumps(body)))
    return found


def folded(advisories: Iterable[Advisory]) -> list[AdvisoriesCounted]:
    """Return them as they are recorded when they come too fast: one count each second."""
    groups: dict[tuple[int, str, str | None], list[Advisory]] = defaultdict(list)
    for one in advisories:
        groups[one.at_us // 1_000_000, one.type, one.consumer].append(one)
    found: list[AdvisoriesCounted] = []
    for (second, kind, consumer), its in sorted(groups.items(), key=repr):
        said: dict[int, MessageCount] = {}
        for one in its:
            body = json.loads(one.body_json)
            seq = body["stream_seq"]
            before = said[seq].said_count if seq in said else 0
            said[seq] = MessageCount(seq, before + 1, 0, body["deliveries"])
        named = sorted(said.values(), key=lambda one: (-one.said_count, one.stream_seq))[
            :MAX_MESSAGES
        ]
        at_us = (second + 1) * 1_000_000
        assert kind in KINDS and consumer is not None
        found.append(
            AdvisoriesCounted(at_us, kind, its[0].stream or "", consumer, len(its), tuple(named))
        )
    return sorted(found, key=lambda record: record.at_us)


MESSAGES_COUNTS = (MAX_MESSAGES, 20 * MAX_MESSAGES)
GIVEN_UP = "given-up"
SEEDS = range(5)
CONSUMERS = (("ORDERS-000", "billing-0000"), ("EVENTS-001", "mailer-0001"))
HOUR_US = 3_600_000_000
STORM_SECONDS = range(15, 45)
"""Of a session of a minute; in the middle an hour begins, and with it another bucket."""


def name_of(way: str, messages_count: int) -> str:
    """Return the name of the session of a storm."""
    return f"storm-{messages_count}-{way}"


def write(folder: Path) -> None:
    """Write the storms, a fleet to which one came, and two messages that were dropped."""
    for messages_count in MESSAGES_COUNTS:
        said = storm(messages_count)
        half = len(said) // 2
        # Half of each: below so many a second they are recorded singly.
        both = [*said[:half], *folded(said[half:])]
        for way, many in (("single", said), ("counted", folded(said)), ("both", both)):
            _write(folder / name_of(way, messages_count), many)
    few, most = _given_up(7, 5, 90), _given_up(3, 131, 10)
    _write(folder / GIVEN_UP, [most, few])
    for seed in SEEDS:
        said, acks = _announced(seed), _acks(seed)
        partly = _partly_folded(random.Random(seed), said)
        ways = {"single": [*said, *acks], "counted": [*partly, *acks],
                "acks": [*said, *_folded_acks(acks)]}  # fmt: skip
        for way, extra in ways.items():
            poison = Fault("poison", 0, 5, 55)
            plan = Plan(2, 2, 60, seed=seed, faults=(poison,), started_at_us=_start_us(),
                        extra=tuple(extra))  # fmt: skip
            write_session(folder / f"fleet-{seed}-{way}", plan)


def _write(folder: Path, many: Iterable[Record]) -> None:
    write_records(folder, iter(many), Plan(1, 1, SECONDS), records_per_segment=10_000)


def _given_up(seq: int, deliveries: int, at_s: int) -> Advisory:
    body = json.dumps({"stream_seq": seq, "deliveries": deliveries})
    return Advisory(START_AT_US + at_s * 1_000_000, MAX_DELIVER_KIND, "S", "A", "said", body)


def _start_us() -> int:
    """Return when a session begins that has the begin of an hour in its middle."""
    return START_AT_US - START_AT_US % HOUR_US + HOUR_US - 30_000_000


def _announced(seed: int) -> list[Advisory]:
    """Return what is announced of the consumers of a fleet, of as many messages as are counted.

    Some messages are only nak'd, the others at last dropped or terminated.
    """
    chance, said = random.Random(seed), []
    deliveries: dict[tuple[str, int], int] = {}
    for second in STORM_SECONDS:
        count = chance.choice((0, 3, 40, 120))
        for at_us in sorted(chance.sample(range(1_000_000), count)):
            stream, consumer = chance.choice(CONSUMERS)
            seq = chance.randrange(1, MAX_MESSAGES + 1)
            # No two messages are delivered equally often: which is the example would be chance.
            deliveries[consumer, seq] = deliveries.get((consumer, seq), 100 * seq) + 1
            body = {"stream_seq": seq, "deliveries": deliveries[consumer, seq]}
            moment_us = _start_us() + second * 1_000_000 + at_us
            said.append(Advisory(moment_us, "nak", stream, consumer, "said", json.dumps(body)))
    return [*_ended(chance, said)]


def _ended(chance: random.Random, said: list[Advisory]) -> Iterator[Advisory]:
    """Yield them up to that by which a message ends, where it is not nak'd until the last."""
    by_message: dict[tuple[str | None, int], list[int]] = defaultdict(list)
    for place, one in enumerate(said):
        by_message[one.consumer, json.loads(one.body_json)["stream_seq"]].append(place)
    kinds: dict[int, str] = {}
    for places in by_message.values():
        kind = chance.choice(("nak", "nak", MAX_DELIVER_KIND, "terminated"))
        end = len(places) - 1 if kind == "nak" else chance.randrange(len(places))
        kinds |= dict.fromkeys(places[:end], "nak") | {places[end]: kind}
    yield from (
        replace(one, type=kinds[place]) for place, one in enumerate(said) if place in kinds
    )


def _partly_folded(chance: random.Random, said: Iterable[Advisory]) -> Iterator[Record]:
    """Yield the first advisories of each second singly, and the others as counts.

    The counts are written up to a quarter of a second after their second.
    """
    for _, group in groupby(said, key=lambda one: one.at_us // 1_000_000):
        many = list(group)
        singly = chance.randint(0, len(many))
        yield from many[:singly]
        for count in folded(many[singly:]):
            yield replace(count, at_us=count.at_us + chance.randrange(250_000))


def _acks(seed: int) -> list[AckSample]:
    """Return samples of the acks of some of the messages, just after the storm."""
    chance, at_us = random.Random(seed), _start_us() + (STORM_SECONDS.stop + 1) * 1_000_000
    return [
        AckSample(at_us + 1_000 * seq, *who, seq, 1_000 + seq, 5_000, 2_000_000)
        for who in CONSUMERS
        for seq in chance.sample(range(1, MAX_MESSAGES + 1), 10)
    ]


def _folded_acks(acks: Iterable[AckSample]) -> Iterator[Record]:
    """Yield them as they are recorded when they come too fast: one count of each consumer."""
    for (stream, consumer), group in groupby(acks, key=lambda one: (one.stream, one.consumer)):
        times = [one.ack_ns for one in group]
        at_us = _start_us() + (STORM_SECONDS.stop + 2) * 1_000_000
        yield AcksCounted(at_us, stream, consumer, from_latencies(times), len(times), 0)
