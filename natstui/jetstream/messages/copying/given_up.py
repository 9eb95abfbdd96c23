"""Which messages a consumer gave up: no request tells it, but advisories and work queues do."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec

from natstui.decoding import decoder_of
from natstui.errors import NotFound
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.messages.gets import ApiGetter
from natstui.jetstream.messages.reading import Reader
from natstui.model.assets.subjects import overlap
from natstui.units import counted

_PAGE_MSGS = 500


class _Advisory(msgspec.Struct):
    timestamp: str = ""
    stream: str = ""
    consumer: str = ""
    stream_seq: int = 0


def filters_of(consumer: dict[str, Any]) -> tuple[str, ...]:
    """Return the subjects that a consumer gets; none where it gets all."""
    config = consumer["config"]
    several = tuple(config.get("filter_subjects") or ())
    return several or tuple(filter(None, [config.get("filter_subject")]))


async def given_up(
    client: Client,
    info: dict[str, Any],
    consumer: dict[str, Any],
    recorded: tuple[tuple[int, int], ...],
    heard: tuple[tuple[int, int], ...] = (),
) -> tuple[tuple[int, ...], str]:
    """Return sequences in order, and where they were found.

    `recorded` is what recordings know: when, and which sequence; `heard` is the same of what was
    announced since somebody looks on. Announcements that the consumer contradicts are left out.
    Raises NotFound when nothing tells which they are.
    """
    stream, name = info["config"]["name"], consumer["name"]
    made_us = time_us(consumer["created"])
    found, told = set[int](), list[str]()
    for known, where in (
        (recorded, "in recordings"),
        (heard, "reported since natstui started"),
    ):
        # What was announced before it was made is about another one of its name.
        some = {seq for at_us, seq in known if at_us >= made_us}
        told += [f"{len(some):,} {where}"] if known else []
        found |= some
    for keeper in await _keepers(client, stream, name):
        some = await _announced(client, keeper, stream, name, made_us)
        told.append(f"{len(some):,} in advisories that {keeper} stores")
        found |= some
    # Whoever may publish to its subject can forge an announcement: the consumer is believed.
    possible = {seq for seq in found if _may_be_given_up(consumer, seq)}
    if len(possible) < len(found):
        left_out = counted(f"{len(found) - len(possible):,}", "sequence")
        told.append(f"without {left_out} that {name} cannot have dropped{_why_not(consumer)}")
        found = possible
    if _removes_acknowledged(info):
        some = await _left_behind(client, stream, consumer)
        told.append(
            f"{len(some):,} that {stream} still stores, although it removes acknowledged ones"
        )
        found |= some
    if not told:
        raise NotFound(
            f"it is unknown which messages {name} dropped: the server reports them only once. "
            "Name a recording of that time (--session), or let a stream store "
            f"{_subject(client, stream, name)}{_bounds(consumer)}"
        )
    return tuple(sorted(found)), f"{counted(f'{len(found):,}', 'sequence')}: {', '.join(told)}"


def _may_be_given_up(consumer: dict[str, Any], seq: int) -> bool:
    """Tell whether a consumer can have given up a message: it was delivered, and had a limit."""
    limited = int(consumer["config"].get("max_deliver") or 0) > 0
    return limited and 0 < seq <= int(consumer["delivered"]["stream_seq"])


def _why_not(consumer: dict[str, Any]) -> str:
    if int(consumer["config"].get("max_deliver") or 0) > 0:
        return f": it was delivered up to {consumer['delivered']['stream_seq']:,}"
    return ": it has no max deliver"


def _subject(client: Client, stream: str, name: str) -> str:
    prefix = client.connection.js_event_prefix
    return f"{prefix}.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{name}"


def _removes_acknowledged(info: dict[str, Any]) -> bool:
    """Tell whether a message of the consumer that is still there was not acknowledged."""
    retention = info["config"].get("retention")
    alone = bool(info["state"]["consumer_count"] == 1)
    return retention == "workqueue" or (retention == "interest" and alone)


def _bounds(consumer: dict[str, Any]) -> str:
    """Return between which sequences they are, where that is known."""
    floor, last = consumer["ack_floor"]["stream_seq"], consumer["delivered"]["stream_seq"]
    if consumer["num_ack_pending"] or floor >= last:
        return ""
    return (
        f". They are among {floor + 1}…{last}, together with messages acknowledged out of order "
        f"(--from-seq {floor + 1} --to-seq {last})"
    )


async def _keepers(client: Client, stream: str, name: str) -> list[str]:
    """Return the streams that store what is announced of a consumer."""
    asked = {"subject": _subject(client, stream, name)}
    return list(json.loads(await client.request("STREAM.NAMES", asked)).get("streams") or ())


async def _announced(
    client: Client, keeper: str, stream: str, name: str, made_us: int
) -> set[int]:
    found = set[int]()
    reader = Reader(client, keeper, (_subject(client, stream, name),), ends=True)
    async with reader:
        left = reader.waiting_msgs
        while left:
            one = await anext(reader, None)
            if one is None:
                break
            left = one.left_msgs
            try:
                said = decoder_of(_Advisory).decode(one.payload)
            except (msgspec.DecodeError, RecursionError):
                continue  # whoever may publish there may publish anything
            if (said.stream, said.consumer) == (stream, name) and one.stored_at_us >= made_us:
                found.add(said.stream_seq)
    return found


async def _left_behind(client: Client, stream: str, consumer: dict[str, Any]) -> set[int]:
    """Return what is there up to the last delivery.

    While some wait for an acknowledgement only up to the floor: which of those above it wait,
    and which were given up, is not told.
    """
    upto = "ack_floor" if consumer["num_ack_pending"] else "delivered"
    return await _there(client, stream, consumer, 1, consumer[upto]["stream_seq"])


async def perhaps_given_up(
    client: Client, stream: str, consumer: dict[str, Any], most: int
) -> tuple[int, ...]:
    """Return what is there between its floor and its last delivery, where none of it waits.

    Those it gave up are among them, and those acknowledged before one that lies below them.
    """
    floor, last = consumer["ack_floor"]["stream_seq"], consumer["delivered"]["stream_seq"]
    if consumer["num_ack_pending"]:
        return ()
    return tuple(sorted(await _there(client, stream, consumer, floor + 1, last, most)))


async def _there(
    client: Client,
    stream: str,
    consumer: dict[str, Any],
    next_seq: int,
    last: int,
    most: int = sys.maxsize,
) -> set[int]:
    """Return what the consumer gets and is there, from a sequence up to another."""
    filters, found = filters_of(consumer), set[int]()
    getter = ApiGetter(client, stream, 0)
    subject = filters[0] if len(filters) == 1 else None
    while next_seq <= last and len(found) < most:
        page = await getter.run(next_seq, _PAGE_MSGS, subject, last + 1)
        for message in page:
            seq, said = message.stream_seq or 0, message.subject
            if seq <= last and (not filters or any(overlap(it, said) for it in filters)):
                found.add(seq)
        if not page:
            break
        next_seq = (page[-1].stream_seq or last) + 1
    return found
