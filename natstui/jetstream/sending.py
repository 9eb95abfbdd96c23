"""Publishing with an acknowledgement, and requests."""

from __future__ import annotations

import base64
import time
from typing import Any

import msgspec
from nats.aio.msg import Msg

from natstui.errors import RequestFailed
from natstui.jetstream.replies import check_reply
from natstui.jetstream.stored_decode import pairs_of
from natstui.jetstream.writer import Noted, Writer
from natstui.model.send import PubAck, PublishMessage, RequestReply
from natstui.model.stored import StoredMessage


class _PubAck(msgspec.Struct):
    stream: str
    seq: int
    duplicate: bool = False
    val: str | None = None


async def publish(writer: Writer, asked: PublishMessage) -> PubAck:
    """Publish into a stream; raises RequestFailed when none stores the subject or it refuses."""
    payload, headers = base64.b64decode(asked.payload_base64), _headers(asked)

    async def send() -> PubAck:
        reply = await writer.client.ask(asked.subject, payload, headers=headers or None)
        _check_answered(reply, f'no stream stores "{asked.subject}"')
        check_reply("publish", reply.data)
        try:
            ack = msgspec.json.decode(reply.data, type=_PubAck)
        except msgspec.DecodeError as error:
            what = f'what answers on "{asked.subject}" is not a stream'
            raise RequestFailed(what) from error
        return PubAck(ack.stream, ack.seq, ack.duplicate, ack.val)

    doubt = "the message may be stored all the same"
    if asked.message_id is not None:
        doubt += f"; sent again with the id {asked.message_id!r} it is not stored twice"
    noted = Noted("publish", "", None, _kept(asked, payload, headers), doubt=doubt)
    return await writer.send(noted, (asked.subject, asked.confirmed), send, msgspec.to_builtins)


async def request_reply(writer: Writer, asked: RequestReply) -> StoredMessage:
    """Send a request and return the first reply; raises RequestFailed when nobody is there."""
    payload, headers = base64.b64decode(asked.payload_base64), dict(asked.headers)

    async def send() -> StoredMessage:
        reply = await writer.client.ask(
            asked.subject, payload, headers=headers or None, timeout_s=asked.timeout_s
        )
        _check_answered(reply, f'nobody answers on "{asked.subject}"')
        return arrived(reply, None)

    doubt = "somebody may have taken the request all the same"
    noted = Noted("request", "", None, _kept(asked, payload, headers), doubt=doubt)
    return await writer.send(
        noted,
        (asked.subject, asked.confirmed),
        send,
        lambda reply: {"reply_bytes": reply.payload_bytes},
    )


_PLAIN = ("Nats-Msg-Id", "Nats-TTL", "Nats-Expected-")


def _kept(
    asked: PublishMessage | RequestReply, payload: bytes, headers: dict[str, str]
) -> dict[str, Any]:
    """Return what the journal keeps of a message: no payload, and of other headers the names."""
    shown = {name: text if name.startswith(_PLAIN) else "" for name, text in headers.items()}
    sizes: dict[str, Any] = {"subject": asked.subject, "payload_bytes": len(payload)}
    return sizes | ({"headers": shown} if shown else {})


def arrived(msg: Msg, preview_bytes: int | None) -> StoredMessage:
    """Return a message as it arrived alive, without a sequence."""
    payload = msg.data if preview_bytes is None else msg.data[:preview_bytes]
    return StoredMessage(
        None,
        msg.subject,
        time.time_ns() // 1000,
        pairs_of(msg.headers),
        base64.b64encode(payload).decode(),
        len(msg.data),
    )


def _headers(asked: PublishMessage) -> dict[str, str]:
    headers = dict(asked.headers)
    for name, value in (
        ("Nats-Msg-Id", asked.message_id),
        ("Nats-TTL", asked.ttl),
        ("Nats-Expected-Last-Sequence", asked.expected_last_seq),
        ("Nats-Expected-Last-Subject-Sequence", asked.expected_last_subject_seq),
    ):
        if value is not None:
            headers[name] = str(value)
    return headers


def _check_answered(reply: Msg, sentence: str) -> None:
    if (reply.headers or {}).get("Status") == "503" and not reply.data:
        raise RequestFailed(sentence, code=503)
