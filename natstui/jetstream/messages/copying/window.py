"""Sends messages to streams, again after a lost connection, so that each is stored once."""

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
    ConnectionLost,
    JetStreamUnavailable,
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ReplyUnreadable,
    RequestFailed,
    RequestTimedOut,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import Pairs
from natstui.jetstream.connection.storing import (
    MESSAGE_ID,
    check_ack,
    check_ack_domain,
    has_lost_newest,
    has_stream,
    lost_newest_text,
    make_no_stream_error,
    newest_message,
    read_ack,
)
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.messages.copying.account import Account, has_seq
from natstui.jetstream.messages.copying.selection import retry_after_outages
from natstui.jetstream.messages.decode import decode_api_reply
from natstui.model.assets.fields import Config, number_at, text_at
from natstui.model.assets.limits_loss import LimitedStream
from natstui.model.records.messages import PubAck
from natstui.units import counted, duration_text

MAX_MSGS = 1_000
MAX_BYTES = 16 * 1024 * 1024
_WAIT_INTERVAL_S = 0.5
_RETRY_S = 0.2
_PAUSE_S = 0.2
"""After such a time without an ack, the server may have been restarted."""
_RESEND_S = 3.0
"""Time without an ack after which a message is sent again."""
WINDOW_MARGIN = 0.8
"""The part of a duplicate window in which messages are sent again; clocks are not exact."""
_OTHER_STREAM_CODE = 10060
_UNAVAILABLE_CODES = {10008, 10023, 10074, 10076, 10118}
"""Error codes of temporary failures: no leader, no resources, or a server that restarts."""


