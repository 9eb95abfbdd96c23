"""Counts the messages of a stream by subject, if a finding depends on the subjects.

Counters show that a work queue has messages without a consumer, or that a filter delivered
nothing; their subjects are in the stream's contents only. Each count is one `STREAM.INFO` with a
filter, at most one in a poll and one a minute for the same filter; four a minute for a stream with
few subjects.
"""

from __future__ import annotations

import base64
import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import NamedTuple

import msgspec

from natstui.clock import steady_s
from natstui.decoding import decoder_of
from natstui.errors import NotFound, RequestFailed
from natstui.feed import Sink
from natstui.jetstream.connection.replies import raise_unreadable
from natstui.jetstream.polling.availability import RequestAvailability
from natstui.jetstream.polling.budget.allowance import PollAllowance
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.evidence import SubjectsCounted
from natstui.model.records.record import Configured

MAX_SUBJECTS = 10_000
"""Limit of subjects of a stream whose messages are counted: one reply has all of them."""
RECOUNT_INTERVAL_S = 60.0
"""Interval of counts with the same filter."""
SMALL_STREAM_RECOUNT_S = 15.0
"""Interval of counts of a stream with few subjects: replies are small, and problems of a short
time are found.
"""
_FEW_SUBJECTS_COUNT = 1_000
MIN_UNCONSUMED_POLLS_COUNT = 3
"""Number of successive polls in which messages must have no consumer: the replies in one poll are
of different times.
"""
_REPORTED_SUBJECTS_COUNT = 100
_MAX_CHECKED_SCHEDULES = 20
_MAX_COUNTED_FILTERS = 5
_MAX_NEW_CONSUMER_AGE_US = 20_000_000
_TIMEOUT_S = 2.0
_ALL_SUBJECTS = ">"
_SCHEDULE_HEADER = b"\nNats-Schedule:"


class _StreamState(msgspec.Struct):
    subjects: dict[str, int] | None = None


class _StreamInfo(msgspec.Struct):
    state: _StreamState


class _MessageHeaders(msgspec.Struct):
    hdrs: str = ""


class _MessageReply(msgspec.Struct):
    message: _MessageHeaders


_INFO = decoder_of(_StreamInfo)
_MESSAGE_REPLY_DECODER = decoder_of(_MessageReply)


class CountRequest(NamedTuple):
    """A required count of the messages of a stream by subject."""

    stream: str
    created_at_us: int
    filter_subject: str
    allows_schedules: bool
    """Whether the stream may have message schedules, which stay stored on purpose."""


def _is_option_on(config: StreamConfiguration, name: str) -> bool:
    """Return whether a boolean option of a stream is on; most configurations do not have it."""
    return f'"{name}"' in config.config_json and bool(json.loads(config.config_json).get(name))


class _PendingCount(NamedTuple):
    """Numbers of a stream's consumers, and of their pending and ack pending messages."""

    consumers_count: int = 0
    msgs: int = 0


class _WorkQueueState(NamedTuple):
    """A work queue in the last poll."""

    created_at_us: int
    last_seq: int
    unconsumed_polls_count: int
    """Number of successive polls in which messages had no consumer."""


def _count_pending(poll: Snapshot) -> dict[str, _PendingCount]:
    """Return stream → numbers of its consumers and of their pending and ack pending messages."""
    consumers = poll.consumers
    pending_by_stream: dict[str, _PendingCount] = {}
    rows = zip(
        consumers.stream, consumers.pending_msgs, consumers.ack_pending_msgs, strict=True
    )  # fmt: skip
    for stream, pending, ack_pending in rows:
        count, msgs = pending_by_stream.get(stream, _PendingCount())
        pending_by_stream[stream] = _PendingCount(count + 1, msgs + pending + ack_pending)
    return pending_by_stream


