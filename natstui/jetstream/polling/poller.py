"""Polls a server's JetStream: one snapshot per poll, within a budget of requests and work."""

from __future__ import annotations

import asyncio
from functools import partial

from natstui.clock import steady_s, steady_us
from natstui.errors import ConnectionLost, RequestFailed, RequestTimedOut
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.account import read_account
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget.allowance import PollAllowance, PollBudget
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.bulk.poller import BulkPoller
from natstui.jetstream.polling.bulk.view import BulkSource
from natstui.jetstream.polling.configurations import ConfigurationHashes
from natstui.jetstream.polling.consumers import ConsumerPoller
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.lag import LagPoller
from natstui.jetstream.polling.open_requests import OpenRequests, WaitBudget
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.snapshot import PolledStreams, make_snapshot
from natstui.jetstream.polling.streams import StreamPoller
from natstui.jetstream.polling.subjects import SubjectCounter
from natstui.model.live.snapshot import Account, PollCost

_INFO = "INFO"
_POLL_NAME = "answers"
"""Name under which a failure that ends a poll is reported."""
_INFO_TIMEOUT_S = 2.0
_FAILED_POLL_PAUSE_S = 0.25
_REPLY_WAIT_S = 0.7
_MIN_QUIET_S = 0.25
_QUIET_TRIPS_COUNT = 3
"""Number of round trips to wait for a reply, though `_MIN_QUIET_S` at least."""