_SAME_ID_TEXT = (
    "another message of this copy has the same message id, and the target keeps one of them: "
    "--msg-id made copies both"
)
_OTHER_MESSAGE_TEXT = (
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


_DOUBT_ERRORS = (ReplyUnreadable, OutcomeUnknown)


@dataclass(slots=True)
class Outgoing:
    """A message to send; `seq` is its sequence in the source."""

    seq: int
    subject: str
    payload: bytes
    headers: tuple[tuple[str, str], ...]
    has_own_id: bool = False
    """Whether its message id is the publisher's, which other messages may have, too."""
    sent_count: int = 0
    first_sent_s: float = 0.0
    sent_s: float = 0.0

    @property
    def message_id(self) -> str | None:
        """Return the message id with which it is sent; None if it has none."""
        return next((text for name, text in self.headers if name.lower() == MESSAGE_ID), None)


class _AckedMessage(NamedTuple):
    """A message that a stream has acknowledged."""

    seq: int
    message_id: str | None
    acked_s: float


async def read_creation_us(client: Client, stream: str) -> int | None:
    """Return when a stream was created, in UTC µs; None if there is no such stream."""
    try:
        return time_us(json.loads(await client.request(f"STREAM.INFO.{stream}"))["created"])
    except NotFound:
        return None


def keeps_all_messages(config: Config, state: Config) -> bool:
    """Return whether a stream deletes messages neither by limits, nor by acks, nor by roll-ups."""
    return not (
        LimitedStream(config, state).drops_messages
        or number_at(config, "max_age")
        or config.get("allow_msg_ttl") is True
        or config.get("allow_rollup_hdrs") is True
        or text_at(config, "retention") not in ("", "limits")
    )


def _may_have_deleted(config: Config, state: Config) -> bool:
    """Return whether a stream may have deleted messages by limits, acks or roll-ups that are still
    within its duplicate window.
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
    """Sends messages, of which a limited number wait for their ack; use it with `async with`.

    Each result is added to the counts of `account`. `on_wait` is called with a sentence when
    sending has to wait.
    """

    def __init__(
        self, client: Client, account: Account, on_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        self._client = client
        self._account = account
        self._on_wait = on_wait
        self._open: dict[str, Outgoing] = {}
        self._bytes = 0
        self._number = 0
        self._result_event = asyncio.Event()
        self._reconnects_count = client.nc.stats["reconnects"]
        self._subscription: Subscription | None = None
        self._inbox = client.nc.new_inbox()
        self._has_no_responder = False
        """Whether a message got no responders: no stream was there to store it."""
        self._doubt: OutcomeUnknown | None = None
        """The error if it is unknown what the ack of a message means."""
        self._window_s: dict[str, float] = {}
        """Stream → its duplicate window; -1 if it is not read yet."""
        self._newest: dict[str, _AckedMessage] = {}
        """Stream → the last message that it acknowledged."""
        self._before_pause: deque[tuple[str, _AckedMessage]] = deque()
        """The last acknowledged messages before each pause in the acks, to be checked: the stream
        may have lost its newest messages in a pause.
        """
        self._duplicates: dict[str, tuple[str, int]] = {}
        """Messages that a stream called duplicates, with their sequence there, to be checked: the
        stream may have deleted the stored message.
        """

    async def __aenter__(self) -> Self:
        self._subscription = await self._client.nc.subscribe(
            f"{self._inbox}.*", cb=self._on_reply, pending_msgs_limit=0, pending_bytes_limit=0
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._subscription is not None and self._client.link.state == "connected":
            await self._subscription.unsubscribe()

    @property
    def first_open(self) -> Outgoing | None:
        """Return the first sent message without a result; None if there is none."""
        return next(iter(self._open.values()), None)

    async def send(self, outgoing: Outgoing) -> None:
        """Send a message as soon as the limits allow it, without waiting for its ack.

        Only the first message is waited for, so that errors that concern all messages are raised
        at once. Raises OutcomeUnknown if open messages cannot be sent again safely.
        """
        await self._resend_open()
        size_bytes = len(outgoing.payload) + _header_bytes(outgoing.headers)
        if size_bytes > (max_bytes := self._client.nc.max_payload):
            # The server would close the connection because of this message.
            self._account.count_read(outgoing.seq, len(outgoing.payload))
            message_text = f"message {outgoing.seq} has {size_bytes:,} bytes with its headers"
            self._account.count_refused(
                outgoing.seq, f"{message_text}, but the server accepts {max_bytes:,}"
            )
            self._account.done_seq = self._last_done_seq
            return
        while len(self._open) >= MAX_MSGS or self._bytes + len(outgoing.payload) > MAX_BYTES:
            if not self._open:
                break
            await self._wait_for_acks()
        self._number += 1
        token = str(self._number)
        self._open[token] = outgoing
        self._bytes += len(outgoing.payload)
        self._account.count_read(outgoing.seq, len(outgoing.payload))
        if self._number == 1:
            await self._send_first(token, outgoing)
            await self._read_windows()
        else:
            await self._publish(token, outgoing)

    async def _resend_open(self) -> None:
        """Send open messages again, in order, if acks are overdue or the connection was lost."""
        # Read soon: the creation time shows whether the stream is recreated later.
        await self._read_windows()
        await self._check_before_pause()
        if self._doubt is not None:
            raise self._doubt
        nc = self._client.nc
        while first := self.first_open:
            is_overdue = time.monotonic() - first.sent_s > _RESEND_S
            has_reconnected = nc.stats["reconnects"] != self._reconnects_count
            if nc.is_connected and not has_reconnected and not is_overdue:
                return
            await self._wait_for_acks()

    async def drain(self) -> None:
        """Wait until every message has a result; raises OutcomeUnknown and RequestFailed.

        Raises RequestFailed also if a stream was recreated or lost its newest messages meanwhile.
        """
        while self._open:
            await self._wait_for_acks()
        await self._read_windows()
        for stream, created_at_us in self._account.target_created_at_us.items():
            if (
                await retry_after_outages(partial(read_creation_us, self._client, stream))
                != created_at_us
            ):
                raise RequestFailed(
                    f"target stream {stream} was deleted while messages were copied to it: the "
                    "copies stored before are lost"
                )
        # A stream that loses messages loses the newest ones first.
        self._before_pause.extend(self._newest.items())
        await self._check_before_pause()
        for stream, newest in self._account.target_newest.items():
            if await retry_after_outages(partial(self._has_lost_newest, stream, newest)):
                raise RequestFailed(
                    f"target stream {lost_newest_text(stream)}: the copies stored before are lost"
                )

    async def _has_lost_newest(self, stream: str, newest: tuple[int, int]) -> bool:
        info = json.loads(await self._client.request(f"STREAM.INFO.{stream}"))
        return await has_lost_newest(self._client, stream, info["state"], *newest)

    async def _check_before_pause(self) -> None:
        """Raise OutcomeUnknown if a stream lost a message that it acknowledged before a pause."""
        while self._before_pause:
            stream, acked = self._before_pause[0]
            try:
                has_message = await self._has_message(stream, acked)
            except (RequestTimedOut, ConnectionLost, JetStreamUnavailable):
                return  # it is checked again later
            self._before_pause.popleft()
            if not has_message:
                raise OutcomeUnknown(
                    f"target stream {lost_newest_text(stream)}: the copies stored before are lost"
                )

    async def _has_message(self, stream: str, acked: _AckedMessage) -> bool:
        """Return whether a stream has, or had, a message that it acknowledged.

        True also for a message that was deleted since, or may not be read.
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
        headers = decode_api_reply(reply, None).headers
        return acked.message_id in [text for name, text in headers if name.lower() == MESSAGE_ID]

    def count_unknown(self) -> None:
        """Count the messages in flight as unknown."""
        self._account.unknown_msgs = len(self._open)

    async def _send_first(self, token: str, outgoing: Outgoing) -> None:
        try:
            with suppress(PermissionDenied):
                # Otherwise a stream of another domain could store it.
                if await has_stream(self._client, outgoing.subject) is False:
                    raise make_no_stream_error(outgoing.subject)
            await self._request(token, outgoing)
        except (RequestTimedOut, ConnectionLost, *_DOUBT_ERRORS):
            self.count_unknown()
            raise
        except RequestFailed as error:
            concerns_all = error.code == 503 or error.err_code == _OTHER_STREAM_CODE
            if not concerns_all and not isinstance(error, PermissionDenied):
                self._refuse(token, str(error))
                return
            self._drop(token)
            self._account.read_msgs = self._account.payload_bytes = 0
            if error.err_code != _OTHER_STREAM_CODE:
                raise
            other_stream_text = (
                f'another stream stores "{outgoing.subject}": --map changes subjects'
            )
            raise RequestFailed(
                other_stream_text, code=400, err_code=_OTHER_STREAM_CODE
            ) from error

    def _drop(self, token: str) -> None:
        self._bytes -= len(self._open.pop(token).payload)
        self._duplicates.pop(token, None)

    async def _publish(self, token: str, outgoing: Outgoing) -> None:
        self._mark_sent(outgoing)
        try:
            await self._client.publish(
                outgoing.subject, outgoing.payload, reply=f"{self._inbox}.{token}",
                headers=Pairs(outgoing.headers),
            )  # fmt: skip
        except ConnectionLost:
            return  # it is sent again when there is a connection
        except RequestFailed as error:
            self._refuse(token, str(error))

    def _mark_sent(self, outgoing: Outgoing) -> None:
        now_s = time.monotonic()
        outgoing.sent_count += 1
        outgoing.first_sent_s = outgoing.first_sent_s or now_s
        outgoing.sent_s = now_s

    async def _on_reply(self, msg: Msg) -> None:
        token = msg.subject.rpartition(".")[2]
        if (outgoing := self._open.get(token)) is None:
            return  # the second ack of a message that was sent twice
        if not msg.data:
            self._has_no_responder = True
            outgoing.sent_s = (
                time.monotonic() - _RESEND_S + _RETRY_S
            )  # no responders: send it again soon
            return
        try:
            self._count_result(token, outgoing, msg.data)
        except _DOUBT_ERRORS as error:
            # It may be stored: it counts neither as stored nor as refused.
            self._doubt = OutcomeUnknown(str(error))
            self._result_event.set()
        except RequestFailed as error:
            self._refuse(token, str(error))

    def _count_result(self, token: str, outgoing: Outgoing, data: bytes) -> None:
        """Count the result in an ack; after a temporary failure the message stays open.

        Raises RequestFailed if the stream refused the message.
        """
        ack = read_ack(outgoing.subject, data, _Ack)
        if (ack_error := ack.error) is not None:
            if ack_error.err_code in _UNAVAILABLE_CODES:
                outgoing.sent_s = time.monotonic() - _RESEND_S + _RETRY_S
                return
            number = ack_error.err_code or ack_error.code
            raise RequestFailed(
                f"{clean_line(ack_error.description)} ({number})", code=ack_error.code,
                err_code=ack_error.err_code,
            )  # fmt: skip
        check_ack(PubAck(ack.stream, ack.seq, ack.duplicate), outgoing.subject, outgoing.headers)
        check_ack_domain(self._client, outgoing.subject, ack.stream, ack.domain)
        self._window_s.setdefault(ack.stream, -1.0)
        if ack.duplicate:
            stored_ranges = self._account.stored_ranges.get(ack.stream, [])
            is_first = outgoing.has_own_id and outgoing.sent_count == 1
            if is_first and has_seq(stored_ranges, ack.seq):
                raise RequestFailed(_SAME_ID_TEXT)
            self._duplicates.setdefault(token, (ack.stream, ack.seq))
            self._result_event.set()
        elif token not in self._duplicates:
            if has_seq(self._account.stored_ranges.get(ack.stream, []), ack.seq):
                raise OutcomeUnknown(f"target stream {lost_newest_text(ack.stream)}")
            acked = _AckedMessage(ack.seq, outgoing.message_id, time.monotonic())
            before = self._newest.get(ack.stream, acked)
            if acked.acked_s - before.acked_s > _PAUSE_S:
                self._before_pause.append((ack.stream, before))
            self._newest[ack.stream] = acked
            self._count_stored(outgoing, ack.stream, ack.seq)
            self._finish(token)

    def _count_stored(self, outgoing: Outgoing, stream: str, seq: int) -> None:
        self._account.count_stored(stream, seq, outgoing.subject)
        self._account.confirmed_msgs += outgoing.sent_count > 1

    async def _check_duplicates(self) -> None:
        """Count the duplicates that a stream still has, and refuse the deleted ones."""
        by_stream: dict[str, dict[str, int]] = {}
        for token, (stream, seq) in self._duplicates.items():
            by_stream.setdefault(stream, {})[token] = seq
        for stream, seqs in by_stream.items():
            try:
                removed_seqs = await self._find_removed(stream, set(seqs.values()))
                other_tokens = await self._find_other_messages(stream, seqs)
            except (RequestTimedOut, ConnectionLost):
                continue  # checked again later
            window_text = duration_text(max(0.0, self._window_s[stream]))
            reason = (
                f"{stream} has removed the copy that it stored before, and stores another only "
                f"after {window_text}, its duplicate window"
            )
            for token, seq in seqs.items():
                outgoing = self._open.get(token)
                if outgoing is None:
                    continue  # refused meanwhile
                if seq in removed_seqs or token in other_tokens:
                    self._refuse(token, reason if seq in removed_seqs else _OTHER_MESSAGE_TEXT)
                    continue
                if outgoing.sent_count == 1:
                    self._account.count_duplicate(stream, seq)
                else:
                    self._count_stored(outgoing, stream, seq)
                self._finish(token)

    async def _find_removed(self, stream: str, seqs: set[int]) -> set[int]:
        """Return the sequences in `seqs` whose messages were deleted from a stream.

        An empty set if the stream may have deleted them by its limits or because of acks.
        """
        info = json.loads(await self._client.request(f"STREAM.INFO.{stream}"))
        state = info["state"]
        if _may_have_deleted(info["config"], state):
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
                break  # it is unknown
        return removed_seqs

    async def _find_other_messages(self, stream: str, seqs: Mapping[str, int]) -> set[str]:
        """Return the tokens of duplicates of which the stored message is another one with the same
        id.

        Only messages with their publisher's id are checked.
        """
        tokens = [token for token in seqs if token in self._open and self._open[token].has_own_id]
        if not tokens:
            return set()
        config = json.loads(await self._client.request(f"STREAM.INFO.{stream}"))["config"]
        other_tokens = set[str]()
        for token in tokens:
            verb = f"STREAM.MSG.GET.{stream}"
            try:
                reply = await self._client.request(verb, {"seq": seqs[token]})
            except NotFound:
                continue
            except PermissionDenied:
                break  # it is unknown
            stored, outgoing = decode_api_reply(reply, None), self._open.get(token)
            if outgoing is None:
                continue  # refused meanwhile
            is_renamed = stored.subject != outgoing.subject and not config.get("subject_transform")
            if is_renamed or base64.b64decode(stored.payload_base64) != outgoing.payload:
                other_tokens.add(token)
        return other_tokens

    def _refuse(self, token: str, reason: str) -> None:
        self._account.count_refused(self._open[token].seq, reason)
        self._finish(token)

    def _finish(self, token: str) -> None:
        self._drop(token)
        self._account.done_seq = self._last_done_seq
        self._result_event.set()

    @property
    def _last_done_seq(self) -> int:
        first = self.first_open
        return self._account.last_seq if first is None else first.seq - 1

    async def _wait_for_acks(self) -> None:
        """Wait for an ack, up to 0.5 s; send open messages again if they are overdue.

        They are overdue 3 s after they were sent, and after a lost connection. Raises
        OutcomeUnknown if it is unknown what an ack means.
        """
        if self._doubt is not None:
            raise self._doubt
        await self._read_windows()
        self._result_event.clear()
        await self._check_duplicates()
        if not self._open:
            return
        if self._has_no_responder and self._client.nc.is_connected:
            self._has_no_responder = False
            await self._check_stored()
        try:
            async with asyncio.timeout(_WAIT_INTERVAL_S):
                await self._result_event.wait()
        except TimeoutError:
            pass
        if not self._client.nc.is_connected:
            self._on_wait("there is no connection")
            return
        reconnects_count = self._client.nc.stats["reconnects"]
        if min(self._window_s.values(), default=0.0) < 0:
            return  # nothing is sent again before the duplicate windows are known
        if reconnects_count != self._reconnects_count:
            self._reconnects_count = reconnects_count
            await self._send_again(list(self._open.items()))
            return
        token, outgoing = next(iter(self._open.items()), ("", None))
        if outgoing is not None and time.monotonic() - outgoing.sent_s > _RESEND_S:
            self._check_resendable([outgoing])
            await self._request_again(token, outgoing)
            if token not in self._open:
                # The server replies again: many acks may have been lost with its last leader.
                due_s = time.monotonic() - _RESEND_S
                overdue = [item for item in self._open.items() if item[1].sent_s < due_s]
                await self._send_again(overdue)

    async def _read_windows(self) -> None:
        """Read duplicate window, creation time and newest message of new streams."""
        for stream in [name for name, window_s in self._window_s.items() if window_s < 0]:
            try:
                reply = await self._client.request(f"STREAM.INFO.{stream}")
            except PermissionDenied:
                self._window_s[stream] = 0.0  # no message can be sent again
                continue
            except NatstuiError:
                continue  # checked again later
            info = json.loads(reply)
            window_ns = info["config"].get("duplicate_window") or 0
            self._window_s[stream] = window_ns / 1e9
            self._account.target_created_at_us.setdefault(stream, time_us(info["created"]))
            self._account.target_newest.setdefault(stream, newest_message(info["state"]))

    async def _check_stored(self) -> None:
        """Raise RequestFailed if there is no stream for the first open message.

        Calls `on_wait` with a text if there is a stream, because it has no leader then.
        """
        first = self.first_open
        if first is None:
            return
        if await has_stream(self._client, first.subject) is False:
            raise RequestFailed(
                f'no stream stores "{first.subject}" any more: the target was deleted', code=503
            )
        self._on_wait(f'the stream of "{first.subject}" has no leader')

    def _check_resendable(self, messages: list[Outgoing]) -> None:
        """Raise OutcomeUnknown if a stream may no longer know the id of one of these messages."""
        window_s = min(self._window_s.values(), default=0.0)
        if not messages or time.monotonic() - messages[0].first_sent_s <= window_s * WINDOW_MARGIN:
            return
        raise OutcomeUnknown(
            f"{counted(f'{len(self._open):,}', 'message')} may or may not be stored: no "
            f"reply arrived within {duration_text(window_s)}, the duplicate window"
        )

    async def _send_again(self, messages: list[tuple[str, Outgoing]]) -> None:
        """Send open messages again in order; a stream stores each message id only once."""
        self._check_resendable([outgoing for _, outgoing in messages if outgoing.sent_count])
        for token, outgoing in messages:
            if token in self._open:
                await self._publish(token, outgoing)

    async def _request_again(self, token: str, outgoing: Outgoing) -> None:
        """Send a message again, as a request, which detects denied permissions as well."""
        try:
            await self._request(token, outgoing)
        except _DOUBT_ERRORS:
            raise
        except (RequestTimedOut, ConnectionLost):
            self._on_wait(f'no reply on "{outgoing.subject}"')
        except RequestFailed as error:
            if token in self._open:
                self._refuse(token, str(error))

    async def _request(self, token: str, outgoing: Outgoing) -> None:
        """Send a message and wait for its ack; raises RequestFailed and ConnectionLost."""
        self._mark_sent(outgoing)
        reply = await self._client.request_subject(
            outgoing.subject, outgoing.payload, headers=Pairs(outgoing.headers)
        )
        if token not in self._open:
            return
        if reply.data:
            self._count_result(token, outgoing, reply.data)
            return
        if await has_stream(self._client, outgoing.subject) is False:
            raise make_no_stream_error(outgoing.subject)
