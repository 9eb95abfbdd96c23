"""Sends messages to streams, again after a lost connection, so that each is stored once."""

from __future__ import annotations

import asyncio
import base64
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
from natstui.jetstream.connection.decode.streams import StreamState
from natstui.jetstream.connection.nats_client import HeaderPairs
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
from natstui.jetstream.messages.copying.account import CopyAccount, has_seq
from natstui.jetstream.messages.copying.selection import retry_after_outages
from natstui.jetstream.messages.decode import decode_api_reply
from natstui.model.assets.fields import Config, number_at, text_at
from natstui.model.assets.limits_loss import LimitedStream
from natstui.model.records.messages import PubAck
from natstui.units import counted, duration_text

MAX_OPEN_MSGS = 1_000
MAX_OPEN_BYTES = 16 * 1024 * 1024
_ACK_WAIT_INTERVAL_S = 0.5
_FAILED_MESSAGE_RETRY_S = 0.2
_RESTART_ACK_PAUSE_S = 0.2
"""After such a time without an ack, the server may have been restarted."""
_RESEND_AFTER_S = 3.0
"""Time without an ack after which a message is sent again."""
DUPLICATE_WINDOW_USABLE_RATIO = 0.8
"""The part of a duplicate window in which messages are sent again; clocks are not exact."""
_OTHER_STREAM_CODE = 10060
_UNAVAILABLE_CODES = {10008, 10023, 10074, 10076, 10118}
"""Error codes of temporary failures: no leader, no resources, or a server that restarts."""


_REPEATED_ID_TEXT = (
    "another message of this copy has the same message id, and the target keeps one of them: "
    "--msg-id made copies both"
)
_ID_COLLISION_TEXT = (
    "the target has another message with the same message id: --msg-id made copies this one too"
)


class _AckError(msgspec.Struct):
    code: int = 0
    err_code: int = 0
    description: str = ""


