"""Sessions of many advisories, recorded singly, as counts, and half of each."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from benchmarks._fleet import START_AT_US, Plan
from benchmarks._sessions import write_records, write_session
from natstui.analysis.gold.redelivery import MAX_DELIVER_KIND
from natstui.model.live.advisory_counts import MAX_MESSAGES, MessageCount
from natstui.model.records.evidence import AdvisoriesCounted, MessageAdvisoryType
from natstui.model.records.record import Advisory, Record

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


def folded(advisories: Iterable[Advisory]) -> list[Record]:
    """Return them as they are recorded when they come too fast: one count each second."""
    groups: dict[tuple[int, str, str | None], list[Advisory]] = defaultdict(list)
    for one in advisories:
        groups[one.at_us // 1_000_000, one.type, one.consumer].append(one)
    found: list[Record] = []
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
STREAM, CONSUMER = "ORDERS-000", "billing-0000"


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
    announced = _announced()
    for way, extra in (("single", announced), ("counted", folded(announced))):
        write_session(folder / f"fleet-{way}", Plan(2, 2, 45, extra=tuple(extra)))


def _write(folder: Path, many: Iterable[Record]) -> None:
    write_records(folder, iter(many), Plan(1, 1, SECONDS), records_per_segment=10_000)


def _given_up(seq: int, deliveries: int, at_s: int) -> Advisory:
    body = json.dumps({"stream_seq": seq, "deliveries": deliveries})
    return Advisory(START_AT_US + at_s * 1_000_000, MAX_DELIVER_KIND, "S", "A", "said", body)


def _announced() -> list[Advisory]:
    """Return what is announced of one consumer of the fleet, a hundred times a second."""
    begin_us, chance = START_AT_US + 30_000_000, random.Random(3)
    said = []
    for number in range(1_000):
        kind: MessageAdvisoryType = "max_deliver" if number % 5 == 4 else "nak"
        body = {
            "stream_seq": 10 + chance.randrange(MAX_MESSAGES),
            "deliveries": number // MAX_MESSAGES + 1,
        }
        at_us = begin_us + number * 10_000
        said.append(Advisory(at_us, kind, STREAM, CONSUMER, "said", json.dumps(body)))
    return said
