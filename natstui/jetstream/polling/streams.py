"""Polls the streams: their list, and single streams while the list is delayed.

While a node is down the server delays every list for 4 s, and without a meta leader it replies to
none at all; a stream's own leader replies at once. A silent leader gets one request at a time,
without waiting, so that it delays nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from natstui.clock import steady_s, steady_us
from natstui.errors import NotFound, PermissionDenied, RequestFailed, RequestTimedOut
from natstui.feed import Sink
from natstui.jetstream.connection.decode.asset import clock_server_of, refusal_reason
from natstui.jetstream.connection.decode.streams import StreamRow, read_stream, read_streams
from natstui.jetstream.connection.shapes import check_read_name
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget.allowance import PollAllowance
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.bulk.poller import NO_BULK_ROWS, BulkRows
from natstui.jetstream.polling.listing import Listing
from natstui.jetstream.polling.open_requests import OpenRequests, WaitBudget
from natstui.jetstream.polling.rollbacks import RollbackDetector
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.snapshot import PolledStreams
from natstui.units import counted

_LIST = "STREAM.LIST"
_REPORTED_SHORT_LISTS_COUNT = 3
"""Number of successive lists with fewer streams than the server counts that is reported."""
_INFO = "STREAM.INFO"
_REPLY_WAIT_S = 0.7
_SINGLE_REQUEST_TIMEOUT_S = 2.0
"""Timeout of a request about one stream in a cluster; then it is sent again."""
_LIST_WORK_SHARE = 0.17
"""Share of the server work allowed to polling that stream lists may use, with consumers."""
_MAX_LIST_DELAY_S = 4.5
"""Maximum time by which a server delays a list."""
_LIST_INTERVAL_WITH_BULK_S = 20.0
"""Interval of the list if bulk replies bring the rows."""


class StreamPoller:
    """Polls the streams: lists them, and requests streams in view one by one.

    While a list is delayed, it requests all streams one by one.
    """

    def __init__(
        self, api: PollingApi, availability: RequestAvailability, clocks: ServerClocks, sink: Sink
    ) -> None:
        self._api = api
        self._availability = availability
        self._clocks = clocks
        self._requests = OpenRequests(api)
        self._open_listing: Listing[StreamRow] | None = None
        self._expected_count = 0
        self._list_requested_us = 0
        self._list_work_us = 0.0
        """Work of the server for the current list, or the last one."""
        self.turn_interval_s = 0.0
        """Minimum interval of lists, if there are consumers."""
        self._has_no_consumers = True
        self._has_bulk_replies = False
        """Whether bulk replies come regularly."""
        self._rotation_offset = 0
        self._unreachable_stream_names: set[str] = set()
        self._offline_reasons: dict[str, str] = {}
        """Stream that its server refuses to run → reason."""
        self._silent_leaders: set[str] = set()
        """Leaders that have not replied to a request."""
        self._silent_since_us_by_leader: dict[str, int] = {}
        """Leader that is silent while others reply → when the request without a reply was sent."""
        self._short_lists_count = 0
        self._newest_replied_request_us = 0
        """When the newest request with a reply was sent."""
        self._polled_streams = PolledStreams()
        self._rollbacks = RollbackDetector(sink)
        self.rows: dict[str, StreamRow] = {}
        """Stream → its row with the newest values."""

    @property
    def missing(self) -> set[str]:
        """Return the streams that are known to be unreachable."""
        unreachable = {
            name
            for name, row in self.rows.items()
            if _leader(row) in self._silent_since_us_by_leader
        }
        return self._unreachable_stream_names | unreachable

    async def read(
        self,
        allowance: PollAllowance,
        visible_streams: tuple[str, ...],
        wait_budget: WaitBudget,
        expected_count: int,
        *,
        has_no_consumers: bool,
        bulk: BulkRows = NO_BULK_ROWS,
    ) -> PolledStreams:
        """Read the list of streams or single streams, as far as the allowance permits.

        Raises only ConnectionLost.
        `expected_count` is the account's number of streams. With `has_no_consumers` no part of the
        allowance is left for consumers.
        """
        self._expected_count = max(expected_count, len(self.rows))
        self._has_no_consumers = has_no_consumers
        self._has_bulk_replies = bulk.replaces_list
        polled = self._polled_streams = PolledStreams()
        self._store_replies()
        self._add_bulk_rows(bulk)
        # Only the list names the streams that their servers refuse to run: a bulk reply has
        # rows of them too.
        is_list_due = self._is_list_due(expected_count)
        if bulk.replaces_list:
            is_interval_over = (
                steady_s() >= self._list_requested_us / 1e6 + _LIST_INTERVAL_WITH_BULK_S
            )
            has_rows = bool(self.rows or self._offline_reasons)
            is_list_due = has_rows and (is_interval_over or self._open_listing is not None)
        if is_list_due and self._availability.may_request(_LIST):
            await self._continue_list(allowance, wait_budget)
        if not polled.is_complete and self._availability.may_request(_INFO):
            await self._request_singly(allowance, visible_streams, wait_budget)
        self._request_silent_leaders()
        if bulk.replaces_list and self._availability.may_request(_INFO):
            self._request_offline_stream()
        polled.rows = list({row.name: row for row in polled.rows}.values())
        polled.missing = self.missing - {row.name for row in polled.rows}
        polled.offline = {
            name: reason
            for name, reason in self._offline_reasons.items()
            if name in polled.missing
        }
        return polled

    def _is_list_due(self, streams_count: int) -> bool:
        """Return whether a page of the list is due.

        It is if the list has begun, its interval is over, or the number of streams has changed.
        """
        if self._open_listing is not None or streams_count not in (0, len(self.rows)):
            return True
        return steady_s() >= self._list_requested_us / 1e6 + self.turn_interval_s

    def _add_bulk_rows(self, bulk: BulkRows) -> None:
        """Add the rows of a bulk reply; a complete one replaces all rows."""
        rows = [row for row in bulk.streams if row.name not in self._offline_reasons]
        for row in rows:
            known_row = self.rows.get(row.name)
            if (
                bulk.misses_consumers
                and known_row is not None
                and known_row.created == row.created
            ):
                # A server counts its own consumers, a list also those of silent servers.
                counts = row.state.consumer_count, known_row.state.consumer_count
                row.state.consumer_count = max(counts)
            self._store_row(row, trusts_reply=True, is_bulk=True)
            self._polled_streams.rows.append(self.rows[row.name])
        if bulk.is_complete:
            names = {row.name for row in rows}
            newer_rows = (
                row for row in self.rows.values() if row.requested_mono_us > bulk.requested_mono_us
            )
            names.update(row.name for row in newer_rows)
            self.rows = {name: row for name, row in self.rows.items() if name in names}
            self._polled_streams.rows = list(self.rows.values())
            self._unreachable_stream_names, self._polled_streams.is_complete = (
                set(self._offline_reasons),
                True,
            )

    def restart_lost_list(self, requested_mono_s: float) -> None:
        """Restart the open list if it is lost: later requests have a reply.

        `requested_mono_s` is when the meta leader's newest replied request was sent.
        """
        if _LIST not in self._requests or self._requests.has_reply(_LIST):
            return
        if requested_mono_s - self._requests.requested_mono_s(_LIST) > _MAX_LIST_DELAY_S:
            self._restart_list()

    def expire_list(self) -> None:
        """Make the list due at once, for example after a reconnect."""
        self._list_requested_us = 0

    async def close(self) -> None:
        """Cancel the open requests, and clear the set of silent leaders."""
        self._open_listing, self.turn_interval_s = None, 0.0
        self._silent_leaders.clear()
        self._silent_since_us_by_leader.clear()
        await self._requests.close()

    async def _continue_list(self, allowance: PollAllowance, wait_budget: WaitBudget) -> None:
        listing = self._open_listing = self._open_listing or Listing(
            _LIST, read_streams, read_stream, self._expected_count
        )
        try:
            for _ in range(max(1, allowance.left_requests_count // 2)):
                work_before_us = self._api.work_us
                if not await self._read_page(listing, wait_budget):
                    return
                self._list_work_us += self._api.work_us - work_before_us
                for row in listing.pop_single_rows():
                    self._store_row(row, trusts_reply=True)
                    self._polled_streams.rows.append(self.rows[row.name])
                if listing.is_complete or not allowance.has_room_for_rest:
                    break
        except RequestFailed as error:
            self._open_listing = None
            self._availability.report_failure(_LIST, error)
            # It is due as soon as the pause after its failure is over.
            self._list_requested_us = 0
            return
        if listing.is_complete and self._report_short_list(listing):
            return
        self._availability.report_success(_LIST)
        if listing.is_complete:
            self._open_listing = None
            await self._store_complete_list(listing, wait_budget)

    def _report_short_list(self, listing: Listing[StreamRow]) -> bool:
        """Return True, after reporting a failure, if the last three lists lacked counted streams.

        A single such list may be due to a stream that was just created or deleted.
        """
        left_out_count = listing.left_out_count if listing.is_count_constant else 0
        self._short_lists_count = self._short_lists_count + 1 if left_out_count else 0
        if self._short_lists_count < _REPORTED_SHORT_LISTS_COUNT:
            return False
        self._open_listing = None
        message = f"the server counts {counted(left_out_count, 'more stream')} than it lists"
        self._availability.report_failure(_LIST, RequestFailed(f"{_LIST}: {message}"))
        return True

    async def _read_page(self, listing: Listing[StreamRow], wait_budget: WaitBudget) -> bool:
        """Read one page of the list; return False if its reply has not arrived yet."""
        is_delayed = _LIST in self._requests
        if not is_delayed:
            if not listing.rows:
                self._list_requested_us = steady_us()
                self._list_work_us = 0.0
            self._requests.send(_LIST, lambda: listing.read_page(self._api))
        if not await self._requests.wait_for_reply(
            _LIST, wait_budget, 0.0 if is_delayed else _REPLY_WAIT_S
        ):
            return False
        self._requests.pop_reply(_LIST)
        return True

    def _restart_list(self) -> None:
        """Cancel the open list, so that it is requested from its beginning."""
        self._requests.cancel(_LIST)
        self._open_listing = None

    async def _store_complete_list(
        self, listing: Listing[StreamRow], wait_budget: WaitBudget
    ) -> None:
        list_work_s = self._list_work_us / 1e6
        self.turn_interval_s = (
            0.0
            if self._has_no_consumers
            else list_work_s / (_LIST_WORK_SHARE * self._api.work.share)
        )
        undated_rows = [row for row in listing.rows if not self._store_row(row)]
        if undated_rows:
            await self._compare_clocks(undated_rows)
            # A user without permission for single streams gets no faster reply than the list.
            trusts_reply = not self._availability.may_request(_INFO)
            undated_rows = [
                row for row in undated_rows if not self._store_row(row, trusts_reply=trusts_reply)
            ]
        requested_us = self._list_requested_us
        # A stream that has replied since the list was requested is not missing.
        self._unreachable_stream_names = {
            name
            for name in listing.missing
            if name not in self.rows or self.rows[name].requested_mono_us < requested_us
        }
        self._offline_reasons = dict(listing.offline)
        names = [row.name for row in listing.rows]
        # In the order of the list, which stays the same from poll to poll.
        listed_names = dict.fromkeys([*names, *sorted(listing.missing)])
        self.rows = {name: row for name, row in self.rows.items() if name in listed_names}
        present_names = (
            name for name in listed_names if name not in self._unreachable_stream_names
        )
        self._polled_streams.rows += [
            self.rows[name] for name in present_names if name in self.rows
        ]
        self._polled_streams.is_complete = (
            listing.is_count_constant and not listing.left_out_count and not undated_rows
        )
        if not listing.missing:
            self._silent_leaders.clear()
            self._availability.report_success(_INFO)

    def _store_row(
        self, row: StreamRow, *, trusts_reply: bool = False, is_bulk: bool = False
    ) -> bool:
        """Store a row unless a newer one is known; return False if its time is unknown.

        Only bulk replies have the stored messages of replicas. Those of the last bulk reply are
        copied to the newest row, even if this is newer.
        """
        if not self._clocks.set_time(row, trusts_reply=trusts_reply):
            return False
        sampled_us, known_row = row.sampled_mono_us, self.rows.get(row.name)
        if known_row is not None and known_row.created == row.created:
            if is_bulk:
                known_row.stored_replicas = row.stored_replicas
            elif self._has_bulk_replies:
                row.stored_replicas = known_row.stored_replicas
        if not self._rollbacks.accept_row(known_row, row):
            return True
        leader = _leader(row)
        if leader and self._silent_since_us_by_leader.get(leader, sampled_us) < sampled_us:
            del self._silent_since_us_by_leader[leader]
        if known_row is None or known_row.sampled_mono_us <= sampled_us:
            self.rows[row.name] = row
        return True

    async def _compare_clocks(self, rows: Iterable[StreamRow]) -> None:
        """Request one stream of each leader of `rows`: a fast reply compares the clocks."""
        for name in {clock_server_of(row.cluster): row.name for row in rows}.values():
            request_name = f"{_INFO}.{name}"
            self._requests.send(request_name, partial(self._request_info, name))
            if await self._requests.wait_for_reply(
                request_name, WaitBudget(_REPLY_WAIT_S), _REPLY_WAIT_S
            ):
                self._store_reply(request_name)

    async def _request_info(self, name: str) -> StreamRow:
        known_row = self.rows.get(name)
        timeout_s = (
            _SINGLE_REQUEST_TIMEOUT_S if known_row is not None and _leader(known_row) else None
        )
        reply = await self._api.request_timed(f"{_INFO}.{name}", timeout_s=timeout_s)
        began_us = reply.arrival.began_mono_us
        waited_us = began_us - reply.requested_mono_us
        if waited_us > _REPLY_WAIT_S * 1e6:
            # The leader was silent for a while; that is no work.
            self._api.exclude_from_work(reply)
        row = read_stream(reply.data, began_us, waited_us)
        check_read_name(f"{_INFO}.{name}", row.name)
        return row

    async def _request_singly(
        self, allowance: PollAllowance, visible_streams: tuple[str, ...], wait_budget: WaitBudget
    ) -> None:
        """Request streams one by one, within the allowance; the next poll continues."""
        for sent_count, name in enumerate(
            self._choose_streams(visible_streams)[: max(1, allowance.left_requests_count // 2)]
        ):
            if sent_count and not allowance.has_room_for_request:
                return
            row = self.rows.get(name)
            leader, request_name = _leader(row) if row else None, f"{_INFO}.{name}"
            if leader in self._silent_leaders or request_name in self._requests:
                continue
            self._requests.send(request_name, partial(self._request_info, name))
            if await self._requests.wait_for_reply(request_name, wait_budget, wait_budget.quiet_s):
                self._store_reply(request_name)
            elif leader:
                self._silent_leaders.add(leader)

    def _choose_streams(self, visible_streams: tuple[str, ...]) -> list[str]:
        """Return the streams to request one by one: first those in view.

        While the list is delayed or fails, all others with a leader follow, the oldest row first.
        """
        missing = self.missing
        first_index = self._rotation_offset % len(visible_streams) if visible_streams else 0
        self._rotation_offset += 1
        due_names = dict.fromkeys((*visible_streams[first_index:], *visible_streams[:first_index]))
        if _LIST in self._requests or not self._availability.may_request(_LIST):
            rows_with_leader = (row for row in self.rows.values() if _leader(row))
            due_names |= dict.fromkeys(
                row.name for row in sorted(rows_with_leader, key=lambda row: row.sampled_mono_us)
            )
        return [name for name in due_names if name not in missing]

    def _request_silent_leaders(self) -> None:
        """Request one stream of each silent leader, without waiting for the reply."""
        missing = self.missing
        names_by_leader: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            leader = _leader(row)
            if leader and (leader in self._silent_leaders or name in missing):
                names_by_leader.setdefault(leader, []).append(name)
        self._silent_leaders &= names_by_leader.keys()
        for names in names_by_leader.values():
            if not any(f"{_INFO}.{name}" in self._requests for name in names):
                # Unreachable streams come first: they show best that a leader is back.
                names.sort(key=lambda name: name not in missing)
                name = names[self._rotation_offset % len(names)]
                self._requests.send(f"{_INFO}.{name}", partial(self._request_info, name))

    def _request_offline_stream(self) -> None:
        """Request one stream that its server refuses to run, without waiting for the reply.

        With bulk replies, the list is too rare to show soon that the stream runs again.
        """
        if not self._offline_reasons:
            return
        names = sorted(self._offline_reasons)
        name = names[self._rotation_offset % len(names)]
        if f"{_INFO}.{name}" not in self._requests:
            self._requests.send(f"{_INFO}.{name}", partial(self._request_info, name))

    def _store_replies(self) -> None:
        """Store the rows of all replies about single streams since the last poll."""
        for request_name in self._requests.names:
            if request_name != _LIST and self._requests.has_reply(request_name):
                self._store_reply(request_name)

    def _store_reply(self, request_name: str) -> None:
        """Store the row of one requested stream; after a failure, store or report its reason."""
        name = request_name.removeprefix(f"{_INFO}.")
        requested_us = int(self._requests.requested_mono_s(request_name) * 1e6)
        known_row = self.rows.get(name)
        leader = _leader(known_row) if known_row else None
        try:
            row: StreamRow = self._requests.pop_reply(request_name)
        except RequestTimedOut:
            if leader and self._newest_replied_request_us > requested_us:
                self._silent_since_us_by_leader.setdefault(leader, requested_us)
            return
        except RequestFailed as error:
            self._store_error(name, leader, error)
            return
        self._newest_replied_request_us = max(self._newest_replied_request_us, requested_us)
        self._availability.report_success(_INFO)
        self._silent_leaders.discard(_leader(row) or "")
        was_missing = name in self.missing
        self._store_row(row, trusts_reply=True)
        self._unreachable_stream_names.discard(name)
        self._offline_reasons.pop(name, None)
        self._polled_streams.rows.append(self.rows[name])
        if was_missing:
            self._availability.retry_all()
            self._restart_list()

    def _store_error(self, name: str, leader: str | None, error: RequestFailed) -> None:
        """Report the error of a request for a stream, or store that the stream is unreachable."""
        reason = refusal_reason(error)
        if reason is not None:
            self._unreachable_stream_names.add(name)
            self._offline_reasons[name] = reason
            return
        if isinstance(error, PermissionDenied) or not leader:
            if not isinstance(error, NotFound):
                self._availability.report_failure(_INFO, error)
            return
        # Its leader is alive, but the stream has lost its quorum or is offline.
        self._silent_leaders.discard(leader)
        if not isinstance(error, NotFound):
            self._unreachable_stream_names.add(name)


def _leader(row: StreamRow) -> str | None:
    """Return the leader of a stream in a cluster; None without a leader or cluster."""
    return row.cluster.leader or None if row.cluster else None
