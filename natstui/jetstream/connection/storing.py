"""One message into a stream, and what the stream says of it."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from nats.aio.msg import Msg

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.errors import OutcomeUnknown, Refused, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import check_reply
from natstui.model.assets.fields import number_at, text_at
from natstui.model.assets.limits_loss import removal_reason
from natstui.model.assets.subjects import contains
from natstui.model.records.messages import PubAck


class _PubAck(msgspec.Struct):
    stream: str
    seq: int
    duplicate: bool = False
    val: str | None = None


async def store(
    client: Client,
    subject: str,
    payload: bytes = b"",
    headers: dict[str, str] | None = None,
    stream: str | None = None,
) -> PubAck:
    """Send one message and return what the stream says of it.

    Raises RequestFailed when none stores the subject, what `check_ack` raises, and the request
    errors.
    """
    reply = await client.ask(subject, payload, headers=headers or None)
    check_answered(reply, f'no stream stores "{subject}"')
    check_reply("publish", reply.data)
    try:
        ack = decoder_of(_PubAck).decode(reply.data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestFailed(f'the reply on "{subject}" did not come from a stream') from error
    stored = PubAck(ack.stream, ack.seq, ack.duplicate, ack.val)
    check_ack(stored, subject, (headers or {}).items(), stream)
    return stored


EXPECTED_STREAM = "Nats-Expected-Stream"
_ID = "nats-msg-id"


def check_ack(
    ack: PubAck, subject: str, headers: Iterable[tuple[str, str]], stream: str | None = None
) -> None:
    """Raise OutcomeUnknown for what no stream says of a message with these headers.

    `stream` is the one that stores it, where that is known.
    """
    expected, has_id = stream, False
    for name, text in headers:
        has_id = has_id or name.lower() == _ID
        expected = text if name == EXPECTED_STREAM else expected
    problem = ""
    if expected not in (None, ack.stream):
        problem = f"by stream {clean_line(ack.stream)} instead of {expected}"
    elif ack.duplicate and not has_id:
        problem = f"as a duplicate of {ack.stored_seq} in {ack.stream}, though it has no id"
    # Of a duplicate that is still being stored a cluster may not know the sequence yet.
    elif ack.stored_seq < (0 if ack.duplicate else 1):
        problem = f"with sequence {ack.stored_seq}, which no message has"
    if problem:
        raise OutcomeUnknown(f'"{subject}": acknowledged {problem}')


async def not_kept(
    client: Client, stream: str, ranges: Sequence[Sequence[int]], subject: str | None = None
) -> tuple[int, str] | None:
    """Return how many acknowledged messages a stream has not kept, and why; None if it has all.

    An acknowledgement promises no more than that the stream has received a message: its limits may
    have removed it since, and without a consumer interest retention stores nothing. What consumers
    acked is not counted. `ranges` are the first and last sequence of each; of messages of one
    `subject` those between the ends are not looked for. Raises the request errors.
    """
    verb = f"STREAM.INFO.{stream}"
    info = json.loads(await client.request(verb))
    config, state = info["config"], info["state"]
    consumers_count = number_at(state, "consumer_count")
    is_interest = text_at(config, "retention") == "interest"
    if subject and is_interest and consumers_count and not config.get("subject_transform"):
        filters = await consumer_filters(client, stream)
        if not any(contains(each, subject) for each in filters):
            count = sum(last - first + 1 for first, last in ranges)
            return count, f"{stream}: interest retention, and no consumer of {subject}"
    reason = removal_reason(config, consumers_count)
    if reason is None:
        return None
    if subject is None and number_at(state, "num_deleted"):
        # Of some streams the list is long.
        state = json.loads(await client.request(verb, {"deleted_details": True}))["state"]
    count = missing_count(ranges, state)
    return (count, f"{stream}: {reason}") if count else None


async def consumer_filters(client: Client, stream: str) -> list[str]:
    """Return the subjects that the consumers of a stream get; raises the request errors."""
    filters = list[str]()
    async for page in client.pages(f"CONSUMER.LIST.{stream}"):
        for consumer in json.loads(page).get("consumers") or ():
            config = consumer["config"]
            filters += config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    return filters


def missing_count(ranges: Sequence[Sequence[int]], state: Mapping[str, Any]) -> int:
    """Return how many sequences of ranges have no message in a stream.

    `state` is that of its INFO with the details of what was deleted.
    """
    deleted = sorted(state.get("deleted") or ())
    first_seq, last_seq = number_at(state, "first_seq"), number_at(state, "last_seq")
    if not number_at(state, "messages"):
        first_seq = last_seq + 1
    missing = 0
    for first, last in ranges:
        from_seq, to_seq = max(first, first_seq), min(last, last_seq)
        missing += last - first + 1
        if from_seq <= to_seq:
            holes = bisect_right(deleted, to_seq) - bisect_left(deleted, from_seq)
            missing -= to_seq - from_seq + 1 - holes
    return missing


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
