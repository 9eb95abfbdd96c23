"""The consumers' part of a poll: those in view first, then a sweep over all streams."""

from __future__ import annotations

import time
from collections.abc import Mapping

from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.jetstream.availability import Availability
from natstui.jetstream.consumer_denials import ConsumerDenials
from natstui.jetstream.decode_consumer import ConsumerRow, read_consumer, read_consumers
from natstui.jetstream.decode_stream import StreamRow
from natstui.jetstream.listing import Listing, pages_count
from natstui.jetstream.metered import MeteredApi
from natstui.jetstream.poll_round import Round
from natstui.jetstream.poll_snapshot import ConsumersSeen
from natstui.jetstream.sweep_order import SweepOrder

_LIST = "CONSUMER.LIST"
_INFO = "CONSUMER.INFO"
_MISSING_REST_S = 10.0


class ConsumerReading:
    """Lists consumers stream by stream, a long list over several polls."""

    def __init__(self, api: MeteredApi, availability: Availability) -> None:
        self._api = api
        self._availability = availability
        self._denials = ConsumerDenials(availability)
        self._order = SweepOrder()
        self._counts: dict[str, int] = {}
        self._listing: tuple[str, Listing[ConsumerRow]] | None = None
        self._turn_count = 0
        self._missing: dict[str, set[str]] = {}
        self._away: Mapping[str, set[str]] = {}
        self._rests_until_mono_s: dict[str, float] = {}
        self._seen = ConsumersSeen()

    def follow(self, rows: Mapping[str, StreamRow], away: Mapping[str, set[str]]) -> None:
        """Take up what a complete list of streams says.

        `away` are unreachable streams with their consumers. Those are away too, and asking for
        them would only make the server wait.
        """
        self._away = away
        self._order.follow(rows, away)
        for gone in self._counts.keys() - rows.keys():
            self._availability.worked(f"{_LIST}.{gone}")
            self._missing.pop(gone, None)
            self._rests_until_mono_s.pop(gone, None)
        self._counts = {
            name: row.state.consumer_count for name, row in rows.items() if name not in away
        }

    async def read(self, allowed: Round, visible: tuple[tuple[str, str], ...]) -> ConsumersSeen:
        """Read what the allowance gives, and always something; raises ServerGone only."""
        self._seen = ConsumersSeen()
        await self._read_visible(allowed, visible)
        await self._sweep(allowed)
        self._denials.settle()
        self._seen.swept.update(self._order.emptied())
        self._seen.complete = self._seen.swept.issuperset(self._order.streams)
        unreachable = (*self._missing.items(), *self._away.items())
        missing = {(stream, name) for stream, names in unreachable for name in names}
        self._seen.missing = missing - self._seen.rows.keys()
        return self._seen

    async def _read_visible(self, allowed: Round, visible: tuple[tuple[str, str], ...]) -> None:
        """Give two thirds of the allowance to what is in view, one while much is unseen yet."""
        wanted = self._wanted(visible)
        kept_count = allowed.left_count * (2 if self._order.has_new else 1) // 3
        for turn_count in range(len(wanted)):
            # Not bound by work: a poll that was too much is followed by a longer pause.
            if turn_count and (allowed.left_count <= kept_count or not allowed.in_time):
                return
            stream, name = wanted[self._turn_count % len(wanted)]
            self._turn_count += 1
            if name is None:
                await self._list_whole(stream)
            else:
                await self._ask(stream, name)

    def _wanted(self, visible: tuple[tuple[str, str], ...]) -> list[tuple[str, str | None]]:
        """Return what to ask for: whole lists where they take fewer requests (name None)."""
        names_of: dict[str, list[str]] = {}
        for stream, name in visible:
            if self._counts.get(stream):
                names_of.setdefault(stream, []).append(name)
        wanted: list[tuple[str, str | None]] = []
        for stream, names in names_of.items():
            whole = pages_count(self._counts[stream]) <= max(1, len(names) // 2)
            wanted += [(stream, None)] if whole else [(stream, name) for name in names]
        return wanted

    async def _list_whole(self, stream: str) -> None:
        listing = Listing(f"{_LIST}.{stream}", read_consumers)
        while not listing.done:
            if not await self._step(stream, listing):
                return

    async def _ask(self, stream: str, name: str) -> None:
        if not self._availability.may_ask(_INFO):
            return
        try:
            reply, _ = await self._api.ask(f"{_INFO}.{stream}.{name}")
            row = read_consumer(reply, time.monotonic_ns() // 1000)
        except NotFound:
            return
        except RequestFailed as error:
            self._availability.failed(_INFO, error)
            return
        self._availability.worked(_INFO)
        self._seen.rows[stream, name] = row

    async def _sweep(self, allowed: Round) -> None:
        """List stream after stream, at least one page."""
        for turn_count in range(allowed.left_count + len(self._counts)):
            if turn_count and not allowed.has_room:
                return
            if self._listing is None:
                stream = self._order.next()
                if stream is None or self._seen.swept.issuperset(self._order.streams):
                    return
                if stream in self._seen.swept:
                    self._order.done(stream)
                    continue
                self._listing = stream, Listing(f"{_LIST}.{stream}", read_consumers)
            stream, listing = self._listing
            if not await self._step(stream, listing) or listing.done:
                self._listing = None
                self._order.done(stream)

    async def _step(self, stream: str, listing: Listing[ConsumerRow]) -> bool:
        """Read one page; False when it cannot be read now."""
        rests = time.monotonic() < self._rests_until_mono_s.get(stream, 0)
        if rests or not self._denials.may_ask(stream):
            return False
        try:
            await listing.step(self._api)
        except NotFound:
            return False
        except PermissionDenied as error:
            self._denials.denied(stream, error)
            return False
        except RequestFailed as error:
            self._availability.failed(listing.verb, error)
            return False
        self._denials.worked(stream)
        if listing.done:
            self._keep(stream, listing)
        return True

    def _keep(self, stream: str, listing: Listing[ConsumerRow]) -> None:
        for row in listing.rows:
            newer = self._seen.rows.get((stream, row.name))
            if newer is None or newer.sampled_mono_us < row.sampled_mono_us:
                self._seen.rows[stream, row.name] = row
        self._missing.pop(stream, None)
        if listing.missing:
            # The server waits 4 s for those that are down: not with every poll.
            self._missing[stream] = listing.missing
            self._rests_until_mono_s[stream] = time.monotonic() + _MISSING_REST_S
        if listing.steady:
            self._seen.swept.add(stream)
            self._order.done(stream)
