"""When the next message of a consumer was stored: how far it lags, as time."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from natstui.errors import NotFound
from natstui.jetstream.decode_cluster import reading
from natstui.jetstream.decode_consumer import ConsumerRow
from natstui.jetstream.decode_stream import StreamRow
from natstui.jetstream.decode_time import time_or_never_us, time_us
from natstui.jetstream.metered import MeteredApi

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
        told = _FILTERS.decode(row.config)
    return told.filter_subjects or ((told.filter_subject,) if told.filter_subject else ())


def known_without_asking(consumer: ConsumerRow, stream: StreamRow) -> int | None:
    """Return the time when the stream's own state tells it: at its head, or at its end."""
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

    async def ask_us(self, api: MeteredApi, consumer: ConsumerRow) -> int | None:
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
