"""Polls a server's JetStream: one snapshot per beat, within a budget of requests and work."""

from __future__ import annotations

import asyncio
import time

from natstui.errors import PermissionDenied, RequestFailed, RequestTimedOut, ServerGone
from natstui.feed import Sink
from natstui.jetstream.availability import Availability
from natstui.jetstream.client import Client
from natstui.jetstream.consumer_reading import ConsumerReading, ConsumersSeen
from natstui.jetstream.decode_account import read_account
from natstui.jetstream.decode_cluster import reading
from natstui.jetstream.decode_consumer import ConsumerRow, consumer_columns
from natstui.jetstream.decode_stream import stream_columns
from natstui.jetstream.known import KnownConfigurations
from natstui.jetstream.metered import MeteredApi, RequestLimiter
from natstui.jetstream.next_message import NextMessages
from natstui.jetstream.poll_control import PollControl
from natstui.jetstream.poll_round import Rhythm, Round
from natstui.jetstream.stream_reading import StreamReading, StreamsSeen
from natstui.model.record import Configured
from natstui.model.snapshot import Account, PollCost, Snapshot

REQUESTS_PER_S = 15
"""Requests a second at most, whatever there is to see."""
_INFO = "INFO"
_ANSWERS = "answers"
_INFO_TIMEOUT_S = 2.0
_PROBE_S = 0.25
_NEXT_COUNT = 4
_NEXT = "STREAM.MSG.GET"


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
        self._next = NextMessages()

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
        await self._find_next(allowed, consumers)
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
        self._tell_configured(streams, consumers)
        self._sink.add(self._snapshot(account, streams, consumers, cost))
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

    async def _find_next(self, allowed: Round, consumers: ConsumersSeen) -> None:
        """Fill in when the next message was stored, asking a few times for what is in view."""
        visible = set(self._control.visible_consumers)
        self._next.keep(visible)
        asked_count = 0
        for key, row in consumers.rows.items():
            stream = self._streams.rows.get(row.stream_name)
            if stream is None or not row.num_pending:
                continue
            row.next_at_us = self._next.remembered_us(row, stream)
            worth = row.next_at_us is None and key in visible and asked_count < _NEXT_COUNT
            if worth and allowed.has_room and self._next.worth_asking(row, stream):
                asked_count += 1
                row.next_at_us = await self._ask_next(row)

    async def _ask_next(self, row: ConsumerRow) -> int | None:
        of_stream = f"{_NEXT}.{row.stream_name}"
        if not (self._availability.may_ask(_NEXT) and self._availability.may_ask(of_stream)):
            return None
        try:
            at_us = await self._next.ask_us(self._api, row)
        except PermissionDenied as error:
            self._availability.failed(_NEXT, error)
            return None
        except RequestFailed as error:
            self._availability.failed(of_stream, error)
            return None
        self._availability.worked(_NEXT)
        self._availability.worked(of_stream)
        return at_us

    def _tell_configured(self, streams: StreamsSeen, consumers: ConsumersSeen) -> None:
        new_streams = self._known.new_streams(streams.rows)
        new_consumers = self._known.new_consumers(consumers.rows.values())
        if new_streams or new_consumers:
            self._sink.add(Configured(time.time_ns() // 1000, new_streams, new_consumers))
        if streams.complete:
            self._known.keep_streams(set(self._streams.rows))
        listed: dict[str, set[str]] = {stream: set() for stream in consumers.swept}
        for stream, name in consumers.rows.keys() | consumers.missing:
            listed.get(stream, set()).add(name)
        for stream, names in listed.items():
            self._known.keep_consumers(stream, names)

    def _snapshot(
        self,
        account: Account | None,
        streams: StreamsSeen,
        consumers: ConsumersSeen,
        cost: PollCost,
    ) -> Snapshot:
        server_name = self._client.nc.server_info.get("server_name")
        with reading("STREAM.LIST"):
            stream_part = stream_columns(streams.rows, server_name)
        with reading("CONSUMER.LIST"):
            consumer_part = consumer_columns(tuple(consumers.rows.values()), server_name)
        complete = consumers.complete and streams.complete
        return Snapshot(
            taken_mono_us=time.monotonic_ns() // 1000,
            taken_at_us=time.time_ns() // 1000,
            streams=stream_part,
            consumers=consumer_part,
            streams_complete=streams.complete,
            consumers_complete=complete,
            swept_streams=() if complete else tuple(sorted(consumers.swept)),
            unreachable_streams=tuple(sorted(streams.missing)),
            unreachable_consumers=tuple(sorted(consumers.missing)),
            account=account,
            cost=cost,
        )
