"""Pulls one message of a pull consumer, and acks or naks it."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
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
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.storing import check_ack_consumer
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Asset, Config, JournalDraft, Writer
from natstui.jetstream.messages.decode import pairs_of
from natstui.model.assets.fields import number_at, text_at
from natstui.model.assets.limits_loss import CONSUMED
from natstui.model.assets.loss import Loss
from natstui.model.assets.subjects import has_wildcard
from natstui.model.records.messages import AnswerMessage, PulledMessage, PullNext, StoredMessage
from natstui.units import counted

_LATE_S = 2.0
_MOST_LOOKED_THROUGH = 2_000
"""Of more streams or consumers it is not looked for those that deliver to a subject: a request
for each would take seconds, and load the server."""


async def receiving_loss(
    client: Client, stream: str, info: Config, most_count: int | None, *, acks: bool | None
) -> str | None:
    """Return what receiving from a consumer takes from its other clients for good; None if
    nothing.

    `info` is the CONSUMER.INFO, `most_count` the number of messages (None: without end), and
    `acks` whether they are acknowledged; None: not known yet. Raises the request errors.
    """
    config = info["config"]
    consumer, policy = info["name"], text_at(config, "ack_policy")
    messages_text = _messages_text(most_count)
    if info.get("push_bound") and not config.get("deliver_group"):
        return None
    held_msgs = number_at(info, "num_ack_pending")
    if policy == "all" and acks is not False and (held_msgs or acks is None):
        held_text = counted(f"{held_msgs:,}", "message")
        return f"an ack acknowledges all earlier ones, too: clients of {consumer} hold {held_text}"
    if policy == "none" and not acks:
        retention = await _retention(client, stream)
        if retention in CONSUMED:
            return (
                f"{consumer} has ack policy none, and {stream} {retention} retention: "
                f"{messages_text} that nobody else needs is removed when it is received"
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
    # The next delivery of these is the last; of the others it is the second at most.
    counter = "num_ack_pending" if max_deliver == 2 else "num_redelivered"
    if last_msgs := number_at(info, counter):
        last_text = counted(f"{last_msgs:,}", "message")
        return f"{last_text} of {consumer} may reach {limit_text}, and are given up then"
    if most_count is None or most_count >= max_deliver:
        return (
            f"a message of {consumer} that reaches {limit_text} here, redelivered after the ack "
            "wait, is given up"
        )
    return None


async def listening_loss(client: Client, subjects: Sequence[str], queue: str) -> str | None:
    """Return what push consumers without a listener would deliver to a new one, instead of to
    their own, in clauses; None if nothing.

    Only a subscription to the very deliver subject starts them, not one with a wildcard, and with
    a deliver group only its members (measured). Raises RequestFailed when there are too many
    consumers to look through, and the request errors.
    """
    literal_subjects = {subject for subject in subjects if not has_wildcard(subject)}
    if not literal_subjects:
        return None
    try:
        account = json.loads(await client.request("INFO"))
    except JetStreamUnavailable:
        return None
    streams_count, consumers_count = number_at(account, "streams"), number_at(account, "consumers")
    if max(streams_count, consumers_count) > _MOST_LOOKED_THROUGH:
        raise RequestFailed(
            f"there are {counted(f'{consumers_count:,}', 'consumer')} on "
            f"{counted(f'{streams_count:,}', 'stream')}"
        )
    clauses = []
    if consumers_count:
        async for page in client.pages("STREAM.NAMES"):
            for stream in json.loads(page).get("streams") or ():
                clauses += await _delivered_here(client, stream, literal_subjects, queue)
    return " and ".join(clauses) or None


async def _delivered_here(
    client: Client, stream: str, subjects: set[str], queue: str
) -> list[str]:
    clauses = []
    async for page in client.pages(f"CONSUMER.LIST.{stream}"):
        for info in json.loads(page).get("consumers") or ():
            config, consumer = info["config"], info["name"]
            subject = text_at(config, "deliver_subject")
            group = text_at(config, "deliver_group")
            if subject not in subjects or info.get("push_bound") or group not in ("", queue):
                continue
            acks = None if text_at(config, "ack_policy") == "none" else False
            if loss := await receiving_loss(client, stream, info, None, acks=acks):
                clauses.append(
                    f"{consumer} of {stream} delivers to {subject}, where nobody listens: {loss}"
                )
    return clauses


def _messages_text(most_count: int | None) -> str:
    if most_count is None:
        return "each message"
    return "one message" if most_count == 1 else f"each of up to {most_count:,} messages"


async def _retention(client: Client, stream: str) -> str:
    """Return the retention of a stream; raises the request errors."""
    info = json.loads(await client.request(f"STREAM.INFO.{stream}"))
    return text_at(info["config"], "retention")


async def pull_next(
    writer: Writer,
    command: PullNext,
    loses: str | None = None,
    created_at_us: int | None = None,
) -> PulledMessage:
    """Pull the next message; raises NotFound when there is none within `wait_s`.

    `loses` is what that takes from other clients. Raises Conflict unless the consumer, with this
    creation time, is the confirmed one.
    """
    body = {"group": command.group} if command.group is not None else {}
    doubt = "a message may still have been delivered"
    found = None
    if created_at_us is not None:
        found = Asset({}, created_at_us, {}, Loss((loses,) if loses else (), None))
    draft = JournalDraft("pull", command.stream, command.consumer, body, found=found, doubt=doubt)
    return await writer.send(
        draft,
        (command.consumer, command.confirmed),
        lambda: next_message(writer.client, command),
        _taken,
        loses,
    )


async def pull_identified(writer: Writer, command: PullNext) -> PulledMessage:
    """Pull the next message, with the creation time of its consumer for a later ack.

    It is read before: when that fails, nothing was consumed. Raises what `pull_next` raises.
    """
    info = await _info(writer.client, command.stream, command.consumer)
    loses = None
    if info is not None:
        with suppress(PermissionDenied):
            loses = await receiving_loss(writer.client, command.stream, info, 1, acks=None)
    created_at_us = None if info is None else time_us(info["created"])
    pulled = await pull_next(writer, command, loses, created_at_us)
    return replace(pulled, consumer_created_at_us=created_at_us)


async def _info(client: Client, stream: str, consumer: str) -> Config | None:
    """Return the CONSUMER.INFO; None without the consumer, and if the user may not read it."""
    try:
        info: Config = json.loads(await client.request(f"CONSUMER.INFO.{stream}.{consumer}"))
    except (NotFound, PermissionDenied):
        return None
    return info


def _taken(result: PulledMessage) -> dict[str, Any]:
    return {"stream_seq": result.message.stream_seq, "deliveries_count": result.deliveries_count}


async def next_message(client: Client, command: PullNext) -> PulledMessage:
    """Pull the next message, which the caller has journalled; raises NotFound without one."""
    subject = f"{client.prefix}.CONSUMER.MSG.NEXT.{command.stream}.{command.consumer}"
    body: dict[str, Any] = {"batch": 1, "expires": round(command.wait_s * 1_000_000_000)}
    if command.group is not None:
        body["group"] = command.group
    timeout_s = command.wait_s + _LATE_S
    pull = client.answers(subject, json.dumps(body).encode(), timeout_s=timeout_s)
    async with aclosing(pull) as replies:
        msg = await anext(replies)
    if (status := status_of(msg.headers)) is not None:
        raise _no_message(status, str(msg.headers.get("Description", "")), command.consumer)
    result = delivered(msg, command.stream, command.consumer)
    if result is None:
        raise RequestFailed(f"the reply is not a message of the consumer {command.consumer}")
    return result


def _no_message(status: str, description: str, consumer: str) -> RequestFailed:
    if status in ("404", "408"):
        return NotFound(f"consumer {consumer} has no message to deliver now", code=int(status))
    if status == "503":
        return NotFound(f"there is no pull consumer {consumer}", code=503)
    return RequestFailed(f"consumer {consumer}: {description} ({status})", code=int(status))


def answered_place(reply: str) -> tuple[str, str, list[str]]:
    """Return stream, consumer and numbers of a reply subject.

    Since 2.12 it may start with two more tokens, domain and account, and end with another.
    """
    tokens = reply.split(".")
    index = _place_of(len(tokens))
    stream, consumer, *numbers = [*tokens[index : index + 7], "", ""][:7]
    return stream, consumer, numbers


def _place_of(words_count: int) -> int:
    """Return the index of the stream's token in a reply subject."""
    return 2 if words_count == 9 else 4