class CountPlanner:
    """Determines from poll to poll which streams must be counted by subject."""

    def __init__(self) -> None:
        self._streams: dict[str, StreamConfiguration] = {}
        self._consumers_by_stream: dict[str, dict[str, ConsumerConfiguration]] = {}
        self._work_queue_states: dict[str, _WorkQueueState] = {}

    def find_requests(
        self, poll: Snapshot, configurations: Configured | None
    ) -> Iterator[CountRequest]:
        """Yield the counts that a poll requires, in any order."""
        if configurations is not None:
            self._streams.update({stream.name: stream for stream in configurations.streams})
            for consumer in configurations.consumers:
                self._consumers_by_stream.setdefault(consumer.stream, {})[consumer.name] = consumer
        names = poll.streams.name
        if poll.streams_complete and len(self._streams) > len(names):
            existing_names = {*names, *poll.unreachable_streams}
            self._streams = {
                name: configuration
                for name, configuration in self._streams.items()
                if name in existing_names
            }
            self._consumers_by_stream = {
                name: consumers
                for name, consumers in self._consumers_by_stream.items()
                if name in existing_names
            }
        last_at_us = dict(zip(names, poll.streams.last_at_us, strict=True))
        pending_by_stream = _count_pending(poll)
        self._discard_deleted_consumers(poll, pending_by_stream)
        for row, name in enumerate(names):
            config = self._streams.get(name)
            if config is not None and poll.streams.subjects_count[row] <= MAX_SUBJECTS:
                pending_count = pending_by_stream.get(name, _PendingCount())
                yield from self._find_stream_requests(poll, row, config, pending_count)
        yield from self._find_consumer_requests(poll, last_at_us)

    def _discard_deleted_consumers(
        self, poll: Snapshot, pending_by_stream: Mapping[str, _PendingCount]
    ) -> None:
        """Discard the consumers that a complete list of their stream does not name."""
        listed_streams = poll.streams.name if poll.consumers_complete else poll.swept_streams
        changed_streams = [
            stream
            for stream in listed_streams
            if len(self._consumers_by_stream.get(stream, ()))
            > pending_by_stream.get(stream, _PendingCount()).consumers_count
        ]
        if not changed_streams:
            return
        columns = poll.consumers
        existing_keys = {
            *zip(columns.stream, columns.name, strict=True), *poll.unreachable_consumers
        }  # fmt: skip
        for stream in changed_streams:
            self._consumers_by_stream[stream] = {
                name: consumer
                for name, consumer in self._consumers_by_stream[stream].items()
                if (stream, name) in existing_keys
            }

    def _find_stream_requests(
        self, poll: Snapshot, row: int, config: StreamConfiguration, pending_count: _PendingCount
    ) -> Iterator[CountRequest]:
        streams = poll.streams
        if not streams.stored_msgs[row]:
            return
        all_subjects_request = self._make_request(config, _ALL_SUBJECTS)
        if config.retention == "workqueue":
            if self._has_unconsumed_msgs(poll, row, *pending_count):
                yield all_subjects_request
        elif config.kind == "object":
            yield self._make_request(config, f"$O.{config.name.removeprefix('OBJ_')}.>")
        elif config.max_msgs_per_subject and _is_option_on(config, "discard_new_per_subject"):
            yield all_subjects_request

    def _has_unconsumed_msgs(
        self, poll: Snapshot, row: int, consumers_count: int, pending_msgs: int
    ) -> bool:
        """Return whether a work queue had messages without consumer in three successive polls."""
        streams, name = poll.streams, poll.streams.name[row]
        if consumers_count != streams.consumers_count[row]:
            # Not every poll lists the consumers of every stream.
            return False
        created_us, last_seq = streams.created_at_us[row], streams.last_seq[row]
        previous_state = self._work_queue_states.get(name)
        if previous_state is None or previous_state.created_at_us != created_us:
            self._work_queue_states[name] = _WorkQueueState(created_us, last_seq, 0)
            return False
        unconsumed_msgs = streams.stored_msgs[row] - pending_msgs
        unconsumed_polls_count = (
            previous_state.unconsumed_polls_count + 1
            if unconsumed_msgs > last_seq - previous_state.last_seq
            else 0
        )
        self._work_queue_states[name] = _WorkQueueState(
            created_us, last_seq, unconsumed_polls_count
        )
        return unconsumed_polls_count >= MIN_UNCONSUMED_POLLS_COUNT

    def _find_consumer_requests(
        self, poll: Snapshot, last_at_us: Mapping[str, int | None]
    ) -> Iterator[CountRequest]:
        """Yield counts for the filters of consumers to which nothing was ever delivered."""
        consumers = poll.consumers
        rows = zip(
            consumers.stream, consumers.name, consumers.created_at_us,
            consumers.delivered_consumer_seq, consumers.pending_msgs, strict=True,
        )  # fmt: skip
        for stream, name, created_us, delivered_seq, pending in rows:
            if (
                delivered_seq
                or pending
                or poll.taken_at_us - created_us < _MAX_NEW_CONSUMER_AGE_US
            ):
                continue
            config = self._streams.get(stream)
            consumer = self._consumers_by_stream.get(stream, {}).get(name)
            last_stored_us = last_at_us.get(stream)
            if config is None or consumer is None or config.retention != "limits":
                continue
            if last_stored_us is not None and last_stored_us > created_us:
                for subject in consumer.filter_subjects[:_MAX_COUNTED_FILTERS]:
                    yield self._make_request(config, subject)

    @staticmethod
    def _make_request(config: StreamConfiguration, filter_subject: str) -> CountRequest:
        allows_schedules = _is_option_on(config, "allow_msg_schedules")
        return CountRequest(config.name, config.created_at_us, filter_subject, allows_schedules)


