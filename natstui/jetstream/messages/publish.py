"""Publishing with an acknowledgement, and requests."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec
from nats.aio.msg import Msg

from natstui.errors import (
    Conflict,
    ConnectionLost,
    NotFound,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
    UsageError,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import HeaderPairs
from natstui.jetstream.connection.storing import (
    MESSAGE_ID,
    check_domain,
    check_responders,
    count_not_kept,
    describe_side_effects,
    store,
)
from natstui.jetstream.connection.subject_counts import read_subject_counts
from natstui.jetstream.connection.writer import (
    JournalDraft,
    PartialOutcome,
    Writer,
    add_state_if_unknown,
)
from natstui.jetstream.messages.decode import decode_api_reply, read_headers
from natstui.model.assets.limits_loss import (
    find_target_subjects,
    rolled_up_filters,
    stored_filters,
)
from natstui.model.assets.subjects import has_wildcard, is_literal
from natstui.model.records.messages import PubAck, PublishMessage, RequestReply, StoredMessage
from natstui.units import counted, local_text


def _check_subject(subject: str, reply: str = "") -> None:
    """Raise UsageError for a subject, or a reply subject, that nobody can receive.

    A server accepts a message to `orders.*` or `orders..new` like one to any other subject.
    """
    if has_wildcard(subject):
        raise UsageError(f"{subject!r} has a wildcard: a message has one subject")
    if not is_literal(subject):
        raise UsageError(f"{subject!r} is not a valid subject: nobody can receive it")
    if reply and not is_literal(reply):
        raise UsageError(f"{reply!r} is not a valid subject for replies")


async def publish(writer: Writer, command: PublishMessage) -> PubAck:
    """Publish into a stream.

    Raises UsageError for a subject that nobody can receive, RequestFailed when no stream stores
    the subject or the stream refuses the message, and ActionRefusal if a stream of another domain
    would store it as well.
    """
    _check_subject(command.subject)
    await check_domain(writer.client, command.subject)
    payload, headers = base64.b64decode(command.payload_base64), _make_headers(command)

    async def send() -> PubAck:
        return await store(writer.client, command.subject, payload, headers)

    doubt = "the message may still have been stored"
    if command.message_id is not None:
        doubt += f"; sent again with the id {command.message_id!r} it is not stored twice"
    draft = JournalDraft(
        "publish", "", None, _journal_fields(command.subject, len(payload), headers), doubt=doubt
    )
    loss_text = await _describe_loss(writer, command.subject, headers)
    confirmation = command.subject, command.confirmed
    send_coroutine = writer.send(draft, confirmation, send, msgspec.to_builtins, loss_text)
    return await add_state_if_unknown(
        send_coroutine,
        lambda: _describe_newest_message(writer.client, command.subject, payload, headers),
    )


async def _describe_newest_message(
    client: Client,
    subject: str,
    payload: bytes,
    headers: Mapping[str, str],
    acks: Sequence[PubAck] = (),
) -> str:
    """Return a sentence that says whether the newest message of a subject is the one that was sent
    with this payload and these headers, and got no ack.

    `acks` are the acks of the messages that were sent before it. Raises NotFound if no stream
    stores the subject, and the request errors.
    """
    names = json.loads(await client.request("STREAM.NAMES", {"subject": subject})).get("streams")
    if not names:
        raise NotFound(f'no stream stores "{subject}"')
    stream = names[0]
    try:
        reply = await client.request(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
    except NotFound:
        return f'{stream} has no message of "{subject}"'
    newest_message = decode_api_reply(reply, None)
    message_id, newest_id = (
        _find_message_id(headers.items()),
        _find_message_id(newest_message.headers),
    )
    if any((ack.stream, ack.stored_seq) == (stream, newest_message.stream_seq) for ack in acks):
        comparison_text = "acknowledged before: the one without an acknowledgement is not stored"
    elif message_id is not None and message_id == newest_id:
        comparison_text = f"with the id {message_id!r}: it is stored"
    elif message_id == newest_id and base64.b64decode(newest_message.payload_base64) == payload:
        comparison_text = "with the same payload"
    else:
        comparison_text = "another one"
    stored_at_text = local_text(newest_message.stored_at_us, digits=3)
    newest_message_text = (
        f'the newest of "{subject}" in {stream} is {newest_message.stream_seq} of {stored_at_text}'
    )
    return f"{newest_message_text}, {comparison_text}"


def _find_message_id(headers: Iterable[tuple[str, str]]) -> str | None:
    return next((text for name, text in headers if name.lower() == MESSAGE_ID), None)


async def ack_text(client: Client, subject: str, ack: PubAck) -> str:
    """Return the result of an acknowledged message as text."""
    if ack.duplicate:
        return f"a duplicate of {ack.stored_seq} in {ack.stream_text}"
    if ack.domain is not None:
        return f"acknowledged as {ack.stored_seq} in {ack.stream_text}"
    try:
        not_kept = await count_not_kept(
            client, ack.stream, [(ack.stored_seq, ack.stored_seq)], subject
        )
    except PermissionDenied:
        return f"acknowledged as {ack.stored_seq} in {ack.stream}"
    except (RequestFailed, ConnectionLost) as error:
        # As an error, it would be taken for a message that was not stored, and sent again.
        reason = error.reason if isinstance(error, ConnectionLost) else str(error)
        return (
            f"acknowledged as {ack.stored_seq} in {ack.stream}; whether it is kept could not be "
            f"read: {reason}"
        )
    if not_kept is None:
        return f"stored as {ack.stored_seq} in {ack.stream}"
    return f"acknowledged as {ack.stored_seq}, and not kept by {not_kept[1]}"


@dataclass(slots=True)
class MessageBatch:
    """Messages to send to one subject in order, with the counts and acks of the sent ones."""

    subject: str
    payloads: Iterable[bytes]
    count: int
    payload_template_bytes: int
    """Length of the payload before its templates are replaced."""
    headers: tuple[tuple[str, str], ...] = ()
    reply: str = ""
    sleep_s: float = 0.0
    """Pause between two messages."""
    waits_for_acks: bool = False
    """Whether each message waits for the ack of a stream."""
    confirmed: str | None = None
    """The typed subject, if a confirmation is required."""
    sent_count: int = 0
    payload_bytes: int = 0
    unacked_payload: bytes | None = None
    """The payload that waits for its ack; None if none does."""
    acks: list[PubAck] = field(default_factory=list)
    """Acks of the first and of the newest acknowledged message."""
    duplicates_count: int = 0
    created_at_us: dict[str, int] = field(default_factory=dict)
    """Stream → its creation time, read after its first ack; absent if it cannot be read."""
    not_kept: tuple[int, str] | None = None
    """How many messages the stream acknowledged but did not keep, and why; None if it kept all."""
    is_kept_count_known: bool = True
    """Whether it is known which messages the stream kept."""

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of sent messages and of their bytes, for the journal."""
        return {"sent_count": self.sent_count, "payload_bytes": self.payload_bytes}

    @property
    def kept_no_message(self) -> bool:
        """Return whether the stream kept no message of the batch."""
        stored_count = self.sent_count - self.duplicates_count
        return self.not_kept is not None and self.not_kept[0] >= stored_count