def answered_numbers(reply: bytes) -> list[int]:
    """Return deliveries, sequences of stream and consumer, time in ns and pending messages.

    Only for a reply subject from our own server; this is the fast way for many messages.
    """
    tokens = reply.split(b".")
    index = _place_of(len(tokens)) + 2
    return list(map(int, tokens[index : index + 5]))


def delivered(msg: Msg, stream: str, consumer: str) -> PulledMessage | None:
    """Return a consumer's message on its deliver subject; None for one of another publisher.

    An ack to that one would be a message to any subject its publisher wants.
    """
    if not msg.reply.startswith("$JS.ACK."):
        return None
    *stream_and_consumer, numbers = answered_place(msg.reply)
    is_complete = len(numbers) == 5 and all(token.isdecimal() for token in numbers)
    return _pulled(msg) if is_complete and stream_and_consumer == [stream, consumer] else None


def _pulled(msg: Msg) -> PulledMessage:
    """Return the message with the numbers in the reply subject."""
    _, _, numbers = answered_place(msg.reply)
    deliveries, stream_seq, consumer_seq, at_ns, pending = map(int, numbers)
    message = StoredMessage(
        stream_seq,
        msg.subject,
        at_ns // 1000,
        pairs_of(msg.headers),
        base64.b64encode(msg.data).decode(),
        len(msg.data),
    )
    return PulledMessage(message, msg.reply, consumer_seq, deliveries, pending)