def find_next_due(
    count_requests: Iterable[CountRequest],
    counted_at_s: Mapping[CountRequest, float],
    small_streams: Set[str],
    now_s: float,
) -> CountRequest | None:
    """Return the most overdue count; None if none is due.

    `counted_at_s` has the times of the counts within the last minute; `small_streams` are streams
    with few subjects, which are counted more often.
    """
    due_requests = [
        request
        for request in count_requests
        if request not in counted_at_s
        or (
            request.stream in small_streams
            and counted_at_s[request] < now_s - SMALL_STREAM_RECOUNT_S
        )
    ]
    return min(due_requests, key=lambda request: counted_at_s.get(request, 0.0), default=None)


class SubjectCounter:
    """Counts the messages of streams by subject, one count per poll."""

    def __init__(self, api: PollingApi, availability: RequestAvailability, sink: Sink) -> None:
        self._api, self._availability, self._sink = api, availability, sink
        self._planner = CountPlanner()
        self._counted_at_s: OrderedDict[CountRequest, float] = OrderedDict()
        """Count within the last minute → its time, the oldest first."""

    async def count_due_subjects(
        self, poll: Snapshot, configurations: Configured | None, allowance: PollAllowance
    ) -> None:
        """Do the most overdue count that a poll requires, if the allowance permits.

        Raises only ConnectionLost.
        """
        now_s = steady_s()
        while (
            self._counted_at_s
            and next(iter(self._counted_at_s.values())) < now_s - RECOUNT_INTERVAL_S
        ):
            self._counted_at_s.popitem(last=False)
        small_streams = {
            name
            for name, count in zip(poll.streams.name, poll.streams.subjects_count, strict=True)
            if count <= _FEW_SUBJECTS_COUNT
        }
        due_request = find_next_due(
            self._planner.find_requests(poll, configurations),
            self._counted_at_s,
            small_streams,
            now_s,
        )
        if (
            due_request is None
            or not allowance.has_room_for_request
            or not self._availability.may_request("STREAM.INFO")
        ):
            return
        self._counted_at_s[due_request] = now_s
        self._counted_at_s.move_to_end(due_request)
        try:
            self._sink.add(await self._request_count(due_request))
        except RequestFailed:
            # It is requested again in a minute, and the next poll reports what is wrong.
            return

    async def _request_count(self, due_request: CountRequest) -> SubjectsCounted:
        body = {"subjects_filter": due_request.filter_subject}
        verb = f"STREAM.INFO.{due_request.stream}"
        reply = await self._api.request_timed(verb, body, timeout_s=_TIMEOUT_S)
        with raise_unreadable(verb):
            counts = _INFO.decode(reply.data).state.subjects or {}
        largest_counts = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[
            :_REPORTED_SUBJECTS_COUNT
        ]
        return SubjectsCounted(
            at_us=time.time_ns() // 1000,
            stream=due_request.stream,
            created_at_us=due_request.created_at_us,
            filter_subject=due_request.filter_subject,
            msgs_by_subject=dict(largest_counts),
            subjects_count=len(counts),
            stored_msgs=sum(counts.values()),
            scheduled_subjects=tuple(
                [
                    subject
                    for subject, _ in largest_counts[:_MAX_CHECKED_SCHEDULES]
                    if due_request.allows_schedules
                    and await self._is_schedule(due_request.stream, subject)
                ]
            ),
        )

    async def _is_schedule(self, stream: str, subject: str) -> bool:
        """Return whether the last message of a subject is a schedule."""
        verb = f"STREAM.MSG.GET.{stream}"
        try:
            reply = await self._api.request_timed(
                verb, {"last_by_subj": subject}, timeout_s=_TIMEOUT_S
            )
        except NotFound:
            return False
        with raise_unreadable(verb):
            stored_message = _MESSAGE_REPLY_DECODER.decode(reply.data).message
            return _SCHEDULE_HEADER in base64.b64decode(stored_message.hdrs)
