"""Advisories and metrics → records, each advisory with one plain sentence."""

from __future__ import annotations

import time

import msgspec

from natstui.jetstream.advisory_sentences import Told, sentence_of
from natstui.jetstream.decode_cluster import reading
from natstui.jetstream.decode_time import time_us
from natstui.model.record import AckSample, Advisory

_TOLD = msgspec.json.Decoder(Told)


def read_advisory(data: bytes) -> Advisory:
    """Read an advisory; raise RequestFailed when it cannot be read."""
    with reading("an advisory"):
        told = _TOLD.decode(data)
        at_us = _at_us(told.timestamp)
        body_json = data.decode()
    kind = told.type.rpartition(".")[2]
    text = sentence_of(kind, told)
    return Advisory(at_us, kind, told.stream, told.consumer, text, body_json)


def read_ack_sample(data: bytes) -> AckSample:
    """Read a sampled acknowledgement; raise RequestFailed when it cannot be read."""
    with reading("a metric"):
        told = _TOLD.decode(data)
        at_us = _at_us(told.timestamp)
    return AckSample(
        at_us=at_us,
        stream=told.stream or "",
        consumer=told.consumer or "",
        stream_seq=told.stream_seq,
        consumer_seq=told.consumer_seq,
        deliveries_count=told.deliveries,
        ack_ns=told.ack_time,
    )


def _at_us(timestamp: str) -> int:
    """Return when the server says it was, but not later than now: its clock may be ahead.

    A timeline that went along would have to stand still until ours is there.
    """
    return min(time_us(timestamp), time.time_ns() // 1000)
