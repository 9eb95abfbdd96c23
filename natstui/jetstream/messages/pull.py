"""Pulls one message of a pull consumer, and acks, naks or terminates it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import Any

from nats.aio.msg import Msg

from natstui.errors import (
    Conflict,
    JetStreamUnavailable,
    NotFound,
    PermissionDenied,
    RequestFailed,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.account import read_asset_counts
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.storing import check_ack_consumer
from natstui.jetstream.connection.writer import Asset, JournalDraft, Writer
from natstui.jetstream.messages.decode import read_headers
from natstui.model.assets.fields import number_at, text_at
from natstui.model.assets.limits_loss import ACK_RETENTIONS
from natstui.model.assets.loss import Loss
from natstui.model.assets.subjects import has_wildcard
from natstui.model.records.messages import AnswerMessage, PulledMessage, PullNext, StoredMessage
from natstui.units import counted
from natstui.values import replace

_REPLY_MARGIN_S = 2.0
_MAX_SEARCHED_ASSETS = 2_000
"""With more streams or consumers, push consumers are not searched by deliver subject: one request
per stream would take seconds and load the server."""


async def describe_receiving_loss(
    client: Client, stream: str, info: ConsumerRow, max_count: int | None, *, acks: bool | None
) -> str | None:
    """Return a sentence about the messages that a consumer's other clients will never receive if
    natstui receives messages of it; None if there are none.

    `info` is the CONSUMER.INFO, `max_count` the number of messages to receive (None: no limit),
    and `acks` whether they are acknowledged (None: not known yet). Raises the request errors.
    """
    config, consumer = info.read_config(), info.name
    policy = text_at(config, "ack_policy")
    messages_text = _messages_text(max_count)
    if info.push_bound and not config.get("deliver_group"):
        return None
    if policy == "all" and acks is not False and (info.num_ack_pending or acks is None):
        ack_pending_text = counted(f"{info.num_ack_pending:,}", "message")
        return (
            "an ack acknowledges all earlier ones, too: "
            f"clients of {consumer} have {ack_pending_text} to ack"
        )
    if policy == "none" and not acks:
        retention = await _read_retention(client, stream)
        if retention in ACK_RETENTIONS:
            return (
                f"{consumer} has ack policy none, and {stream} {retention} retention: "
                f"{messages_text} that no other consumer needs is removed when it is received"
            )
        if acks is None:
            return f"{consumer} has ack policy none: a received message is not redelivered"
        return None
    if policy == "flow_control":
        return f"{consumer} is for a stream that copies by it, which does not get what is received"
    max_deliver = number_at(config, "max_deliver")
    if acks or max_deliver <= 0:
        return None
    limit_text = f"max deliver {max_deliver}"
    if max_deliver == 1:
        return f"{messages_text} is not delivered again: {consumer} has {limit_text}"
    # The next delivery of these messages is the last one; of the others it is the second at most.
    if last_delivery_msgs := info.num_ack_pending if max_deliver == 2 else info.num_redelivered:
        last_delivery_text = counted(f"{last_delivery_msgs:,}", "message")
        return f"{last_delivery_text} of {consumer} may reach {limit_text}, and are dropped then"
    if max_count is None or max_count >= max_deliver:
        return (
            f"a message of {consumer} that reaches {limit_text} here, redelivered after the ack "
            "wait, is dropped"
        )
    return None


async def describe_listening_loss(
    client: Client, subjects: Sequence[str], queue: str
) -> str | None:
    """Return clauses about what push consumers without a subscriber would lose by delivering to a
    new subscription to `subjects`; None if nothing.

    Only a subscription to exactly the deliver subject starts a push consumer, not one with a
    wildcard; with a deliver group, only a member of it does (measured). Raises RequestFailed when
    there are too many consumers to examine, and the request errors.
    """
    literal_subjects = {subject for subject in subjects if not has_wildcard(subject)}
    if not literal_subjects:
        return None
    try:
        streams_count, consumers_count = read_asset_counts(await client.request("INFO"))
    except JetStreamUnavailable:
        return None
    if max(streams_count, consumers_count) > _MAX_SEARCHED_ASSETS:
        raise RequestFailed(
            f"there are {counted(f'{consumers_count:,}', 'consumer')} on "
            f"{counted(f'{streams_count:,}', 'stream')}"
        )
    clauses = []
    if consumers_count:
        async for page in client.pages("STREAM.NAMES"):
            for stream in json.loads(page).get("streams") or ():
                clauses += await _describe_stream_deliveries(
                    client, stream, literal_subjects, queue
                )
    return " and ".join(clauses) or None


async def _describe_stream_deliveries(
    client: Client, stream: str, subjects: set[str], queue: str
) -> list[str]:
    clauses = []
    async for info in client.consumer_rows(stream):
        config = info.read_config()
        subject = text_at(config, "deliver_subject")
        group = text_at(config, "deliver_group")
        if subject not in subjects or info.push_bound or group not in ("", queue):
            continue
        acks = None if text_at(config, "ack_policy") == "none" else False
        if loss := await describe_receiving_loss(client, stream, info, None, acks=acks):
            clauses.append(
                f"{info.name} of {stream} delivers to {subject}, which has no subscriber: {loss}"
            )
    return clauses


def _messages_text(max_count: int | None) -> str:
    if max_count is None:
        return "each message"
    return "one message" if max_count == 1 else f"each of up to {max_count:,} messages"


async def _read_retention(client: Client, stream: str) -> str:
    """Return the retention of a stream; raises the request errors."""
    return text_at((await client.stream_info(stream)).read_config(), "retention")


async def pull_next(
    writer: Writer,
    command: PullNext,
    loss_text: str | None = None,
    created_at_us: int | None = None,
) -> PulledMessage:
    """Pull the next message; raises NotFound when there is none within `wait_s`.

    `loss_text` is what other clients lose by it, a sentence. Raises Conflict if the consumer has
    another creation time than `created_at_us`, or if another loss was confirmed.
    """
    writer.check_loss(command.consumer, loss_text)
    body = {"group": command.group} if command.group is not None else {}
    doubt = "a message may still have been delivered"
    target = None
    if created_at_us is not None:
        target = Asset({}, created_at_us, loss=Loss((loss_text,) if loss_text else (), None))
    draft = JournalDraft(
        "pull", command.stream, command.consumer, body, target=target, doubt=doubt
    )
    return await writer.send(
        draft,
        (command.consumer, command.confirmed),
        lambda: pull_without_journal(writer.client, command),
        _journal_result,
        loss_text,
    )


async def pull_identified(writer: Writer, command: PullNext) -> PulledMessage:
    """Pull the next message, with the creation time of its consumer for a later ack.

    The creation time is read first: if that fails, no message was consumed. Raises what
    `pull_next` raises.
    """
    info = await _read_info(writer.client, command.stream, command.consumer)
    loss_text = None
    if info is not None:
        with suppress(PermissionDenied):
            loss_text = await describe_receiving_loss(
                writer.client, command.stream, info, 1, acks=None
            )
    created_at_us = None if info is None else info.created_at_us
    pulled_message = await pull_next(writer, command, loss_text, created_at_us)
    return replace(pulled_message, consumer_created_at_us=created_at_us)


async def _read_info(client: Client, stream: str, consumer: str) -> ConsumerRow | None:
    """Return the CONSUMER.INFO; None if there is no such consumer or the user may not read it."""
    try:
        return await client.consumer_info(stream, consumer)
    except (NotFound, PermissionDenied):
        return None


def _journal_result(result: PulledMessage) -> dict[str, Any]:
    return {"stream_seq": result.message.stream_seq, "deliveries_count": result.deliveries_count}


async def pull_without_journal(client: Client, command: PullNext) -> PulledMessage:
    """Pull the next message without a journal entry, which the caller writes.

    Raises NotFound if there is none.
    """
    subject = f"{client.prefix}.CONSUMER.MSG.NEXT.{command.stream}.{command.consumer}"
    body: dict[str, Any] = {"batch": 1, "expires": round(command.wait_s * 1_000_000_000)}
    if command.group is not None:
        body["group"] = command.group
    timeout_s = command.wait_s + _REPLY_MARGIN_S
    pull_replies = client.request_many(subject, json.dumps(body).encode(), timeout_s=timeout_s)
    async with aclosing(pull_replies) as replies:
        msg = await anext(replies)
    if (status := status_of(msg.headers)) is not None:
        raise _make_no_message_error(
            status, str(msg.headers.get("Description", "")), command.consumer
        )
    result = read_delivered(msg, command.stream, command.consumer)
    if result is None:
        raise RequestFailed(f"the reply is not a message of the consumer {command.consumer}")
    return result


def _make_no_message_error(status: str, description: str, consumer: str) -> RequestFailed:
    if status in ("404", "408"):
        return NotFound(f"consumer {consumer} has no message to deliver now", code=int(status))
    if status == "503":
        return NotFound(f"there is no pull consumer {consumer}", code=503)
    return RequestFailed(f"consumer {consumer}: {description} ({status})", code=int(status))


def split_reply_subject(reply: str) -> tuple[str, str, list[str]]:
    """Return the stream, the consumer and the numbers of the reply subject of a delivery.

    Since server 2.12 the reply subject may have two more tokens at the start, domain and account,
    and one more at the end.
    """
    tokens = reply.split(".")
    index = _stream_token_index(len(tokens))
    stream, consumer, *numbers = [*tokens[index : index + 7], "", ""][:7]
    return stream, consumer, numbers


def _stream_token_index(tokens_count: int) -> int:
    """Return the index of the stream's name in a reply subject of `tokens_count` tokens."""
    return 2 if tokens_count == 9 else 4