async def publish_batch(writer: Writer, batch: MessageBatch) -> None:
    """Send all messages, with one journal entry; the batch has the counts, also after an error.

    Raises what `Writer.send`, `Client.flush_after` and `Client.publish` raise, and UsageError for
    a subject that nobody can receive. If the messages are to be stored, raises RequestFailed when
    no stream does, ActionRefusal if a stream of another domain would, too, and Conflict when the
    stream was recreated meanwhile.
    """
    _check_subject(batch.subject, batch.reply)
    if batch.waits_for_acks:
        await check_domain(writer.client, batch.subject)
    headers = HeaderPairs(batch.headers)
    journal_fields = _journal_fields(batch.subject, batch.payload_template_bytes, headers) | {
        "count": batch.count
    }
    doubt = "some messages may still have been sent"
    if batch.waits_for_acks:
        command = f"natstui stream get STREAM --last-for {batch.subject}"
        doubt = f"the last one may still have been stored ({command} shows it)"
    send_coroutine = writer.send(
        JournalDraft("publish", "", None, journal_fields, doubt=doubt),
        (batch.subject, batch.confirmed),
        lambda: _send_all(writer.client, batch, headers),
        lambda _: batch.counts,
        await _describe_loss(writer, batch.subject, headers, batch.reply),
        lambda: _partial_outcome(batch),
    )

    async def describe_state() -> str:
        if batch.unacked_payload is None:
            return "every message was acknowledged"
        return await _describe_newest_message(
            writer.client, batch.subject, batch.unacked_payload, headers, batch.acks[-1:]
        )

    await (
        add_state_if_unknown(send_coroutine, describe_state)
        if batch.waits_for_acks
        else send_coroutine
    )