async def poll(
    client: Client,
    control: PollControl,
    sink: Sink,
    requests_per_s: float | None = None,
    bulk: BulkSource | None = None,
) -> None:
    """Poll until cancelled, and add the records of each poll to `sink`.

    Adds a Snapshot per poll, Configured before it if configurations are new or changed,
    Unavailable and Restored when a request fails or works again. Polls nothing without a
    connection. `requests_per_s` is the user's limit of requests. `bulk` may provide all rows at
    once; it is closed at the end.
    """
    poller = _Poller(client, control, sink, requests_per_s, bulk)
    try:
        while True:
            started_s = steady_s()
            pause_s = await poller.poll_once()
            await control.wait_for_poll(started_s + pause_s)
    finally:
        await poller.end_polling()


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
        self._budget = PollBudget(requests_per_s)
        self._availability = RequestAvailability(sink)
        self._configurations = ConfigurationHashes()
        self._clocks = clocks = ServerClocks()
        self._requests = OpenRequests(self._api)
        self._rtt_us: int | None = None
        self._reconnects_count = client.nc.stats["reconnects"]
        self._are_all_streams_listed = False
        """Whether all streams have been listed since the connection began."""
        self._stream_poller = StreamPoller(self._api, self._availability, clocks, sink)
        self._consumer_poller = ConsumerPoller(self._api, self._availability, clocks)
        self._lag_poller = LagPoller(self._api, self._availability)
        self._bulk_poller = BulkPoller(bulk, self._api, self._availability)
        self._subject_counter = SubjectCounter(self._api, self._availability, sink)

    async def poll_once(self) -> float:
        """Poll once, and return the seconds from the start of this poll to that of the next."""
        interval_s = self._control.interval_s
        self._api.begin_poll()
        if (reconnects_count := self._client.nc.stats["reconnects"]) != self._reconnects_count:
            self._reconnects_count = reconnects_count
            self._stream_poller.expire_list()
        allowance = self._budget.next_allowance(self._api, interval_s)
        try:
            await self._read_and_add_records(allowance, interval_s)
        except ConnectionLost:
            await self.close()
            self._availability.retry_all()
            self._budget.reset()
            return _FAILED_POLL_PAUSE_S
        except RequestTimedOut as error:
            # INFO is the probe: it is sent again at once, and all else waits for its reply.
            self._availability.report_failure(_INFO, error)
            self._availability.retry_all()
            self._budget.reset()
            return _FAILED_POLL_PAUSE_S
        except RequestFailed as error:
            self._availability.report_failure(_POLL_NAME, error)
        return self._budget.interval_s

    async def close(self) -> None:
        """Cancel the open requests; discard bulk rows and measurements of this connection."""
        self._are_all_streams_listed = False
        await self._requests.close()
        await self._stream_poller.close()
        await self._consumer_poller.close()
        await self._bulk_poller.reset_for_new_link()
        await self._api.reset_for_new_link()

    async def end_polling(self) -> None:
        """Cancel the open requests and close the bulk source."""
        await self.close()
        await self._bulk_poller.close()

    async def _read_and_add_records(self, allowance: PollAllowance, interval_s: float) -> None:
        started_us = steady_us()
        quiet_s = max(_MIN_QUIET_S, _QUIET_TRIPS_COUNT * (self._rtt_us or 0) / 1e6)
        wait_budget = WaitBudget(_REPLY_WAIT_S + quiet_s, quiet_s)
        account, rtt_us = await self._read_account(wait_budget)
        self._clocks.trip_us = self._api.max_trip_us
        began_mono_s = steady_s()
        bulk = await self._bulk_poller.collect_rows(account, self._control, quiet_s)
        streams = await self._stream_poller.read(
            allowance.for_first_half() if self._consumer_poller.has_consumers else allowance,
            self._control.visible_streams,
            wait_budget,
            account.streams_count if account else 0,
            has_no_consumers=not self._consumer_poller.has_consumers,
            bulk=bulk,
        )
        allowance = allowance.for_second_half(began_mono_s)
        self._update_streams(streams)
        unlisted_count = self._consumer_poller.unlisted_count
        consumers = await self._consumer_poller.read(allowance, self._control, wait_budget, bulk)
        reachable_rows = {
            name: row
            for name, row in self._stream_poller.rows.items()
            if name not in streams.missing
        }
        self._lag_poller.withdraw_failures(consumers, self._stream_poller.rows)
        await self._lag_poller.update_next_times(
            allowance, self._control, consumers.rows, reachable_rows
        )
        is_immediate = (
            self._is_first_view_incomplete(streams, unlisted_count)
            or self._bulk_poller.has_waiting_rows
        )
        cost = self._plan_next_poll(started_us, rtt_us, interval_s, is_immediate=is_immediate)
        server_name = self._client.nc.server_info.get("server_name")
        snapshot = make_snapshot(account, streams, consumers, cost, server_name)
        # Each of these steps takes long with many rows: other tasks run in between.
        await asyncio.sleep(0)
        existing_streams = set(self._stream_poller.rows)
        new_configurations = self._configurations.find_changes(
            snapshot.taken_at_us, streams, consumers, existing_streams
        )
        if new_configurations is not None:
            self._sink.add(new_configurations)
            await asyncio.sleep(0)
        self._sink.add(snapshot)
        self._availability.report_success(_POLL_NAME)
        await self._subject_counter.count_due_subjects(snapshot, new_configurations, allowance)

    def _update_streams(self, streams: PolledStreams) -> None:
        """Pass the existing streams to the poller of consumers."""
        if streams.is_complete or streams.missing:
            known_configurations = self._configurations
            unreachable = {
                stream: known_configurations.consumer_names(stream) for stream in streams.missing
            }
            self._consumer_poller.update_streams(self._stream_poller.rows, unreachable)

    def _is_first_view_incomplete(
        self, streams: PolledStreams, unlisted_before_count: int
    ) -> bool:
        """Return whether some consumers were never listed, and a poll at once would list more.

        The first view is complete when all streams and consumers were listed once.
        """
        unlisted_count = self._consumer_poller.unlisted_count
        self._are_all_streams_listed = self._are_all_streams_listed or streams.is_complete
        if self._are_all_streams_listed and not unlisted_count:
            self._budget.end_first_view(self._api)
        # With the server's share used up, a poll at once would read nearly nothing.
        is_work_left = self._api.work.left_s(steady_s()) > 0
        return is_work_left and 0 < unlisted_count < max(unlisted_before_count, 1)

    def _plan_next_poll(
        self, started_us: int, rtt_us: int | None, interval_s: float, *, is_immediate: bool
    ) -> PollCost:
        """Set the interval to the next poll; return the cost of this one."""
        elapsed_us = steady_us() - started_us
        reason = (
            self._budget.set_next_interval(
                self._api, elapsed_us / 1e6, interval_s, is_immediate=is_immediate
            )
            or self._availability.waiting_reason
        )
        return PollCost(
            requests_count=self._api.requests_count,
            received_bytes=self._api.received_bytes,
            elapsed_us=elapsed_us,
            api_rtt_us=rtt_us,
            interval_us=max(elapsed_us, round(self._budget.interval_s * 1e6)),
            backoff_reason=reason,
            round_us=self._complete_round_us(interval_s),
            errors_count=self._api.pop_errors_count(),
        )

    def _complete_round_us(self, interval_s: float) -> int | None:
        """Return the interval in which all rows are read, in µs; None if each poll reads all."""
        complete_round_s = max(
            self._consumer_poller.turn_interval_s, self._stream_poller.turn_interval_s
        )
        if self._bulk_poller.covers_all_rows:
            complete_round_s = self._bulk_poller.period_s
        return round(complete_round_s * 1e6) if complete_round_s > interval_s else None

    async def _read_account(self, wait_budget: WaitBudget) -> tuple[Account | None, int | None]:
        """Return the account and the round trip in µs; None for both without a reply.

        Raises ConnectionLost, and RequestTimedOut unless the server is clustered: in a cluster,
        only the meta leader replies to INFO, but leaders of streams still reply about these.
        """
        if _INFO not in self._requests:
            if not self._availability.may_request(_INFO):
                return None, None
            self._requests.send(
                _INFO, partial(self._api.request, _INFO, timeout_s=_INFO_TIMEOUT_S)
            )
        is_clustered = bool(self._client.nc.server_info.get("cluster"))
        limit_s = wait_budget.quiet_s if is_clustered else 2 * _INFO_TIMEOUT_S
        if not await self._requests.wait_for_reply(_INFO, WaitBudget(limit_s), limit_s):
            return None, None
        requested_mono_s = self._requests.requested_mono_s(_INFO)
        try:
            reply, self._rtt_us = self._requests.pop_reply(_INFO)
            account = read_account(reply)
        except RequestTimedOut as error:
            if not is_clustered:
                raise
            self._availability.report_failure(_INFO, error)
            return None, None
        except RequestFailed as error:
            self._availability.report_failure(_INFO, error)
            return None, None
        self._stream_poller.restart_lost_list(requested_mono_s)
        if self._availability.report_success(_INFO):
            self._availability.retry_all()
        return account, self._rtt_us
