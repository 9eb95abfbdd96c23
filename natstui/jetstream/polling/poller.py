"""Polls a server's JetStream: one snapshot per poll, within a budget of requests and work."""

from __future__ import annotations

import asyncio
from functools import partial

from natstui.clock import steady_s, steady_us
from natstui.errors import RequestFailed, RequestTimedOut, ServerGone
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.budget.allowance import Allowance, Budget
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.bulk.reading import BulkReading
from natstui.jetstream.polling.bulk.view import BulkSource
from natstui.jetstream.polling.configurations import ConfigurationHashes
from natstui.jetstream.polling.consumers import ConsumerReading
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.decode.account import read_account
from natstui.jetstream.polling.lag import NextReading
from natstui.jetstream.polling.questions import Patience, Questions
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.snapshot import StreamsSeen, snapshot_of
from natstui.jetstream.polling.streams import StreamReading
from natstui.jetstream.polling.subjects import SubjectCounting
from natstui.model.live.snapshot import Account, PollCost

_INFO = "INFO"
_ANSWERS = "answers"
_INFO_TIMEOUT_S = 2.0
_PROBE_S = 0.25
_PATIENCE_S = 0.7
_QUIET_S = 0.25
_QUIET_TRIPS_COUNT = 3
"""Number of round trips after which a request counts as late, but `_QUIET_S` at least."""


async def poll(
    client: Client,
    control: PollControl,
    sink: Sink,
    requests_per_s: float | None = None,
    bulk: BulkSource | None = None,
) -> None:
    """Poll until cancelled.

    Adds a Snapshot per poll, Configured before it when configurations are new, Unavailable and
    Restored when something cannot be read. Polls nothing while there is no connection.
    `requests_per_s` is the user's limit. `bulk` may provide all rows at once; it is closed at the
    end.
    """
    poller = _Poller(client, control, sink, requests_per_s, bulk)
    try:
        while True:
            started_s = asyncio.get_running_loop().time()
            pause_s = await poller.poll_once()
            await control.rest(started_s + pause_s)
    finally:
        await poller.end()


