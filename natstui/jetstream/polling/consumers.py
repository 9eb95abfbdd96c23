"""The consumers' part of a poll: those in view first, then the lists of all streams in turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from natstui.clock import steady_s
from natstui.errors import NotFound, PermissionDenied, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.shapes import check_read_name
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.budget.allowance import Allowance
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.bulk.reading import NO_TURN, BulkTurn
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.decode.cluster import clock_of, refused_reason
from natstui.jetstream.polling.decode.consumers import ConsumerRow, read_consumer, read_consumers
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.jetstream.polling.listing import Listing
from natstui.jetstream.polling.questions import Patience, Questions
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.snapshot import ConsumersSeen, progress
from natstui.jetstream.polling.sweep import ConsumerDenials, SweepOrder, requests_for, rest_s

_LIST = "CONSUMER.LIST"
_INFO = "CONSUMER.INFO"
_MISSING_PAUSE_S = 10.0
_SINGLE_S = 2.0
_SINGLES_COUNT = 2
_LATE_LISTS_COUNT = 3
_AWAY_CODES = (10008, 10119)
"""Error codes: the consumer has no leader, or its server is down; others can still be
requested.
"""

_Name = tuple[str, str]


class ConsumerReading:
    """Lists consumers stream by stream, a long list over several polls."""

    def __init__(self, api: PollingApi, availability: Availability, clocks: ServerClocks) -> None:
        self._api = api
        self._availability = availability
        self._clocks = clocks
        self._questions = Questions(api)
        self._denials = ConsumerDenials(availability)
        self._order = SweepOrder()
        self._counts: dict[str, int] = {}
        self._listing: tuple[str, Listing[ConsumerRow]] | None = None
        self._late: dict[str, Listing[ConsumerRow]] = {}
        """Lists whose next page did not come within a poll."""
        self._again: set[str] = set()
        """Lost lists, which are requested again."""
        self._turn_count = 0
        self._missing: dict[str, set[str]] = {}
        self._offline: dict[_Name, str] = {}
        """Consumers that their servers refuse to run → reason."""
        self._unlisted: dict[str, int] = {}
        """Stream → consumers that it counts and that its list neither has nor names."""
        self._living: dict[str, list[str]] = {}
        """Stream with missing consumers → its other consumers, the least recently
        requested first.
        """
        self._away: Mapping[str, set[str]] = {}
        self._paused_until_mono_s: dict[str, float] = {}
        self._asked: dict[_Name, ConsumerRow] = {}
        """The newest replies about single consumers; a list may be older."""
        self._due_at_mono_s = 0.0
        self._newest_asked_mono_s = 0.0
        """When the newest answered request about a single consumer was sent."""
        self._seen = ConsumersSeen()
        self.rest_s = 0.0
        """From one turn of a quiet stream to the next; 0 where each poll has all."""

    def follow(self, rows: Mapping[str, StreamRow], unreachable: Mapping[str, set[str]]) -> None:
        """Update the streams to list from a list of streams.

        `unreachable` are streams with their consumers, which are unreachable too: requesting them
        would only make the server wait.
        """
        for back in self._away.keys() - unreachable.keys():
            self._paused_until_mono_s.pop(back, None)
        self._away = unreachable
        self._order.follow(rows, unreachable)
        for removed in self._counts.keys() - rows.keys():
            self._availability.worked(f"{_LIST}.{removed}")
            self._missing.pop(removed, None)
            self._paused_until_mono_s.pop(removed, None)
        self._counts = {
            name: row.state.consumer_count for name, row in rows.items() if name not in unreachable
        }
        for counters in (self._missing, self._unlisted):
            # Those of a stream that is away are reported with it; one without any is not listed.
            for stream in [stream for stream in counters if not self._counts.get(stream)]:
                del counters[stream]

    async def read(
        self,
        allowance: Allowance,
        control: PollControl,
        patience: Patience,
        bulk: BulkTurn = NO_TURN,
    ) -> ConsumersSeen:
        """Read as much as the allowance permits, at least one page; raises ServerGone only."""
        self._seen = ConsumersSeen()
        self._asked = {name: row for name, row in self._asked.items() if name[0] in self._counts}
        self._take_answers()
        self._take_bulk(bulk)
        await self._read_visible(allowance, control.visible_consumers, patience)
        preferred_streams = {stream for stream, _ in control.preferred_consumers}
        due_streams = self._due(preferred_streams, control.interval_s)
        await self._sweep(
            allowance,
            deque(stream for stream in due_streams if stream not in bulk.covered),
            patience,
        )
        self._ask_missing()
        self._denials.settle()
        self._seen.swept.update(self._order.emptied())
        self._seen.complete = self._seen.swept.issuperset(self._order.streams)
        unreachable = (*self._missing.items(), *self._away.items())
        missing = {(stream, name) for stream, names in unreachable for name in names}
        self._seen.missing = missing - self._seen.rows.keys()
        self._seen.offline = {
            name: reason for name, reason in self._offline.items() if name in self._seen.missing
        }
        self._seen.unlisted = dict(self._unlisted)
        return self._seen

    def _take_bulk(self, bulk: BulkTurn) -> None:
        for stream, rows in bulk.consumers.items():
            for row in rows:
                self._clocks.date(row, settle=True)
                self._show(row)
            self._order.moved(stream, progress(rows))
            if stream in bulk.whole:
                self._missing.pop(stream, None)
                self._unlisted.pop(stream, None)
                self._seen.swept.add(stream)
                self._had_turn(stream)

    def _due(self, preferred_streams: AbstractSet[str], interval_s: float) -> deque[str]:
        """Return the streams to list in this poll: all of them if that costs little."""
        list_s = self._api.usual_work_s(_LIST)
        pause_s = rest_s(len(self._counts), list_s, self._api.work.share)
        self.rest_s = pause_s = 0.0 if pause_s <= interval_s else pause_s
        now_s = steady_s()
        since_s, self._due_at_mono_s = now_s - self._due_at_mono_s, now_s
        return deque(self._order.due(now_s, pause_s, preferred_streams, min(pause_s, since_s)))

    @property
    def unlisted_count(self) -> int:
        """Return how many streams were never listed."""
        return self._order.unlisted_count

    @property
    def has_any(self) -> bool:
        """Return whether any stream has consumers."""
        return any(self._counts.values())

    async def close(self) -> None:
        """Cancel the open requests."""
        self._late.clear()
        await self._questions.close()

    async def _read_visible(
        self, allowance: Allowance, visible: tuple[_Name, ...], patience: Patience
    ) -> None:
        """Use two thirds of the requests for rows in view; one while a stream is unlisted."""
        slow = self._missing.keys() | self._late.keys()
        present_names = [name for name in visible if name[1] not in self._missing.get(name[0], ())]
        requests = requests_for(present_names, self._counts, slow)
        kept_count = allowance.left_count * (2 if self._order.unlisted_count else 1) // 3
        turns = [requests[(self._turn_count + n) % len(requests)] for n in range(len(requests))]
        for turn_count, (stream, name) in enumerate(turns):
            # Not limited by work: a poll that cost too much is followed by a longer pause.
            if turn_count and (allowance.left_count <= kept_count or not allowance.in_time):
                return
            self._turn_count += 1
            if name is not None:
                for ahead_request in turns[turn_count + 1 : turn_count + self._api.at_once_count]:
                    self._ask_one_ahead(*ahead_request)
                await self._ask(stream, name, patience)
            elif stream not in self._late:
                await self._list_whole(stream, patience)

    def _ask_one_ahead(self, stream: str, name: str | None) -> None:
        free = f"{_INFO}.{stream}.{name}" not in self._questions
        if name is not None and free and self._availability.may_ask(_INFO):
            self._api.ask_ahead(f"{_INFO}.{stream}.{name}", None)

    async def _list_whole(self, stream: str, patience: Patience) -> None:
        listing = self._begin(stream)
        while not listing.done:
            if not await self._step(stream, listing, patience):
                return

    async def _ask(self, stream: str, name: str, patience: Patience) -> None:
        """Request one consumer; a late reply is taken by a later poll."""
        request_name = f"{_INFO}.{stream}.{name}"
        if request_name in self._questions or not self._availability.may_ask(_INFO):
            return
        self._questions.ask(request_name, partial(self._info, stream, name))
        if await self._questions.wait(request_name, patience, patience.quiet_s):
            self._answered(request_name)

    async def _info(self, stream: str, name: str, timeout_s: float | None = None) -> ConsumerRow:
        reply = await self._api.answer(f"{_INFO}.{stream}.{name}", timeout_s=timeout_s)
        began_us = reply.arrival.began_mono_us
        waited_us = began_us - reply.asked_mono_us
        if waited_us > _SINGLE_S * 1e6:
            # Its leader did not answer for a while; that is no work.
            self._api.discount(reply)
        row = read_consumer(reply.data, began_us, waited_us)
        check_read_name(f"{_INFO}.{stream}.{name}", f"{row.stream_name}.{row.name}")
        return row

    def _answered(self, request_name: str) -> None:
        """Handle the reply about one consumer, or its absence."""
        _, _, stream, name = request_name.split(".", 3)
        asked_mono_s = self._questions.asked_mono_s(request_name)
        try:
            row: ConsumerRow = self._questions.take(request_name)
        except NotFound:
            return
        except RequestTimedOut:
            if self._newest_asked_mono_s > asked_mono_s:
                self._missing.setdefault(stream, set()).add(name)
            return
        except RequestFailed as error:
            reason = refused_reason(error)
            if error.err_code in _AWAY_CODES or reason is not None:
                self._missing.setdefault(stream, set()).add(name)
                if reason is not None:
                    self._offline[stream, name] = reason
            else:
                self._availability.failed(_INFO, error)
            return
        self._availability.worked(_INFO)
        self._newest_asked_mono_s = max(self._newest_asked_mono_s, asked_mono_s)
        if name in self._missing.get(stream, ()):
            self._found(stream, name)
        self._clocks.date(row, settle=True)
        self._show(row)
        self._asked[stream, name] = self._seen.rows[stream, name]

    def _found(self, stream: str, name: str) -> None:
        """Note that a missing consumer replies again: the entire list may be requested."""
        self._missing[stream].discard(name)
        self._offline.pop((stream, name), None)
        if not self._missing[stream]:
            del self._missing[stream]
        self._paused_until_mono_s.pop(stream, None)
        self._questions.drop(f"{_LIST}.{stream}")
        self._late.pop(stream, None)

    def _show(self, row: ConsumerRow) -> None:
        """Add a row to this poll, or the newer one that is known."""
        key = row.stream_name, row.name
        for known_row in (self._seen.rows.get(key), self._asked.get(key)):
            if known_row is not None and known_row.sampled_mono_us > row.sampled_mono_us:
                row = known_row
        self._seen.rows[key] = row

    def _take_answers(self) -> None:
        """Handle the replies since the last poll."""
        for request_name in self._questions.names:
            stream = request_name.removeprefix(f"{_LIST}.")
            if self._questions.is_lost(request_name) and stream in self._late.keys() - self._again:
                self._again.add(stream)
                self._late.pop(stream)
                self._questions.drop(request_name)
            if not self._questions.is_answered(request_name):
                continue
            if request_name.startswith(_INFO):
                self._answered(request_name)
            elif (listing := self._late.pop(stream, None)) is None:
                self._questions.drop(request_name)
            elif self._page_came(stream, listing) and not listing.done and not self._listing:
                self._listing = stream, listing

    def _ask_missing(self) -> None:
        """Request a few missing consumers, without waiting for the replies."""
        missing = [(stream, name) for stream, names in self._missing.items() for name in names]
        for turn_count in range(min(_SINGLES_COUNT, len(missing))):
            stream, name = missing[(self._turn_count + turn_count) % len(missing)]
            self._questions.ask(
                f"{_INFO}.{stream}.{name}", partial(self._info, stream, name, _SINGLE_S)
            )
        self._turn_count += 1

    async def _sweep(
        self, allowance: Allowance, due_streams: deque[str], patience: Patience
    ) -> None:
        """List stream after stream, at least one page."""
        next_streams, is_first = deque(due_streams), True
        while is_first or self._may_go_on(allowance):
            is_first = False
            if self._listing is None:
                if not due_streams:
                    return
                stream = due_streams.popleft()
                if next_streams and next_streams[0] == stream:
                    next_streams.popleft()
                if stream in self._seen.swept or stream in self._late:
                    self._had_turn(stream)
                    continue
                if self._is_paused(stream):
                    await self._ask_living(allowance, stream, patience)
                    self._had_turn(stream)
                    continue
                self._listing = stream, self._begin(stream)
                self._ask_ahead(allowance, next_streams, len(due_streams))
            stream, listing = self._listing
            if not await self._step(stream, listing, patience) or listing.done:
                self._listing = None
                self._had_turn(stream)

    def _may_go_on(self, allowance: Allowance) -> bool:
        if self._listing is not None:
            return allowance.has_room_to_end
        return allowance.has_room and len(self._seen.rows) < self._order.most_rows_count

    def _had_turn(self, stream: str) -> None:
        self._order.done(stream, steady_s())

    def _begin(self, stream: str) -> Listing[ConsumerRow]:
        count = self._counts.get(stream, 0)
        return Listing(f"{_LIST}.{stream}", read_consumers, read_consumer, count)

    def _ask_ahead(self, allowance: Allowance, next_streams: deque[str], left_count: int) -> None:
        """Send the requests of the next lists already: as many are open at once as the window
        permits.

        `next_streams` are the unrequested streams of this poll, `left_count` those whose list was
        not started. Many at a time, because requests that come together cost the server half as
        much.
        """
        open_count = min(allowance.left_count, self._api.at_once_count) - 1
        rows_count = len(self._seen.rows)
        if left_count - len(next_streams) > (open_count // 2 if self._api.is_far else 0):
            return
        while next_streams and left_count - len(next_streams) < open_count:
            stream = next_streams.popleft()
            rows_count += self._counts.get(stream, 0)
            late = self._is_paused(stream) or stream in self._late or stream in self._missing
            free = not late and stream not in self._seen.swept and self._denials.may_ask(stream)
            if free and rows_count < self._order.most_rows_count:
                self._api.ask_ahead(f"{_LIST}.{stream}", {"offset": 0})

    def _is_paused(self, stream: str) -> bool:
        return steady_s() < self._paused_until_mono_s.get(stream, 0)

    async def _ask_living(self, allowance: Allowance, stream: str, patience: Patience) -> None:
        """Request the consumers of a stream one by one, as its list would be late."""
        names = self._living.get(stream, [])
        for _ in range(len(names)):
            if not allowance.has_room:
                return
            name = names.pop(0)
            names.append(name)
            if (stream, name) not in self._seen.rows:
                await self._ask(stream, name, patience)

    async def _step(self, stream: str, listing: Listing[ConsumerRow], patience: Patience) -> bool:
        """Read one page; returns False when it cannot be read now, or its reply is late."""
        if self._is_paused(stream) or not self._denials.may_ask(stream):
            return False
        if len(self._late) >= _LATE_LISTS_COUNT:
            return False
        self._questions.ask(listing.verb, partial(listing.step, self._api))
        if not await self._questions.wait(listing.verb, patience, patience.quiet_s):
            self._late[stream] = listing
            return False
        return self._page_came(stream, listing)

    def _page_came(self, stream: str, listing: Listing[ConsumerRow]) -> bool:
        """Handle one page of a list; returns False when it failed."""
        try:
            self._questions.take(listing.verb)
        except NotFound:
            return False
        except PermissionDenied as error:
            self._denials.denied(stream, error)
            return False
        except RequestFailed as error:
            self._availability.failed(listing.verb, error)
            return False
        self._denials.worked(stream)
        self._again.discard(stream)
        for row in listing.take_fresh():
            self._clocks.date(row, settle=True)
            self._show(row)
        if not listing.done:
            return True
        # A user who may not ask for single consumers has no quicker answer than the list.
        settle = not self._availability.may_ask(_INFO)
        unsure: dict[str | None, ConsumerRow] = {}
        for row in listing.rows:
            if not self._clocks.date(row, settle=settle):
                unsure[clock_of(row.cluster)] = row
        for row in listing.rows:
            if clock_of(row.cluster) not in unsure:
                self._show(row)
        for row in unsure.values():
            # A quick answer compares the clocks; the next list then has known times.
            name = row.name
            self._questions.ask(f"{_INFO}.{stream}.{name}", partial(self._info, stream, name))
        self._missing.pop(stream, None)
        self._living.pop(stream, None)
        self._offline = {
            name: reason for name, reason in self._offline.items() if name[0] != stream
        }
        self._offline |= {(stream, name): reason for name, reason in listing.offline.items()}
        unlisted_count = self._counts.get(stream, 0) - len(listing.rows) - len(listing.missing)
        self._unlisted.pop(stream, None)
        if listing.steady and unlisted_count > 0:
            self._unlisted[stream] = unlisted_count
        if listing.missing:
            # The server waits 4 s for servers that are down: not in every poll.
            self._missing[stream] = listing.missing
            self._living[stream] = [row.name for row in listing.rows]
            self._paused_until_mono_s[stream] = steady_s() + _MISSING_PAUSE_S
        self._order.moved(stream, progress(listing.rows))
        if listing.steady and not unsure:
            self._seen.swept.add(stream)
            self._had_turn(stream)
        return True