def parse_reply_numbers(reply: bytes) -> list[int]:
    """Return the number of deliveries, the sequences in the stream and of the consumer, the time
    in ns, and the number of pending messages, from a reply subject.

    Nothing is checked, because this is fast for many messages: call it only for reply subjects
    that the connected server created.
    """
    tokens = reply.split(b".")
    index = _stream_token_index(len(tokens)) + 2
    return list(map(int, tokens[index : index + 5]))


def read_delivered(msg: Msg, stream: str, consumer: str) -> PulledMessage | None:
    """Return a message that a consumer delivered; None if another client published it.

    An ack of such a message would be sent to a subject that its publisher chose.
    """
    if not msg.reply.startswith("$JS.ACK."):
        return None
    *stream_and_consumer, numbers = split_reply_subject(msg.reply)
    is_complete = len(numbers) == 5 and all(token.isdecimal() for token in numbers)
    return (
        _make_pulled_message(msg)
        if is_complete and stream_and_consumer == [stream, consumer]
        else None
    )


def _make_pulled_message(msg: Msg) -> PulledMessage:
    """Return the message, with the numbers in its reply subject."""
    _, _, numbers = split_reply_subject(msg.reply)
    deliveries, stream_seq, consumer_seq, stored_at_ns, pending = map(int, numbers)
    message = StoredMessage(
        stream_seq,
        msg.subject,
        stored_at_ns // 1000,
        read_headers(msg.headers),
        base64.b64encode(msg.data).decode(),
        len(msg.data),
    )
    return PulledMessage(message, msg.reply, consumer_seq, deliveries, pending)


