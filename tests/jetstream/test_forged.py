"""Forged messages: no bytes end the connection, and what cannot be read is counted."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from natstui.model.records.record import AckSample, Advisory, Unavailable
from tests.accounts import Account
from tests.jetstream.raw_publisher import RawPublisher
from tests.jetstream.test_events import listening

pytestmark = pytest.mark.server

ADVISORY = b"$JS.EVENT.ADVISORY.CONSUMER."
METRIC = b"$JS.EVENT.METRIC.CONSUMER.ACK."
SOUND = {
    "type": "io.nats.jetstream.advisory.v1.nak",
    "timestamp": "2026-01-01T00:00:00Z",
    "stream": "S",
    "consumer": "C",
}
SUBJECTS = (b"\xff", b"a\x0bb", b"a\x0cb", b"\x1b[31m", b"\x00", b"\xc3.x", b"a\x85b", b"x" * 900)
HEADERS = (
    b"NATS/1.0 \xff\xff\xff\r\n\r\n",
    b"NATS/1.0 503 \xff\xfe\r\n\r\n",
    b"NATS/1.0 404 a\r\nNo\xffColon\r\n\r\n",
    b"NATS/1.0\r\n\xff: \xff\r\n\r\n",
    b"NATS/1.0",
    b"N",
)
BODIES: tuple[dict[str, Any] | bytes, ...] = (
    {"deliveries": 10**30},
    {"deliveries": -(10**30)},
    {"deliveries": "many"},
    {"stream_seq": 2**64},
    {"stream_seq": -1},
    {"timestamp": "0000-99-99T00:00:00Z"},
    {"stream": {"not": "a name"}},
    b"no json",
    b"\xff\xfe",
    b"",
    b"[" * 100_000,
    b'{"more":' * 100_000,
    {"stream": "x" * 100_000},
)


@pytest.mark.parametrize("subject", SUBJECTS)
async def test_no_subject_ends_the_connection(subject: bytes, account: Account) -> None:
    async with listening(account.url) as heard:
        with RawPublisher(account.url) as forger:
            forger.publish(ADVISORY + subject, json.dumps(SOUND).encode())
            forger.settle()
        assert (await heard.advisory("nak")).stream == "S"
        assert heard.client.nc.stats["reconnects"] == 0


@pytest.mark.parametrize("headers", HEADERS)
async def test_no_headers_end_the_connection(headers: bytes, account: Account) -> None:
    async with listening(account.url) as heard:
        with RawPublisher(account.url) as forger:
            forger.publish(ADVISORY + b"X", json.dumps(SOUND).encode(), headers)
            forger.settle()
        assert (await heard.advisory("nak")).stream == "S"
        assert heard.client.nc.stats["reconnects"] == 0


async def test_what_cannot_be_read_is_counted_and_the_rest_is_heard(account: Account) -> None:
    async with listening(account.url) as heard:
        began_s = time.monotonic()
        with RawPublisher(account.url) as forger:
            for body in BODIES:
                data = body if isinstance(body, bytes) else json.dumps({**SOUND, **body}).encode()
                forger.publish(ADVISORY + b"X", data)
                forger.publish(METRIC + b"X", data)
            forger.publish(ADVISORY + b"X", json.dumps(SOUND).encode())
            forger.settle()
        assert (await heard.advisory("nak")).stream == "S"
        async with asyncio.timeout(60):
            while unreadable(heard.records) < 2 * len(BODIES):
                await asyncio.sleep(0.02)
        assert unreadable(heard.records) == 2 * len(BODIES)
        assert heard.client.nc.stats["reconnects"] == 0
        assert not any(isinstance(record, AckSample) for record in heard.records)
        told = [r for r in heard.records if isinstance(r, Unavailable)]
        elapsed_s = time.monotonic() - began_s
        assert len(told) <= 3 + elapsed_s, "one sentence a second, however many cannot be read"


def unreadable(records: list[Any]) -> int:
    """Return how many announcements were told to be unreadable."""
    reasons = [r.reason for r in records if isinstance(r, Unavailable)]
    return sum(int(reason.split()[0]) for reason in reasons if "cannot be read" in reason)


async def test_a_time_long_ago_does_not_become_the_beginning_of_a_recording(
    account: Account,
) -> None:
    async with listening(account.url) as heard:
        with RawPublisher(account.url) as forger:
            long_ago = {**SOUND, "timestamp": "0001-01-02T00:00:00Z"}
            forger.publish(ADVISORY + b"X", json.dumps(long_ago).encode())
            forger.settle()
        told: Advisory = await heard.advisory("nak")
        assert told.at_us > 0
