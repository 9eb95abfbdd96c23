"""The part of a poll that finds when the next message of a consumer was stored: its lag.

A batch of direct gets returns messages that follow one another, but the next messages of stuck
consumers lie anywhere: they are asked for one by one, many at once, and once for all consumers
that wait for the same one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
from nats.aio.msg import Msg

from natstui.clock import steady_s
from natstui.decoding import decoder_of
from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import reading
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.budget.allowance import Allowance
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.decode.consumers import ConsumerRow
from natstui.jetstream.polling.decode.streams import StreamRow

_TRUST_S = 30.0
_FORGET_S = 120.0
_TIMEOUT_S = 2.0
_LARGE_BYTES = 256 * 1024
_MOST_FILTERS_COUNT = 4


class _Stored(msgspec.Struct):
    seq: int
    time: str


class _Reply(msgspec.Struct):
    message: _Stored


class _Direct(msgspec.Struct):
    allow_direct: bool = False


class _Filters(msgspec.Struct):
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Found:
    """The message that a consumer will get next."""

    created: str
    after_seq: int
    seq: int | None
    """None when there was none."""
    at_us: int | None
    asked_mono_s: float


_Key = tuple[str, str]
_Wanted = tuple[str, int, tuple[str, ...]]
"""Stream, the first sequence that may be next, and filters: the same for many consumers."""


_FILTER = b'"filter_subject'
"""Most consumers have none, which is seen sooner than read."""
_REPLY = decoder_of(_Reply)
_FILTERS = decoder_of(_Filters)
_DIRECTS = decoder_of(_Direct)


def _filters(row: ConsumerRow) -> tuple[str, ...]:
    if _FILTER not in bytes(row.config):
        return ()
    with reading("CONSUMER.LIST"):
        config = _FILTERS.decode(row.config)
    return config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())


def known_without_asking(consumer: ConsumerRow, stream: StreamRow) -> int | None:
    """Return when it was stored if it is the first or last of the stream; else None."""
    following_seq = consumer.delivered.stream_seq + 1
    if _filters(consumer) or not stream.state.messages:
        return None
    if following_seq <= stream.state.first_seq:
        return time_or_never_us(stream.state.first_ts)
    if following_seq == stream.state.last_seq:
        return time_or_never_us(stream.state.last_ts)
    return None


class NextMessages:
    """Remembers the next message of consumers while it stays the next."""

    def __init__(self) -> None:
        self._found: dict[_Key, _Found] = {}
        self._seqs: dict[_Key, int] = {}
        self._cleared_mono_s = steady_s()

    def remembered_us(self, consumer: ConsumerRow, stream: StreamRow) -> int | None:
        """Return the time without asking; None when it must be asked for."""
        known_us = known_without_asking(consumer, stream)
        if known_us is not None:
            return known_us
        found = self._fresh(consumer)
        if found is None or found.seq is None or found.seq < stream.state.first_seq:
            return None
        return found.at_us

    def is_asked(self, consumer: ConsumerRow) -> bool:
        """Return whether the answer is known, be it that there is no such message."""
        found = self._fresh(consumer)
        return found is not None and found.seq is None

    def _fresh(self, consumer: ConsumerRow) -> _Found | None:
        found = self._found.get((consumer.stream_name, consumer.name))
        after_seq = consumer.delivered.stream_seq
        if found is None or (found.created, found.after_seq) != (consumer.created, after_seq):
            return None
        return found if steady_s() - found.asked_mono_s < _TRUST_S else None

    def is_stuck(self, consumer: ConsumerRow) -> bool:
        """Return whether a consumer stands where it stood when it was seen before, if it was."""
        key, seq = (consumer.stream_name, consumer.name), consumer.delivered.stream_seq
        return self._seqs.get(key, seq) == seq

    def saw(self, consumer: ConsumerRow) -> None:
        """Note where a consumer stands."""
        self._seqs[consumer.stream_name, consumer.name] = consumer.delivered.stream_seq

    def keep(self, consumer: ConsumerRow, stored: _Stored | None) -> None:
        """Remember an answer."""
        at_us = None
        if stored is not None:
            with reading(_NEXT):
                at_us = time_us(stored.time)
        self._found[consumer.stream_name, consumer.name] = _Found(
            consumer.created,
            consumer.delivered.stream_seq,
            stored.seq if stored else None,
            at_us,
            steady_s(),
        )

    def forget_old(self) -> None:
        """Forget what nobody has asked for lately, now and then."""
        now_s = steady_s()
        if now_s - self._cleared_mono_s > _FORGET_S:
            self._cleared_mono_s = now_s
            old = [key for key, it in self._found.items() if now_s - it.asked_mono_s > _FORGET_S]
            for key in old:
                del self._found[key]
            self._seqs.clear()


_NEXT = "STREAM.MSG.GET"
_DIRECT = "DIRECT.GET"
_LEAST_COUNT = 20
"""So many are asked for in every poll, whatever lists have used."""


class NextReading:
    """Fills in when the next message of each consumer was stored, where that can be known."""

    def __init__(self, api: PollingApi, availability: Availability) -> None:
        self._api = api
        self._availability = availability
        self._next = NextMessages()

    async def find(
        self,
        allowed: Allowance,
        control: PollControl,
        consumers: Mapping[_Key, ConsumerRow],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Fill in every row that is known, and ask for the others; raises ServerGone only.

        First come those in view, then preferred ones, those that stand still, and the rest.
        """
        self._next.forget_old()
        waiting: list[tuple[int, ConsumerRow]] = []
        visible = set(control.visible_consumers)
        for key, row in consumers.items():
            stream = streams.get(row.stream_name)
            if stream is None or not row.num_pending:
                continue
            row.next_at_us = self._next.remembered_us(row, stream)
            if row.next_at_us is None and self._worth_asking(row, stream):
                ranks = (
                    key in visible,
                    key in control.preferred_consumers,
                    self._next.is_stuck(row),
                )
                waiting.append((ranks.index(True) if True in ranks else len(ranks), row))
            self._next.saw(row)
        waiting.sort(key=lambda each: each[0])
        await self._ask_all(allowed, deque(_grouped(row for _, row in waiting)), streams)

    def _worth_asking(self, consumer: ConsumerRow, stream: StreamRow) -> bool:
        """Return whether an answer is cheap: it carries the message's whole payload."""
        state = stream.state
        size_bytes = state.bytes / max(1, state.messages)
        small = size_bytes <= _LARGE_BYTES and not self._api.takes_long(size_bytes)
        few = len(_filters(consumer)) <= _MOST_FILTERS_COUNT
        return small and few and not self._next.is_asked(consumer)

    async def _ask_all(
        self,
        allowed: Allowance,
        waiting: deque[tuple[_Wanted, list[ConsumerRow]]],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Ask for as many as the allowance permits, a few at least; several at once."""
        open_asks: set[asyncio.Task[None]] = set()
        asked_count = 0
        try:
            while waiting or open_asks:
                while waiting and len(open_asks) < self._api.at_once_count:
                    if asked_count >= _LEAST_COUNT and not allowed.has_room_to_end:
                        waiting.clear()
                        break
                    wanted, rows = waiting.popleft()
                    asked_count += 1
                    asking = self._ask(wanted, rows, streams[wanted[0]])
                    open_asks.add(asyncio.create_task(asking))
                if not open_asks:
                    # All answers came together, and there is no room for more.
                    break
                done, open_asks = await asyncio.wait(
                    open_asks, return_when=asyncio.FIRST_COMPLETED
                )
                for ask in done:
                    ask.result()
        finally:
            for ask in open_asks:
                ask.cancel()

    async def _ask(self, wanted: _Wanted, rows: list[ConsumerRow], stream: StreamRow) -> None:
        """Ask for the next message of consumers that wait for the same."""
        with reading("the configuration"):
            direct = _DIRECTS.decode(stream.config).allow_direct
        verbs = (_DIRECT, _NEXT) if direct else (_NEXT,)
        for verb in verbs:
            of_stream = f"{verb}.{wanted[0]}"
            if not (self._availability.may_ask(verb) and self._availability.may_ask(of_stream)):
                continue
            try:
                found = [await self._get(verb, wanted, subject) for subject in wanted[2] or (">",)]
            except PermissionDenied as error:
                self._availability.failed(verb, error)
                continue
            except RequestFailed as error:
                self._availability.failed(of_stream, error)
                continue
            self._availability.worked(verb)
            self._availability.worked(of_stream)
            there = [stored for stored in found if stored is not None]
            first = min(there, key=lambda stored: stored.seq, default=None)
            for row in rows:
                self._next.keep(row, first)
                row.next_at_us = self._next.remembered_us(row, stream)
            return

    async def _get(self, verb: str, wanted: _Wanted, subject: str) -> _Stored | None:
        body = {"seq": wanted[1], "next_by_subj": subject}
        if verb == _DIRECT:
            return _stored(await self._api.direct(wanted[0], body, _TIMEOUT_S))
        try:
            reply, _ = await self._api.ask(f"{verb}.{wanted[0]}", body, timeout_s=_TIMEOUT_S)
        except NotFound:
            return None
        with reading(_NEXT):
            return _REPLY.decode(reply).message


def _stored(msg: Msg) -> _Stored | None:
    """Return which message a direct get found; None when there is none."""
    headers = msg.headers or {}
    status = status_of(msg.headers)
    if status == "404":
        return None
    if status is not None:
        code = int(status) if status.isdecimal() else None
        raise RequestFailed(f"{_DIRECT}: the server answers {status}", code=code)
    with reading(_DIRECT):
        return _Stored(int(headers["Nats-Sequence"]), headers["Nats-Time-Stamp"])


def _grouped(rows: Iterable[ConsumerRow]) -> Iterator[tuple[_Wanted, list[ConsumerRow]]]:
    """Yield consumers that wait for the same message together, in the order of the first."""
    groups: dict[_Wanted, list[ConsumerRow]] = {}
    for row in rows:
        wanted = row.stream_name, row.delivered.stream_seq + 1, _filters(row)
        groups.setdefault(wanted, []).append(row)
    yield from groups.items()