class _MessageAck(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False
    domain: str | None = None
    error: _AckError | None = None


_UNKNOWN_OUTCOME_ERRORS = (ReplyUnreadable, OutcomeUnknown)


@dataclass(slots=True)
class OutgoingMessage:
    """A message to send; `seq` is its sequence in the source."""

    seq: int
    subject: str
    payload: bytes
    headers: tuple[tuple[str, str], ...]
    has_own_id: bool = False
    """Whether its message id is the publisher's, which other messages may have, too."""
    sent_count: int = 0
    first_sent_s: float = 0.0
    last_sent_s: float = 0.0

    @property
    def message_id(self) -> str | None:
        """Return the message id with which it is sent; None if it has none."""
        return next((text for name, text in self.headers if name.lower() == MESSAGE_ID), None)


class _AckedMessage(NamedTuple):
    """A message that a stream has acknowledged."""

    seq: int
    message_id: str | None
    acked_at_s: float


async def read_creation_us(client: Client, stream: str) -> int | None:
    """Return when a stream was created, in UTC µs; None if there is no such stream."""
    try:
        return (await client.stream_info(stream)).created_at_us
    except NotFound:
        return None


def keeps_all_messages(config: Config, state: StreamState) -> bool:
    """Return whether a stream keeps all messages: no limit, ack or roll-up deletes any."""
    return not (
        LimitedStream(config, state).drops_messages
        or number_at(config, "max_age")
        or config.get("allow_msg_ttl") is True
        or config.get("allow_rollup_hdrs") is True
        or text_at(config, "retention") not in ("", "limits")
    )


def _may_have_deleted(config: Config, state: StreamState) -> bool:
    """Return whether a stream may have deleted messages by limits, acks or roll-ups that are still
    within its duplicate window.
    """
    return (
        text_at(config, "retention") not in ("", "limits")
        or number_at(config, "max_msgs_per_subject") > 0
        or config.get("allow_msg_ttl") is True
        or config.get("allow_rollup_hdrs") is True
        or 0 < number_at(config, "max_msgs") <= state.messages
        or 0 < number_at(config, "max_bytes") <= 2 * state.bytes
        or 0 < number_at(config, "max_age") <= number_at(config, "duplicate_window")
    )


def _header_bytes(headers: tuple[tuple[str, str], ...]) -> int:
    """Return the encoded length of headers."""
    if not headers:
        return 0
    lines = (f"{name}: {text}\r\n".encode("utf-8", "surrogateescape") for name, text in headers)
    return 12 + sum(map(len, lines))


class MessageWindow:
    """Sends messages, of which a limited number wait for their ack; use it with `async with`.

    Each result is added to the counts of `account`. `on_wait` is called with a sentence when
    sending has to wait.
    """

    def __init__(
        self, client: Client, account: CopyAccount, on_wait: Callable[[str], None] = lambda _: None
    ) -> None:
        self._client = client
        self._copy_account = account
        self._on_wait = on_wait
        self._open_messages: dict[str, OutgoingMessage] = {}
        self._open_bytes = 0
        self._reply_tokens_count = 0
        self._result_event = asyncio.Event()
        self._reconnects_count = client.nc.stats["reconnects"]
        self._subscription: Subscription | None = None
        self._inbox = client.nc.new_inbox()
        self._has_no_responder = False
        """Whether a message got no responders: no stream was there to store it."""
        self._unknown_outcome: OutcomeUnknown | None = None
        """The error if an ack does not show whether its message is stored."""
        self._duplicate_window_s_by_stream: dict[str, float] = {}
        """Stream → its duplicate window; -1 if it is not read yet."""
        self._last_acked_by_stream: dict[str, _AckedMessage] = {}
        """Stream → the last message that it acknowledged."""
        self._acked_before_pause: deque[tuple[str, _AckedMessage]] = deque()
        """The last acknowledged messages before each pause in the acks, to be checked: the stream
        may have lost its newest messages in a pause.
        """
        self._duplicates_by_token: dict[str, tuple[str, int]] = {}
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
    def first_open_message(self) -> OutgoingMessage | None:
        """Return the first sent message without a result; None if there is none."""
        return next(iter(self._open_messages.values()), None)

    async def send(self, outgoing: OutgoingMessage) -> None:
        """Send a message as soon as the limits allow it, without waiting for its ack.

        Only for the first message it waits, so that errors that concern all messages are raised at
        once. Raises OutcomeUnknown if open messages cannot be sent again safely.
        """
        await self._resend_open_messages()
        size_bytes = len(outgoing.payload) + _header_bytes(outgoing.headers)
        if size_bytes > (max_bytes := self._client.nc.max_payload):
            # The server would close the connection because of this message.
            self._copy_account.count_read(outgoing.seq, len(outgoing.payload))
            message_text = f"message {outgoing.seq} has {size_bytes:,} bytes with its headers"
            self._copy_account.count_refused(
                outgoing.seq, f"{message_text}, but the server accepts {max_bytes:,}"
            )
            self._copy_account.done_seq = self._last_done_seq
            return
        while (
            len(self._open_messages) >= MAX_OPEN_MSGS
            or self._open_bytes + len(outgoing.payload) > MAX_OPEN_BYTES
        ):
            if not self._open_messages:
                break
            await self._wait_for_acks()
        self._reply_tokens_count += 1
        token = str(self._reply_tokens_count)
        self._open_messages[token] = outgoing
        self._open_bytes += len(outgoing.payload)
        self._copy_account.count_read(outgoing.seq, len(outgoing.payload))
        if self._reply_tokens_count == 1:
            await self._send_first_message(token, outgoing)
            await self._read_duplicate_windows()
        else:
            await self._publish(token, outgoing)

    async def _resend_open_messages(self) -> None:
        """Send open messages again, in order, if acks are overdue or the connection was lost."""
        # Read soon: the creation time shows whether the stream is recreated later.
        await self._read_duplicate_windows()
        await self._check_acked_before_pause()
        if self._unknown_outcome is not None:
            raise self._unknown_outcome
        nc = self._client.nc
        while first := self.first_open_message:
            is_overdue = time.monotonic() - first.last_sent_s > _RESEND_AFTER_S
            has_reconnected = nc.stats["reconnects"] != self._reconnects_count
            if nc.is_connected and not has_reconnected and not is_overdue:
                return
            await self._wait_for_acks()

    async def drain(self) -> None:
        """Wait until every message has a result.

        Raises RequestFailed if a stream refused a message, was recreated or lost its newest
        messages, and OutcomeUnknown if it is unknown whether a message is stored.
        """
        while self._open_messages:
            await self._wait_for_acks()
        await self._read_duplicate_windows()
        for stream, created_at_us in self._copy_account.target_created_at_us.items():
            if (
                await retry_after_outages(partial(read_creation_us, self._client, stream))
                != created_at_us
            ):
                raise RequestFailed(
                    f"target stream {stream} was deleted while messages were copied to it: the "
                    "copies stored before are lost"
                )
        # A stream that loses messages loses the newest ones first.
        self._acked_before_pause.extend(self._last_acked_by_stream.items())
        await self._check_acked_before_pause()
        for stream, newest_seq_and_us in self._copy_account.target_newest.items():
            if await retry_after_outages(
                partial(self._has_lost_newest_message, stream, newest_seq_and_us)
            ):
                raise RequestFailed(
                    f"target stream {lost_newest_text(stream)}: the copies stored before are lost"
                )

    async def _has_lost_newest_message(
        self, stream: str, newest_seq_and_us: tuple[int, int]
    ) -> bool:
        state = (await self._client.stream_info(stream)).state
        return await has_lost_newest(self._client, stream, state, *newest_seq_and_us)

    async def _check_acked_before_pause(self) -> None:
        """Raise OutcomeUnknown if a stream lost a message that it acknowledged before a pause."""
        while self._acked_before_pause:
            stream, acked_message = self._acked_before_pause[0]
            try:
                has_message = await self._has_message(stream, acked_message)
            except (RequestTimedOut, ConnectionLost, JetStreamUnavailable):
                return  # it is checked again later
            self._acked_before_pause.popleft()
            if not has_message:
                raise OutcomeUnknown(
                    f"target stream {lost_newest_text(stream)}: the copies stored before are lost"
                )

    async def _has_message(self, stream: str, acked_message: _AckedMessage) -> bool:
        """Return whether a stream has, or had, a message that it acknowledged.

        True also for a message that was deleted since, or may not be read.
        """
        try:
            reply = await self._client.request(
                f"STREAM.MSG.GET.{stream}", {"seq": acked_message.seq}
            )
        except NotFound:
            with suppress(PermissionDenied, NotFound):
                return (await self._client.stream_info(stream)).state.last_seq >= acked_message.seq
            return True
        except PermissionDenied:
            return True
        headers = decode_api_reply(reply, None).headers
        return acked_message.message_id in [
            text for name, text in headers if name.lower() == MESSAGE_ID
        ]

    def count_unknown_messages(self) -> None:
        """Count the messages in flight as unknown."""
        self._copy_account.unknown_msgs = len(self._open_messages)

    async def _send_first_message(self, token: str, outgoing: OutgoingMessage) -> None:
        try:
            with suppress(PermissionDenied):
                # Otherwise a stream of another domain could store it.
                if await has_stream(self._client, outgoing.subject) is False:
                    raise make_no_stream_error(outgoing.subject)
            await self._request(token, outgoing)
        except (RequestTimedOut, ConnectionLost, *_UNKNOWN_OUTCOME_ERRORS):
            self.count_unknown_messages()
            raise
        except RequestFailed as error:
            concerns_all_messages = error.code == 503 or error.err_code == _OTHER_STREAM_CODE
            if not concerns_all_messages and not isinstance(error, PermissionDenied):
                self._finish_refused_message(token, str(error))
                return
            self._remove_open_message(token)
            self._copy_account.read_msgs = self._copy_account.payload_bytes = 0
            if error.err_code != _OTHER_STREAM_CODE:
                raise
            other_stream_text = (
                f'another stream stores "{outgoing.subject}": --map changes subjects'
            )
            raise RequestFailed(
                other_stream_text, code=400, err_code=_OTHER_STREAM_CODE
            ) from error

    def _remove_open_message(self, token: str) -> None:
        self._open_bytes -= len(self._open_messages.pop(token).payload)
        self._duplicates_by_token.pop(token, None)

    async def _publish(self, token: str, outgoing: OutgoingMessage) -> None:
        self._mark_sent(outgoing)
        try:
            await self._client.publish(
                outgoing.subject, outgoing.payload, reply=f"{self._inbox}.{token}",
                headers=HeaderPairs(outgoing.headers),
            )  # fmt: skip
        except ConnectionLost:
            return  # it is sent again when there is a connection
        except RequestFailed as error:
            self._finish_refused_message(token, str(error))

    def _mark_sent(self, outgoing: OutgoingMessage) -> None:
        now_s = time.monotonic()
        outgoing.sent_count += 1
        outgoing.first_sent_s = outgoing.first_sent_s or now_s
        outgoing.last_sent_s = now_s

    async def _on_reply(self, msg: Msg) -> None:
        token = msg.subject.rpartition(".")[2]
        if (outgoing := self._open_messages.get(token)) is None:
            return  # the second ack of a message that was sent twice
        if not msg.data:
            self._has_no_responder = True
            outgoing.last_sent_s = (
                time.monotonic() - _RESEND_AFTER_S + _FAILED_MESSAGE_RETRY_S
            )  # no responders: send it again soon
            return
        try:
            self._count_result(token, outgoing, msg.data)
        except _UNKNOWN_OUTCOME_ERRORS as error:
            # It may be stored: it counts neither as stored nor as refused.
            self._unknown_outcome = OutcomeUnknown(str(error))
            self._result_event.set()
        except RequestFailed as error:
            self._finish_refused_message(token, str(error))

    def _count_result(self, token: str, outgoing: OutgoingMessage, data: bytes) -> None:
        """Count the result in an ack; after a temporary failure the message stays open.

        Raises RequestFailed if the stream refused the message.
        """
        ack = read_ack(outgoing.subject, data, _MessageAck)
        if (ack_error := ack.error) is not None:
            if ack_error.err_code in _UNAVAILABLE_CODES:
                outgoing.last_sent_s = time.monotonic() - _RESEND_AFTER_S + _FAILED_MESSAGE_RETRY_S
                return
            error_number = ack_error.err_code or ack_error.code
            raise RequestFailed(
                f"{clean_line(ack_error.description)} ({error_number})", code=ack_error.code,
                err_code=ack_error.err_code,
            )  # fmt: skip
        check_ack(PubAck(ack.stream, ack.seq, ack.duplicate), outgoing.subject, outgoing.headers)
        check_ack_domain(self._client, outgoing.subject, ack.stream, ack.domain)
        self._duplicate_window_s_by_stream.setdefault(ack.stream, -1.0)
        if ack.duplicate:
            stored_ranges = self._copy_account.stored_ranges.get(ack.stream, [])
            is_id_sent_once = outgoing.has_own_id and outgoing.sent_count == 1
            if is_id_sent_once and has_seq(stored_ranges, ack.seq):
                raise RequestFailed(_REPEATED_ID_TEXT)
            self._duplicates_by_token.setdefault(token, (ack.stream, ack.seq))
            self._result_event.set()
        elif token not in self._duplicates_by_token:
            if has_seq(self._copy_account.stored_ranges.get(ack.stream, []), ack.seq):
                raise OutcomeUnknown(f"target stream {lost_newest_text(ack.stream)}")
            acked_message = _AckedMessage(ack.seq, outgoing.message_id, time.monotonic())
            previous_message = self._last_acked_by_stream.get(ack.stream, acked_message)
            if acked_message.acked_at_s - previous_message.acked_at_s > _RESTART_ACK_PAUSE_S:
                self._acked_before_pause.append((ack.stream, previous_message))
            self._last_acked_by_stream[ack.stream] = acked_message
            self._count_stored(outgoing, ack.stream, ack.seq)
            self._finish_message(token)

    def _count_stored(self, outgoing: OutgoingMessage, stream: str, seq: int) -> None:
        self._copy_account.count_stored(stream, seq, outgoing.subject)
        self._copy_account.confirmed_msgs += outgoing.sent_count > 1

    async def _check_duplicates(self) -> None:
        """Count duplicates: as stored before if sent once, as stored if sent again, as refused if
        deleted or if only the id is equal.
        """
        seq_by_token_by_stream: dict[str, dict[str, int]] = {}
        for token, (stream, seq) in self._duplicates_by_token.items():
            seq_by_token_by_stream.setdefault(stream, {})[token] = seq
        for stream, seqs in seq_by_token_by_stream.items():
            try:
                removed_seqs = await self._find_removed_seqs(stream, set(seqs.values()))
                colliding_tokens = await self._find_id_collisions(stream, seqs)
            except (RequestTimedOut, ConnectionLost):
                continue  # checked again later
            duplicate_window_text = duration_text(
                max(0.0, self._duplicate_window_s_by_stream[stream])
            )
            reason = (
                f"{stream} has removed the copy that it stored before, and stores another only "
                f"after {duplicate_window_text}, its duplicate window"
            )
            for token, seq in seqs.items():
                outgoing = self._open_messages.get(token)
                if outgoing is None:
                    continue  # refused meanwhile
                if seq in removed_seqs or token in colliding_tokens:
                    self._finish_refused_message(
                        token, reason if seq in removed_seqs else _ID_COLLISION_TEXT
                    )
                    continue
                if outgoing.sent_count == 1:
                    self._copy_account.count_duplicate(stream, seq)
                else:
                    self._count_stored(outgoing, stream, seq)
                self._finish_message(token)

    async def _find_removed_seqs(self, stream: str, seqs: set[int]) -> set[int]:
        """Return the sequences in `seqs` whose messages were deleted from a stream.

        An empty set if the stream may have deleted them by its limits or because of acks.
        """
        info = await self._client.stream_info(stream)
        state = info.state
        if _may_have_deleted(info.read_config(), state):
            return set()
        removed_seqs = {seq for seq in seqs if not state.first_seq <= seq <= state.last_seq}
        if not state.num_deleted:
            return removed_seqs
        for seq in sorted(seqs - removed_seqs):
            try:
                await self._client.request(f"STREAM.MSG.GET.{stream}", {"seq": seq})
            except NotFound:
                removed_seqs.add(seq)
            except PermissionDenied:
                break  # it is unknown
        return removed_seqs

    async def _find_id_collisions(self, stream: str, seqs: Mapping[str, int]) -> set[str]:
        """Return the tokens of duplicates for which the stream stores a different message with the
        same id.

        Only messages with their publisher's id are checked.
        """
        tokens = [
            token
            for token in seqs
            if token in self._open_messages and self._open_messages[token].has_own_id
        ]
        if not tokens:
            return set()
        config = (await self._client.stream_info(stream)).read_config()
        colliding_tokens = set[str]()
        for token in tokens:
            verb = f"STREAM.MSG.GET.{stream}"
            try:
                reply = await self._client.request(verb, {"seq": seqs[token]})
            except NotFound:
                continue
            except PermissionDenied:
                break  # it is unknown
            stored_message, outgoing = (
                decode_api_reply(reply, None),
                self._open_messages.get(token),
            )
            if outgoing is None:
                continue  # refused meanwhile
            has_other_subject = stored_message.subject != outgoing.subject and not config.get(
                "subject_transform"
            )
            if (
                has_other_subject
                or base64.b64decode(stored_message.payload_base64) != outgoing.payload
            ):
                colliding_tokens.add(token)
        return colliding_tokens

    def _finish_refused_message(self, token: str, reason: str) -> None:
        self._copy_account.count_refused(self._open_messages[token].seq, reason)
        self._finish_message(token)

    def _finish_message(self, token: str) -> None:
        self._remove_open_message(token)
        self._copy_account.done_seq = self._last_done_seq
        self._result_event.set()

    @property
    def _last_done_seq(self) -> int:
        first = self.first_open_message
        return self._copy_account.last_seq if first is None else first.seq - 1

    async def _wait_for_acks(self) -> None:
        """Wait for an ack, up to 0.5 s; send open messages again if they are overdue.

        They are overdue 3 s after they were sent, and after a lost connection. Raises
        OutcomeUnknown if an ack does not show whether its message is stored.
        """
        if self._unknown_outcome is not None:
            raise self._unknown_outcome
        await self._read_duplicate_windows()
        self._result_event.clear()
        await self._check_duplicates()
        if not self._open_messages:
            return
        if self._has_no_responder and self._client.nc.is_connected:
            self._has_no_responder = False
            await self._check_stream_exists()
        try:
            async with asyncio.timeout(_ACK_WAIT_INTERVAL_S):
                await self._result_event.wait()
        except TimeoutError:
            pass
        if not self._client.nc.is_connected:
            self._on_wait("there is no connection")
            return
        reconnects_count = self._client.nc.stats["reconnects"]
        if min(self._duplicate_window_s_by_stream.values(), default=0.0) < 0:
            return  # nothing is sent again before the duplicate windows are known
        if reconnects_count != self._reconnects_count:
            self._reconnects_count = reconnects_count
            await self._send_again(list(self._open_messages.items()))
            return
        token, outgoing = next(iter(self._open_messages.items()), ("", None))
        if outgoing is not None and time.monotonic() - outgoing.last_sent_s > _RESEND_AFTER_S:
            self._check_resendable([outgoing])
            await self._request_again(token, outgoing)
            if token not in self._open_messages:
                # The server replies again: many acks may have been lost with its last leader.
                due_s = time.monotonic() - _RESEND_AFTER_S
                overdue_messages = [
                    pair for pair in self._open_messages.items() if pair[1].last_sent_s < due_s
                ]
                await self._send_again(overdue_messages)

    async def _read_duplicate_windows(self) -> None:
        """Read duplicate window, creation time and newest message of new streams."""
        for stream in [
            name
            for name, duplicate_window_s in self._duplicate_window_s_by_stream.items()
            if duplicate_window_s < 0
        ]:
            try:
                info = await self._client.stream_info(stream)
            except PermissionDenied:
                self._duplicate_window_s_by_stream[stream] = 0.0  # no message can be sent again
                continue
            except NatstuiError:
                continue  # checked again later
            window_ns = info.read_config().get("duplicate_window") or 0
            self._duplicate_window_s_by_stream[stream] = window_ns / 1e9
            self._copy_account.target_created_at_us.setdefault(stream, info.created_at_us)
            self._copy_account.target_newest.setdefault(stream, newest_message(info.state))

    async def _check_stream_exists(self) -> None:
        """Raise RequestFailed if no stream stores the subject of the first open message.

        If one does, it has no leader now, and `on_wait` is called with a sentence about that.
        """
        first = self.first_open_message
        if first is None:
            return
        if await has_stream(self._client, first.subject) is False:
            raise RequestFailed(
                f'no stream stores "{first.subject}" any more: the target was deleted', code=503
            )
        self._on_wait(f'the stream of "{first.subject}" has no leader')

    def _check_resendable(self, messages: list[OutgoingMessage]) -> None:
        """Raise OutcomeUnknown if a stream may no longer know the id of one of these messages."""
        duplicate_window_s = min(self._duplicate_window_s_by_stream.values(), default=0.0)
        if (
            not messages
            or time.monotonic() - messages[0].first_sent_s
            <= duplicate_window_s * DUPLICATE_WINDOW_USABLE_RATIO
        ):
            return
        raise OutcomeUnknown(
            f"{counted(f'{len(self._open_messages):,}', 'message')} may or may not be stored: no "
            f"reply arrived within {duration_text(duplicate_window_s)}, the duplicate window"
        )

    async def _send_again(self, messages: list[tuple[str, OutgoingMessage]]) -> None:
        """Send open messages again in order; a stream stores each message id only once."""
        self._check_resendable([outgoing for _, outgoing in messages if outgoing.sent_count])
        for token, outgoing in messages:
            if token in self._open_messages:
                await self._publish(token, outgoing)

    async def _request_again(self, token: str, outgoing: OutgoingMessage) -> None:
        """Send a message again, as a request, which detects denied permissions as well."""
        try:
            await self._request(token, outgoing)
        except _UNKNOWN_OUTCOME_ERRORS:
            raise
        except (RequestTimedOut, ConnectionLost):
            self._on_wait(f'no reply on "{outgoing.subject}"')
        except RequestFailed as error:
            if token in self._open_messages:
                self._finish_refused_message(token, str(error))

    async def _request(self, token: str, outgoing: OutgoingMessage) -> None:
        """Send a message and wait for its ack; raises RequestFailed and ConnectionLost."""
        self._mark_sent(outgoing)
        reply = await self._client.request_subject(
            outgoing.subject, outgoing.payload, headers=HeaderPairs(outgoing.headers)
        )
        if token not in self._open_messages:
            return
        if reply.data:
            self._count_result(token, outgoing, reply.data)
            return
        if await has_stream(self._client, outgoing.subject) is False:
            raise make_no_stream_error(outgoing.subject)