async def send_ack(writer: Writer, command: AnswerMessage) -> str:
    """Ack, nak or terminate a pulled message, and return the result as a sentence.

    A double ack waits until the consumer confirms it; raises OutcomeUnknown when it does not.
    Raises Conflict when another consumer has the name now, also one on another server: with it,
    the reply subject would refer to another message. Raises ActionRefusal if a consumer of another
    domain would receive the ack as well.
    """
    stream, _, numbers = split_reply_subject(command.reply)
    if command.consumer_created_at_us is not None:
        info = await _read_info(writer.client, stream, command.consumer)
        # A restart keeps the creation time of a consumer, and no other consumer has it.
        if info is None or info.created_at_us != command.consumer_created_at_us:
            raise Conflict(
                f"{command.consumer} on {stream} is not the consumer that this message was pulled "
                "from: nothing was sent"
            )
    await check_ack_consumer(writer.client, stream, command.consumer)
    ack_payload, result_text = _make_ack(command)

    async def send() -> str:
        if command.answer == "double_ack":
            await writer.client.ack(command.reply, ack_payload)
        else:
            await writer.client.publish_and_flush(command.reply, ack_payload)
        return result_text

    journal_fields = {
        "answer": command.answer,
        "subject": command.reply,
        "payload": ack_payload.decode(),
        "stream_seq": int(numbers[1]) if numbers[1:] and numbers[1].isdecimal() else None,
    }
    doubt = "the ack may have arrived; a second ack does no harm"
    draft = JournalDraft("answer", stream, command.consumer, journal_fields, doubt=doubt)
    return await writer.send(
        draft, (command.consumer, command.confirmed), send, lambda text: {"text": text}
    )


def _make_ack(command: AnswerMessage) -> tuple[bytes, str]:
    if command.answer == "nak" and command.delay_s:
        nak_options = {"delay": round(command.delay_s * 1_000_000_000)}
        text = f"nak'd: redelivered after {command.delay_s:g} s"
        return b"-NAK " + json.dumps(nak_options).encode(), text
    if command.answer == "term" and command.reason:
        return b"+TERM " + command.reason.encode(), f"terminated: {command.reason}"
    return {
        "ack": (b"+ACK", "acknowledged"),
        "double_ack": (b"+ACK", "acknowledged, and confirmed by the server"),
        "nak": (b"-NAK", "nak'd: redelivered at once"),
        "in_progress": (b"+WPI", "still in progress: the ack wait begins again"),
        "term": (b"+TERM", "terminated: it is not delivered again"),
    }[command.answer]
