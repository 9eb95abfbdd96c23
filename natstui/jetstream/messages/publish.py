"""Publishing with an acknowledgement, and requests."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec
from nats.aio.msg import Msg

from natstui.errors import PermissionDenied, RequestFailed, RequestTimedOut, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import Pairs
from natstui.jetstream.connection.storing import check_answered, check_domain, not_kept, store
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.messages.decode import pairs_of
from natstui.model.assets.subjects import has_wildcard, overlap
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.messages import PubAck, PublishMessage, RequestReply, StoredMessage
from natstui.units import counted


def _check_subject(subject: str) -> None:
    """Raise UsageError for a filter: a server takes a message to `orders.*` as to any subject."""
    if has_wildcard(subject):
        raise UsageError(f"{subject!r} has a wildcard: a message has one subject")


async def publish(writer: Writer, asked: PublishMessage) -> PubAck:
    """Publish into a stream.

    Raises UsageError for a subject with a wildcard, RequestFailed when none stores the subject or
    it refuses, and Refused where a stream of another domain would store it as well.
    """
    _check_subject(asked.subject)
    await check_domain(writer.client, asked.subject)
    payload, headers = base64.b64decode(asked.payload_base64), _headers(asked)

    async def send() -> PubAck:
        return await store(writer.client, asked.subject, payload, headers)

    doubt = "the message may still have been stored"
    if asked.message_id is not None:
        doubt += f"; sent again with the id {asked.message_id!r} it is not stored twice"
    draft = JournalDraft(
        "publish", "", None, _kept(asked.subject, len(payload), headers), doubt=doubt
    )
    loses = await _loses(writer, asked.subject, headers)
    typed = asked.subject, asked.confirmed
    return await writer.send(draft, typed, send, msgspec.to_builtins, loses)


async def ack_text(client: Client, subject: str, ack: PubAck) -> str:
    """Return what became of a message that a stream acknowledged."""
    if ack.duplicate:
        return f"a duplicate of {ack.stored_seq} in {ack.stream}"
    try:
        missing = await not_kept(client, ack.stream, [(ack.stored_seq, ack.stored_seq)], subject)
    except PermissionDenied:
        return f"acknowledged as {ack.stored_seq} in {ack.stream}"
    if missing is None:
        return f"stored as {ack.stored_seq} in {ack.stream}"
    return f"acknowledged as {ack.stored_seq}, and not kept by {missing[1]}"


@dataclass(slots=True)
class Batch:
    """Messages to send to one subject, one after the other, and how far that has come."""

    subject: str
    payloads: Iterable[bytes]
    count: int
    given_bytes: int
    """Length of the payload before places in it are filled in."""
    headers: tuple[tuple[str, str], ...] = ()
    reply: str = ""
    sleep_s: float = 0.0
    """Between one and the next."""
    stored: bool = False
    """Whether each waits for the acknowledgement of a stream."""
    confirmed: str | None = None
    """The subject as typed again, where that is needed."""
    sent_count: int = 0
    payload_bytes: int = 0
    acks: list[PubAck] = field(default_factory=list)
    """What streams said of the first and of the newest stored message."""
    duplicates_count: int = 0
    not_kept: tuple[int, str] | None = None
    """How many messages were acknowledged and did not stay, and why."""
    is_checked: bool = True
    """Whether it is known what the stream kept."""

    @property
    def is_lost(self) -> bool:
        """Return whether the stream kept none: newer messages may replace older ones."""
        stored_count = self.sent_count - self.duplicates_count
        return self.not_kept is not None and self.not_kept[0] >= stored_count


async def publish_batch(writer: Writer, batch: Batch) -> None:
    """Send them all, and journal it as one; the batch counts what was sent, also before an error.

    Raises what `Writer.send`, `Client.telling` and `Client.publish` raise, and UsageError for a
    subject with a wildcard; where it is to be stored, RequestFailed when no stream does, and
    Refused when one of another domain would too.
    """
    _check_subject(batch.subject)
    if batch.stored:
        await check_domain(writer.client, batch.subject)
    headers = Pairs(batch.headers)
    kept = _kept(batch.subject, batch.given_bytes, headers) | {"count": batch.count}
    doubt = "some messages may still have been sent"
    await writer.send(
        JournalDraft("publish", "", None, kept, doubt=doubt),
        (batch.subject, batch.confirmed),
        lambda: _send_all(writer.client, batch, headers),
        lambda _: {"sent_count": batch.sent_count, "payload_bytes": batch.payload_bytes},
        await _loses(writer, batch.subject, headers),
    )


async def _send_all(client: Client, batch: Batch, headers: dict[str, str]) -> None:
    if batch.stored:
        async for payload in _spaced(batch):
            ack = await store(client, batch.subject, payload, headers)
            batch.acks[1:] = [ack]
            batch.duplicates_count += ack.duplicate
            _count(batch, payload)
        await _compare(client, batch)
        return
    try:
        async with client.telling(batch.subject):
            async for payload in _spaced(batch):
                await client.publish(
                    batch.subject, payload, reply=batch.reply, headers=headers or None
                )
                _count(batch, payload)
    except PermissionDenied:
        batch.sent_count = batch.payload_bytes = 0
        raise


async def _compare(client: Client, batch: Batch) -> None:
    """Note how many of the stored messages the stream did not keep."""
    stored_count = batch.sent_count - batch.duplicates_count
    stored = [ack for ack in batch.acks if not ack.duplicate]
    if not stored:
        return
    first, last = stored[0], stored[-1]
    same = first.stream == last.stream
    # Between them may be messages of others.
    seqs = (min(first.stored_seq, last.stored_seq) if same else last.stored_seq, last.stored_seq)
    try:
        missing = await not_kept(client, last.stream, [seqs], batch.subject)
    except PermissionDenied:
        batch.is_checked = False
        return
    if missing is not None:
        count, reason = missing
        batch.not_kept = min(count, stored_count), reason


async def _spaced(batch: Batch) -> AsyncIterator[bytes]:
    for payload in batch.payloads:
        if batch.sent_count and batch.sleep_s:
            await asyncio.sleep(batch.sleep_s)
        yield payload


def _count(batch: Batch, payload: bytes) -> None:
    batch.sent_count += 1
    batch.payload_bytes += len(payload)


async def _loses(writer: Writer, subject: str, headers: Mapping[str, str]) -> str | None:
    """Return what a message removes for good: by a roll-up, or as a request to the API."""
    for traits in CATALOGUE.values():
        api = f"{writer.client.prefix}.{traits.verb}"
        if traits.verb and traits.removes != "never" and overlap(api, subject):
            return f"it is a request to the server itself: {traits.help}"
    rollup = next((text for name, text in headers.items() if name.lower() == "nats-rollup"), None)
    if rollup is None:
        return None
    found = json.loads(await writer.client.request("STREAM.NAMES", {"subject": subject}))
    stream = next(iter(found.get("streams") or ()), None)
    if stream is None:
        return "its roll-up removes the messages before it"
    body = {"subjects_filter": subject}
    state = json.loads(await writer.client.request(f"STREAM.INFO.{stream}", body))["state"]
    count = state["messages"] if rollup.lower() == "all" else 0
    count = count or sum((state.get("subjects") or {}).values())
    what = f"{count:,} of {counted(state['messages'], 'message')} of {stream}"
    return f"the roll-up removes {what} for good"


async def request_reply(writer: Writer, asked: RequestReply) -> StoredMessage:
    """Send a request and return the first reply.

    Raises UsageError for a subject with a wildcard, and RequestFailed when nobody is there.
    """
    _check_subject(asked.subject)
    payload, headers = base64.b64decode(asked.payload_base64), Pairs(asked.headers)

    async def send() -> StoredMessage:
        reply = await writer.client.ask(
            asked.subject, payload, headers=headers or None, timeout_s=asked.timeout_s
        )
        check_answered(reply, f'no reply on "{asked.subject}"')
        return arrived(reply, None)

    doubt = "somebody may still have received the request"
    draft = JournalDraft(
        "request", "", None, _kept(asked.subject, len(payload), headers), doubt=doubt
    )
    return await writer.send(
        draft,
        (asked.subject, asked.confirmed),
        send,
        lambda reply: {"reply_bytes": reply.payload_bytes},
        await _loses(writer, asked.subject, headers),
    )


async def request_replies(
    writer: Writer, asked: Batch, wanted_count: int, timeout_s: float, on_reply: OnReply
) -> None:
    """Send the one message of a batch as a request; `on_reply` gets each reply as it comes.

    0 wants all that come within the time-out. Raises RequestFailed when fewer than wanted came.
    """
    _check_subject(asked.subject)
    headers, (payload,) = Pairs(asked.headers), asked.payloads

    async def send() -> int:
        count = replies_bytes = 0
        try:
            async with asyncio.timeout(timeout_s if wanted_count != 1 else None):
                async for reply in _replies(writer.client, asked, payload, timeout_s):
                    on_reply(reply)
                    count, replies_bytes = count + 1, replies_bytes + len(reply.data)
                    if count == wanted_count:
                        break
        except (TimeoutError, RequestTimedOut) as error:
            if not count:
                raise RequestTimedOut(asked.subject, timeout_s) from error
        if count < wanted_count:
            some = f"{count} of {wanted_count} replies came"
            raise RequestFailed(f'{some} on "{asked.subject}" within {timeout_s:g} s')
        return replies_bytes

    doubt = "somebody may still have received the request"
    kept = _kept(asked.subject, len(payload), headers)
    await writer.send(
        JournalDraft("request", "", None, kept, doubt=doubt),
        (asked.subject, asked.confirmed),
        send,
        lambda length_bytes: {"reply_bytes": length_bytes},
        await _loses(writer, asked.subject, headers),
    )


async def _replies(
    client: Client, asked: Batch, payload: bytes, timeout_s: float
) -> AsyncIterator[Msg]:
    headers = Pairs(asked.headers) or None
    replies = client.answers(asked.subject, payload, timeout_s=timeout_s, headers=headers)
    async with aclosing(replies):
        async for reply in replies:
            check_answered(reply, f'no reply on "{asked.subject}"')
            yield reply


OnReply = Callable[[Msg], None]
_PLAIN = ("Nats-Msg-Id", "Nats-TTL", "Nats-Expected-")


def _kept(subject: str, payload_bytes: int, headers: dict[str, str]) -> dict[str, Any]:
    """Return what the journal keeps: no payload, and only the names of other headers."""
    shown = {name: text if name.startswith(_PLAIN) else "" for name, text in headers.items()}
    sizes: dict[str, Any] = {"subject": subject, "payload_bytes": payload_bytes}
    return sizes | ({"headers": shown} if shown else {})


def arrived(msg: Msg, preview_bytes: int | None) -> StoredMessage:
    """Return a message as it was delivered, without a sequence."""
    payload = msg.data if preview_bytes is None else msg.data[:preview_bytes]
    return StoredMessage(
        None,
        msg.subject,
        time.time_ns() // 1000,
        pairs_of(msg.headers),
        base64.b64encode(payload).decode(),
        len(msg.data),
    )


def _headers(asked: PublishMessage) -> Pairs:
    fields = {
        "Nats-Msg-Id": asked.message_id,
        "Nats-TTL": asked.ttl,
        "Nats-Expected-Last-Sequence": asked.expected_last_seq,
        "Nats-Expected-Last-Subject-Sequence": asked.expected_last_subject_seq,
    }
    own = {name: str(value) for name, value in fields.items() if value is not None}
    return Pairs([*(pair for pair in asked.headers if pair[0] not in own), *own.items()])