class _Poller:
    def __init__(
        self,
        client: Client,
        control: PollControl,
        sink: Sink,
        requests_per_s: float | None,
        bulk: BulkSource | None,
    ) -> None:
        self._client = client
        self._control = control
        self._sink = sink
        self._api = PollingApi(client, requests_per_s)
        self._budget = Budget(requests_per_s)
        self._availability = Availability(sink)
        self._configurations = ConfigurationHashes()
        self._clocks = clocks = ServerClocks()
        self._questions = Questions(self._api)
        self._rtt_us: int | None = None
        self._reconnects_count = client.nc.stats["reconnects"]
        self._all_listed = False
        """All streams have been listed since the connection began."""
        self._streams = StreamReading(self._api, self._availability, clocks, sink)
        self._consumers = ConsumerReading(self._api, self._availability, clocks)
        self._next = NextReading(self._api, self._availability)
        self._bulk = BulkReading(bulk, self._api, self._availability)
        self._subjects = SubjectCounting(self._api, self._availability, sink)

    async def poll_once(self) -> float:
        """Poll, and return the seconds from its start to the start of the next."""
        wanted_s = self._control.interval_s
        self._api.begin_poll()
        if (reconnects_count := self._client.nc.stats["reconnects"]) != self._reconnects_count:
            self._reconnects_count = reconnects_count
            self._streams.list_again()
        allowance = self._budget.next_allowance(self._api, wanted_s)
        try:
            await self._read(allowance, wanted_s)
        except ServerGone:
            await self.close()
            self._availability.retry_all()
            self._budget.forget()
            return _PROBE_S
        except RequestTimedOut as error:
            # INFO is the probe: it is sent again at once, and all else waits for its answer.
            self._availability.failed(_INFO, error)
            self._availability.retry_all()
            self._budget.forget()
            return _PROBE_S
        except RequestFailed as error:
            self._availability.failed(_ANSWERS, error)
        return self._budget.interval_s

    async def close(self) -> None:
        """Cancel the open requests."""
        self._all_listed = False
        await self._questions.close()
        await self._streams.close()
        await self._consumers.close()
        await self._bulk.forget_link()
        await self._api.forget_link()

    async def end(self) -> None:
        """Cancel them and close the bulk source."""
        await self.close()
        await self._bulk.close()

    async def _read(self, allowance: Allowance, wanted_s: float) -> None:
        started_us = steady_us()
        quiet_s = max(_QUIET_S, _QUIET_TRIPS_COUNT * (self._rtt_us or 0) / 1e6)
        patience = Patience(_PATIENCE_S + quiet_s, quiet_s)
        account, rtt_us = await self._account(patience)
        self._clocks.trip_us = self._api.trip_us
        began_mono_s = steady_s()
        bulk = await self._bulk.turn(account, self._control, quiet_s)
        streams = await self._streams.read(
            allowance.halved() if self._consumers.has_any else allowance,
            self._control.visible_streams,
            patience,
            account.streams_count if account else 0,
            has_no_consumers=not self._consumers.has_any,
            bulk=bulk,
        )
        allowance = allowance.as_long_again(began_mono_s)
        self._follow(streams)
        unlisted_count = self._consumers.unlisted_count
        consumers = await self._consumers.read(allowance, self._control, patience, bulk)
        reachable = {
            name: row for name, row in self._streams.rows.items() if name not in streams.missing
        }
        await self._next.find(allowance, self._control, consumers.rows, reachable)
        is_immediate = self._sees_more(streams, unlisted_count) or self._bulk.has_more
        cost = self._cost(started_us, rtt_us, wanted_s, is_immediate=is_immediate)
        server_name = self._client.nc.server_info.get("server_name")
        snapshot = snapshot_of(account, streams, consumers, cost, server_name)
        # Each of these steps takes a moment with many rows: others have their turn in between.
        await asyncio.sleep(0)
        living = set(self._streams.rows)
        new_configurations = self._configurations.changed_in(
            snapshot.taken_at_us, streams, consumers, living
        )
        if new_configurations is not None:
            self._sink.add(new_configurations)
            await asyncio.sleep(0)
        self._sink.add(snapshot)
        self._availability.worked(_ANSWERS)
        await self._subjects.count(snapshot, new_configurations, allowance)

    def _follow(self, streams: StreamsSeen) -> None:
        """Update the consumers' part with the existing streams."""
        if streams.complete or streams.missing:
            known_configurations = self._configurations
            unreachable = {
                stream: known_configurations.consumers_of(stream) for stream in streams.missing
            }
            self._consumers.follow(self._streams.rows, unreachable)

    def _sees_more(self, streams: StreamsSeen, unlisted_before_count: int) -> bool:
        """Return whether the first view is incomplete, and the next poll brings more of it."""
        left_count = self._consumers.unlisted_count
        self._all_listed = self._all_listed or streams.complete
        if self._all_listed and not left_count:
            self._budget.seen_all(self._api)
        # Where the server's share is used up, a poll at once would bring next to nothing.
        is_affordable = self._api.work.left_s(steady_s()) > 0
        return is_affordable and 0 < left_count < max(unlisted_before_count, 1)

    def _cost(
        self, started_us: int, rtt_us: int | None, wanted_s: float, *, is_immediate: bool
    ) -> PollCost:
        """Return the cost of this poll, and set the pause to the next."""
        elapsed_us = steady_us() - started_us
        reason = (
            self._budget.after(self._api, elapsed_us / 1e6, wanted_s, is_immediate=is_immediate)
            or self._availability.waiting_reason
        )
        return PollCost(
            requests_count=self._api.requests_count,
            received_bytes=self._api.received_bytes,
            elapsed_us=elapsed_us,
            api_rtt_us=rtt_us,
            interval_us=max(elapsed_us, round(self._budget.interval_s * 1e6)),
            backoff_reason=reason,
            round_us=self._round_us(wanted_s),
            errors_count=self._api.take_errors_count(),
        )

    def _round_us(self, wanted_s: float) -> int | None:
        """Return the time of a round over all rows; None if each poll has all."""
        round_s = max(self._consumers.rest_s, self._streams.rest_s)
        if self._bulk.covers_all:
            round_s = self._bulk.period_s
        return round(round_s * 1e6) if round_s > wanted_s else None

    async def _account(self, patience: Patience) -> tuple[Account | None, int | None]:
        """Return the account and the round trip; raises ServerGone.

        Raises RequestTimedOut too on a lone server. In a cluster only the meta leader replies to
        INFO; the leaders of streams still reply for their streams.
        """
        if _INFO not in self._questions:
            if not self._availability.may_ask(_INFO):
                return None, None
            self._questions.ask(_INFO, partial(self._api.ask, _INFO, timeout_s=_INFO_TIMEOUT_S))
        in_cluster = bool(self._client.nc.server_info.get("cluster"))
        limit_s = patience.quiet_s if in_cluster else 2 * _INFO_TIMEOUT_S
        if not await self._questions.wait(_INFO, Patience(limit_s), limit_s):
            return None, None
        asked_mono_s = self._questions.asked_mono_s(_INFO)
        try:
            reply, self._rtt_us = self._questions.take(_INFO)
            account = read_account(reply)
        except RequestTimedOut as error:
            if not in_cluster:
                raise
            self._availability.failed(_INFO, error)
            return None, None
        except RequestFailed as error:
            self._availability.failed(_INFO, error)
            return None, None
        self._streams.lists_work(asked_mono_s)
        if self._availability.worked(_INFO):
            self._availability.retry_all()
        return account, self._rtt_us
