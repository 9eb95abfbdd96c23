"""Converts advisories and ack samples to records, and each advisory to a sentence as well."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from natstui.decoding import decoder_of
from natstui.jetstream.connection.replies import Count, raise_unreadable
from natstui.jetstream.connection.times import time_us
from natstui.model.records.record import AckSample, Advisory
from natstui.units import counted


class AdvisoryEvent(msgspec.Struct):
    """The fields of all types of advisories and metrics."""

    type: str = ""
    timestamp: str = ""
    stream: str | None = None
    consumer: str | None = None
    action: str = ""
    leader: str = ""
    reason: str = ""
    batch: str = ""
    group: str = ""
    pause_until: str = ""
    paused: bool = False
    stream_seq: Count = 0
    consumer_seq: Count = 0
    deliveries: Count = 0
    ack_time: Count = 0


_TEXTS_BY_ACTION = {"create": "was created", "modify": "was changed", "delete": "was deleted"}


def _reason_text(event: AdvisoryEvent) -> str:
    return f" ({event.reason})" if event.reason else ""


def _message_text(event: AdvisoryEvent) -> str:
    return f"message {event.stream_seq} of consumer {event.consumer} on {event.stream}"


def _pause_text(event: AdvisoryEvent) -> str:
    if not event.paused:
        return f"consumer {event.consumer} on {event.stream} is resumed"
    return f"consumer {event.consumer} on {event.stream} is paused until {event.pause_until}"


_FORMATTERS_BY_KIND: dict[str, Callable[[AdvisoryEvent], str]] = {
    "stream_action": lambda t: f"stream {t.stream} {_TEXTS_BY_ACTION.get(t.action, t.action)}",
    "consumer_action": lambda t: (
        f"consumer {t.consumer} on {t.stream} {_TEXTS_BY_ACTION.get(t.action, t.action)}"
    ),
    "stream_leader_elected": lambda t: f"stream {t.stream} is now led by {t.leader}",
    "consumer_leader_elected": lambda t: (
        f"consumer {t.consumer} on {t.stream} is now led by {t.leader}"
    ),
    "stream_quorum_lost": lambda t: (
        f"stream {t.stream} has lost its quorum: it stores no messages until its servers are back"
    ),
    "consumer_quorum_lost": lambda t: (
        f"consumer {t.consumer} on {t.stream} has lost its quorum: it delivers nothing"
    ),
    "stream_batch_abandoned": lambda t: (
        f"an atomic batch on stream {t.stream} was abandoned{_reason_text(t)}"
    ),
    "consumer_pause": _pause_text,
    "consumer_group_pinned": lambda t: (
        f"consumer {t.consumer} on {t.stream} pinned a client for group {t.group}"
    ),
    "consumer_group_unpinned": lambda t: (
        f"consumer {t.consumer} on {t.stream} unpinned its client of group {t.group}"
        f"{_reason_text(t)}"
    ),
    "nak": lambda t: f"{_message_text(t)} was refused (nak) at delivery {t.deliveries}",
    "terminated": lambda t: (
        f"{_message_text(t)} was terminated at delivery {t.deliveries}{_reason_text(t)}"
    ),
    "max_deliver": lambda t: (
        f"{_message_text(t)} was dropped after {counted(t.deliveries, 'delivery')}"
    ),
    "snapshot_create": lambda t: f"a backup of stream {t.stream} began",
    "snapshot_complete": lambda t: f"a backup of stream {t.stream} ended",
    "restore_create": lambda t: f"restoring stream {t.stream} began",
    "restore_complete": lambda t: f"restoring stream {t.stream} ended",
}


def event_text(kind: str, event: AdvisoryEvent) -> str:
    """Return an advisory as a sentence; if its kind is unknown, only the kind and the stream."""
    format_event = _FORMATTERS_BY_KIND.get(kind)
    return (
        format_event(event)
        if format_event
        else f"{kind.replace('_', ' ')} {event.stream or ''}".strip()
    )


_EVENT_DECODER = decoder_of(AdvisoryEvent)
_MAX_ADVISORY_BYTES = 16 * 1024
"""Maximum size of an event, because each is kept in memory; those of a server have a tenth of
it."""
_MAX_EVENT_AGE_US = 3_600_000_000
"""Maximum age of an event; an older one is forged, or its server's clock is wrong."""


def read_advisory(data: bytes) -> Advisory:
    """Return the record of an advisory; raises RequestFailed if it is unreadable."""
    with raise_unreadable("an advisory"):
        event = _decode_event(data)
        at_us = _parse_at_us(event.timestamp)
        body_json = data.decode()
    kind = event.type.rpartition(".")[2]
    text = event_text(kind, event)
    return Advisory(at_us, kind, event.stream, event.consumer, text, body_json)


def read_ack_sample(data: bytes) -> AckSample:
    """Return the record of an ack sample; raises RequestFailed if it is unreadable."""
    with raise_unreadable("a metric"):
        event = _decode_event(data)
        at_us = _parse_at_us(event.timestamp)
    return AckSample(
        at_us=at_us,
        stream=event.stream or "",
        consumer=event.consumer or "",
        stream_seq=event.stream_seq,
        consumer_seq=event.consumer_seq,
        deliveries_count=event.deliveries,
        ack_ns=event.ack_time,
    )


def _decode_event(data: bytes) -> AdvisoryEvent:
    """Decode an event, which any client may have published; raises ValueError or a DecodeError."""
    if len(data) > _MAX_ADVISORY_BYTES:
        raise ValueError(f"{len(data)} bytes are longer than any advisory")
    return _EVENT_DECODER.decode(data)


def _parse_at_us(timestamp: str) -> int:
    """Return the time of an event in UTC µs; the current time if it is in the future or too old.

    A time in the future, from a clock that is ahead, would stop the timeline until then. A time
    long before the subscription would become the start of the recording.
    """
    at_us, now_us = time_us(timestamp), time.time_ns() // 1000
    return at_us if now_us - _MAX_EVENT_AGE_US <= at_us <= now_us else now_us
