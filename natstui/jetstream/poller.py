"""Polls a server's JetStream: one snapshot per beat, within a budget of requests and work."""

from __future__ import annotations

import asyncio
import time

from natstui.errors import RequestFailed, RequestTimedOut, ServerGone
from natstui.feed import Sink
from natstui.jetstream.availability import Availability
from natstui.jetstream.client import Client
from natstui.jetstream.consumer_reading import ConsumerReading
from natstui.jetstream.decode_account import read_account
from natstui.jetstream.known import KnownConfigurations
from natstui.jetstream.metered import MeteredApi, RequestLimiter
from natstui.jetstream.next_reading import NextReading
from natstui.jetstream.poll_control import PollControl
from natstui.jetstream.poll_round import Rhythm, Round
from natstui.jetstream.poll_snapshot import snapshot_of
from natstui.jetstream.stream_reading import StreamReading
from natstui.model.snapshot import Account, PollCost

REQUESTS_PER_S = 15
"""Requests a second at most, whatever there is to see."""
_INFO = "INFO"
_ANSWERS = "answers"
_INFO_TIMEOUT_S = 2.0
_PROBE_S = 0.25


async def poll(
    client: Client, control: PollControl, sink: Sink, requests_per_s: int = REQUESTS_PER_S
) -> None:
    """Poll until cancelled.

    Adds a Snapshot per poll, Configured before it when configurations are new, Unavailable and
    Restored when something cannot be read. Polls nothing while there is no connection.
    """
    poller = _Poller(client, control, sink, requests_per_s)
    try:
        while True:
            started_s = asyncio.get_running_loop().time()
            pause_s = await poller.poll_once()
            await control.rest(started_s + pause_s)
    finally:
        await poller.close()


class _Poller:
    def __init__(
        self, client: Client, control: PollControl, sink: Sink, requests_per_s: int
    ) -> None:
        self._client = client
        self._control = control
        self._sink = sink
        self._api = MeteredApi(client, RequestLimiter(requests_per_s))
        self._rhythm = Rhythm(requests_per_s)
        self._availability = Availability(sink)
        self._known = KnownConfigurations()
        self._streams = StreamReading(self._api, self._availability)
        self._consumers = ConsumerReading(self._api, self._availability)
        self._next = NextReading(self._api, self._availability)

    async def poll_once(self) -> float:
        """Poll, and return the seconds from its start to the start of the next."""
        wanted_s = self._control.interval_s
        self._api.begin_round()
        allowed = self._rhythm.next_round(self._api, wanted_s)
        try:
            await self._read(allowed, wanted_s)
        except ServerGone:
            self._availability.forgive()
            self._rhythm.forget()
            return _PROBE_S
        except RequestTimedOut as error:
            # INFO is the probe: it does not rest, and everything else waits for its answer.
            self._availability.failed(_INFO, error)
            self._availability.forgive()
            self._rhythm.forget()
            return _PROBE_S
        except RequestFailed as error:
            self._availability.failed(_ANSWERS, error)
        return self._rhythm.interval_s

    async def close(self) -> None:
        """Drop the question that waits for its answer, if there is one."""
        await self._streams.close()

    async def _read(self, allowed: Round, wanted_s: float) -> None:
        started_us = time.monotonic_ns() // 1000
        account, rtt_us = await self._account()
        streams = await self._streams.read(allowed, self._control.visible_streams)
        if streams.complete:
            known = self._known
            away = {stream: known.consumers_of(stream) for stream in streams.missing}
            self._consumers.follow(self._streams.rows, away)
        consumers = await self._consumers.read(allowed, self._control.visible_consumers)
        in_view = self._control.visible_consumers
        await self._next.find(allowed, in_view, consumers.rows, self._streams.rows)
        reason = (
            self._rhythm.after(self._api.server_us, wanted_s) or self._availability.waiting_reason
        )
        cost = PollCost(
            requests_count=self._api.requests_count,
            received_bytes=self._api.received_bytes,
            elapsed_us=time.monotonic_ns() // 1000 - started_us,
            api_rtt_us=rtt_us,
            interval_us=round(self._rhythm.interval_s * 1e6),
            backoff_reason=reason,
        )
        server_name = self._client.nc.server_info.get("server_name")
        snapshot = snapshot_of(account, streams, consumers, cost, server_name)
        living = set(self._streams.rows)
        configured = self._known.take_up(snapshot.taken_at_us, streams, consumers, living)
        if configured is not None:
            self._sink.add(configured)
        self._sink.add(snapshot)
        self._availability.worked(_ANSWERS)

    async def _account(self) -> tuple[Account | None, int | None]:
        """Return the account and the round trip; raises ServerGone, RequestTimedOut."""
        if not self._availability.may_ask(_INFO):
            return None, None
        try:
            reply, rtt_us = await self._api.ask(_INFO, timeout_s=_INFO_TIMEOUT_S)
            account = read_account(reply)
        except RequestTimedOut:
            raise
        except RequestFailed as error:
            self._availability.failed(_INFO, error)
            return None, None
        self._availability.worked(_INFO)
        return account, rtt_us
