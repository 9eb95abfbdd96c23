"""Publishing with an acknowledgement, and requests."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from nats.aio.msg import Msg

from natstui.errors import RequestFailed
from natstui.jetstream.connection.replies import check_reply
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.messages.decode import pairs_of
from natstui.model.assets.subjects import overlap
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.messages import PubAck, PublishMessage, RequestReply, StoredMessage
from natstui.units import counted


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
    draft = JournalDraft("publish", "", None, _kept(asked, payload, headers), doubt=doubt)
    loses = await _loses(writer, asked.subject, headers)
    typed = asked.subject, asked.confirmed
    return await writer.send(draft, typed, send, msgspec.to_builtins, loses)


async def _loses(writer: Writer, subject: str, headers: Mapping[str, str]) -> str | None:
    """Return what a message removes for good: by a roll-up, or as a request to the API."""
    for traits in CATALOGUE.values():
        api = f"{writer.client.prefix}.{traits.verb}"
        if traits.verb and traits.removes != "never" and overlap(api, subject):
            return f"it asks the server itself: {traits.help}"
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
    return f"its roll-up removes {what} for good"


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
    draft = JournalDraft("request", "", None, _kept(asked, payload, headers), doubt=doubt)
    return await writer.send(
        draft,
        (asked.subject, asked.confirmed),
        send,
        lambda reply: {"reply_bytes": reply.payload_bytes},
        await _loses(writer, asked.subject, headers),
    )


_PLAIN = ("Nats-Msg-Id", "Nats-TTL", "Nats-Expected-")


def _kept(
    asked: PublishMessage | RequestReply, payload: bytes, headers: dict[str, str]
) -> dict[str, Any]:
    """Return what the journal keeps: no payload, and only the names of other headers."""
    shown = {name: text if name.startswith(_PLAIN) else "" for name, text in headers.items()}
    sizes: dict[str, Any] = {"subject": asked.subject, "payload_bytes": len(payload)}
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
