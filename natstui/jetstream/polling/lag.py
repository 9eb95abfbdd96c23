"""Polls the lag of consumers: when the next message of each one was stored.

A batch of direct gets returns consecutive messages, but the next messages of stuck consumers are
far apart: they are requested one by one, many at once, and once for all consumers that wait for
the same one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import Struct
from nats.aio.msg import Msg

from natstui.clock import steady_s
from natstui.decoding import decoder_of
from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import raise_unreadable
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget.allowance import PollAllowance
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.snapshot import PolledConsumers

_MAX_CACHE_AGE_S = 30.0
_DISCARD_AFTER_S = 120.0
_MESSAGE_GET_TIMEOUT_S = 2.0
_MAX_MEAN_MESSAGE_BYTES = 256 * 1024
_MAX_FILTERS_COUNT = 4


class _MessageTime(msgspec.Struct):
    seq: int
    time: str


class _Reply(msgspec.Struct):
    message: _MessageTime


class _StreamConfig(msgspec.Struct):
    allow_direct: bool = False


class _ConsumerConfig(msgspec.Struct):
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] | None = None


class _NextMessage(Struct, frozen=True):
    """The next message of a consumer after a delivered sequence."""

    created: str
    after_seq: int
    seq: int | None
    """None if there was no next message."""
    at_us: int | None
    requested_mono_s: float


_StreamAndConsumer = tuple[str, str]


class _NextRequest(NamedTuple):
    """A request for the next message, which is the same for many consumers."""

    stream: str
    from_seq: int
    filters: tuple[str, ...]


_FILTER_FIELD_START = b'"filter_subject'
"""Text of a configuration with filters; searching it is faster than parsing."""
_REPLY_DECODER = decoder_of(_Reply)
_CONSUMER_CONFIG_DECODER = decoder_of(_ConsumerConfig)
_STREAM_CONFIG_DECODER = decoder_of(_StreamConfig)


def _read_filters(row: ConsumerRow) -> tuple[str, ...]:
    if _FILTER_FIELD_START not in bytes(row.config):
        return ()
    with raise_unreadable("CONSUMER.LIST"):
        config = _CONSUMER_CONFIG_DECODER.decode(row.config)
    return config.filter_subjects or ((config.filter_subject,) if config.filter_subject else ())


def first_or_last_stored_us(consumer: ConsumerRow, stream: StreamRow) -> int | None:
    """Return when the next message was stored (UTC µs), if it is the stream's first or last.

    None also if the server sends an invalid time: `make_snapshot` reports that stream.
    """
    following_seq = consumer.delivered.stream_seq + 1
    if _read_filters(consumer) or not stream.state.messages:
        return None
    with suppress(ValueError):
        if following_seq <= stream.state.first_seq:
            return time_or_never_us(stream.state.first_ts)
        if following_seq == stream.state.last_seq:
            return time_or_never_us(stream.state.last_ts)
    return None


class NextMessageCache:
    """Caches the next message of each consumer until the consumer delivers another one."""

    def __init__(self) -> None:
        self._next_messages: dict[_StreamAndConsumer, _NextMessage] = {}
        self._delivered_seqs: dict[_StreamAndConsumer, int] = {}
        self._last_discard_mono_s = steady_s()

    def cached_stored_us(self, consumer: ConsumerRow, stream: StreamRow) -> int | None:
        """Return when the next message was stored, in UTC µs; None if that must be requested."""
        end_stored_us = first_or_last_stored_us(consumer, stream)
        if end_stored_us is not None:
            return end_stored_us
        cached_message = self._find_fresh_message(consumer)
        if (
            cached_message is None
            or cached_message.seq is None
            or cached_message.seq < stream.state.first_seq
        ):
            return None
        return cached_message.at_us

    def has_no_next_message(self, consumer: ConsumerRow) -> bool:
        """Return whether the last reply was that there is no next message."""
        cached_message = self._find_fresh_message(consumer)
        return cached_message is not None and cached_message.seq is None

    def _find_fresh_message(self, consumer: ConsumerRow) -> _NextMessage | None:
        cached_message = self._next_messages.get((consumer.stream_name, consumer.name))
        after_seq = consumer.delivered.stream_seq
        if cached_message is None or (cached_message.created, cached_message.after_seq) != (
            consumer.created,
            after_seq,
        ):
            return None
        return (
            cached_message
            if steady_s() - cached_message.requested_mono_s < _MAX_CACHE_AGE_S
            else None
        )

    def is_stuck(self, consumer: ConsumerRow) -> bool:
        """Return whether a consumer has delivered nothing since `store_position` was called."""
        key, seq = (consumer.stream_name, consumer.name), consumer.delivered.stream_seq
        return self._delivered_seqs.get(key, seq) == seq

    def store_position(self, consumer: ConsumerRow) -> None:
        """Store the last delivered sequence of a consumer."""
        self._delivered_seqs[consumer.stream_name, consumer.name] = consumer.delivered.stream_seq

    def store_reply(self, consumer: ConsumerRow, stored_message: _MessageTime | None) -> None:
        """Store the next message of a consumer; None if there is none."""
        at_us = None
        if stored_message is not None:
            with raise_unreadable(_MSG_GET):
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
        if now_s - self._last_discard_mono_s > _DISCARD_AFTER_S:
            self._last_discard_mono_s = now_s
            old_keys = [
                key
                for key, next_message in self._next_messages.items()
                if now_s - next_message.requested_mono_s > _DISCARD_AFTER_S
            ]
            for key in old_keys:
                del self._next_messages[key]
            self._delivered_seqs.clear()


_MSG_GET = "STREAM.MSG.GET"
_DIRECT_GET = "DIRECT.GET"
_MIN_REQUESTS_COUNT = 20
"""Minimum number of requests in every poll, whatever lists have used."""


class LagPoller:
    """Sets in the rows of consumers when their next messages were stored."""

    def __init__(self, api: PollingApi, availability: RequestAvailability) -> None:
        self._api = api
        self._availability = availability
        self._next_message_cache = NextMessageCache()

    def withdraw_failures(
        self, consumers: PolledConsumers, streams: Mapping[str, StreamRow]
    ) -> None:
        """Report failed requests as working again if no consumer needs them any more.

        `streams` are all existing streams. No request is needed for any other stream, nor for one
        whose consumers were all polled if none waits for a message that must be requested. Raises
        ReplyUnreadable.
        """
        failed_requests = [
            (verb, stream)
            for verb in (_DIRECT_GET, _MSG_GET)
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
            is_unneeded = stream in consumers.swept_streams and stream not in waiting_streams
            if is_unneeded or stream not in streams:
                self._availability.report_success(f"{verb}.{stream}")

    def _needs_request(self, consumer: ConsumerRow, stream: StreamRow) -> bool:
        """Return whether the next message of a consumer is known only from a request."""
        return (
            consumer.num_pending > 0
            and first_or_last_stored_us(consumer, stream) is None
            and self._should_request(consumer, stream)
        )

    async def update_next_times(
        self,
        allowance: PollAllowance,
        control: PollControl,
        consumers: Mapping[_StreamAndConsumer, ConsumerRow],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Set `next_at_us` of each row with pending messages, as far as requests are allowed.

        Known times are set without a request. Requests are sent for rows in view first, then for
        preferred, stuck and other consumers. Raises only ConnectionLost.
        """
        self._next_message_cache.discard_old()
        ranked_rows: list[tuple[int, ConsumerRow]] = []
        visible = set(control.visible_consumers)
        for key, row in consumers.items():
            stream = streams.get(row.stream_name)
            if stream is None or not row.num_pending:
                continue
            row.next_at_us = self._next_message_cache.cached_stored_us(row, stream)
            if row.next_at_us is None and self._should_request(row, stream):
                rank_conditions = (
                    key in visible,
                    key in control.preferred_consumers,
                    self._next_message_cache.is_stuck(row),
                )
                ranked_rows.append(
                    (
                        rank_conditions.index(True)
                        if True in rank_conditions
                        else len(rank_conditions),
                        row,
                    )
                )
            self._next_message_cache.store_position(row)
        ranked_rows.sort(key=lambda ranked: ranked[0])
        await self._request_all(
            allowance, deque(_group_by_request(row for _, row in ranked_rows)), streams
        )

    def _should_request(self, consumer: ConsumerRow, stream: StreamRow) -> bool:
        """Return whether to request the next message: it is probably small, and filters are few.

        A reply contains the entire payload. No request is sent while it is known that there is no
        next message.
        """
        state = stream.state
        size_bytes = state.bytes / max(1, state.messages)
        is_message_small = (
            size_bytes <= _MAX_MEAN_MESSAGE_BYTES and not self._api.is_slow_to_transfer(size_bytes)
        )
        has_few_filters = len(_read_filters(consumer)) <= _MAX_FILTERS_COUNT
        return (
            is_message_small
            and has_few_filters
            and not self._next_message_cache.has_no_next_message(consumer)
        )

    async def _request_all(
        self,
        allowance: PollAllowance,
        waiting_requests: deque[tuple[_NextRequest, list[ConsumerRow]]],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Send as many requests as the allowance permits, though 20 at least; several at once."""
        open_tasks: set[asyncio.Task[None]] = set()
        sent_count = 0
        try:
            while waiting_requests or open_tasks:
                while waiting_requests and len(open_tasks) < self._api.max_open_count:
                    if sent_count >= _MIN_REQUESTS_COUNT and not allowance.has_room_for_rest:
                        waiting_requests.clear()
                        break
                    next_request, rows = waiting_requests.popleft()
                    sent_count += 1
                    request = self._request_next(next_request, rows, streams[next_request.stream])
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
            allows_direct_get = _STREAM_CONFIG_DECODER.decode(stream.config).allow_direct
        verbs = (_DIRECT_GET, _MSG_GET) if allows_direct_get else (_MSG_GET,)
        for number, verb in enumerate(verbs):
            stream_verb = f"{verb}.{next_request.stream}"
            if not (
                self._availability.may_request(verb)
                and self._availability.may_request(stream_verb)
            ):
                continue
            try:
                replies = [
                    await self._get_message(verb, next_request, subject)
                    for subject in next_request.filters or (">",)
                ]
            except PermissionDenied as error:
                self._availability.report_failure(verb, error)
                continue
            except RequestFailed as error:
                self._availability.report_failure(stream_verb, error)
                continue
            self._availability.report_success(verb)
            self._availability.report_success(stream_verb)
            if (
                verb == _DIRECT_GET
                and None in replies
                and self._availability.may_request(_MSG_GET)
            ):
                # A mirror that replies to direct gets may lack the message: request the leader.
                continue
            stored_messages = [
                stored_message for stored_message in replies if stored_message is not None
            ]
            first_message = min(
                stored_messages, key=lambda stored_message: stored_message.seq, default=None
            )
            for row in rows:
                self._next_message_cache.store_reply(row, first_message)
                row.next_at_us = self._next_message_cache.cached_stored_us(row, stream)
            for unused_verb in {_DIRECT_GET, _MSG_GET}.difference(verbs[: number + 1]):
                self._availability.report_success(f"{unused_verb}.{next_request.stream}")
            return

    async def _get_message(
        self, verb: str, next_request: _NextRequest, subject: str
    ) -> _MessageTime | None:
        body = {"seq": next_request.from_seq, "next_by_subj": subject}
        if verb == _DIRECT_GET:
            direct_reply = await self._api.get_direct(
                next_request.stream, body, _MESSAGE_GET_TIMEOUT_S
            )
            return _read_direct_reply(direct_reply, next_request.stream)
        try:
            reply, _ = await self._api.request(
                f"{verb}.{next_request.stream}", body, timeout_s=_MESSAGE_GET_TIMEOUT_S
            )
        except NotFound:
            return None
        with raise_unreadable(_MSG_GET):
            return _REPLY_DECODER.decode(reply).message


def _read_direct_reply(msg: Msg, stream: str) -> _MessageTime | None:
    """Return the message in the reply to a direct get; None if there is none of this stream."""
    headers = msg.headers or {}
    status = status_of(msg.headers)
    if status == "404":
        return None
    if status is not None:
        code = int(status) if status.isdecimal() else None
        raise RequestFailed(f"{_DIRECT_GET}: the server replies {status}", code=code)
    with raise_unreadable(_DIRECT_GET):
        if headers["Nats-Stream"] != stream:
            return None
        return _MessageTime(int(headers["Nats-Sequence"]), headers["Nats-Time-Stamp"])


def _group_by_request(
    rows: Iterable[ConsumerRow],
) -> Iterator[tuple[_NextRequest, list[ConsumerRow]]]:
    """Yield each request with the consumers that wait for its message, in the order of rows."""
    groups: dict[_NextRequest, list[ConsumerRow]] = {}
    for row in rows:
        next_request = _NextRequest(
            row.stream_name, row.delivered.stream_seq + 1, _read_filters(row)
        )
        groups.setdefault(next_request, []).append(row)
    yield from groups.items()
