"""The part of a poll that finds when a consumer's next message was stored: its lag.

A batch of direct gets returns consecutive messages, but the next messages of stuck consumers are
far apart: they are requested one by one, many at once, and once for all consumers that wait for
the same one.
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
    """The next message of a consumer."""

    created: str
    after_seq: int
    seq: int | None
    """None if there was none."""
    at_us: int | None
    asked_mono_s: float


_Key = tuple[str, str]
_Wanted = tuple[str, int, tuple[str, ...]]
"""Stream, first possible sequence, and filters: the same for many consumers."""


_FILTER = b'"filter_subject'
"""Text of a configuration with filters; searching it is faster than parsing."""
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
    """Return when the next message was stored if it is the first or last of the stream;
    else None.
    """
    following_seq = consumer.delivered.stream_seq + 1
    if _filters(consumer) or not stream.state.messages:
        return None
    if following_seq <= stream.state.first_seq:
        return time_or_never_us(stream.state.first_ts)
    if following_seq == stream.state.last_seq:
        return time_or_never_us(stream.state.last_ts)
    return None


class NextMessages:
    """Caches the next message of consumers while it stays the next."""

    def __init__(self) -> None:
        self._found: dict[_Key, _Found] = {}
        self._seqs: dict[_Key, int] = {}
        self._cleared_mono_s = steady_s()

    def remembered_us(self, consumer: ConsumerRow, stream: StreamRow) -> int | None:
        """Return the cached time; None when it must be requested."""
        known_us = known_without_asking(consumer, stream)
        if known_us is not None:
            return known_us
        cached = self._fresh(consumer)
        if cached is None or cached.seq is None or cached.seq < stream.state.first_seq:
            return None
        return cached.at_us

    def is_asked(self, consumer: ConsumerRow) -> bool:
        """Return whether the reply is known, including that there is no such message."""
        cached = self._fresh(consumer)
        return cached is not None and cached.seq is None

    def _fresh(self, consumer: ConsumerRow) -> _Found | None:
        cached = self._found.get((consumer.stream_name, consumer.name))
        after_seq = consumer.delivered.stream_seq
        if cached is None or (cached.created, cached.after_seq) != (consumer.created, after_seq):
            return None
        return cached if steady_s() - cached.asked_mono_s < _TRUST_S else None

    def is_stuck(self, consumer: ConsumerRow) -> bool:
        """Return whether a consumer has not moved since it was last seen."""
        key, seq = (consumer.stream_name, consumer.name), consumer.delivered.stream_seq
        return self._seqs.get(key, seq) == seq

    def saw(self, consumer: ConsumerRow) -> None:
        """Store the position of a consumer."""
        self._seqs[consumer.stream_name, consumer.name] = consumer.delivered.stream_seq

    def keep(self, consumer: ConsumerRow, stored_message: _Stored | None) -> None:
        """Store a reply."""
        at_us = None
        if stored_message is not None:
            with reading(_NEXT):
                at_us = time_us(stored_message.time)
        self._found[consumer.stream_name, consumer.name] = _Found(
            consumer.created,
            consumer.delivered.stream_seq,
            stored_message.seq if stored_message else None,
            at_us,
            steady_s(),
        )

    def forget_old(self) -> None:
        """Discard old entries, now and then."""
        now_s = steady_s()
        if now_s - self._cleared_mono_s > _FORGET_S:
            self._cleared_mono_s = now_s
            old = [
                key
                for key, next_message in self._found.items()
                if now_s - next_message.asked_mono_s > _FORGET_S
            ]
            for key in old:
                del self._found[key]
            self._seqs.clear()


_NEXT = "STREAM.MSG.GET"
_DIRECT = "DIRECT.GET"
_LEAST_COUNT = 20
"""Minimum of requests in every poll, whatever lists have used."""


class NextReading:
    """Sets when the next message of each consumer was stored, where possible."""

    def __init__(self, api: PollingApi, availability: Availability) -> None:
        self._api = api
        self._availability = availability
        self._next = NextMessages()

    async def find(
        self,
        allowance: Allowance,
        control: PollControl,
        consumers: Mapping[_Key, ConsumerRow],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Set every known time, and request the others; raises ServerGone only.

        The order is: rows in view, preferred ones, stuck ones, and the rest.
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
        waiting.sort(key=lambda ranked: ranked[0])
        await self._ask_all(allowance, deque(_grouped(row for _, row in waiting)), streams)

    def _worth_asking(self, consumer: ConsumerRow, stream: StreamRow) -> bool:
        """Return whether a reply is cheap: it contains the message's entire payload."""
        state = stream.state
        size_bytes = state.bytes / max(1, state.messages)
        small = size_bytes <= _LARGE_BYTES and not self._api.takes_long(size_bytes)
        has_few_filters = len(_filters(consumer)) <= _MOST_FILTERS_COUNT
        return small and has_few_filters and not self._next.is_asked(consumer)

    async def _ask_all(
        self,
        allowance: Allowance,
        waiting: deque[tuple[_Wanted, list[ConsumerRow]]],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Send as many requests as the allowance permits, a minimum at least; several at once."""
        open_tasks: set[asyncio.Task[None]] = set()
        asked_count = 0
        try:
            while waiting or open_tasks:
                while waiting and len(open_tasks) < self._api.at_once_count:
                    if asked_count >= _LEAST_COUNT and not allowance.has_room_to_end:
                        waiting.clear()
                        break
                    next_request, rows = waiting.popleft()
                    asked_count += 1
                    asking = self._ask(next_request, rows, streams[next_request[0]])
                    open_tasks.add(asyncio.create_task(asking))
                if not open_tasks:
                    # All answers came together, and there is no room for more.
                    break
                finished_tasks, open_tasks = await asyncio.wait(
                    open_tasks, return_when=asyncio.FIRST_COMPLETED
                )
                for task in finished_tasks:
                    task.result()
        finally:
            for task in open_tasks:
                task.cancel()

    async def _ask(
        self, next_request: _Wanted, rows: list[ConsumerRow], stream: StreamRow
    ) -> None:
        """Request the next message of consumers that wait for the same."""
        with reading("the configuration"):
            direct = _DIRECTS.decode(stream.config).allow_direct
        verbs = (_DIRECT, _NEXT) if direct else (_NEXT,)
        for verb in verbs:
            of_stream = f"{verb}.{next_request[0]}"
            if not (self._availability.may_ask(verb) and self._availability.may_ask(of_stream)):
                continue
            try:
                replies = [
                    await self._get(verb, next_request, subject)
                    for subject in next_request[2] or (">",)
                ]
            except PermissionDenied as error:
                self._availability.failed(verb, error)
                continue
            except RequestFailed as error:
                self._availability.failed(of_stream, error)
                continue
            self._availability.worked(verb)
            self._availability.worked(of_stream)
            if verb == _DIRECT and None in replies and self._availability.may_ask(_NEXT):
                # A mirror that replies to direct gets may lack the message: ask the leader.
                continue
            stored_messages = [stored for stored in replies if stored is not None]
            first = min(stored_messages, key=lambda stored: stored.seq, default=None)
            for row in rows:
                self._next.keep(row, first)
                row.next_at_us = self._next.remembered_us(row, stream)
            return

    async def _get(self, verb: str, next_request: _Wanted, subject: str) -> _Stored | None:
        body = {"seq": next_request[1], "next_by_subj": subject}
        if verb == _DIRECT:
            direct_reply = await self._api.direct(next_request[0], body, _TIMEOUT_S)
            return _stored(direct_reply, next_request[0])
        try:
            reply, _ = await self._api.ask(f"{verb}.{next_request[0]}", body, timeout_s=_TIMEOUT_S)
        except NotFound:
            return None
        with reading(_NEXT):
            return _REPLY.decode(reply).message


def _stored(msg: Msg, stream: str) -> _Stored | None:
    """Return the message of a direct get; None without one of this stream itself."""
    headers = msg.headers or {}
    status = status_of(msg.headers)
    if status == "404":
        return None
    if status is not None:
        code = int(status) if status.isdecimal() else None
        raise RequestFailed(f"{_DIRECT}: the server answers {status}", code=code)
    with reading(_DIRECT):
        if headers["Nats-Stream"] != stream:
            return None
        return _Stored(int(headers["Nats-Sequence"]), headers["Nats-Time-Stamp"])


def _grouped(rows: Iterable[ConsumerRow]) -> Iterator[tuple[_Wanted, list[ConsumerRow]]]:
    """Yield groups of consumers that wait for the same message, in the order of their
    first ones.
    """
    groups: dict[_Wanted, list[ConsumerRow]] = {}
    for row in rows:
        next_request = row.stream_name, row.delivered.stream_seq + 1, _filters(row)
        groups.setdefault(next_request, []).append(row)
    yield from groups.items()
