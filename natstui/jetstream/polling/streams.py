"""The streams' part of a poll: their list, and single streams while the list is late.

While a node is down the server delays every list for 4 s, and without a meta leader it answers
none at all; a stream's own leader answers at once. A silent leader is asked one request at a
time, without waiting, so that it delays nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from natstui.clock import steady_s, steady_us
from natstui.errors import NotFound, PermissionDenied, RequestFailed, RequestTimedOut
from natstui.feed import Sink
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
"""So many lists in turn that have fewer streams than the server counts are no accident."""
_INFO = "STREAM.INFO"
_PATIENCE_S = 0.7
_SINGLE_S = 2.0
"""How long the leader of a stream in a cluster may take; then it is asked again."""
_LIST_SHARE = 0.17
"""Of what polling may use of the server, which the list may take where there are consumers."""
_DELAYED_S = 4.5
"""The server delays a list for 4 s at most."""
_LIST_BESIDE_BULK_S = 20.0
"""How often the list is requested where bulk replies bring the rows."""


class StreamReading:
    """Lists the streams; asks one by one for those in view, and for all while a list is late."""

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
        """Streams that their servers refuse to run → why."""
        self._silent: set[str] = set()
        """Leaders that have not answered a request."""
        self._away: dict[str, int] = {}
        """Leaders that are silent while others answer → when the unanswered request was sent."""
        self._short_lists_count = 0
        self._newest_asked_us = 0
        """When the newest answered request was sent."""
        self._seen = StreamsSeen()
        self._rollbacks = Rollbacks(sink)
        self.rows: dict[str, StreamRow] = {}
        """Every stream as it was last seen."""

    @property
    def missing(self) -> set[str]:
        """Return the streams whose leaders do not answer, as far as is known."""
        led = {name for name, row in self.rows.items() if _leader(row) in self._away}
        return self._missing | led

    async def read(
        self,
        allowed: Allowance,
        visible: tuple[str, ...],
        patience: Patience,
        expected_count: int,
        *,
        alone: bool,
        bulk: BulkTurn = NO_TURN,
    ) -> StreamsSeen:
        """Read as much as the allowance permits; raises ServerGone only.

        `expected_count` is how many streams there are, as the account says. `alone` says that
        there are no consumers, which need a part of the allowance.
        """
        self._expected_count = max(expected_count, len(self.rows))
        self._alone = alone
        seen = self._seen = StreamsSeen()
        self._take_answers()
        self._take_bulk(bulk)
        # Only the list says which streams their servers refuse to run: a bulk reply has rows of
        # those too.
        is_due = self._is_due(expected_count)
        if bulk.lists_streams:
            rested = steady_s() >= self._list_asked_us / 1e6 + _LIST_BESIDE_BULK_S
            known = bool(self.rows or self._offline)
            is_due = known and (rested or self._listing is not None)
        if is_due and self._availability.may_ask(_LIST):
            await self._list(allowed, patience)
        if not seen.complete and self._availability.may_ask(_INFO):
            await self._ask_singly(allowed, visible, patience)
        self._ask_silent()
        seen.rows = list({row.name: row for row in seen.rows}.values())
        seen.missing = self.missing - {row.name for row in seen.rows}
        seen.offline = {name: why for name, why in self._offline.items() if name in seen.missing}
        return seen

    def _is_due(self, streams_count: int) -> bool:
        """Return whether the list is worth asking for: it goes on, or some time has passed.

        Where the account counts other streams than are known, it is due at once.
        """
        if self._listing is not None or streams_count not in (0, len(self.rows)):
            return True
        return steady_s() >= self._list_asked_us / 1e6 + self.rest_s

    def _take_bulk(self, bulk: BulkTurn) -> None:
        """Take the rows that came with a bulk answer; all, and no others, where it is complete."""
        rows = [row for row in bulk.streams if row.name not in self._offline]
        for row in rows:
            known = self.rows.get(row.name)
            if bulk.misses_consumers and known is not None and known.created == row.created:
                # A server counts those that it holds, a list also those of silent servers.
                counts = row.state.consumer_count, known.state.consumer_count
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
        """Note that the meta leader answered a request sent at this moment.

        A list requested long before will not be answered any more.
        """
        if _LIST not in self._questions or self._questions.is_answered(_LIST):
            return
        if asked_mono_s - self._questions.asked_mono_s(_LIST) > _DELAYED_S:
            self._restart_list()

    async def close(self) -> None:
        """Drop the open requests, and what was concluded from silence."""
        self._listing, self.rest_s = None, 0.0
        self._silent.clear()
        self._away.clear()
        await self._questions.close()

    async def _list(self, allowed: Allowance, patience: Patience) -> None:
        listing = self._listing = self._listing or Listing(
            _LIST, read_streams, read_stream, self._expected_count
        )
        try:
            for _ in range(max(1, allowed.left_count // 2)):
                before_us = self._api.work_us
                if not await self._step(listing, patience):
                    return
                self._list_work_us += self._api.work_us - before_us
                for row in listing.take_fresh():
                    self._take(row, settle=True)
                    self._seen.rows.append(self.rows[row.name])
                if listing.done or not allowed.has_room_to_end:
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
        """Return whether the server counts more than it lists, again and again, and note that.

        Once it may be a stream that was just created or deleted.
        """
        left_out_count = listing.left_out_count if listing.steady else 0
        self._short_lists_count = self._short_lists_count + 1 if left_out_count else 0
        if self._short_lists_count < _SHORT_LISTS_COUNT:
            return False
        self._listing = None
        what = f"the server counts {counted(left_out_count, 'more stream')} than it lists"
        self._availability.failed(_LIST, RequestFailed(f"{_LIST}: {what}"))
        return True

    async def _step(self, listing: Listing[StreamRow], patience: Patience) -> bool:
        """Read one page; False when its answer comes in a later poll."""
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
        """Request the list from its beginning: the open request is out of date."""
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
        answered = (name for name in living if name not in self._missing)
        self._seen.rows += [self.rows[name] for name in answered if name in self.rows]
        self._seen.complete = listing.steady and not listing.left_out_count and not unsure
        if not listing.missing:
            self._silent.clear()
            self._availability.worked(_INFO)

    def _take(self, row: StreamRow, *, settle: bool = False) -> bool:
        """Keep a row unless a newer one is known; False when its time is not known."""
        if not self._clocks.date(row, settle=settle):
            return False
        made_us, known = row.sampled_mono_us, self.rows.get(row.name)
        if not self._rollbacks.accept(known, row):
            return True
        leader = _leader(row)
        if leader and self._away.get(leader, made_us) < made_us:
            del self._away[leader]
        if known is None or known.sampled_mono_us <= made_us:
            self.rows[row.name] = row
        return True

    async def _learn_clocks(self, rows: Iterable[StreamRow]) -> None:
        """Ask for one stream of each leader: a quick answer compares the clocks."""
        for name in {clock_of(row.cluster): row.name for row in rows}.values():
            question = f"{_INFO}.{name}"
            self._questions.ask(question, partial(self._info, name))
            if await self._questions.wait(question, Patience(_PATIENCE_S), _PATIENCE_S):
                self._answered(question)

    async def _info(self, name: str) -> StreamRow:
        known = self.rows.get(name)
        timeout_s = _SINGLE_S if known is not None and _leader(known) else None
        answer = await self._api.answer(f"{_INFO}.{name}", timeout_s=timeout_s)
        began_us = answer.arrival.began_mono_us
        waited_us = began_us - answer.asked_mono_us
        if waited_us > _PATIENCE_S * 1e6:
            # It did not answer for a while; that is no work.
            self._api.discount(answer)
        return read_stream(answer.data, began_us, waited_us)

    async def _ask_singly(
        self, allowed: Allowance, visible: tuple[str, ...], patience: Patience
    ) -> None:
        """Ask for streams one by one; the next poll continues where the allowance ended."""
        for turn_count, name in enumerate(self._due(visible)[: max(1, allowed.left_count // 2)]):
            if turn_count and not allowed.has_room:
                return
            row = self.rows.get(name)
            leader, question = _leader(row) if row else None, f"{_INFO}.{name}"
            if leader in self._silent or question in self._questions:
                continue
            self._questions.ask(question, partial(self._info, name))
            if await self._questions.wait(question, patience, patience.quiet_s):
                self._answered(question)
            elif leader:
                self._silent.add(leader)

    def _due(self, visible: tuple[str, ...]) -> list[str]:
        """Return the streams to ask for: in view, then in a cluster all, the oldest first."""
        missing = self.missing
        turn = self._turn_count % len(visible) if visible else 0
        self._turn_count += 1
        due = dict.fromkeys((*visible[turn:], *visible[:turn]))
        if _LIST in self._questions or not self._availability.may_ask(_LIST):
            led = (row for row in self.rows.values() if _leader(row))
            due |= dict.fromkeys(
                row.name for row in sorted(led, key=lambda row: row.sampled_mono_us)
            )
        return [name for name in due if name not in missing]

    def _ask_silent(self) -> None:
        """Ask each silent leader for one of its streams, without waiting for the answer."""
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

    def _take_answers(self) -> None:
        """Take what was answered since the last poll."""
        for question in self._questions.names:
            if question != _LIST and self._questions.is_answered(question):
                self._answered(question)

    def _answered(self, question: str) -> None:
        """Take one answer, or conclude from its absence."""
        name = question.removeprefix(f"{_INFO}.")
        asked_us = int(self._questions.asked_mono_s(question) * 1e6)
        known = self.rows.get(name)
        leader = _leader(known) if known else None
        try:
            row: StreamRow = self._questions.take(question)
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
        """Handle an error as the answer about a stream."""
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
    """Return the node of a cluster that leads a stream."""
    return row.cluster.leader or None if row.cluster else None