def _partial_outcome(batch: MessageBatch) -> PartialOutcome:
    """Return the outcome of a stopped batch: `failed` only if no part of it was sent."""
    if not batch.waits_for_acks:
        return PartialOutcome("unknown", "it was stopped: at most these arrived", batch.counts)
    if batch.unacked_payload is not None:
        text = f"it was stopped: {batch.sent_count:,} acknowledged, 1 more without an ack"
        return PartialOutcome("unknown", text, batch.counts)
    text = f"it was stopped: {batch.sent_count:,} acknowledged, no more sent"
    return PartialOutcome("unknown" if batch.sent_count else "failed", text, batch.counts)


async def _send_all(client: Client, batch: MessageBatch, headers: dict[str, str]) -> None:
    if batch.waits_for_acks:
        async for payload in _yield_payloads_with_pauses(batch):
            batch.unacked_payload = payload
            ack = await store(client, batch.subject, payload, headers)
            batch.unacked_payload = None
            _check_order(batch.acks, ack)
            has_ack_domain = ack.domain is not None
            if batch.count > 1 and not has_ack_domain and ack.stream not in batch.created_at_us:
                with suppress(NotFound, PermissionDenied):  # `_check_streams` reports it
                    info = await client.stream_info(ack.stream)
                    batch.created_at_us[ack.stream] = info.created_at_us
            batch.acks[1:] = [ack]
            batch.duplicates_count += ack.duplicate
            _count_sent_message(batch, payload)
        await _check_streams(client, batch)
        await _count_not_kept(client, batch)
        return
    try:
        async with client.flush_after(batch.subject):
            async for payload in _yield_payloads_with_pauses(batch):
                await client.publish(
                    batch.subject, payload, reply=batch.reply, headers=headers or None
                )
                _count_sent_message(batch, payload)
    except PermissionDenied:
        batch.sent_count = batch.payload_bytes = 0
        raise


def _check_order(acks: Sequence[PubAck], ack: PubAck) -> None:
    """Raise Conflict when a stream stores a message before one that it has stored already."""
    if (
        not acks
        or ack.duplicate
        or acks[-1].duplicate
        or ((ack.stream, ack.domain) != (acks[-1].stream, acks[-1].domain))
    ):
        return
    if ack.stored_seq <= acks[-1].stored_seq:
        raise Conflict(
            f"{ack.stream} stored a message at sequence {ack.stored_seq:,} after one at "
            f"{acks[-1].stored_seq:,}: it was deleted and recreated, or lost its end, and what "
            "was sent before that message is missing"
        )


async def _check_streams(client: Client, batch: MessageBatch) -> None:
    """Raise Conflict when a stream that stored messages was deleted or recreated meanwhile."""
    for stream, created_at_us in batch.created_at_us.items():
        try:
            is_same = (await client.stream_info(stream)).created_at_us == created_at_us
            change_word = "deleted and recreated"
        except NotFound:
            is_same, change_word = False, "deleted"
        if not is_same:
            raise Conflict(
                f"{stream} was {change_word} meanwhile: what it stored before that is missing"
            )