async def answer(writer: Writer, command: AnswerMessage) -> str:
    """Ack, nak or terminate a pulled message and return the result as a sentence.

    A double ack waits until the consumer confirms it; raises OutcomeUnknown when it does not.
    Raises Conflict when another consumer has the name now, also on another server: there, the
    reply subject would mean another message. Raises Refused where the ack would be one to a
    consumer of another domain as well.
    """
    stream, _, numbers = answered_place(command.reply)
    if command.consumer_created_at_us is not None:
        info = await _info(writer.client, stream, command.consumer)
        # A restart keeps the creation time of a consumer, and no other consumer has it.
        if info is None or time_us(info["created"]) != command.consumer_created_at_us:
            raise Conflict(
                f"{command.consumer} on {stream} is not the consumer that this message was pulled "
                "from: nothing was sent"
            )
    await check_ack_consumer(writer.client, stream, command.consumer)
    ack_payload, sentence = _words(command)

    async def send() -> str:
        if command.answer == "double_ack":
            await writer.client.ack(command.reply, ack_payload)
        else:
            await writer.client.tell(command.reply, ack_payload)
        return sentence

    journalled = {
        "answer": command.answer,
        "subject": command.reply,
        "payload": ack_payload.decode(),
        "stream_seq": int(numbers[1]) if numbers[1:] and numbers[1].isdecimal() else None,
    }
    doubt = "the ack may have arrived; a second ack does no harm"
    draft = JournalDraft("answer", stream, command.consumer, journalled, doubt=doubt)
    return await writer.send(
        draft, (command.consumer, command.confirmed), send, lambda text: {"text": text}
    )


def _words(command: AnswerMessage) -> tuple[bytes, str]:
    if command.answer == "nak" and command.delay_s:
        delay = {"delay": round(command.delay_s * 1_000_000_000)}
        text = f"nak'd: redelivered after {command.delay_s:g} s"
        return b"-NAK " + json.dumps(delay).encode(), text
    if command.answer == "term" and command.reason:
        return b"+TERM " + command.reason.encode(), f"terminated: {command.reason}"
    return {
        "ack": (b"+ACK", "acknowledged"),
        "double_ack": (b"+ACK", "acknowledged, and confirmed by the server"),
        "nak": (b"-NAK", "nak'd: redelivered at once"),
        "in_progress": (b"+WPI", "still in progress: the ack wait begins again"),
        "term": (b"+TERM", "terminated: it is not delivered again"),
    }[command.answer]
