"""Messages in flight to streams: sent again after a lost connection, and stored once."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.clean import clean_line
from natstui.errors import (
    JetStreamUnavailable,
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ReplyUnreadable,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import Pairs
from natstui.jetstream.connection.storing import (
    MESSAGE_ID,
    check_ack,
    check_ack_domain,
    gone_back_text,
    has_gone_back,
    has_stream,
    newest_of,
    no_stream,
    read_ack,
)
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.messages.copying.account import Account, has_seq
from natstui.jetstream.messages.copying.selection import after_outages
from natstui.jetstream.messages.decode import from_api
from natstui.model.assets.fields import Config, number_at, text_at
from natstui.model.assets.limits_loss import LimitedStream
from natstui.model.records.messages import PubAck
from natstui.units import counted, duration_text

MOST_MSGS = 1_000
MOST_BYTES = 16 * 1024 * 1024
_LOOK_S = 0.5
_AGAIN_S = 0.2
_PAUSE_S = 0.2
"""Time between two acks in which a server may have been restarted."""
_LATE_S = 3.0
"""Time without an ack after which it is requested again."""
WINDOW_MARGIN = 0.8
"""Safety factor of the duplicate window: clocks and servers are not exact."""
_ELSEWHERE = 10060
_UNAVAILABLE = {10008, 10023, 10074, 10076, 10118}
"""Error codes of temporary failures: no leader, no resources, a restarting server."""


_OF_ANOTHER = (
    "another message of this copy has the same message id, and the target keeps one of them: "
    "--msg-id made copies both"
)
_OTHER_THERE = (
    "the target has another message with the same message id: --msg-id made copies this one too"
)


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _Ack(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    domain: str | None = None
    error: _Error | None = None


_DOUBTS = (ReplyUnreadable, OutcomeUnknown)


@dataclass(slots=True)
class Outgoing:
    """A message to send; `seq` is its position in the source."""

    seq: int
    subject: str
    payload: bytes
    headers: tuple[tuple[str, str], ...]
    has_own_id: bool = False
    """Whether its id is that of its publisher, who may have given it to others."""
    sent_count: int = 0
    first_sent_s: float = 0.0
    sent_s: float = 0.0

    @property
    def message_id(self) -> str | None:
        """Return the id with which it is sent."""
        return next((text for name, text in self.headers if name.lower() == MESSAGE_ID), None)


class _Acked(NamedTuple):
    """The newest message that a stream has acknowledged."""

    seq: int
    message_id: str | None
    acked_s: float


async def created_at(client: Client, stream: str) -> int | None:
    """Return when a stream was created, in UTC µs; None when there is none."""
    try:
        return time_us(json.loads(await client.request(f"STREAM.INFO.{stream}"))["created"])
    except NotFound:
        return None


def keeps_all(config: Config, state: Config) -> bool:
    """Return whether no limit, consumer or other message of a stream deletes messages."""
    return not (
        LimitedStream(config, state).drops_messages
        or number_at(config, "max_age")
        or config.get("allow_msg_ttl") is True
        or config.get("allow_rollup_hdrs") is True
        or text_at(config, "retention") not in ("", "limits")
    )


def _removes_by_itself(config: Config, state: Config) -> bool:
    """Return whether a stream may have deleted by itself what it stored within its duplicate
    window.
    """
    return (
        text_at(config, "retention") not in ("", "limits")
        or number_at(config, "max_msgs_per_subject") > 0
        or config.get("allow_msg_ttl") is True
        or config.get("allow_rollup_hdrs") is True
        or 0 < number_at(config, "max_msgs") <= number_at(state, "messages")
        or 0 < number_at(config, "max_bytes") <= 2 * number_at(state, "bytes")
        or 0 < number_at(config, "max_age") <= number_at(config, "duplicate_window")
    )


def _header_bytes(headers: tuple[tuple[str, str], ...]) -> int:
    """Return the encoded length of headers."""
    if not headers:
        return 0
    lines = (f"{name}: {text}\r\n".encode("utf-8", "surrogateescape") for name, text in headers)
    return 12 + sum(map(len, lines))


class Window:
    """Limits the messages that wait for an acknowledgement; use it with `async with`."""

    def __init__(
        self, client: Client, account: Account, on_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        self._client = client
        self._account = account
        self._on_wait = on_wait
        self._waiting: dict[str, Outgoing] = {}
        self._bytes = 0
        self._number = 0
        self._settled = asyncio.Event()
        self._reconnects_count = client.nc.stats["reconnects"]
        self._subscription: Subscription | None = None
        self._inbox = client.nc.new_inbox()
        self._is_unanswered = False
        """Whether nobody was there to store a message."""
        self._doubt: OutcomeUnknown | None = None
        """Why nobody knows whether a message was stored that was replied to."""
        self._remembering_s: dict[str, float] = {}
        """Stream → its duplicate window."""
        self._newest: dict[str, _Acked] = {}
        """Stream → what it has acknowledged last."""
        self._before_pause: deque[tuple[str, _Acked]] = deque()
        """What streams had acknowledged before each pause: they may have gone back since."""
        self._had: dict[str, tuple[str, int]] = {}
        """Messages that are duplicates according to a stream: it may have deleted them since."""

    async def __aenter__(self) -> Self:
        self._subscription = await self._client.nc.subscribe(
            f"{self._inbox}.*", cb=self._on_answer, pending_msgs_limit=0, pending_bytes_limit=0
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._subscription is not None and self._client.link.state == "connected":
            await self._subscription.unsubscribe()

    @property
    def first_open(self) -> Outgoing | None:
        """Return the first message without a result, None without any."""
        return next(iter(self._waiting.values()), None)

    async def send(self, outgoing: Outgoing) -> None:
        """Send a message as soon as there is room, and return without an ack.

        The first one is acknowledged before: errors that concern all are raised then. Raises
        OutcomeUnknown when it cannot be sent again safely.
        """
        await self._catch_up()
        size_bytes = len(outgoing.payload) + _header_bytes(outgoing.headers)
        if size_bytes > (most_bytes := self._client.nc.max_payload):
            # The server would close the connection, each time that it is sent.
            self._account.read(outgoing.seq, len(outgoing.payload))
            message_text = f"message {outgoing.seq} has {size_bytes:,} bytes with its headers"
            self._account.refuse(
                outgoing.seq, f"{message_text}, but the server accepts {most_bytes:,}"
            )
            self._account.done_seq = self._settled_seq
            return
        while len(self._waiting) >= MOST_MSGS or self._bytes + len(outgoing.payload) > MOST_BYTES:
            if not self._waiting:
                break
            await self._progress()
        self._number += 1
        token = str(self._number)
        self._waiting[token] = outgoing
        self._bytes += len(outgoing.payload)
        self._account.read(outgoing.seq, len(outgoing.payload))
        if self._number == 1:
            await self._first(token, outgoing)
            await self._learn()
        else:
            await self._publish(token, outgoing)

    async def _catch_up(self) -> None:
        """Send open messages again, in order, before a new one is sent."""
        # At once, so that a stream that is recreated meanwhile is noticed.
        await self._learn()
        await self._check_before_pause()
        if self._doubt is not None:
            raise self._doubt
        nc = self._client.nc
        while first := self.first_open:
            is_late = time.monotonic() - first.sent_s > _LATE_S
            has_reconnected = nc.stats["reconnects"] != self._reconnects_count
            if nc.is_connected and not has_reconnected and not is_late:
                return
            await self._progress()

    async def drain(self) -> None:
        """Wait until every message is acknowledged; raises OutcomeUnknown and RequestFailed.

        A stream that was recreated meanwhile has lost what it stored before.
        """
        while self._waiting:
            await self._progress()
        await self._learn()
        for stream, created_at_us in self._account.target_created_at_us.items():
            if await after_outages(partial(created_at, self._client, stream)) != created_at_us:
                raise RequestFailed(
                    f"target stream {stream} was deleted while messages were copied to it: the "
                    "copies stored before are lost"
                )
        # What a stream has acknowledged last is lost first.
        self._before_pause.extend(self._newest.items())
        await self._check_before_pause()
        for stream, newest in self._account.target_newest.items():
            if await after_outages(partial(self._has_gone_back, stream, newest)):
                raise RequestFailed(
                    f"target stream {gone_back_text(stream)}: the copies stored before are lost"
                )

    async def _has_gone_back(self, stream: str, newest: tuple[int, int]) -> bool:
        info = json.loads(await self._client.request(f"STREAM.INFO.{stream}"))
        return await has_gone_back(self._client, stream, info["state"], *newest)

    async def _check_before_pause(self) -> None:
        """Raise OutcomeUnknown if a stream has another message where it acknowledged ours, or has
        not got that far.
        """
        while self._before_pause:
            stream, acked = self._before_pause[0]
            try:
                is_there = await self._has(stream, acked)
            except (RequestTimedOut, ServerGone, JetStreamUnavailable):
                return  # asked again
            self._before_pause.popleft()
            if not is_there:
                raise OutcomeUnknown(
                    f"target stream {gone_back_text(stream)}: the copies stored before are lost"
                )

    async def _has(self, stream: str, acked: _Acked) -> bool:
        """Return whether a stream has a message that it acknowledged, or had it: one that was
        deleted since, or may not be read, counts.
        """
        try:
            reply = await self._client.request(f"STREAM.MSG.GET.{stream}", {"seq": acked.seq})
        except NotFound:
            with suppress(PermissionDenied, NotFound):
                info = json.loads(await self._client.request(f"STREAM.INFO.{stream}"))
                return number_at(info["state"], "last_seq") >= acked.seq
            return True
        except PermissionDenied:
            return True
        headers = from_api(reply, None).headers
        return acked.message_id in [text for name, text in headers if name.lower() == MESSAGE_ID]

    def give_up(self) -> None:
        """Count messages in flight as unknown."""
        self._account.unknown_msgs = len(self._waiting)

    async def _first(self, token: str, outgoing: Outgoing) -> None:
        try:
            with suppress(PermissionDenied):
                # One of another domain would store it all the same.
                if await has_stream(self._client, outgoing.subject) is False:
                    raise no_stream(outgoing.subject)
            await self._ask(token, outgoing)
        except (RequestTimedOut, ServerGone, *_DOUBTS):
            self.give_up()
            raise
        except RequestFailed as error:
            everywhere = error.code == 503 or error.err_code == _ELSEWHERE
            if not everywhere and not isinstance(error, PermissionDenied):
                self._refuse(token, str(error))
                return
            self._forget(token)
            self._account.read_msgs = self._account.payload_bytes = 0
            if error.err_code != _ELSEWHERE:
                raise
            elsewhere = f'another stream stores "{outgoing.subject}": --map changes subjects'
            raise RequestFailed(elsewhere, code=400, err_code=_ELSEWHERE) from error

    def _forget(self, token: str) -> None:
        self._bytes -= len(self._waiting.pop(token).payload)
        self._had.pop(token, None)

    async def _publish(self, token: str, outgoing: Outgoing) -> None:
        self._mark(outgoing)
        try:
            await self._client.publish(
                outgoing.subject, outgoing.payload, reply=f"{self._inbox}.{token}",
                headers=Pairs(outgoing.headers),
            )  # fmt: skip
        except ServerGone:
            return  # it is sent again when there is a connection
        except RequestFailed as error:
            self._refuse(token, str(error))

    def _mark(self, outgoing: Outgoing) -> None:
        now_s = time.monotonic()
        outgoing.sent_count += 1
        outgoing.first_sent_s = outgoing.first_sent_s or now_s
        outgoing.sent_s = now_s

    async def _on_answer(self, msg: Msg) -> None:
        token = msg.subject.rpartition(".")[2]
        if (outgoing := self._waiting.get(token)) is None:
            return  # the second answer to what was sent twice
        if not msg.data:
            self._is_unanswered = True
            outgoing.sent_s = (
                time.monotonic() - _LATE_S + _AGAIN_S
            )  # nobody was there: ask soon again
            return
        try:
            self._settle(token, outgoing, msg.data)
        except _DOUBTS as error:
            # It may be stored: neither counted as stored nor as refused, which sends it again.
            self._doubt = OutcomeUnknown(str(error))
            self._settled.set()
        except RequestFailed as error:
            self._refuse(token, str(error))

    def _settle(self, token: str, outgoing: Outgoing, data: bytes) -> None:
        """Count an ack; after a temporary failure the message stays open. Raises RequestFailed."""
        ack = read_ack(outgoing.subject, data, _Ack)
        if (ack_error := ack.error) is not None:
            if ack_error.err_code in _UNAVAILABLE:
                outgoing.sent_s = time.monotonic() - _LATE_S + _AGAIN_S
                return
            number = ack_error.err_code or ack_error.code
            raise RequestFailed(
                f"{clean_line(ack_error.description)} ({number})", code=ack_error.code,
                err_code=ack_error.err_code,
            )  # fmt: skip
        check_ack(PubAck(ack.stream, ack.seq, ack.duplicate), outgoing.subject, outgoing.headers)
        check_ack_domain(self._client, outgoing.subject, ack.stream, ack.domain)
        self._remembering_s.setdefault(ack.stream, -1.0)
        if ack.duplicate:
            stored_ranges = self._account.stored_ranges.get(ack.stream, [])
            is_first = outgoing.has_own_id and outgoing.sent_count == 1
            if is_first and has_seq(stored_ranges, ack.seq):
                raise RequestFailed(_OF_ANOTHER)
            self._had.setdefault(token, (ack.stream, ack.seq))
            self._settled.set()
        elif token not in self._had:
            if has_seq(self._account.stored_ranges.get(ack.stream, []), ack.seq):
                raise OutcomeUnknown(f"target stream {gone_back_text(ack.stream)}")
            acked = _Acked(ack.seq, outgoing.message_id, time.monotonic())
            before = self._newest.get(ack.stream, acked)
            if acked.acked_s - before.acked_s > _PAUSE_S:
                self._before_pause.append((ack.stream, before))
            self._newest[ack.stream] = acked
            self._count_stored(outgoing, ack.stream, ack.seq)
            self._done(token)

    def _count_stored(self, outgoing: Outgoing, stream: str, seq: int) -> None:
        self._account.store(stream, seq, outgoing.subject)
        self._account.confirmed_msgs += outgoing.sent_count > 1

    async def _check_had(self) -> None:
        """Count existing duplicates, and refuse those that their stream has deleted since."""
        by_stream: dict[str, dict[str, int]] = {}
        for token, (stream, seq) in self._had.items():
            by_stream.setdefault(stream, {})[token] = seq
        for stream, seqs in by_stream.items():
            try:
                removed_seqs = await self._removed(stream, set(seqs.values()))
                others = await self._others(stream, seqs)
            except (RequestTimedOut, ServerGone):
                continue  # asked again
            window_text = duration_text(max(0.0, self._remembering_s[stream]))
            reason = (
                f"{stream} has removed what it stored of it before, and takes it again only after "
                f"{window_text}, its duplicate window"
            )
            for token, seq in seqs.items():
                outgoing = self._waiting.get(token)
                if outgoing is None:
                    continue  # refused meanwhile
                if seq in removed_seqs or token in others:
                    self._refuse(token, reason if seq in removed_seqs else _OTHER_THERE)
                    continue
                if outgoing.sent_count == 1:
                    self._account.had(stream, seq)
                else:
                    self._count_stored(outgoing, stream, seq)
                self._done(token)

    async def _removed(self, stream: str, seqs: set[int]) -> set[int]:
        """Return which messages somebody deleted from a stream; none if it deletes by itself."""
        info = json.loads(await self._client.request(f"STREAM.INFO.{stream}"))
        state = info["state"]
        if _removes_by_itself(info["config"], state):
            return set()
        removed_seqs = {seq for seq in seqs if not state["first_seq"] <= seq <= state["last_seq"]}
        if not state.get("num_deleted"):
            return removed_seqs
        for seq in sorted(seqs - removed_seqs):
            try:
                await self._client.request(f"STREAM.MSG.GET.{stream}", {"seq": seq})
            except NotFound:
                removed_seqs.add(seq)
            except PermissionDenied:
                break  # nobody can tell
        return removed_seqs

    async def _others(self, stream: str, seqs: Mapping[str, int]) -> set[str]:
        """Return the messages for which their stream has another one with the same id.

        Those whose id natstui made have it alone.
        """
        tokens = [
            token for token in seqs if token in self._waiting and self._waiting[token].has_own_id
        ]
        if not tokens:
            return set()
        config = json.loads(await self._client.request(f"STREAM.INFO.{stream}"))["config"]
        others = set[str]()
        for token in tokens:
            verb = f"STREAM.MSG.GET.{stream}"
            try:
                reply = await self._client.request(verb, {"seq": seqs[token]})
            except NotFound:
                continue
            except PermissionDenied:
                break  # nobody can tell
            stored, outgoing = from_api(reply, None), self._waiting.get(token)
            if outgoing is None:
                continue  # refused meanwhile
            is_renamed = stored.subject != outgoing.subject and not config.get("subject_transform")
            if is_renamed or base64.b64decode(stored.payload_base64) != outgoing.payload:
                others.add(token)
        return others

    def _refuse(self, token: str, reason: str) -> None:
        self._account.refuse(self._waiting[token].seq, reason)
        self._done(token)

    def _done(self, token: str) -> None:
        self._forget(token)
        self._account.done_seq = self._settled_seq
        self._settled.set()

    @property
    def _settled_seq(self) -> int:
        first = self.first_open
        return self._account.last_seq if first is None else first.seq - 1

    async def _progress(self) -> None:
        """Wait for acks; send open messages again after a lost connection or a silent server.

        Raises OutcomeUnknown for an ack that does not say what is stored.
        """
        if self._doubt is not None:
            raise self._doubt
        await self._learn()
        self._settled.clear()
        await self._check_had()
        if not self._waiting:
            return
        if self._is_unanswered and self._client.nc.is_connected:
            self._is_unanswered = False
            await self._check_stored()
        try:
            async with asyncio.timeout(_LOOK_S):
                await self._settled.wait()
        except TimeoutError:
            pass
        if not self._client.nc.is_connected:
            self._on_wait("there is no connection")
            return
        reconnects_count = self._client.nc.stats["reconnects"]
        if min(self._remembering_s.values(), default=0.0) < 0:
            return  # nothing is sent twice before it is known how long an id lasts
        if reconnects_count != self._reconnects_count:
            self._reconnects_count = reconnects_count
            await self._send_again(list(self._waiting.items()))
            return
        token, outgoing = next(iter(self._waiting.items()), ("", None))
        if outgoing is not None and time.monotonic() - outgoing.sent_s > _LATE_S:
            self._check_safe([outgoing])
            await self._ask_late(token, outgoing)
            if token not in self._waiting:
                # It answers again: a leader that was lost has taken many answers with it.
                late_s = time.monotonic() - _LATE_S
                late = [item for item in self._waiting.items() if item[1].sent_s < late_s]
                await self._send_again(late)

    async def _learn(self) -> None:
        """Request the duplicate windows of the streams."""
        for stream in [name for name, known_s in self._remembering_s.items() if known_s < 0]:
            try:
                reply = await self._client.request(f"STREAM.INFO.{stream}")
            except PermissionDenied:
                self._remembering_s[stream] = 0.0  # nothing can be sent twice
                continue
            except NatstuiError:
                continue  # asked again
            info = json.loads(reply)
            window_ns = info["config"].get("duplicate_window") or 0
            self._remembering_s[stream] = window_ns / 1e9
            self._account.target_created_at_us.setdefault(stream, time_us(info["created"]))
            self._account.target_newest.setdefault(stream, newest_of(info["state"]))

    async def _check_stored(self) -> None:
        """Raise RequestFailed when no stream stores the open messages, not even without leader."""
        first = self.first_open
        if first is None:
            return
        if await has_stream(self._client, first.subject) is False:
            raise RequestFailed(
                f'no stream stores "{first.subject}" any more: the target was deleted', code=503
            )
        self._on_wait(f'the stream of "{first.subject}" has no leader')

    def _check_safe(self, waiting: list[Outgoing]) -> None:
        """Raise OutcomeUnknown when a stream may not know the ids of all of them any more."""
        known_s = min(self._remembering_s.values(), default=0.0)
        if not waiting or time.monotonic() - waiting[0].first_sent_s <= known_s * WINDOW_MARGIN:
            return
        raise OutcomeUnknown(
            f"{counted(f'{len(self._waiting):,}', 'message')} may or may not be stored: no "
            f"reply arrived within {duration_text(known_s)}, the duplicate window"
        )

    async def _send_again(self, waiting: list[tuple[str, Outgoing]]) -> None:
        """Send unacknowledged messages again in order; an id is stored once."""
        self._check_safe([outgoing for _, outgoing in waiting if outgoing.sent_count])
        for token, outgoing in waiting:
            if token in self._waiting:
                await self._publish(token, outgoing)

    async def _ask_late(self, token: str, outgoing: Outgoing) -> None:
        """Send a message again as a request that detects denied permissions too."""
        try:
            await self._ask(token, outgoing)
        except _DOUBTS:
            raise
        except (RequestTimedOut, ServerGone):
            self._on_wait(f'no reply on "{outgoing.subject}"')
        except RequestFailed as error:
            if token in self._waiting:
                self._refuse(token, str(error))

    async def _ask(self, token: str, outgoing: Outgoing) -> None:
        """Send one message and wait for its ack; raises RequestFailed and ServerGone."""
        self._mark(outgoing)
        reply = await self._client.ask(
            outgoing.subject, outgoing.payload, headers=Pairs(outgoing.headers)
        )
        if token not in self._waiting:
            return
        if reply.data:
            self._settle(token, outgoing, reply.data)
            return
        if await has_stream(self._client, outgoing.subject) is False:
            raise no_stream(outgoing.subject)
