"""The streams' part of a poll: their list, and single streams while the list is late.

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
from natstui.jetstream.connection.shapes import check_read_name
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.budget.allowance import Allowance
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.bulk.reading import NO_TURN, BulkTurn
from natstui.jetstream.polling.decode.cluster import clock_of, refused_reason
from natstui.jetstream.polling.decode.streams import StreamRow, read_stream, read_streams
from natstui.jetstream.polling.listing import Listing
from natstui.jetstream.polling.questions import Patience, Questions
from natstui.jetstream.polling.rollbacks import Rollbacks
from natstui.jetstream.polling.server_clock import ServerClocks
from natstui.jetstream.polling.snapshot import StreamsSeen
from natstui.units import counted

_LIST = "STREAM.LIST"
_SHORT_LISTS_COUNT = 3
"""Number of successive lists with fewer streams than the server counts that is no accident."""
_INFO = "STREAM.INFO"
_PATIENCE_S = 0.7
_SINGLE_S = 2.0
"""How long the leader of a stream in a cluster may take; then it is requested again."""
_LIST_SHARE = 0.17
"""Share of polling's use of the server for the list, if there are consumers."""
_DELAYED_S = 4.5
"""Limit of the server's delay of a list."""
_LIST_BESIDE_BULK_S = 20.0
"""Interval of the list if bulk replies bring the rows."""


