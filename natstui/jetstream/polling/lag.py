"""The part of a poll that finds when the next message of a consumer was stored: its lag."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from natstui.errors import NotFound, PermissionDenied, RequestFailed
from natstui.jetstream.connection.replies import reading
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.polling.availability import Availability
from natstui.jetstream.polling.budget.allowance import Allowance
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.jetstream.polling.decode.consumers import ConsumerRow
from natstui.jetstream.polling.decode.streams import StreamRow

_TRUST_S = 30.0
_TIMEOUT_S = 2.0
_LARGE_BYTES = 256 * 1024
_MOST_FILTERS_COUNT = 4


class _Stored(msgspec.Struct):
    seq: int
    time: str


class _Reply(msgspec.Struct):
    message: _Stored


class _Filters(msgspec.Struct):
    filter_subject: str = ""
    filter_subjects: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    created: str
    after_seq: int
    seq: int
    at_us: int
    asked_mono_s: float


_REPLY = msgspec.json.Decoder(_Reply)
_FILTERS = msgspec.json.Decoder(_Filters)


def _filters(row: ConsumerRow) -> tuple[str, ...]:
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
    """Finds the next message of consumers in view, and remembers it while it stays the next."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], _Answer] = {}

    def remembered_us(self, consumer: ConsumerRow, stream: StreamRow) -> int | None:
        """Return the time without asking; None when it must be asked for."""
        known_us = known_without_asking(consumer, stream)
        answer = self._answers.get((consumer.stream_name, consumer.name))
        if known_us is not None or answer is None:
            return known_us
        same = (answer.created, answer.after_seq) == (
            consumer.created,
            consumer.delivered.stream_seq,
        )
        fresh = time.monotonic() - answer.asked_mono_s < _TRUST_S
        return answer.at_us if same and fresh and answer.seq >= stream.state.first_seq else None

    def worth_asking(self, consumer: ConsumerRow, stream: StreamRow) -> bool:
        """Tell whether an answer is cheap: the reply carries the message's whole payload."""
        state = stream.state
        small = state.bytes <= _LARGE_BYTES * max(1, state.messages)
        return small and len(_filters(consumer)) <= _MOST_FILTERS_COUNT

    async def ask_us(self, api: PollingApi, consumer: ConsumerRow) -> int | None:
        """Ask, one request per filter; None when there is none. Raises what a request raises."""
        found: list[_Stored] = []
        for subject in _filters(consumer) or (">",):
            body = {"seq": consumer.delivered.stream_seq + 1, "next_by_subj": subject}
            verb = f"STREAM.MSG.GET.{consumer.stream_name}"
            try:
                reply, _ = await api.ask(verb, body, timeout_s=_TIMEOUT_S)
            except NotFound:
                continue
            with reading("STREAM.MSG.GET"):
                found.append(_REPLY.decode(reply).message)
        if not found:
            return None
        first = min(found, key=lambda stored: stored.seq)
        with reading("STREAM.MSG.GET"):
            at_us = time_us(first.time)
        self._answers[consumer.stream_name, consumer.name] = _Answer(
            consumer.created, consumer.delivered.stream_seq, first.seq, at_us, time.monotonic()
        )
        return at_us

    def keep(self, consumers: set[tuple[str, str]]) -> None:
        """Forget all others."""
        for gone in self._answers.keys() - consumers:
            del self._answers[gone]


_NEXT_COUNT = 4
_NEXT = "STREAM.MSG.GET"


class NextReading:
    """Fills in when the next message of each consumer was stored, where that can be known."""

    def __init__(self, api: PollingApi, availability: Availability) -> None:
        self._api = api
        self._availability = availability
        self._next = NextMessages()

    async def find(
        self,
        allowed: Allowance,
        in_view: tuple[tuple[str, str], ...],
        consumers: Mapping[tuple[str, str], ConsumerRow],
        streams: Mapping[str, StreamRow],
    ) -> None:
        """Fill in every row that is known, and ask for a few in view; raises ServerGone only."""
        visible = set(in_view)
        self._next.keep(visible)
        asked_count = 0
        for key, row in consumers.items():
            stream = streams.get(row.stream_name)
            if stream is None or not row.num_pending:
                continue
            row.next_at_us = self._next.remembered_us(row, stream)
            worth = row.next_at_us is None and key in visible and asked_count < _NEXT_COUNT
            if worth and allowed.has_room and self._next.worth_asking(row, stream):
                asked_count += 1
                row.next_at_us = await self._ask(row)

    async def _ask(self, row: ConsumerRow) -> int | None:
        of_stream = f"{_NEXT}.{row.stream_name}"
        if not (self._availability.may_ask(_NEXT) and self._availability.may_ask(of_stream)):
            return None
        try:
            at_us = await self._next.ask_us(self._api, row)
        except PermissionDenied as error:
            self._availability.failed(_NEXT, error)
            return None
        except RequestFailed as error:
            self._availability.failed(of_stream, error)
            return None
        self._availability.worked(_NEXT)
        self._availability.worked(of_stream)
        return at_us
