"""One message into a stream, and what the stream says of it."""

from __future__ import annotations

import msgspec
from nats.aio.msg import Msg

from natstui.decoding import decoder_of
from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import check_reply
from natstui.model.records.messages import PubAck


class _PubAck(msgspec.Struct):
    stream: str
    seq: int
    duplicate: bool = False
    val: str | None = None


async def store(
    client: Client, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None
) -> PubAck:
    """Send one message and return what the stream says of it.

    Raises RequestFailed when none stores the subject, and the request errors.
    """
    reply = await client.ask(subject, payload, headers=headers or None)
    check_answered(reply, f'no stream stores "{subject}"')
    check_reply("publish", reply.data)
    try:
        ack = decoder_of(_PubAck).decode(reply.data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestFailed(f'what answers on "{subject}" is not a stream') from error
    return PubAck(ack.stream, ack.seq, ack.duplicate, ack.val)


def check_answered(reply: Msg, sentence: str) -> None:
    """Raise RequestFailed with a sentence when nobody was there to answer."""
    if (reply.headers or {}).get("Status") == "503" and not reply.data:
        raise RequestFailed(sentence, code=503)