class StreamReading:
    """Lists the streams; requests those in view one by one, and all while a list is late."""

    def __init__(
        self, api: PollingApi, availability: Availability, clocks: ServerClocks, sink: Sink
    ) -> None:
        self._api = api
        self._availability = availability
        self._clocks = clocks
        self._questions = Questions(api)
        self._listing: Listing[StreamRow] | None = None
        self._expected_count = 0
        self._list_asked_us = 0
        self._list_work_us = 0.0
        """What the list costs the server that is being read, or was read last."""
        self.rest_s = 0.0
        """From one list to the next at least, where there are consumers."""
        self._alone = True
        self._turn_count = 0
        self._missing: set[str] = set()
        self._offline: dict[str, str] = {}
        """Streams that their servers refuse to run → reason."""
        self._silent: set[str] = set()
        """Leaders that have not replied to a request."""
        self._away: dict[str, int] = {}
        """Leaders that are silent while others reply → when the unanswered request was sent."""
        self._short_lists_count = 0
        self._newest_asked_us = 0
        """When the newest answered request was sent."""
        self._seen = StreamsSeen()
        self._rollbacks = Rollbacks(sink)
        self.rows: dict[str, StreamRow] = {}
        """Stream → its row with the newest values."""

    @property
    def missing(self) -> set[str]:
        """Return the streams whose leaders do not reply, as far as known."""
        led = {name for name, row in self.rows.items() if _leader(row) in self._away}
        return self._missing | led

    async def read(
        self,
        allowance: Allowance,
        visible: tuple[str, ...],
        patience: Patience,
        expected_count: int,
        *,
        has_no_consumers: bool,
        bulk: BulkTurn = NO_TURN,
    ) -> StreamsSeen:
        """Read as much as the allowance permits; raises ServerGone only.

        `expected_count` is the account's number of streams. `has_no_consumers`: no part of the
        allowance is needed for consumers.
        """
        self._expected_count = max(expected_count, len(self.rows))
        self._alone = has_no_consumers
        streams_seen = self._seen = StreamsSeen()
        self._take_answers()
        self._take_bulk(bulk)
        # Only the list says which streams their servers refuse to run: a bulk reply has rows of
        # those too.
        is_list_due = self._is_due(expected_count)
        if bulk.lists_streams:
            is_rested = steady_s() >= self._list_asked_us / 1e6 + _LIST_BESIDE_BULK_S
            has_rows = bool(self.rows or self._offline)
            is_list_due = has_rows and (is_rested or self._listing is not None)
        if is_list_due and self._availability.may_ask(_LIST):
            await self._list(allowance, patience)
        if not streams_seen.complete and self._availability.may_ask(_INFO):
            await self._ask_singly(allowance, visible, patience)
        self._ask_silent()
        if bulk.lists_streams and self._availability.may_ask(_INFO):
            self._request_offline()
        streams_seen.rows = list({row.name: row for row in streams_seen.rows}.values())
        streams_seen.missing = self.missing - {row.name for row in streams_seen.rows}
        streams_seen.offline = {
            name: reason for name, reason in self._offline.items() if name in streams_seen.missing
        }
        return streams_seen

    def _is_due(self, streams_count: int) -> bool:
        """Return whether the list is due: it was started, or some time has passed.

        If the account counts other streams than are known, it is due at once.
        """
        if self._listing is not None or streams_count not in (0, len(self.rows)):
            return True
        return steady_s() >= self._list_asked_us / 1e6 + self.rest_s

    def _take_bulk(self, bulk: BulkTurn) -> None:
        """Add the rows of a bulk reply; a complete one replaces all rows."""
        rows = [row for row in bulk.streams if row.name not in self._offline]
        for row in rows:
            known_row = self.rows.get(row.name)
            if (
                bulk.misses_consumers
                and known_row is not None
                and known_row.created == row.created
            ):
                # A server counts those that it holds, a list also those of silent servers.
                counts = row.state.consumer_count, known_row.state.consumer_count
                row.state.consumer_count = max(counts)
            self._take(row, settle=True)
            self._seen.rows.append(self.rows[row.name])
        if bulk.streams and bulk.complete:
            names = {row.name for row in rows}
            newer = (row for row in self.rows.values() if row.asked_mono_us > bulk.asked_mono_us)
            names.update(row.name for row in newer)
            self.rows = {name: row for name, row in self.rows.items() if name in names}
            self._seen.rows = list(self.rows.values())
            self._missing, self._seen.complete = set(self._offline), True

    def lists_work(self, asked_mono_s: float) -> None:
        """Note that the meta leader replied to a request sent at this time.

        A list requested long before will get no reply any more.
        """
        if _LIST not in self._questions or self._questions.is_answered(_LIST):
            return
        if asked_mono_s - self._questions.asked_mono_s(_LIST) > _DELAYED_S:
            self._restart_list()

    def list_again(self) -> None:
        """Let the list be due at once, after a reconnect: other streams may run now."""
        self._list_asked_us = 0

    async def close(self) -> None:
        """Cancel the open requests, and discard conclusions from silence."""
        self._listing, self.rest_s = None, 0.0
        self._silent.clear()
        self._away.clear()
        await self._questions.close()

    async def _list(self, allowance: Allowance, patience: Patience) -> None:
        listing = self._listing = self._listing or Listing(
            _LIST, read_streams, read_stream, self._expected_count
        )
        try:
            for _ in range(max(1, allowance.left_count // 2)):
                before_us = self._api.work_us
                if not await self._step(listing, patience):
                    return
                self._list_work_us += self._api.work_us - before_us
                for row in listing.take_fresh():
                    self._take(row, settle=True)
                    self._seen.rows.append(self.rows[row.name])
                if listing.done or not allowance.has_room_to_end:
                    break
        except RequestFailed as error:
            self._listing = None
            self._availability.failed(_LIST, error)
            # It is due as soon as the pause after its failure is over.
            self._list_asked_us = 0
            return
        if listing.done and self._is_short(listing):
            return
        self._availability.worked(_LIST)
        if listing.done:
            self._listing = None
            await self._take_list(listing, patience)

    def _is_short(self, listing: Listing[StreamRow]) -> bool:
        """Return whether the server repeatedly counts more than it lists, and store that.

        Once it may be a stream that was just created or deleted.
        """
        left_out_count = listing.left_out_count if listing.steady else 0
        self._short_lists_count = self._short_lists_count + 1 if left_out_count else 0
        if self._short_lists_count < _SHORT_LISTS_COUNT:
            return False
        self._listing = None
        message = f"the server counts {counted(left_out_count, 'more stream')} than it lists"
        self._availability.failed(_LIST, RequestFailed(f"{_LIST}: {message}"))
        return True

    async def _step(self, listing: Listing[StreamRow], patience: Patience) -> bool:
        """Read one page; returns False when its reply comes in a later poll."""
        is_late = _LIST in self._questions
        if not is_late:
            if not listing.rows:
                self._list_asked_us = steady_us()
                self._list_work_us = 0.0
            self._questions.ask(_LIST, lambda: listing.step(self._api))
        if not await self._questions.wait(_LIST, patience, 0.0 if is_late else _PATIENCE_S):
            return False
        self._questions.take(_LIST)
        return True

    def _restart_list(self) -> None:
        """Request the list from its beginning: the open request is outdated."""
        self._questions.drop(_LIST)
        self._listing = None

    async def _take_list(self, listing: Listing[StreamRow], patience: Patience) -> None:
        list_s = self._list_work_us / 1e6
        self.rest_s = 0.0 if self._alone else list_s / (_LIST_SHARE * self._api.work.share)
        unsure = [row for row in listing.rows if not self._take(row)]
        if unsure:
            await self._learn_clocks(unsure)
            # A user who may not ask for single streams has no quicker answer than the list.
            settle = not self._availability.may_ask(_INFO)
            unsure = [row for row in unsure if not self._take(row, settle=settle)]
        asked_us = self._list_asked_us
        # A stream that answered since the list was requested is not missing.
        self._missing = {
            name
            for name in listing.missing
            if name not in self.rows or self.rows[name].asked_mono_us < asked_us
        }
        self._offline = dict(listing.offline)
        names = [row.name for row in listing.rows]
        # In the order of the list, which stays the same from poll to poll.
        living = dict.fromkeys([*names, *sorted(listing.missing)])
        self.rows = {name: row for name, row in self.rows.items() if name in living}
        present = (name for name in living if name not in self._missing)
        self._seen.rows += [self.rows[name] for name in present if name in self.rows]
        self._seen.complete = listing.steady and not listing.left_out_count and not unsure
        if not listing.missing:
            self._silent.clear()
            self._availability.worked(_INFO)

    def _take(self, row: StreamRow, *, settle: bool = False) -> bool:
        """Store a row unless a newer one is known; returns False if its time is unknown."""
        if not self._clocks.date(row, settle=settle):
            return False
        made_us, known_row = row.sampled_mono_us, self.rows.get(row.name)
        if not self._rollbacks.accept(known_row, row):
            return True
        leader = _leader(row)
        if leader and self._away.get(leader, made_us) < made_us:
            del self._away[leader]
        if known_row is None or known_row.sampled_mono_us <= made_us:
            self.rows[row.name] = row
        return True

    async def _learn_clocks(self, rows: Iterable[StreamRow]) -> None:
        """Request one stream of each leader: a fast reply compares the clocks."""
        for name in {clock_of(row.cluster): row.name for row in rows}.values():
            request_name = f"{_INFO}.{name}"
            self._questions.ask(request_name, partial(self._info, name))
            if await self._questions.wait(request_name, Patience(_PATIENCE_S), _PATIENCE_S):
                self._answered(request_name)

    async def _info(self, name: str) -> StreamRow:
        known_row = self.rows.get(name)
        timeout_s = _SINGLE_S if known_row is not None and _leader(known_row) else None
        reply = await self._api.answer(f"{_INFO}.{name}", timeout_s=timeout_s)
        began_us = reply.arrival.began_mono_us
        waited_us = began_us - reply.asked_mono_us
        if waited_us > _PATIENCE_S * 1e6:
            # It did not answer for a while; that is no work.
            self._api.discount(reply)
        row = read_stream(reply.data, began_us, waited_us)
        check_read_name(f"{_INFO}.{name}", row.name)
        return row

    async def _ask_singly(
        self, allowance: Allowance, visible: tuple[str, ...], patience: Patience
    ) -> None:
        """Request streams one by one; the next poll continues where the allowance ended."""
        for turn_count, name in enumerate(self._due(visible)[: max(1, allowance.left_count // 2)]):
            if turn_count and not allowance.has_room:
                return
            row = self.rows.get(name)
            leader, request_name = _leader(row) if row else None, f"{_INFO}.{name}"
            if leader in self._silent or request_name in self._questions:
                continue
            self._questions.ask(request_name, partial(self._info, name))
            if await self._questions.wait(request_name, patience, patience.quiet_s):
                self._answered(request_name)
            elif leader:
                self._silent.add(leader)

    def _due(self, visible: tuple[str, ...]) -> list[str]:
        """Return the streams to request: in view, then in a cluster all, the oldest first."""
        missing = self.missing
        turn = self._turn_count % len(visible) if visible else 0
        self._turn_count += 1
        due_names = dict.fromkeys((*visible[turn:], *visible[:turn]))
        if _LIST in self._questions or not self._availability.may_ask(_LIST):
            led = (row for row in self.rows.values() if _leader(row))
            due_names |= dict.fromkeys(
                row.name for row in sorted(led, key=lambda row: row.sampled_mono_us)
            )
        return [name for name in due_names if name not in missing]

    def _ask_silent(self) -> None:
        """Request one stream of each silent leader, without waiting for the reply."""
        missing = self.missing
        by_leader: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            leader = _leader(row)
            if leader and (leader in self._silent or name in missing):
                by_leader.setdefault(leader, []).append(name)
        self._silent &= by_leader.keys()
        for names in by_leader.values():
            if not any(f"{_INFO}.{name}" in self._questions for name in names):
                # Unreachable streams come first: they show best that a leader is back.
                names.sort(key=lambda name: name not in missing)
                name = names[self._turn_count % len(names)]
                self._questions.ask(f"{_INFO}.{name}", partial(self._info, name))

    def _request_offline(self) -> None:
        """Request one stream that its server refuses to run, without waiting for the reply.

        Beside bulk replies the list is read too rarely to report soon that the server runs it.
        """
        if not self._offline:
            return
        names = sorted(self._offline)
        name = names[self._turn_count % len(names)]
        if f"{_INFO}.{name}" not in self._questions:
            self._questions.ask(f"{_INFO}.{name}", partial(self._info, name))

    def _take_answers(self) -> None:
        """Handle the replies since the last poll."""
        for request_name in self._questions.names:
            if request_name != _LIST and self._questions.is_answered(request_name):
                self._answered(request_name)

    def _answered(self, request_name: str) -> None:
        """Handle one reply, or its absence."""
        name = request_name.removeprefix(f"{_INFO}.")
        asked_us = int(self._questions.asked_mono_s(request_name) * 1e6)
        known_row = self.rows.get(name)
        leader = _leader(known_row) if known_row else None
        try:
            row: StreamRow = self._questions.take(request_name)
        except RequestTimedOut:
            if leader and self._newest_asked_us > asked_us:
                self._away.setdefault(leader, asked_us)
            return
        except RequestFailed as error:
            self._refused(name, leader, error)
            return
        self._newest_asked_us = max(self._newest_asked_us, asked_us)
        self._availability.worked(_INFO)
        self._silent.discard(_leader(row) or "")
        was_missing = name in self.missing
        self._take(row, settle=True)
        self._missing.discard(name)
        self._offline.pop(name, None)
        self._seen.rows.append(self.rows[name])
        if was_missing:
            self._availability.retry_all()
            self._restart_list()

    def _refused(self, name: str, leader: str | None, error: RequestFailed) -> None:
        """Handle an error in the reply about a stream."""
        reason = refused_reason(error)
        if reason is not None:
            self._missing.add(name)
            self._offline[name] = reason
            return
        if isinstance(error, PermissionDenied) or not leader:
            if not isinstance(error, NotFound):
                self._availability.failed(_INFO, error)
            return
        # Its leader is alive, but the stream has lost its quorum or is offline.
        self._silent.discard(leader)
        if not isinstance(error, NotFound):
            self._missing.add(name)


def _leader(row: StreamRow) -> str | None:
    """Return the leader of a stream in a cluster."""
    return row.cluster.leader or None if row.cluster else None
