"""One message into a stream, and what the stream says of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from nats.aio.msg import Msg

from natstui.decoding import decoder_of
from natstui.errors import Refused, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
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
        raise RequestFailed(f'the reply on "{subject}" did not come from a stream') from error
    return PubAck(ack.stream, ack.seq, ack.duplicate, ack.val)


async def check_domain(client: Client, subject: str) -> None:
    """Raise Refused where a message to another domain would be stored in the local one as well.

    A subject outside the API names no domain: every JetStream that receives it stores it.
    """
    wanted = client.connection.domain
    if wanted is None:
        return
    try:
        local = await _ask_local(client, "INFO", {})
        # A leaf node without a JetStream of its own is served by the hub.
        if local.get("domain") == wanted:
            return
        streams = (await _ask_local(client, "STREAM.NAMES", {"subject": subject})).get("streams")
    except RequestTimedOut:
        # One that is slow may store it all the same.
        raise
    except RequestFailed:
        # No JetStream here, or it may not be asked: nothing is known to store it.
        return
    if streams:
        where = f"domain {local['domain']}" if local.get("domain") else "the connected server"
        raise Refused(
            f"stream {streams[0]} of {where} would store this as well as domain {wanted}:"
            f" connect to a server of domain {wanted} to write there"
        )


async def _ask_local(client: Client, verb: str, body: dict[str, str]) -> dict[str, Any]:
    """Return the reply of the JetStream that needs no prefix; raises RequestFailed."""
    reply = await client.ask(f"$JS.API.{verb}", json.dumps(body).encode())
    check_answered(reply, "there is no JetStream here")
    check_reply(verb, reply.data)
    answer: dict[str, Any] = json.loads(reply.data)
    return answer


def check_answered(reply: Msg, sentence: str) -> None:
    """Raise RequestFailed with a sentence when nobody was there to answer."""
    if status_of(reply.headers) == "503" and not reply.data:
        raise RequestFailed(sentence, code=503)
