"""Finds the sequences of the messages that a consumer dropped after max deliver.

The sources are recordings, advisories, and the messages that a work queue still stores.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from natstui.decoding import decoder_of
from natstui.errors import ActionRefusal, NotFound
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.messages.gets import ApiGetter
from natstui.jetstream.messages.reading import Reader
from natstui.model.assets.subjects import overlap
from natstui.model.records.copies import MaxDeliverDrop
from natstui.units import counted

_READ_PAGE_MSGS = 500


class _Advisory(msgspec.Struct):
    timestamp: str = ""
    stream: str = ""
    consumer: str = ""
    stream_seq: int = 0


def filters_of(consumer: ConsumerRow) -> tuple[str, ...]:
    """Return the filter subjects of a consumer; an empty tuple if it has none."""
    config = consumer.read_config()
    filters = tuple(config.get("filter_subjects") or ())
    return filters or tuple(filter(None, [config.get("filter_subject")]))


async def find_dropped(
    client: Client,
    info: StreamRow,
    consumer: ConsumerRow,
    recorded_drops: tuple[MaxDeliverDrop, ...],
    observed_drops: tuple[MaxDeliverDrop, ...] = (),
) -> tuple[tuple[int, ...], str]:
    """Return the dropped sequences in order, and a sentence about their sources.

    `recorded_drops` are the drops in recordings, and `observed_drops` those in advisories that
    this viewer received. Drops that the consumer cannot have made are left out. Raises NotFound if
    there is no source.
    """
    stream, name, created_at_us = info.name, consumer.name, consumer.created_at_us
    dropped_seqs, sources = set[int](), list[str]()
    for drops, source in (
        (recorded_drops, "in recordings"),
        (observed_drops, "reported since natstui started"),
    ):
        # A drop before the consumer was created is of another consumer with its name. So is a
        # recorded one with another creation time, perhaps of another server.
        seqs = {
            drop.stream_seq
            for drop in drops
            if drop.at_us >= created_at_us and drop.consumer_created_at_us in (None, created_at_us)
        }
        sources += [f"{len(seqs):,} {source}"] if drops else []
        dropped_seqs |= seqs
    for advisory_stream in await _find_advisory_streams(client, stream, name):
        seqs = await _read_advisories(client, advisory_stream, stream, name, created_at_us)
        sources.append(f"{len(seqs):,} in advisories that {advisory_stream} stores")
        dropped_seqs |= seqs
    # Clients that may publish to the subject of an advisory can forge it: the consumer decides.
    last_seq = consumer.delivered.stream_seq if _has_max_deliver(consumer) else 0
    possible_seqs = {seq for seq in dropped_seqs if 0 < seq <= last_seq}
    if len(possible_seqs) < len(dropped_seqs):
        skipped_text = counted(f"{len(dropped_seqs) - len(possible_seqs):,}", "sequence")
        sources.append(
            f"without {skipped_text} that {name} cannot have dropped{_exclusion_reason(consumer)}"
        )
        dropped_seqs = possible_seqs
    if _removes_acknowledged(info):
        seqs = await _read_delivered_seqs(client, stream, consumer)
        sources.append(
            f"{len(seqs):,} that {stream} still stores, although it removes acknowledged ones"
        )
        dropped_seqs |= seqs
    if not sources:
        raise NotFound(
            f"it is unknown which messages {name} dropped: the server reports them only once. "
            "Name a recording of that time (--session), or let a stream store "
            f"{_advisory_subject(client, stream, name)}{_bounds_text(consumer)}"
        )
    return tuple(
        sorted(dropped_seqs)
    ), f"{counted(f'{len(dropped_seqs):,}', 'sequence')}: {', '.join(sources)}"


def _has_max_deliver(consumer: ConsumerRow) -> bool:
    return int(consumer.read_config().get("max_deliver") or 0) > 0


def _exclusion_reason(consumer: ConsumerRow) -> str:
    """Return the end of a sentence: why a consumer cannot have dropped a message."""
    if _has_max_deliver(consumer):
        return f": it was delivered up to {consumer.delivered.stream_seq:,}"
    return ": it has no max deliver"


def _advisory_subject(client: Client, stream: str, name: str) -> str:
    prefix = client.connection.js_event_prefix
    return f"{prefix}.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{name}"


def _removes_acknowledged(info: StreamRow) -> bool:
    """Return whether the stream removes each message that the consumer acknowledges."""
    retention = info.read_config().get("retention")
    is_only_consumer = info.state.consumer_count == 1
    return retention == "workqueue" or (retention == "interest" and is_only_consumer)


def _bounds_text(consumer: ConsumerRow) -> str:
    """Return a sentence about the sequences between which the dropped messages are; "" if that is
    unknown.
    """
    floor_seq, last_seq = consumer.ack_floor.stream_seq, consumer.delivered.stream_seq
    if consumer.num_ack_pending or floor_seq >= last_seq:
        return ""
    return (
        f". They are among {floor_seq + 1}…{last_seq}, together with messages acknowledged out of "
        f"order (--from-seq {floor_seq + 1} --to-seq {last_seq})"
    )


async def _find_advisory_streams(client: Client, stream: str, name: str) -> list[str]:
    """Return the streams that store the advisories of a consumer."""
    request_body = {"subject": _advisory_subject(client, stream, name)}
    return list(
        json.loads(await client.request("STREAM.NAMES", request_body)).get("streams") or ()
    )


async def _read_advisories(
    client: Client, advisory_stream: str, stream: str, name: str, created_at_us: int
) -> set[int]:
    seqs = set[int]()
    subject = _advisory_subject(client, stream, name)
    async with aclosing(_read_stored(client, advisory_stream, subject)) as stored_advisories:
        async for stored_at_us, payload in stored_advisories:
            try:
                advisory = decoder_of(_Advisory).decode(payload)
            except (msgspec.DecodeError, RecursionError):
                continue  # other clients may publish there as well
            is_of_consumer = (advisory.stream, advisory.consumer) == (stream, name)
            is_since_creation = stored_at_us >= created_at_us
            if is_of_consumer and is_since_creation and not client.is_of_other_domain(payload):
                seqs.add(advisory.stream_seq)
    return seqs


async def _read_stored(
    client: Client, stream: str, subject: str
) -> AsyncGenerator[tuple[int, bytes], None]:
    """Yield the time (UTC µs) and payload of each stored message of a subject."""
    reader = Reader(client, stream, (subject,), ends_at_last_message=True)
    try:
        async with reader:
            remaining_msgs = reader.waiting_msgs
            while remaining_msgs and (message := await anext(reader, None)) is not None:
                remaining_msgs = message.later_msgs
                yield message.stored_at_us, message.payload
    except ActionRefusal:
        # A reader could remove messages of this stream.
        getter, next_seq = ApiGetter(client, stream, None), 1
        while page := await getter.read(next_seq, _READ_PAGE_MSGS, subject):
            for stored_message in page:
                payload = base64.b64decode(stored_message.payload_base64)
                yield stored_message.stored_at_us, payload
                next_seq = (stored_message.stream_seq or next_seq) + 1


async def _read_delivered_seqs(client: Client, stream: str, consumer: ConsumerRow) -> set[int]:
    """Return the sequences of the consumer's stored messages up to the last delivery.

    If some are ack pending, only the sequences up to the ack floor: above it, it is unknown which
    messages are ack pending and which were dropped.
    """
    position = consumer.ack_floor if consumer.num_ack_pending else consumer.delivered
    return await _read_stored_seqs(client, stream, consumer, 1, position.stream_seq)


async def find_possibly_dropped(
    client: Client, stream: str, consumer: ConsumerRow, limit: int
) -> tuple[int, ...]:
    """Return the sequences of stored messages between the ack floor and the last delivery; none if
    some messages are ack pending.

    They include the dropped messages, and those that were acked after a dropped one. Reading stops
    after the page in which `limit` is reached.
    """
    if consumer.num_ack_pending:
        return ()
    floor_seq, last_seq = consumer.ack_floor.stream_seq, consumer.delivered.stream_seq
    return tuple(
        sorted(await _read_stored_seqs(client, stream, consumer, floor_seq + 1, last_seq, limit))
    )


async def _read_stored_seqs(
    client: Client,
    stream: str,
    consumer: ConsumerRow,
    next_seq: int,
    last_seq: int,
    limit: int = sys.maxsize,
) -> set[int]:
    """Return the sequences of the stored messages from `next_seq` to `last_seq` that match the
    consumer's filters; reading stops after the page in which `limit` is reached.
    """
    filters, seqs = filters_of(consumer), set[int]()
    getter = ApiGetter(client, stream, 0)
    subject = filters[0] if len(filters) == 1 else None
    while next_seq <= last_seq and len(seqs) < limit:
        page = await getter.read(next_seq, _READ_PAGE_MSGS, subject, last_seq + 1)
        for message in page:
            seq, message_subject = message.stream_seq or 0, message.subject
            if seq <= last_seq and (
                not filters
                or any(overlap(subject_filter, message_subject) for subject_filter in filters)
            ):
                seqs.add(seq)
        if not page:
            break
        next_seq = (page[-1].stream_seq or last_seq) + 1
    return seqs
