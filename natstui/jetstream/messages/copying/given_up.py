"""Finds the messages that a consumer dropped after max deliver, by advisories and work queues."""

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
from natstui.model.records.copies import Drop
from natstui.units import counted

_PAGE_MSGS = 500


class _Advisory(msgspec.Struct):
    timestamp: str = ""
    stream: str = ""
    consumer: str = ""
    stream_seq: int = 0


def filters_of(consumer: dict[str, Any]) -> tuple[str, ...]:
    """Return the filter subjects of a consumer; empty if it gets all."""
    config = consumer["config"]
    several = tuple(config.get("filter_subjects") or ())
    return several or tuple(filter(None, [config.get("filter_subject")]))


async def given_up(
    client: Client,
    info: dict[str, Any],
    consumer: dict[str, Any],
    recorded_drops: tuple[Drop, ...],
    observed_drops: tuple[Drop, ...] = (),
) -> tuple[tuple[int, ...], str]:
    """Return dropped sequences in order, and the source of each part.

    `recorded_drops` are those in recordings; `observed_drops` those of advisories that this viewer
    received. Advisories that the consumer contradicts are left out. Raises
    NotFound when there is no source.
    """
    stream, name = info["config"]["name"], consumer["name"]
    made_us = time_us(consumer["created"])
    dropped_seqs, sources = set[int](), list[str]()
    for drops, source in (
        (recorded_drops, "in recordings"),
        (observed_drops, "reported since natstui started"),
    ):
        # What was announced before it was made is about another one of its name, as is what is
        # recorded of one with another creation time: of another server, perhaps.
        seqs = {
            drop.stream_seq
            for drop in drops
            if drop.at_us >= made_us and drop.consumer_created_at_us in (None, made_us)
        }
        sources += [f"{len(seqs):,} {source}"] if drops else []
        dropped_seqs |= seqs
    for keeper in await _keepers(client, stream, name):
        seqs = await _announced(client, keeper, stream, name, made_us)
        sources.append(f"{len(seqs):,} in advisories that {keeper} stores")
        dropped_seqs |= seqs
    # Whoever may publish to its subject can forge an announcement: the consumer is believed.
    possible = {seq for seq in dropped_seqs if _may_be_given_up(consumer, seq)}
    if len(possible) < len(dropped_seqs):
        skipped = counted(f"{len(dropped_seqs) - len(possible):,}", "sequence")
        sources.append(f"without {skipped} that {name} cannot have dropped{_why_not(consumer)}")
        dropped_seqs = possible
    if _removes_acknowledged(info):
        seqs = await _left_behind(client, stream, consumer)
        sources.append(
            f"{len(seqs):,} that {stream} still stores, although it removes acknowledged ones"
        )
        dropped_seqs |= seqs
    if not sources:
        raise NotFound(
            f"it is unknown which messages {name} dropped: the server reports them only once. "
            "Name a recording of that time (--session), or let a stream store "
            f"{_subject(client, stream, name)}{_bounds(consumer)}"
        )
    return tuple(
        sorted(dropped_seqs)
    ), f"{counted(f'{len(dropped_seqs):,}', 'sequence')}: {', '.join(sources)}"


def _may_be_given_up(consumer: dict[str, Any], seq: int) -> bool:
    """Return whether a consumer can have dropped a message: it was delivered, and had a limit."""
    has_limit = int(consumer["config"].get("max_deliver") or 0) > 0
    return has_limit and 0 < seq <= int(consumer["delivered"]["stream_seq"])


def _why_not(consumer: dict[str, Any]) -> str:
    if int(consumer["config"].get("max_deliver") or 0) > 0:
        return f": it was delivered up to {consumer['delivered']['stream_seq']:,}"
    return ": it has no max deliver"


def _subject(client: Client, stream: str, name: str) -> str:
    prefix = client.connection.js_event_prefix
    return f"{prefix}.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{name}"


def _removes_acknowledged(info: dict[str, Any]) -> bool:
    """Return whether every stored message of the consumer is unacked."""
    retention = info["config"].get("retention")
    is_only_consumer = bool(info["state"]["consumer_count"] == 1)
    return retention == "workqueue" or (retention == "interest" and is_only_consumer)


def _bounds(consumer: dict[str, Any]) -> str:
    """Return between which sequences they are, if known."""
    floor, last = consumer["ack_floor"]["stream_seq"], consumer["delivered"]["stream_seq"]
    if consumer["num_ack_pending"] or floor >= last:
        return ""
    return (
        f". They are among {floor + 1}…{last}, together with messages acknowledged out of order "
        f"(--from-seq {floor + 1} --to-seq {last})"
    )


async def _keepers(client: Client, stream: str, name: str) -> list[str]:
    """Return the streams that store the advisories of a consumer."""
    request_body = {"subject": _subject(client, stream, name)}
    return list(
        json.loads(await client.request("STREAM.NAMES", request_body)).get("streams") or ()
    )


async def _announced(
    client: Client, keeper: str, stream: str, name: str, made_us: int
) -> set[int]:
    seqs = set[int]()
    reader = Reader(client, keeper, (_subject(client, stream, name),), ends=True)
    async with reader:
        left_msgs = reader.waiting_msgs
        while left_msgs:
            advisory_message = await anext(reader, None)
            if advisory_message is None:
                break
            left_msgs = advisory_message.left_msgs
            try:
                advisory = decoder_of(_Advisory).decode(advisory_message.payload)
            except (msgspec.DecodeError, RecursionError):
                continue  # whoever may publish there may publish anything
            is_of_it = (advisory.stream, advisory.consumer) == (stream, name)
            is_later = advisory_message.stored_at_us >= made_us
            if is_of_it and is_later and not client.is_of_other_domain(advisory_message.payload):
                seqs.add(advisory.stream_seq)
    return seqs


async def _left_behind(client: Client, stream: str, consumer: dict[str, Any]) -> set[int]:
    """Return the stored messages up to the last delivery.

    While some are ack pending only up to the ack floor: above it, ack pending and dropped messages
    cannot be told apart.
    """
    upto = "ack_floor" if consumer["num_ack_pending"] else "delivered"
    return await _there(client, stream, consumer, 1, consumer[upto]["stream_seq"])


async def perhaps_given_up(
    client: Client, stream: str, consumer: dict[str, Any], limit: int
) -> tuple[int, ...]:
    """Return the stored messages between ack floor and last delivery, if none is ack pending.

    They include the dropped ones, and those acked above a dropped one.
    """
    floor, last = consumer["ack_floor"]["stream_seq"], consumer["delivered"]["stream_seq"]
    if consumer["num_ack_pending"]:
        return ()
    return tuple(sorted(await _there(client, stream, consumer, floor + 1, last, limit)))


async def _there(
    client: Client,
    stream: str,
    consumer: dict[str, Any],
    next_seq: int,
    last: int,
    limit: int = sys.maxsize,
) -> set[int]:
    """Return the stored messages of the consumer, from a sequence up to another."""
    filters, seqs = filters_of(consumer), set[int]()
    getter = ApiGetter(client, stream, 0)
    subject = filters[0] if len(filters) == 1 else None
    while next_seq <= last and len(seqs) < limit:
        page = await getter.run(next_seq, _PAGE_MSGS, subject, last + 1)
        for message in page:
            seq, said = message.stream_seq or 0, message.subject
            if seq <= last and (
                not filters or any(overlap(subject_filter, said) for subject_filter in filters)
            ):
                seqs.add(seq)
        if not page:
            break
        next_seq = (page[-1].stream_seq or last) + 1
    return seqs
