"""Converts advisories and metrics to records, each advisory with one plain sentence."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from natstui.decoding import decoder_of
from natstui.jetstream.connection.replies import Count, reading
from natstui.jetstream.connection.times import time_us
from natstui.model.records.record import AckSample, Advisory
from natstui.units import counted


class Announcement(msgspec.Struct):
    """The fields of advisories and metrics, all kinds together."""

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


_ACTIONS = {"create": "was created", "modify": "was changed", "delete": "was deleted"}


def _because(event: Announcement) -> str:
    return f" ({event.reason})" if event.reason else ""


def _message(event: Announcement) -> str:
    return f"message {event.stream_seq} of consumer {event.consumer} on {event.stream}"


def _paused(event: Announcement) -> str:
    if not event.paused:
        return f"consumer {event.consumer} on {event.stream} is resumed"
    return f"consumer {event.consumer} on {event.stream} is paused until {event.pause_until}"


_SENTENCES: dict[str, Callable[[Announcement], str]] = {
    "stream_action": lambda t: f"stream {t.stream} {_ACTIONS.get(t.action, t.action)}",
    "consumer_action": lambda t: (
        f"consumer {t.consumer} on {t.stream} {_ACTIONS.get(t.action, t.action)}"
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
        f"an atomic batch on stream {t.stream} was abandoned{_because(t)}"
    ),
    "consumer_pause": _paused,
    "consumer_group_pinned": lambda t: (
        f"consumer {t.consumer} on {t.stream} pinned a client for group {t.group}"
    ),
    "consumer_group_unpinned": lambda t: (
        f"consumer {t.consumer} on {t.stream} unpinned its client of group {t.group}{_because(t)}"
    ),
    "nak": lambda t: f"{_message(t)} was refused (nak) at delivery {t.deliveries}",
    "terminated": lambda t: (
        f"{_message(t)} was terminated at delivery {t.deliveries}{_because(t)}"
    ),
    "max_deliver": lambda t: (
        f"{_message(t)} was dropped after {counted(t.deliveries, 'delivery')}"
    ),
    "snapshot_create": lambda t: f"a backup of stream {t.stream} began",
    "snapshot_complete": lambda t: f"a backup of stream {t.stream} ended",
    "restore_create": lambda t: f"restoring stream {t.stream} began",
    "restore_complete": lambda t: f"restoring stream {t.stream} ended",
}


def sentence_of(kind: str, event: Announcement) -> str:
    """Return the sentence of an advisory; for an unknown kind its name as words."""
    sentence = _SENTENCES.get(kind)
    return (
        sentence(event) if sentence else f"{kind.replace('_', ' ')} {event.stream or ''}".strip()
    )


_ANNOUNCEMENT = decoder_of(Announcement)
_LONGEST_BYTES = 16 * 1024
"""Limit of an announcement's size; the server's own are a tenth of it, and each is kept in
memory.
"""
_LONGEST_AGO_US = 3_600_000_000
"""Limit of an announcement's age: an older one is forged, or its server's clock is wrong."""


def read_advisory(data: bytes) -> Advisory:
    """Read an advisory; raise RequestFailed when it cannot be read."""
    with reading("an advisory"):
        event = _decoded(data)
        at_us = _at_us(event.timestamp)
        body_json = data.decode()
    kind = event.type.rpartition(".")[2]
    text = sentence_of(kind, event)
    return Advisory(at_us, kind, event.stream, event.consumer, text, body_json)


def read_ack_sample(data: bytes) -> AckSample:
    """Read a sampled acknowledgement; raise RequestFailed when it cannot be read."""
    with reading("a metric"):
        event = _decoded(data)
        at_us = _at_us(event.timestamp)
    return AckSample(
        at_us=at_us,
        stream=event.stream or "",
        consumer=event.consumer or "",
        stream_seq=event.stream_seq,
        consumer_seq=event.consumer_seq,
        deliveries_count=event.deliveries,
        ack_ns=event.ack_time,
    )


def _decoded(data: bytes) -> Announcement:
    """Decode a message on the subject of an announcement, which anybody may have published."""
    if len(data) > _LONGEST_BYTES:
        raise ValueError(f"{len(data)} bytes are longer than any advisory")
    return _ANNOUNCEMENT.decode(data)


def _at_us(timestamp: str) -> int:
    """Return the server's time of an announcement, but not later than now: its clock may be ahead.

    A later time would stop the timeline until our clock reaches it. A time long before we
    subscribed would become the start of the recording: then the time is now.
    """
    at_us, now_us = time_us(timestamp), time.time_ns() // 1000
    return at_us if now_us - _LONGEST_AGO_US <= at_us <= now_us else now_us
