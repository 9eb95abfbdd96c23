"""One message from a pull consumer, and the answer to it."""

from __future__ import annotations

import base64
import json
from contextlib import aclosing
from typing import Any

from nats.aio.msg import Msg

from natstui.errors import NotFound, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.messages.decode import pairs_of
from natstui.model.records.messages import AnswerMessage, PulledMessage, PullNext, StoredMessage

_LATE_S = 2.0


async def pull_next(writer: Writer, asked: PullNext) -> PulledMessage:
    """Take the next message; raises NotFound when there is none within `wait_s`."""
    body = {"group": asked.group} if asked.group is not None else {}
    doubt = "a message may still have been delivered"
    draft = JournalDraft("pull", asked.stream, asked.consumer, body, doubt=doubt)
    return await writer.send(
        draft,
        (asked.consumer, asked.confirmed),
        lambda: next_message(writer.client, asked),
        _taken,
    )


def _taken(pulled: PulledMessage) -> dict[str, Any]:
    return {"stream_seq": pulled.message.stream_seq, "deliveries_count": pulled.deliveries_count}


async def next_message(client: Client, asked: PullNext) -> PulledMessage:
    """Take the next message, which the caller has journalled; raises NotFound without one."""
    subject = f"{client.prefix}.CONSUMER.MSG.NEXT.{asked.stream}.{asked.consumer}"
    body: dict[str, Any] = {"batch": 1, "expires": round(asked.wait_s * 1_000_000_000)}
    if asked.group is not None:
        body["group"] = asked.group
    timeout_s = asked.wait_s + _LATE_S
    pull = client.answers(subject, json.dumps(body).encode(), timeout_s=timeout_s)
    async with aclosing(pull) as answers:
        msg = await anext(answers)
    if (status := status_of(msg.headers)) is not None:
        raise _no_message(status, str(msg.headers.get("Description", "")), asked.consumer)
    pulled = delivered(msg, asked.stream, asked.consumer)
    if pulled is None:
        raise RequestFailed(f"the reply is not a message of the consumer {asked.consumer}")
    return pulled


def _no_message(status: str, description: str, consumer: str) -> RequestFailed:
    if status in ("404", "408"):
        return NotFound(f"consumer {consumer} has no message to deliver now", code=int(status))
    if status == "503":
        return NotFound(f"there is no pull consumer {consumer}", code=503)
    return RequestFailed(f"consumer {consumer}: {description} ({status})", code=int(status))


def answered_place(reply: str) -> tuple[str, str, list[str]]:
    """Return stream, consumer and numbers of a reply subject.

    Since 2.12 it may have two more words in front, domain and account, and one behind.
    """
    words = reply.split(".")
    at = _place_of(len(words))
    stream, consumer, *numbers = [*words[at : at + 7], "", ""][:7]
    return stream, consumer, numbers


def _place_of(words_count: int) -> int:
    """Return which word of a reply subject is the stream."""
    return 2 if words_count == 9 else 4


def answered_numbers(reply: bytes) -> list[int]:
    """Return deliveries, sequences of stream and consumer, time in ns and how many follow.

    Only for a reply subject that the server made for us; of many messages this is the quick way.
    """
    words = reply.split(b".")
    at = _place_of(len(words)) + 2
    return list(map(int, words[at : at + 5]))


def delivered(msg: Msg, stream: str, consumer: str) -> PulledMessage | None:
    """Return what a consumer sent to its deliver subject; None for what anybody else did.

    An answer to that one would be a message to wherever its sender wants.
    """
    if not msg.reply.startswith("$JS.ACK."):
        return None
    *place, numbers = answered_place(msg.reply)
    whole = len(numbers) == 5 and all(word.isdecimal() for word in numbers)
    return _pulled(msg) if whole and place == [stream, consumer] else None


def _pulled(msg: Msg) -> PulledMessage:
    """Read the numbers in the reply subject."""
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


async def answer(writer: Writer, asked: AnswerMessage) -> str:
    """Answer a pulled message and return the answer as a sentence.

    A double ack waits until the consumer confirms it; raises OutcomeUnknown when it does not.
    """
    words, sentence = _words(asked)

    async def send() -> str:
        if asked.answer == "double_ack":
            await writer.client.ask(asked.reply, words)
        else:
            await writer.client.tell(asked.reply, words)
        return sentence

    stream, _, numbers = answered_place(asked.reply)
    kept = {
        "answer": asked.answer,
        "subject": asked.reply,
        "payload": words.decode(),
        "stream_seq": int(numbers[1]) if numbers[1:] and numbers[1].isdecimal() else None,
    }
    doubt = "the ack may have arrived; a second ack does no harm"
    draft = JournalDraft("answer", stream, asked.consumer, kept, doubt=doubt)
    return await writer.send(
        draft, (asked.consumer, asked.confirmed), send, lambda text: {"text": text}
    )


def _words(asked: AnswerMessage) -> tuple[bytes, str]:
    if asked.answer == "nak" and asked.delay_s:
        delay = {"delay": round(asked.delay_s * 1_000_000_000)}
        text = f"nak'd: redelivered after {asked.delay_s:g} s"
        return b"-NAK " + json.dumps(delay).encode(), text
    if asked.answer == "term" and asked.reason:
        return b"+TERM " + asked.reason.encode(), f"terminated: {asked.reason}"
    return {
        "ack": (b"+ACK", "acknowledged"),
        "double_ack": (b"+ACK", "acknowledged, and confirmed by the server"),
        "nak": (b"-NAK", "nak'd: redelivered at once"),
        "in_progress": (b"+WPI", "still in progress: the ack wait begins again"),
        "term": (b"+TERM", "terminated: it is not delivered again"),
    }[asked.answer]