async def _count_not_kept(client: Client, batch: MessageBatch) -> None:
    """Set in the batch how many messages the stream did not keep."""
    stored_count = batch.sent_count - batch.duplicates_count
    new_acks = [ack for ack in batch.acks if not ack.duplicate]
    if not new_acks:
        return
    first_ack, last_ack = new_acks[0], new_acks[-1]
    if first_ack.domain is not None or last_ack.domain is not None:
        batch.is_kept_count_known = False
        return
    is_same_stream = first_ack.stream == last_ack.stream
    # Between them may be messages of others.
    seqs = (
        min(first_ack.stored_seq, last_ack.stored_seq) if is_same_stream else last_ack.stored_seq,
        last_ack.stored_seq,
    )
    try:
        count_and_reason = await count_not_kept(client, last_ack.stream, [seqs], batch.subject)
    except PermissionDenied:
        batch.is_kept_count_known = False
        return
    if count_and_reason is not None:
        count, reason = count_and_reason
        batch.not_kept = min(count, stored_count), reason


async def _yield_payloads_with_pauses(batch: MessageBatch) -> AsyncIterator[bytes]:
    for payload in batch.payloads:
        if batch.sent_count and batch.sleep_s:
            await asyncio.sleep(batch.sleep_s)
        yield payload


def _count_sent_message(batch: MessageBatch, payload: bytes) -> None:
    batch.sent_count += 1
    batch.payload_bytes += len(payload)


async def _describe_loss(
    writer: Writer, subject: str, headers: Mapping[str, str], reply: str = ""
) -> str | None:
    """Return a sentence about what a message deletes or changes for good: by a roll-up, in a
    bucket, or as a request to the API; None if nothing.

    The subjects of its replies, its schedule and its trace are examined as well.
    """
    subjects = [subject, *filter(None, [reply, *find_target_subjects(headers.items())])]
    side_effects_text = await describe_side_effects(writer.client, subjects)
    rollup_loss = await _describe_rollup_loss(writer, subject, headers)
    return " and ".join(filter(None, (rollup_loss, side_effects_text))) or None


async def _describe_rollup_loss(
    writer: Writer, subject: str, headers: Mapping[str, str]
) -> str | None:
    """Return a sentence about what a message deletes by a roll-up or as a schedule; None if
    nothing.
    """
    filters = rolled_up_filters(subject, headers.items())
    if not filters:
        return None
    names_reply = json.loads(await writer.client.request("STREAM.NAMES", {"subject": subject}))
    stream = next(iter(names_reply.get("streams") or ()), None)
    if stream is None:
        return "its roll-up removes the messages before it"
    info, msgs_by_subject = await writer.client.stream_info(stream), dict[str, int]()
    stored_msgs = info.state.messages
    for subject_filter in stored_filters(info.read_config(), filters):
        page = await read_subject_counts(writer.client, stream, subject_filter)
        msgs_by_subject |= page.msgs_by_subject
        if not page.is_last:
            return f"the roll-up removes up to {_loss_text(stream, stored_msgs, math.inf)}"
    loss_text = _loss_text(stream, stored_msgs, sum(msgs_by_subject.values()))
    return f"the roll-up removes {loss_text}"


def _loss_text(stream: str, stored_msgs: int, removed_msgs: float) -> str:
    max_removed_msgs = min(removed_msgs, stored_msgs)
    if not max_removed_msgs:
        return f"what {stream} stores of these subjects until then, for good"
    current_loss_text = f"{max_removed_msgs:,} of {counted(stored_msgs, 'message')} of {stream}"
    return f"{current_loss_text} for good, and what it stores of these subjects until then"


async def request_reply(writer: Writer, command: RequestReply) -> StoredMessage:
    """Send a request and return the first reply.

    Raises UsageError for a subject that nobody can receive, and RequestFailed without a responder.
    """
    _check_subject(command.subject)
    payload, headers = base64.b64decode(command.payload_base64), HeaderPairs(command.headers)

    async def send() -> StoredMessage:
        reply = await writer.client.request_subject(
            command.subject, payload, headers=headers or None, timeout_s=command.timeout_s
        )
        check_responders(reply, f'no reply on "{command.subject}"')
        return make_message(reply, None)

    doubt = "somebody may still have received the request"
    draft = JournalDraft(
        "request", "", None, _journal_fields(command.subject, len(payload), headers), doubt=doubt
    )
    return await writer.send(
        draft,
        (command.subject, command.confirmed),
        send,
        lambda reply: {"reply_bytes": reply.payload_bytes},
        await _describe_loss(writer, command.subject, headers),
    )


