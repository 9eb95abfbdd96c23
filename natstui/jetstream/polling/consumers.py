"""Polls the consumers: those in view first, then the lists of all streams in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from natstui.clock import steady_s
from natstui.errors import NotFound, PermissionDenied, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.decode.asset import clock_server_of, refusal_reason
from natstui.jetstream.connection.decode.consumers import (
    ConsumerRow,
    read_consumer,
    read_consumers,
)
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.connection.shapes import check_read_name
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget.allowance import PollAllowance
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.bulk.poller import NO_BULK_ROWS, BulkRows
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.listing import Listing
from natstui.jetstream.polling.open_requests import OpenRequests, WaitBudget
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.snapshot import PolledConsumers, hash_progress
from natstui.jetstream.polling.sweep import (
    ConsumerDenials,
    ConsumerListOrder,
    choose_requests,
    turn_interval_s,
)

_LIST = "CONSUMER.LIST"
_INFO = "CONSUMER.INFO"
_INCOMPLETE_LIST_PAUSE_S = 10.0
_SINGLE_REQUEST_TIMEOUT_S = 2.0
_MISSING_REQUESTS_PER_POLL = 2
_MAX_DELAYED_LISTS_COUNT = 3
_UNREACHABLE_CODES = (10008, 10119)
"""Error codes: the consumer has no leader, or its server is down."""

_StreamAndConsumer = tuple[str, str]


class ConsumerPoller:
    """Polls the consumers: lists them stream by stream, a long list over several polls."""

    def __init__(
        self, api: PollingApi, availability: RequestAvailability, clocks: ServerClocks
    ) -> None:
        self._api = api
        self._availability = availability
        self._clocks = clocks
        self._requests = OpenRequests(api)
        self._denials = ConsumerDenials(availability)
        self._list_order = ConsumerListOrder()
        self._consumers_count_by_stream: dict[str, int] = {}
        self._open_listing: tuple[str, Listing[ConsumerRow]] | None = None
        self._delayed_listings: dict[str, Listing[ConsumerRow]] = {}
        """Stream → its list, whose requested page has not arrived yet."""
        self._repeated_list_streams: set[str] = set()
        """Streams whose list was lost and is requested again."""
        self._rotation_offset = 0
        self._unreachable_consumers_by_stream: dict[str, set[str]] = {}
        self._offline_reasons: dict[_StreamAndConsumer, str] = {}
        """Consumer that its server refuses to run → reason."""
        self._unlisted_count_by_stream: dict[str, int] = {}
        """Stream → number of consumers that it counts and that its list does not name."""
        self._reachable_names: dict[str, list[str]] = {}
        """Stream with unreachable consumers → its other consumers, the least recently
        requested first.
        """
        self._unreachable_streams: Mapping[str, set[str]] = {}
        self._list_paused_until_mono_s: dict[str, float] = {}
        self._single_rows: dict[_StreamAndConsumer, ConsumerRow] = {}
        """The newest rows of consumers that were requested one by one; a list may be older."""
        self._failed_consumer: _StreamAndConsumer | None = None
        """The consumer whose request failed and was reported; None without one."""
        self._last_due_search_mono_s = 0.0
        self._newest_replied_request_mono_s = 0.0
        """When the newest request about a single consumer that has a reply was sent."""
        self._polled_consumers = PolledConsumers()
        self.turn_interval_s = 0.0
        """Interval of turns of a stream without changes; 0 if each poll lists all streams."""

    def update_streams(
        self, rows: Mapping[str, StreamRow], unreachable: Mapping[str, set[str]]
    ) -> None:
        """Update the streams whose consumers are listed.

        `unreachable` are unreachable streams with their consumers, which are not requested: the
        server would only delay its reply.
        """
        for restored_stream in self._unreachable_streams.keys() - unreachable.keys():
            self._list_paused_until_mono_s.pop(restored_stream, None)
        self._unreachable_streams = unreachable
        self._list_order.update_streams(rows, unreachable)
        for stream in self._availability.failed_streams(_LIST):
            if stream not in rows or not rows[stream].state.consumer_count:
                # Its list is not requested any more.
                self._availability.report_success(f"{_LIST}.{stream}")
        for removed_stream in self._consumers_count_by_stream.keys() - rows.keys():
            self._unreachable_consumers_by_stream.pop(removed_stream, None)
            self._list_paused_until_mono_s.pop(removed_stream, None)
        self._consumers_count_by_stream = {
            name: row.state.consumer_count for name, row in rows.items() if name not in unreachable
        }
        for consumers_by_stream in (
            self._unreachable_consumers_by_stream,
            self._unlisted_count_by_stream,
            self._reachable_names,
        ):
            # Consumers of an unreachable stream are reported with it; a stream without any is not
            # listed.
            for stream in [
                stream
                for stream in consumers_by_stream
                if not self._consumers_count_by_stream.get(stream)
            ]:
                del consumers_by_stream[stream]

    async def read(
        self,
        allowance: PollAllowance,
        control: PollControl,
        wait_budget: WaitBudget,
        bulk: BulkRows = NO_BULK_ROWS,
    ) -> PolledConsumers:
        """Read the consumers in view and due lists of consumers, as far as the allowance permits.

        At least one page of a list is read. Raises only ConnectionLost.
        """
        self._polled_consumers = PolledConsumers()
        self._store_replies()
        self._add_bulk_rows(bulk)
        await self._read_visible(allowance, control.visible_consumers, wait_budget)
        preferred_streams = {stream for stream, _ in control.preferred_consumers}
        due_streams = self._find_due_streams(preferred_streams, control.interval_s)
        await self._list_due_consumers(
            allowance,
            deque(stream for stream in due_streams if stream not in bulk.covered_streams),
            wait_budget,
        )
        self._request_missing_consumers()
        self._denials.report()
        self._polled_consumers.swept_streams.update(self._list_order.pop_emptied_streams())
        self._polled_consumers.is_complete = self._polled_consumers.swept_streams.issuperset(
            self._list_order.streams
        )
        unreachable = (
            *self._unreachable_consumers_by_stream.items(),
            *self._unreachable_streams.items(),
        )
        missing = {(stream, name) for stream, names in unreachable for name in names}
        self._polled_consumers.missing = missing - self._polled_consumers.rows.keys()
        self._polled_consumers.offline = {
            name: reason
            for name, reason in self._offline_reasons.items()
            if name in self._polled_consumers.missing
        }
        self._polled_consumers.unlisted = dict(self._unlisted_count_by_stream)
        self._discard_single_rows()
        self._withdraw_failure(control.visible_consumers)
        return self._polled_consumers

    def _discard_single_rows(self) -> None:
        """Discard rows of consumers that were deleted, or are of a deleted stream."""
        self._single_rows = {
            key: row
            for key, row in self._single_rows.items()
            if key[0] in self._consumers_count_by_stream
            and (
                key[0] not in self._polled_consumers.swept_streams
                or key in self._polled_consumers.rows
            )
        }

    def _withdraw_failure(self, visible_consumers: tuple[_StreamAndConsumer, ...]) -> None:
        """Report that single requests work again if the consumer whose request failed is not in
        view any more, and its stream was listed or deleted.
        """
        consumer = self._failed_consumer
        if (
            consumer is None
            or consumer in visible_consumers
            or consumer in self._polled_consumers.missing
        ):
            return
        is_stream_deleted = consumer[0] not in self._consumers_count_by_stream
        if is_stream_deleted or consumer[0] in self._polled_consumers.swept_streams:
            self._failed_consumer = None
            self._availability.report_success(_INFO)

    def _add_bulk_rows(self, bulk: BulkRows) -> None:
        for stream, rows in bulk.consumers.items():
            for row in rows:
                self._clocks.set_time(row, trusts_reply=True)
                self._add_row(row)
            self._list_order.store_progress(stream, hash_progress(rows))
            if stream in bulk.complete_streams:
                self._unreachable_consumers_by_stream.pop(stream, None)
                self._unlisted_count_by_stream.pop(stream, None)
                self._polled_consumers.swept_streams.add(stream)
                self._end_turn(stream)

    def _find_due_streams(
        self, preferred_streams: AbstractSet[str], interval_s: float
    ) -> deque[str]:
        """Return the streams whose consumers are due to be listed; all if that costs little."""
        list_work_s = self._api.usual_work_s(_LIST)
        pause_s = turn_interval_s(
            len(self._consumers_count_by_stream), list_work_s, self._api.work.share
        )
        self.turn_interval_s = pause_s = 0.0 if pause_s <= interval_s else pause_s
        now_s = steady_s()
        since_s, self._last_due_search_mono_s = now_s - self._last_due_search_mono_s, now_s
        return deque(
            self._list_order.find_due(now_s, pause_s, preferred_streams, min(pause_s, since_s))
        )

    @property
    def unlisted_count(self) -> int:
        """Return the number of streams whose consumers were never listed."""
        return self._list_order.unlisted_count

    @property
    def has_consumers(self) -> bool:
        """Return whether any stream has consumers."""
        return any(self._consumers_count_by_stream.values())

    async def close(self) -> None:
        """Cancel the open requests, and discard the lists that are read."""
        self._open_listing = None
        self._delayed_listings.clear()
        self._repeated_list_streams.clear()
        await self._requests.close()

    async def _read_visible(
        self,
        allowance: PollAllowance,
        visible_consumers: tuple[_StreamAndConsumer, ...],
        wait_budget: WaitBudget,
    ) -> None:
        """Read the consumers in view, with two thirds of the requests; one third while some stream
        was never listed.
        """
        slow_streams = self._unreachable_consumers_by_stream.keys() | self._delayed_listings.keys()
        present_names = [
            name
            for name in visible_consumers
            if name[1] not in self._unreachable_consumers_by_stream.get(name[0], ())
        ]
        requests = choose_requests(present_names, self._consumers_count_by_stream, slow_streams)
        reserved_requests_count = (
            allowance.left_requests_count * (2 if self._list_order.unlisted_count else 1) // 3
        )
        rotated_requests = [
            requests[(self._rotation_offset + offset) % len(requests)]
            for offset in range(len(requests))
        ]
        for sent_count, (stream, name) in enumerate(rotated_requests):
            # Not limited by work: a poll that cost too much is followed by a longer pause.
            if sent_count and (
                allowance.left_requests_count <= reserved_requests_count
                or not allowance.is_before_next_poll
            ):
                return
            self._rotation_offset += 1
            if name is not None:
                for next_stream, next_name in rotated_requests[
                    sent_count + 1 : sent_count + self._api.max_open_count
                ]:
                    self._request_consumer_ahead(next_stream, next_name)
                await self._request_consumer(stream, name, wait_budget)
            elif stream not in self._delayed_listings:
                await self._read_list(stream, wait_budget)

    def _request_consumer_ahead(self, stream: str, name: str | None) -> None:
        may_send = f"{_INFO}.{stream}.{name}" not in self._requests
        if name is not None and may_send and self._availability.may_request(_INFO):
            self._api.request_ahead(f"{_INFO}.{stream}.{name}", None)

    async def _read_list(self, stream: str, wait_budget: WaitBudget) -> None:
        listing = self._make_listing(stream)
        while not listing.is_complete:
            if not await self._read_page(stream, listing, wait_budget):
                return

    async def _request_consumer(self, stream: str, name: str, wait_budget: WaitBudget) -> None:
        """Request one consumer and store its row; if the reply is delayed, a later poll does."""
        request_name = f"{_INFO}.{stream}.{name}"
        if request_name in self._requests or not self._availability.may_request(_INFO):
            return
        self._requests.send(request_name, partial(self._request_info, stream, name))
        if await self._requests.wait_for_reply(request_name, wait_budget, wait_budget.quiet_s):
            self._store_reply(request_name)

    async def _request_info(
        self, stream: str, name: str, timeout_s: float | None = None
    ) -> ConsumerRow:
        reply = await self._api.request_timed(f"{_INFO}.{stream}.{name}", timeout_s=timeout_s)
        began_us = reply.arrival.began_mono_us
        waited_us = began_us - reply.requested_mono_us
        if waited_us > _SINGLE_REQUEST_TIMEOUT_S * 1e6:
            # The leader was silent for a while; that is no work.
            self._api.exclude_from_work(reply)
        row = read_consumer(reply.data, began_us, waited_us)
        check_read_name(f"{_INFO}.{stream}.{name}", f"{row.stream_name}.{row.name}")
        return row

    def _store_reply(self, request_name: str) -> None:
        """Store the row of one requested consumer; after an error, store or report its reason."""
        _, _, stream, name = request_name.split(".", 3)
        requested_mono_s = self._requests.requested_mono_s(request_name)
        try:
            row: ConsumerRow = self._requests.pop_reply(request_name)
        except NotFound:
            self._single_rows.pop((stream, name), None)
            return
        except RequestTimedOut:
            if self._newest_replied_request_mono_s > requested_mono_s:
                self._unreachable_consumers_by_stream.setdefault(stream, set()).add(name)
            return
        except RequestFailed as error:
            reason = refusal_reason(error)
            if error.err_code in _UNREACHABLE_CODES or reason is not None:
                self._unreachable_consumers_by_stream.setdefault(stream, set()).add(name)
                if reason is not None:
                    self._offline_reasons[stream, name] = reason
            else:
                self._availability.report_failure(_INFO, error)
                # A user without permission for one has none for the others.
                is_denied = isinstance(error, PermissionDenied)
                self._failed_consumer = None if is_denied else (stream, name)
            return
        self._failed_consumer = None
        self._availability.report_success(_INFO)
        self._newest_replied_request_mono_s = max(
            self._newest_replied_request_mono_s, requested_mono_s
        )
        if name in self._unreachable_consumers_by_stream.get(stream, ()):
            self._mark_reachable(stream, name)
        self._clocks.set_time(row, trusts_reply=True)
        self._add_row(row)
        self._single_rows[stream, name] = self._polled_consumers.rows[stream, name]

    def _mark_reachable(self, stream: str, name: str) -> None:
        """Mark an unreachable consumer as reachable, and let its stream be listed at once."""
        self._unreachable_consumers_by_stream[stream].discard(name)
        self._offline_reasons.pop((stream, name), None)
        if not self._unreachable_consumers_by_stream[stream]:
            del self._unreachable_consumers_by_stream[stream]
        self._list_paused_until_mono_s.pop(stream, None)
        self._requests.cancel(f"{_LIST}.{stream}")
        self._delayed_listings.pop(stream, None)

    def _add_row(self, row: ConsumerRow) -> None:
        """Add a row to this poll, or a known row of the consumer if that is newer."""
        key = row.stream_name, row.name
        for known_row in (self._polled_consumers.rows.get(key), self._single_rows.get(key)):
            if known_row is not None and known_row.sampled_mono_us > row.sampled_mono_us:
                row = known_row
        self._polled_consumers.rows[key] = row

    def _store_replies(self) -> None:
        """Store the rows of all replies since the last poll; cancel lists whose reply is lost."""
        for request_name in self._requests.names:
            stream = request_name.removeprefix(f"{_LIST}.")
            if (
                self._requests.is_reply_lost(request_name)
                and stream in self._delayed_listings.keys() - self._repeated_list_streams
            ):
                self._repeated_list_streams.add(stream)
                self._delayed_listings.pop(stream)
                self._requests.cancel(request_name)
            if not self._requests.has_reply(request_name):
                continue
            if request_name.startswith(_INFO):
                self._store_reply(request_name)
            elif (listing := self._delayed_listings.pop(stream, None)) is None:
                self._requests.cancel(request_name)
            elif (
                self._store_page(stream, listing)
                and not listing.is_complete
                and not self._open_listing
            ):
                self._open_listing = stream, listing

    def _request_missing_consumers(self) -> None:
        """Request two unreachable consumers, without waiting for the replies."""
        missing = [
            (stream, name)
            for stream, names in self._unreachable_consumers_by_stream.items()
            for name in names
        ]
        for offset in range(min(_MISSING_REQUESTS_PER_POLL, len(missing))):
            stream, name = missing[(self._rotation_offset + offset) % len(missing)]
            self._requests.send(
                f"{_INFO}.{stream}.{name}",
                partial(self._request_info, stream, name, _SINGLE_REQUEST_TIMEOUT_S),
            )
        self._rotation_offset += 1

    async def _list_due_consumers(
        self, allowance: PollAllowance, due_streams: deque[str], wait_budget: WaitBudget
    ) -> None:
        """List the consumers of one due stream after the other; at least one page is read."""
        next_streams, is_first_page = deque(due_streams), True
        while is_first_page or self._has_room(allowance):
            is_first_page = False
            if self._open_listing is None:
                if not due_streams:
                    return
                stream = due_streams.popleft()
                if next_streams and next_streams[0] == stream:
                    next_streams.popleft()
                if (
                    stream in self._polled_consumers.swept_streams
                    or stream in self._delayed_listings
                ):
                    self._end_turn(stream)
                    continue
                if self._is_paused(stream):
                    await self._request_reachable(allowance, stream, wait_budget)
                    self._end_turn(stream)
                    continue
                self._open_listing = stream, self._make_listing(stream)
                self._request_lists_ahead(allowance, next_streams, len(due_streams))
            stream, listing = self._open_listing
            if not await self._read_page(stream, listing, wait_budget) or listing.is_complete:
                self._open_listing = None
                self._end_turn(stream)

    def _has_room(self, allowance: PollAllowance) -> bool:
        if self._open_listing is not None:
            return allowance.has_room_for_rest
        return (
            allowance.has_room_for_request
            and len(self._polled_consumers.rows) < self._list_order.max_rows_count
        )

    def _end_turn(self, stream: str) -> None:
        self._list_order.end_turn(stream, steady_s())

    def _make_listing(self, stream: str) -> Listing[ConsumerRow]:
        count = self._consumers_count_by_stream.get(stream, 0)
        return Listing(f"{_LIST}.{stream}", read_consumers, read_consumer, count)

    def _request_lists_ahead(
        self, allowance: PollAllowance, next_streams: deque[str], unlisted_streams_count: int
    ) -> None:
        """Send the requests for the next lists ahead, as many as may be open at once.

        `next_streams` are the due streams without a request, and `unlisted_streams_count` is the
        number of due streams whose list was not started. Many requests at a time cost the server
        half as much.
        """
        open_count = min(allowance.left_requests_count, self._api.max_open_count) - 1
        rows_count = len(self._polled_consumers.rows)
        if unlisted_streams_count - len(next_streams) > (
            open_count // 2 if self._api.is_network_delay_long else 0
        ):
            return
        while next_streams and unlisted_streams_count - len(next_streams) < open_count:
            stream = next_streams.popleft()
            rows_count += self._consumers_count_by_stream.get(stream, 0)
            is_delayed = (
                self._is_paused(stream)
                or stream in self._delayed_listings
                or stream in self._unreachable_consumers_by_stream
            )
            may_send = (
                not is_delayed
                and stream not in self._polled_consumers.swept_streams
                and self._denials.may_request(stream)
            )
            if may_send and rows_count < self._list_order.max_rows_count:
                self._api.request_ahead(f"{_LIST}.{stream}", {"offset": 0})

    def _is_paused(self, stream: str) -> bool:
        return steady_s() < self._list_paused_until_mono_s.get(stream, 0)

    async def _request_reachable(
        self, allowance: PollAllowance, stream: str, wait_budget: WaitBudget
    ) -> None:
        """Request the reachable consumers of a stream one by one, as its list would be delayed."""
        names = self._reachable_names.get(stream, [])
        for _ in range(len(names)):
            if not allowance.has_room_for_request:
                return
            name = names.pop(0)
            names.append(name)
            if (stream, name) not in self._polled_consumers.rows:
                await self._request_consumer(stream, name, wait_budget)

    async def _read_page(
        self, stream: str, listing: Listing[ConsumerRow], wait_budget: WaitBudget
    ) -> bool:
        """Read one page of a list; return False if it cannot be read now or is delayed."""
        if self._is_paused(stream) or not self._denials.may_request(stream):
            return False
        if len(self._delayed_listings) >= _MAX_DELAYED_LISTS_COUNT:
            return False
        self._requests.send(listing.verb, partial(listing.read_page, self._api))
        if not await self._requests.wait_for_reply(listing.verb, wait_budget, wait_budget.quiet_s):
            self._delayed_listings[stream] = listing
            return False
        return self._store_page(stream, listing)

    def _store_page(self, stream: str, listing: Listing[ConsumerRow]) -> bool:
        """Store the rows of one requested page of a list; return False if the request failed."""
        try:
            self._requests.pop_reply(listing.verb)
        except NotFound:
            return False
        except PermissionDenied as error:
            self._denials.count_denial(stream, error)
            return False
        except RequestFailed as error:
            self._availability.report_failure(listing.verb, error)
            return False
        self._denials.count_success(stream)
        self._repeated_list_streams.discard(stream)
        for row in listing.pop_single_rows():
            self._clocks.set_time(row, trusts_reply=True)
            self._add_row(row)
        if not listing.is_complete:
            return True
        # A user without permission for single consumers gets no faster reply than the list.
        trusts_reply = not self._availability.may_request(_INFO)
        undated_row_by_server: dict[str | None, ConsumerRow] = {}
        for row in listing.rows:
            if not self._clocks.set_time(row, trusts_reply=trusts_reply):
                undated_row_by_server[clock_server_of(row.cluster)] = row
        for row in listing.rows:
            if clock_server_of(row.cluster) not in undated_row_by_server:
                self._add_row(row)
        for row in undated_row_by_server.values():
            # A fast reply compares the clocks, so that the next list has known times.
            name = row.name
            self._requests.send(
                f"{_INFO}.{stream}.{name}", partial(self._request_info, stream, name)
            )
        self._unreachable_consumers_by_stream.pop(stream, None)
        self._reachable_names.pop(stream, None)
        self._offline_reasons = {
            name: reason for name, reason in self._offline_reasons.items() if name[0] != stream
        }
        self._offline_reasons |= {
            (stream, name): reason for name, reason in listing.offline.items()
        }
        unlisted_count = (
            self._consumers_count_by_stream.get(stream, 0)
            - len(listing.rows)
            - len(listing.missing)
        )
        self._unlisted_count_by_stream.pop(stream, None)
        if listing.is_count_constant and unlisted_count > 0:
            self._unlisted_count_by_stream[stream] = unlisted_count
        if listing.missing:
            # The server waits 4 s for servers that are down: not in every poll.
            self._unreachable_consumers_by_stream[stream] = listing.missing
            self._reachable_names[stream] = [row.name for row in listing.rows]
            self._list_paused_until_mono_s[stream] = steady_s() + _INCOMPLETE_LIST_PAUSE_S
        self._list_order.store_progress(stream, hash_progress(listing.rows))
        if listing.is_count_constant and not undated_row_by_server:
            self._polled_consumers.swept_streams.add(stream)
            self._end_turn(stream)
        return True
