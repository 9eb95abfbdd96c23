"""Polls the lag of consumers: when the next message of each one was stored.

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
from natstui.jetstream.connection.replies import raise_unreadable
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget.allowance import Allowance
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.decode.consumers import ConsumerRow
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.jetstream.polling.snapshot import PolledConsumers

_MAX_CACHE_AGE_S = 30.0
_FORGET_S = 120.0
_TIMEOUT_S = 2.0
_LARGE_BYTES = 256 * 1024
_MAX_FILTERS_COUNT = 4


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
class _NextMessage:
    """The next message of a consumer after a delivered sequence."""

    created: str
    after_seq: int
    seq: int | None
    """None if there was no next message."""
    at_us: int | None
    requested_mono_s: float


_Key = tuple[str, str]
_NextRequest = tuple[str, int, tuple[str, ...]]
"""Stream, first possible sequence, and filters: the same for many consumers."""


_FILTER = b'"filter_subject'
"""Text of a configuration with filters; searching it is faster than parsing."""
_REPLY = decoder_of(_Reply)
_FILTERS = decoder_of(_Filters)
_DIRECTS = decoder_of(_Direct)


def _read_filters(row: ConsumerRow) -> tuple[str, ...]:
    if _FILTER not in bytes(row.config):
        return ()
    with raise_unreadable("CONSUMER.LIST"):
        config = _FILTERS.decode(row.config)
    return config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())


def first_or_last_us(consumer: ConsumerRow, stream: StreamRow) -> int | None:
    """Return when the next message was stored if it is the first or last one, or None."""
    following_seq = consumer.delivered.stream_seq + 1
    if _read_filters(consumer) or not stream.state.messages:
        return None
    if following_seq <= stream.state.first_seq:
        return time_or_never_us(stream.state.first_ts)
    if following_seq == stream.state.last_seq:
        return time_or_never_us(stream.state.last_ts)
    return None


class NextMessageCache:
    """Caches the next message of each consumer until the consumer moves."""

    def __init__(self) -> None:
        self._next_messages: dict[_Key, _NextMessage] = {}
        self._positions: dict[_Key, int] = {}
        self._cleared_mono_s = steady_s()

    def cached_us(self, consumer: ConsumerRow, stream: StreamRow) -> int | None:
        """Return when the next message was stored, in UTC µs; None if that must be requested."""
        known_us = first_or_last_us(consumer, stream)
        if known_us is not None:
            return known_us
        cached = self._find_fresh(consumer)
        if cached is None or cached.seq is None or cached.seq < stream.state.first_seq:
            return None
        return cached.at_us

    def is_known_absent(self, consumer: ConsumerRow) -> bool:
        """Return whether the last reply was that there is no next message."""
        cached = self._find_fresh(consumer)
        return cached is not None and cached.seq is None

    def _find_fresh(self, consumer: ConsumerRow) -> _NextMessage | None:
        cached = self._next_messages.get((consumer.stream_name, consumer.name))
        after_seq = consumer.delivered.stream_seq
        if cached is None or (cached.created, cached.after_seq) != (consumer.created, after_seq):
            return None
        return cached if steady_s() - cached.requested_mono_s < _MAX_CACHE_AGE_S else None

    def is_stuck(self, consumer: ConsumerRow) -> bool:
        """Return whether a consumer has not moved since its position was stored."""
        key, seq = (consumer.stream_name, consumer.name), consumer.delivered.stream_seq
        return self._positions.get(key, seq) == seq

    def store_position(self, consumer: ConsumerRow) -> None:
        """Store the last delivered sequence of a consumer."""
        self._positions[consumer.stream_name, consumer.name] = consumer.delivered.stream_seq

    def store_reply(self, consumer: ConsumerRow, stored_message: _Stored | None) -> None:
        """Store the next message of a consumer; None if there is none."""
        at_us = None
        if stored_message is not None:
            with raise_unreadable(_NEXT):
                at_us = time_us(stored_message.time)
        self._next_messages[consumer.stream_name, consumer.name] = _NextMessage(
            consumer.created,
            consumer.delivered.stream_seq,
            stored_message.seq if stored_message else None,
            at_us,
            steady_s(),
        )

    def discard_old(self) -> None:
        """Discard replies older than two minutes, and all positions; at most every two minutes."""
        now_s = steady_s()
        if now_s - self._cleared_mono_s > _FORGET_S:
            self._cleared_mono_s = now_s
            old = [
                key
                for key, next_message in self._next_messages.items()
                if now_s - next_message.requested_mono_s > _FORGET_S
            ]
            for key in old:
                del self._next_messages[key]
            self._positions.clear()


_NEXT = "STREAM.MSG.GET"
_DIRECT = "DIRECT.GET"
_MIN_REQUESTS_COUNT = 20
"""Minimum number of requests in every poll, whatever lists have used."""


class LagPoller:
    """Sets in the rows of consumers when their next messages were stored."""

    def __init__(self, api: PollingApi, availability: RequestAvailability) -> None:
        self._api = api
        self._availability = availability
        self._next = NextMessageCache()

    def withdraw_failures(
        self, consumers: PolledConsumers, streams: Mapping[str, StreamRow]
    ) -> None:
        """Report failed requests as working again if nothing depends on them any more.

        That is so if the stream is not one of `streams`, which are all, or if its consumers were
        all polled and none waits for a message that must be requested. Raises ReplyUnreadable.
        """
        failed_requests = [
            (verb, stream)
            for verb in (_DIRECT, _NEXT)
            for stream in self._availability.failed_streams(verb)
        ]
        failed_streams = {stream for _, stream in failed_requests} & streams.keys()
        waiting_streams = {
            row.stream_name
            for row in consumers.rows.values()
            if row.stream_name in failed_streams
            and self._needs_request(row, streams[row.stream_name])
        }
        for verb, stream in failed_requests:
            is_unneeded = stream in consumers.swept and stream not in waiting_streams
            if is_unneeded or stream not in streams:
                self._availability.report_success(f"{verb}.{stream}")

    def _needs_request(self, consumer: ConsumerRow, stream: StreamRow) -> bool:
        """Return whether the next message of a consumer is known only from a request."""
        return (
            consumer.num_pending > 0
            and first_or_last_us(consumer, stream) is None
            and self._is_cheap(consumer, stream)
        )

    async def update_next_times(
        self,
        allowance: Allowance,
        control: PollControl,
        consumers: Mapping[_Key, ConsumerRow],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Set `next_at_us` of each row with pending messages, as far as requests are allowed.

        Known times are set without a request. Requests are sent for rows in view first, then for
        preferred, stuck and other consumers. Raises only ConnectionLost.
        """
        self._next.discard_old()
        waiting: list[tuple[int, ConsumerRow]] = []
        visible = set(control.visible_consumers)
        for key, row in consumers.items():
            stream = streams.get(row.stream_name)
            if stream is None or not row.num_pending:
                continue
            row.next_at_us = self._next.cached_us(row, stream)
            if row.next_at_us is None and self._is_cheap(row, stream):
                ranks = (
                    key in visible,
                    key in control.preferred_consumers,
                    self._next.is_stuck(row),
                )
                waiting.append((ranks.index(True) if True in ranks else len(ranks), row))
            self._next.store_position(row)
        waiting.sort(key=lambda ranked: ranked[0])
        await self._request_all(
            allowance, deque(_group_by_request(row for _, row in waiting)), streams
        )

    def _is_cheap(self, consumer: ConsumerRow, stream: StreamRow) -> bool:
        """Return whether a request is cheap: its reply contains the message's entire payload."""
        state = stream.state
        size_bytes = state.bytes / max(1, state.messages)
        small = size_bytes <= _LARGE_BYTES and not self._api.is_slow_to_transfer(size_bytes)
        has_few_filters = len(_read_filters(consumer)) <= _MAX_FILTERS_COUNT
        return small and has_few_filters and not self._next.is_known_absent(consumer)

    async def _request_all(
        self,
        allowance: Allowance,
        waiting: deque[tuple[_NextRequest, list[ConsumerRow]]],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Send as many requests as the allowance permits, though 20 at least; several at once."""
        open_tasks: set[asyncio.Task[None]] = set()
        sent_count = 0
        try:
            while waiting or open_tasks:
                while waiting and len(open_tasks) < self._api.max_open_count:
                    if sent_count >= _MIN_REQUESTS_COUNT and not allowance.has_room_for_rest:
                        waiting.clear()
                        break
                    next_request, rows = waiting.popleft()
                    sent_count += 1
                    request = self._request_next(next_request, rows, streams[next_request[0]])
                    open_tasks.add(self._api.spawn(request))
                if not open_tasks:
                    # All replies came together, and the allowance permits no more.
                    break
                finished_tasks, open_tasks = await asyncio.wait(
                    open_tasks, return_when=asyncio.FIRST_COMPLETED
                )
                for task in finished_tasks:
                    task.result()
        finally:
            for task in open_tasks:
                task.cancel()

    async def _request_next(
        self, next_request: _NextRequest, rows: list[ConsumerRow], stream: StreamRow
    ) -> None:
        """Request the next message of consumers that wait for the same one, and set their rows."""
        with raise_unreadable("the configuration"):
            direct = _DIRECTS.decode(stream.config).allow_direct
        verbs = (_DIRECT, _NEXT) if direct else (_NEXT,)
        for number, verb in enumerate(verbs):
            stream_verb = f"{verb}.{next_request[0]}"
            if not (
                self._availability.may_request(verb)
                and self._availability.may_request(stream_verb)
            ):
                continue
            try:
                replies = [
                    await self._get_message(verb, next_request, subject)
                    for subject in next_request[2] or (">",)
                ]
            except PermissionDenied as error:
                self._availability.report_failure(verb, error)
                continue
            except RequestFailed as error:
                self._availability.report_failure(stream_verb, error)
                continue
            self._availability.report_success(verb)
            self._availability.report_success(stream_verb)
            if verb == _DIRECT and None in replies and self._availability.may_request(_NEXT):
                # A mirror that replies to direct gets may lack the message: request the leader.
                continue
            stored_messages = [stored for stored in replies if stored is not None]
            first = min(stored_messages, key=lambda stored: stored.seq, default=None)
            for row in rows:
                self._next.store_reply(row, first)
                row.next_at_us = self._next.cached_us(row, stream)
            for unused_verb in {_DIRECT, _NEXT}.difference(verbs[: number + 1]):
                self._availability.report_success(f"{unused_verb}.{next_request[0]}")
            return

    async def _get_message(
        self, verb: str, next_request: _NextRequest, subject: str
    ) -> _Stored | None:
        body = {"seq": next_request[1], "next_by_subj": subject}
        if verb == _DIRECT:
            direct_reply = await self._api.get_direct(next_request[0], body, _TIMEOUT_S)
            return _read_direct_reply(direct_reply, next_request[0])
        try:
            reply, _ = await self._api.request(
                f"{verb}.{next_request[0]}", body, timeout_s=_TIMEOUT_S
            )
        except NotFound:
            return None
        with raise_unreadable(_NEXT):
            return _REPLY.decode(reply).message


def _read_direct_reply(msg: Msg, stream: str) -> _Stored | None:
    """Return the message in the reply to a direct get; None if there is none of this stream."""
    headers = msg.headers or {}
    status = status_of(msg.headers)
    if status == "404":
        return None
    if status is not None:
        code = int(status) if status.isdecimal() else None
        raise RequestFailed(f"{_DIRECT}: the server replies {status}", code=code)
    with raise_unreadable(_DIRECT):
        if headers["Nats-Stream"] != stream:
            return None
        return _Stored(int(headers["Nats-Sequence"]), headers["Nats-Time-Stamp"])


def _group_by_request(
    rows: Iterable[ConsumerRow],
) -> Iterator[tuple[_NextRequest, list[ConsumerRow]]]:
    """Yield each request with the consumers that wait for its message, in the order of rows."""
    groups: dict[_NextRequest, list[ConsumerRow]] = {}
    for row in rows:
        next_request = row.stream_name, row.delivered.stream_seq + 1, _read_filters(row)
        groups.setdefault(next_request, []).append(row)
    yield from groups.items()