async def request_replies(
    writer: Writer,
    request_batch: MessageBatch,
    wanted_count: int,
    timeout_s: float,
    on_reply: OnReply,
) -> None:
    """Send the single message of a batch as a request; `on_reply` is called with each reply.

    A `wanted_count` of 0 means all replies within the time-out. Raises RequestFailed when fewer
    than `wanted_count` arrive.
    """
    _check_subject(request_batch.subject)
    headers, (payload,) = HeaderPairs(request_batch.headers), request_batch.payloads

    async def send() -> int:
        count = replies_bytes = 0
        try:
            async with asyncio.timeout(timeout_s if wanted_count != 1 else None):
                async for reply in _read_replies(writer.client, request_batch, payload, timeout_s):
                    on_reply(reply)
                    count, replies_bytes = count + 1, replies_bytes + len(reply.data)
                    if count == wanted_count:
                        break
        except (TimeoutError, RequestTimedOut) as error:
            if not count:
                raise RequestTimedOut(request_batch.subject, timeout_s) from error
        if count < wanted_count:
            count_text = f"{count} of {wanted_count} replies came"
            raise RequestFailed(
                f'{count_text} on "{request_batch.subject}" within {timeout_s:g} s'
            )
        return replies_bytes

    doubt = "somebody may still have received the request"
    journal_fields = _journal_fields(request_batch.subject, len(payload), headers)
    await writer.send(
        JournalDraft("request", "", None, journal_fields, doubt=doubt),
        (request_batch.subject, request_batch.confirmed),
        send,
        lambda length_bytes: {"reply_bytes": length_bytes},
        await _describe_loss(writer, request_batch.subject, headers),
    )


async def _read_replies(
    client: Client, request_batch: MessageBatch, payload: bytes, timeout_s: float
) -> AsyncIterator[Msg]:
    headers = HeaderPairs(request_batch.headers) or None
    replies = client.request_many(
        request_batch.subject, payload, timeout_s=timeout_s, headers=headers
    )
    async with aclosing(replies):
        async for reply in replies:
            check_responders(reply, f'no reply on "{request_batch.subject}"')
            yield reply


OnReply = Callable[[Msg], None]
_JOURNALLED_HEADERS = ("Nats-Msg-Id", "Nats-TTL", "Nats-Expected-")


def _journal_fields(subject: str, payload_bytes: int, headers: dict[str, str]) -> dict[str, Any]:
    """Return the fields for the journal: without the payload, and without the values of headers
    other than `_JOURNALLED_HEADERS`.
    """
    safe_headers = {
        name: text if name.startswith(_JOURNALLED_HEADERS) else ""
        for name, text in headers.items()
    }
    journal_fields: dict[str, Any] = {"subject": subject, "payload_bytes": payload_bytes}
    return journal_fields | ({"headers": safe_headers} if safe_headers else {})


def make_message(msg: Msg, preview_bytes: int | None) -> StoredMessage:
    """Return a received message as a record, without a sequence, with the current time.

    At most `preview_bytes` of the payload are kept.
    """
    payload = msg.data if preview_bytes is None else msg.data[:preview_bytes]
    return StoredMessage(
        None,
        msg.subject,
        time.time_ns() // 1000,
        read_headers(msg.headers),
        base64.b64encode(payload).decode(),
        len(msg.data),
    )


def _make_headers(command: PublishMessage) -> HeaderPairs:
    fields = {
        "Nats-Msg-Id": command.message_id,
        "Nats-TTL": command.ttl,
        "Nats-Expected-Last-Sequence": command.expected_last_seq,
        "Nats-Expected-Last-Subject-Sequence": command.expected_last_subject_seq,
    }
    option_headers = {name: str(value) for name, value in fields.items() if value is not None}
    return HeaderPairs(
        [
            *(pair for pair in command.headers if pair[0] not in option_headers),
            *option_headers.items(),
        ]
    )
