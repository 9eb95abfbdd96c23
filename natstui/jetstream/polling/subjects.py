"""The part of a poll that counts messages by subject, if a finding depends on it.

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
from natstui.jetstream.connection.replies import reading
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.budget.allowance import Allowance
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.evidence import SubjectsCounted
from natstui.model.records.record import Configured

MOST_SUBJECTS = 10_000
"""Limit of subjects of a stream whose messages are counted: the reply has them all."""
AGAIN_S = 60.0
SOON_S = 15.0
"""Interval of counts of a stream with few subjects: a reply is small, and short problems
are seen.
"""
_FEW_SUBJECTS = 1_000
FEWEST_POLLS = 3
"""Number of polls in which messages must have no consumer: replies are not of one moment."""
_KEPT_SUBJECTS = 100
_SCHEDULES_COUNT = 20
_MOST_FILTERS = 5
_YOUNG_US = 20_000_000
_TIMEOUT_S = 2.0
_ALL = ">"
_SCHEDULE = b"\nNats-Schedule:"


class _State(msgspec.Struct):
    subjects: dict[str, int] | None = None


class _Info(msgspec.Struct):
    state: _State


class _Message(msgspec.Struct):
    hdrs: str = ""


class _Stored(msgspec.Struct):
    message: _Message


_INFO = decoder_of(_Info)
_STORED = decoder_of(_Stored)


class Question(NamedTuple):
    """A count to do: stream and filter."""

    stream: str
    created_at_us: int
    filter_subject: str
    is_scheduled: bool
    """Whether the stream may have schedules, which stay there on purpose."""


def _is_set(config: StreamConfiguration, name: str) -> bool:
    """Return whether a switch of a stream is on; most configurations do not name it."""
    return f'"{name}"' in config.config_json and bool(json.loads(config.config_json).get(name))


def _owned(poll: Snapshot) -> dict[str, tuple[int, int]]:
    """Return stream → number of its consumers, and of the messages pending for them."""
    consumers = poll.consumers
    pending_by_stream: dict[str, tuple[int, int]] = {}
    rows = zip(
        consumers.stream, consumers.pending_msgs, consumers.ack_pending_msgs, strict=True
    )  # fmt: skip
    for stream, pending, ack_pending in rows:
        count, msgs = pending_by_stream.get(stream, (0, 0))
        pending_by_stream[stream] = count + 1, msgs + pending + ack_pending
    return pending_by_stream


class OpenSubjects:
    """Determines the streams whose subjects must be counted, from poll to poll."""

    def __init__(self) -> None:
        self._streams: dict[str, StreamConfiguration] = {}
        self._consumers: dict[tuple[str, str], ConsumerConfiguration] = {}
        self._left_over: dict[str, tuple[int, int, int]] = {}
        """Work queue → creation time, last sequence, and number of successive polls in which
        messages had no consumer.
        """

    def wanted(self, poll: Snapshot, configurations: Configured | None) -> Iterator[Question]:
        """Yield the counts that a poll calls for, in no order."""
        if configurations is not None:
            self._streams.update({stream.name: stream for stream in configurations.streams})
            self._consumers.update(
                {
                    (consumer.stream, consumer.name): consumer
                    for consumer in configurations.consumers
                }
            )
        names = poll.streams.name
        if poll.streams_complete and len(self._streams) > len(names):
            existing_names = {*names, *poll.unreachable_streams}
            self._streams = {
                name: configuration
                for name, configuration in self._streams.items()
                if name in existing_names
            }
            self._consumers = {
                n: configuration
                for n, configuration in self._consumers.items()
                if n[0] in existing_names
            }
        last_at_us = dict(zip(names, poll.streams.last_at_us, strict=True))
        pending = _owned(poll)
        for row, name in enumerate(names):
            config = self._streams.get(name)
            if config is not None and poll.streams.subjects_count[row] <= MOST_SUBJECTS:
                yield from self._of_stream(poll, row, config, pending.get(name, (0, 0)))
        yield from self._of_consumers(poll, last_at_us)

    def _of_stream(
        self, poll: Snapshot, row: int, config: StreamConfiguration, pending: tuple[int, int]
    ) -> Iterator[Question]:
        streams = poll.streams
        if not streams.stored_msgs[row]:
            return
        all_subjects = self._question(config, _ALL)
        if config.retention == "workqueue":
            if self._is_left_over(poll, row, *pending):
                yield all_subjects
        elif config.kind == "object":
            yield self._question(config, f"$O.{config.name.removeprefix('OBJ_')}.>")
        elif config.max_msgs_per_subject and _is_set(config, "discard_new_per_subject"):
            yield all_subjects

    def _is_left_over(
        self, poll: Snapshot, row: int, consumers_count: int, owned_msgs: int
    ) -> bool:
        """Return whether a work queue has messages without a consumer in enough successive
        polls.
        """
        streams, name = poll.streams, poll.streams.name[row]
        if consumers_count != streams.consumers_count[row]:
            # Not every poll lists the consumers of every stream.
            return False
        created_us, last_seq = streams.created_at_us[row], streams.last_seq[row]
        previous = self._left_over.get(name)
        if previous is None or previous[0] != created_us:
            self._left_over[name] = created_us, last_seq, 0
            return False
        left_msgs = streams.stored_msgs[row] - owned_msgs
        polls_count = previous[2] + 1 if left_msgs > last_seq - previous[1] else 0
        self._left_over[name] = created_us, last_seq, polls_count
        return polls_count >= FEWEST_POLLS

    def _of_consumers(
        self, poll: Snapshot, last_at_us: Mapping[str, int | None]
    ) -> Iterator[Question]:
        """Yield the filters of consumers to which nothing was ever delivered."""
        consumers = poll.consumers
        rows = zip(
            consumers.stream, consumers.name, consumers.created_at_us,
            consumers.delivered_consumer_seq, consumers.pending_msgs, strict=True,
        )  # fmt: skip
        for stream, name, created_us, delivered_seq, pending in rows:
            if delivered_seq or pending or poll.taken_at_us - created_us < _YOUNG_US:
                continue
            config, consumer = self._streams.get(stream), self._consumers.get((stream, name))
            stored_us = last_at_us.get(stream)
            if config is None or consumer is None or config.retention != "limits":
                continue
            if stored_us is not None and stored_us > created_us:
                for subject in consumer.filter_subjects[:_MOST_FILTERS]:
                    yield self._question(config, subject)

    @staticmethod
    def _question(config: StreamConfiguration, filter_subject: str) -> Question:
        is_scheduled = _is_set(config, "allow_msg_schedules")
        return Question(config.name, config.created_at_us, filter_subject, is_scheduled)


def next_due(
    candidates: Iterable[Question],
    counted_s: Mapping[Question, float],
    small_streams: Set[str],
    now_s: float,
) -> Question | None:
    """Return the next count, the least recent one; None if none is due.

    `counted_s` are the counts within the last minute, `small_streams` those with few subjects,
    which are counted again sooner.
    """
    due_questions = [
        question
        for question in candidates
        if question not in counted_s
        or (question.stream in small_streams and counted_s[question] < now_s - SOON_S)
    ]
    return min(due_questions, key=lambda question: counted_s.get(question, 0.0), default=None)


class SubjectCounting:
    """Counts messages by subject, the least recent count first."""

    def __init__(self, api: PollingApi, availability: Availability, sink: Sink) -> None:
        self._api, self._availability, self._sink = api, availability, sink
        self._open = OpenSubjects()
        self._counted_s: OrderedDict[Question, float] = OrderedDict()
        """Counts within the last minute → their time, oldest first."""

    async def count(
        self, poll: Snapshot, configurations: Configured | None, allowance: Allowance
    ) -> None:
        """Do one of the counts that a poll calls for, if the allowance permits; raises ServerGone
        only.
        """
        now_s = steady_s()
        while self._counted_s and next(iter(self._counted_s.values())) < now_s - AGAIN_S:
            self._counted_s.popitem(last=False)
        small_streams = {
            name
            for name, count in zip(poll.streams.name, poll.streams.subjects_count, strict=True)
            if count <= _FEW_SUBJECTS
        }
        due_question = next_due(
            self._open.wanted(poll, configurations), self._counted_s, small_streams, now_s
        )
        if (
            due_question is None
            or not allowance.has_room
            or not self._availability.may_ask("STREAM.INFO")
        ):
            return
        self._counted_s[due_question] = now_s
        self._counted_s.move_to_end(due_question)
        try:
            self._sink.add(await self._answer(due_question))
        except RequestFailed:
            # It is asked for again in a minute, and the next poll reports what is wrong.
            return

    async def _answer(self, due_question: Question) -> SubjectsCounted:
        body = {"subjects_filter": due_question.filter_subject}
        verb = f"STREAM.INFO.{due_question.stream}"
        reply = await self._api.answer(verb, body, timeout_s=_TIMEOUT_S)
        with reading(verb):
            counts = _INFO.decode(reply.data).state.subjects or {}
        largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_KEPT_SUBJECTS]
        return SubjectsCounted(
            at_us=time.time_ns() // 1000,
            stream=due_question.stream,
            created_at_us=due_question.created_at_us,
            filter_subject=due_question.filter_subject,
            msgs_by_subject=dict(largest),
            subjects_count=len(counts),
            stored_msgs=sum(counts.values()),
            scheduled_subjects=tuple(
                [
                    subject
                    for subject, _ in largest[:_SCHEDULES_COUNT]
                    if due_question.is_scheduled
                    and await self._is_schedule(due_question.stream, subject)
                ]
            ),
        )

    async def _is_schedule(self, stream: str, subject: str) -> bool:
        """Return whether the last message of a subject is a schedule."""
        verb = f"STREAM.MSG.GET.{stream}"
        try:
            reply = await self._api.answer(verb, {"last_by_subj": subject}, timeout_s=_TIMEOUT_S)
        except NotFound:
            return False
        with reading(verb):
            stored_message = _STORED.decode(reply.data).message
            return _SCHEDULE in base64.b64decode(stored_message.hdrs)
