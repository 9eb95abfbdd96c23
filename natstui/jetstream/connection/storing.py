"""Stores one message in a stream, and checks its ack."""

from __future__ import annotations

import asyncio
import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from nats.aio.msg import Msg

from natstui.clean import clean_line
from natstui.clock import steady_s
from natstui.decoding import decoder_of
from natstui.errors import (
    JetStreamUnavailable,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    Refused,
    ReplyUnreadable,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import check_reply
from natstui.jetstream.connection.times import time_us
from natstui.model.assets.buckets import bucket_change
from natstui.model.assets.fields import is_on, number_at, text_at
from natstui.model.assets.limits_loss import (
    CONSUMED,
    later_removal_reason,
    removal_reason,
    stored_filters,
)
from natstui.model.assets.subjects import contains, overlap
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.messages import PubAck

T = TypeVar("T")

LEADERLESS_S = 10.0
"""How long a message is sent again that nobody receives: electing a leader takes some seconds."""
_AGAIN_S = 0.25
_NO_META_LEADER = 10008
_CLOCKS_DIFFER_US = 500_000
"""How much later than one of its followers a message may seem to be stored, by another leader."""


class _PubAck(msgspec.Struct):
    stream: str
    seq: int
    duplicate: bool = False
    val: str | None = None
    domain: str | None = None


async def store(
    client: Client,
    subject: str,
    payload: bytes = b"",
    headers: dict[str, str] | None = None,
    stream: str | None = None,
) -> PubAck:
    """Send one message and return the ack of the stream.

    While the stream has no leader, the message is sent again. Raises RequestFailed when no stream
    stores the subject, or none elects a leader in time, what `check_ack` raises, and the request
    errors.
    """
    until_s = steady_s() + LEADERLESS_S
    while is_unanswered(reply := await client.ask(subject, payload, headers=headers or None)):
        if stream is None:
            await _check_has_stream(client, subject)
        if steady_s() > until_s:
            raise RequestFailed(
                f'nothing stores "{subject}": no stream has this subject, or its stream elected '
                f"no leader within {LEADERLESS_S:g} s",
                code=503,
            )
        await asyncio.sleep(_AGAIN_S)
    check_reply("publish", reply.data)
    ack = read_ack(subject, reply.data, _PubAck)
    domain = None if ack.domain == client.link.domain else ack.domain
    pub_ack = PubAck(ack.stream, ack.seq, ack.duplicate, ack.val, domain)
    check_ack(pub_ack, subject, (headers or {}).items(), stream)
    if stream is not None:
        check_ack_domain(client, subject, stream, ack.domain)
    return pub_ack


def read_ack(subject: str, data: bytes, kind: type[T]) -> T:
    """Return the decoded ack of a message; raises ReplyUnreadable for what is none.

    The message may be stored all the same: a service may reply before the stream, and of a stream
    with a control character in its name servers send acks that are no JSON.
    """
    try:
        return decoder_of(kind).decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ReplyUnreadable(
            f'the reply on "{subject}" is no acknowledgement of a stream'
        ) from error


async def has_stream(client: Client, subject: str) -> bool | None:
    """Return whether a stream has a subject, also without a leader; None if no server knows now.

    Raises PermissionDenied and RequestFailed.
    """
    try:
        reply = await client.request("STREAM.NAMES", {"subject": subject})
    except (RequestTimedOut, ServerGone):
        return None
    except JetStreamUnavailable as error:
        # While the cluster elects the leader of its meta group, nobody can tell.
        return None if error.err_code == _NO_META_LEADER else False
    return bool(json.loads(reply).get("streams"))


_SERVER_CHANGES = (
    "$SYS.REQ.SERVER.*.KICK", "$SYS.REQ.SERVER.*.LDM", "$SYS.REQ.SERVER.*.RELOAD",
    "$SYS.REQ.CLAIMS.>", "$SYS.REQ.ACCOUNT.*.CLAIMS.>", "$SYS.ACCOUNT.*.CLAIMS.>",
)  # fmt: skip
"""Subjects of the system account that do more than read."""


_API_READS = (
    "INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.*", "STREAM.MSG.GET.*", "DIRECT.GET.>",
    "CONSUMER.NAMES.*", "CONSUMER.LIST.*", "CONSUMER.INFO.*.*",
)  # fmt: skip
"""Verbs of the API that change nothing; all others are taken to change something."""


def _changes_by_api(prefix: str, subject: str) -> bool:
    """Return whether a subject, or some of a filter, may be a request that changes something."""
    return overlap(f"{prefix}.>", subject) and not any(
        contains(f"{prefix}.{verb}", subject) for verb in _API_READS
    )


async def effects_of(client: Client, subjects: Sequence[str]) -> str | None:
    """Return what messages delete or change beside the streams that store them, in clauses: as
    requests to the API of any domain, as acks, or in buckets. None if nothing.

    `subjects` may be filters.
    """

    def reach(server_subject: str) -> bool:
        return any(overlap(server_subject, subject) for subject in subjects)

    for prefix in dict.fromkeys((client.prefix, "$JS.API", "$JS.*.API")):
        changing = [subject for subject in subjects if _changes_by_api(prefix, subject)]
        if not changing:
            continue
        for traits in CATALOGUE.values():
            verb = f"{prefix}.{traits.verb}"
            if traits.verb and any(overlap(verb, subject) for subject in changing):
                return f"it is a request to the server itself: {traits.help}"
        return "it is a request to the server itself, which may change something"
    for subject in subjects:
        # Another account may offer its API under any name.
        _, api, verb = subject.partition(".API.")
        changing_verbs = [traits.verb for traits in CATALOGUE.values() if traits.verb]
        if api and any(
            overlap(api_verb, verb) for api_verb in (*changing_verbs, "STREAM.SNAPSHOT.*")
        ):
            return "it has the form of a request to a server, which would change something"
    if reach("$JS.ACK.>"):
        return "it is the acknowledgement of a message, which may remove it from its stream"
    if any(reach(server_subject) for server_subject in _SERVER_CHANGES):
        return "it is a request to the server itself, which changes it or disconnects clients"
    return await bucket_changes(client, subjects)


async def bucket_changes(client: Client, subjects: Iterable[str]) -> str | None:
    """Return which keys and objects of buckets messages change, in clauses; None if none.

    `subjects` may be filters. What no stream stores changes nothing; what may not be read is
    taken to be there.
    """
    clauses = []
    for subject in dict.fromkeys(subjects):
        clause = bucket_change(subject)
        if clause and await _may_be_stored(client, subject):
            clauses.append(clause)
    return " and ".join(dict.fromkeys(clauses)) or None


async def _may_be_stored(client: Client, subject: str) -> bool:
    if client.prefix != "$JS.API" or not subject.startswith("$"):
        return True
    try:
        return await has_stream(client, subject) is not False
    except RequestFailed:
        return True


async def _check_has_stream(client: Client, subject: str) -> None:
    """Raise RequestFailed when no stream has a subject; unknown for whom may not list streams."""
    with suppress(PermissionDenied):
        if await has_stream(client, subject) is False:
            raise no_stream(subject)


def no_stream(subject: str) -> RequestFailed:
    """Return the error of a message that no stream stores."""
    return RequestFailed(f'no stream stores "{subject}"', code=503)


EXPECTED_STREAM = "Nats-Expected-Stream"
MESSAGE_ID = "nats-msg-id"


def check_ack(
    ack: PubAck, subject: str, headers: Iterable[tuple[str, str]], stream: str | None = None
) -> None:
    """Raise OutcomeUnknown for an ack that no stream sends for a message with these headers.

    `stream` is the one that stores it, if known.
    """
    expected_stream, has_id = stream, False
    for name, text in headers:
        has_id = has_id or name.lower() == MESSAGE_ID
        expected_stream = text if name == EXPECTED_STREAM else expected_stream
    problem = ""
    if expected_stream not in (None, ack.stream):
        problem = f"by stream {clean_line(ack.stream)} instead of {expected_stream}"
    elif ack.duplicate and not has_id:
        problem = f"as a duplicate of {ack.stored_seq} in {ack.stream}, though it has no id"
    # Of a duplicate that is still being stored a cluster may not know the sequence yet.
    elif ack.stored_seq < (0 if ack.duplicate else 1):
        problem = f"with sequence {ack.stored_seq}, which no message has"
    if problem:
        raise OutcomeUnknown(f'"{subject}": acknowledged {problem}')


def check_ack_domain(client: Client, subject: str, stream: str, domain: str | None) -> None:
    """Raise OutcomeUnknown for an ack by a stream of another domain than that of the requests.

    Both may store a message that reaches both; only the first ack is received.
    """
    own_domain = client.link.domain
    if None not in (domain, own_domain) and domain != own_domain:
        raise OutcomeUnknown(
            f'"{subject}": acknowledged by {clean_line(stream)} of domain '
            f"{clean_line(str(domain))}; it is not known whether domain {own_domain} stores it too"
        )


async def not_kept(
    client: Client,
    stream: str,
    ranges: Sequence[Sequence[int]],
    subject: str | None = None,
    age_s: float = math.inf,
    sent_msgs: Mapping[str, int] | None = None,
) -> tuple[int, str] | None:
    """Return how many acknowledged messages a stream has not kept, and why; None if it has all.

    An acknowledgement promises no more than that the stream has received a message: its limits may
    have removed it since, and without a consumer interest retention stores nothing. Messages acked
    by consumers are not counted. `ranges` are the first and last sequence of each; of messages of
    one `subject` those between the ends are not checked. `age_s` is the age of the oldest, and
    `sent_msgs` are the messages by subject. Raises the request errors.
    """
    verb = f"STREAM.INFO.{stream}"
    info = json.loads(await client.request(verb))
    config, state = info["config"], info["state"]
    consumers_count = number_at(state, "consumer_count")
    is_interest = text_at(config, "retention") == "interest"
    acked_msgs = sum(last - first + 1 for first, last in ranges)
    sent_msgs = {subject: acked_msgs} if subject else sent_msgs or {}
    if sent_msgs and is_interest and consumers_count:
        filters = await consumer_filters(client, stream)
        unwanted = {
            sent_subject: count
            for sent_subject, count in sent_msgs.items()
            if not any(
                overlap(subject_filter, stored)
                for stored in stored_filters(config, [sent_subject])
                for subject_filter in filters
            )
        }
        if unwanted:
            what = next(iter(unwanted)) if len(unwanted) == 1 else f"{len(unwanted):,} subjects"
            text = f"{stream}: interest retention, and no consumer of {what}"
            return sum(unwanted.values()), text
    reason = removal_reason(config, state, age_s)
    if reason is None and consumers_count and len(sent_msgs) == 1:
        reason = await _full_subject_reason(client, config, next(iter(sent_msgs)))
    if is_interest and not consumers_count:
        # What it had before, for consumers of that time, it may still have.
        return acked_msgs, f"{stream}: {reason}"
    if reason is None and any(last > number_at(state, "last_seq") for _, last in ranges):
        reason = "it has lost its newest messages"
    if reason is None:
        return None
    if subject is None and number_at(state, "num_deleted"):
        # Of some streams the list is long.
        state = json.loads(await client.request(verb, {"deleted_details": True}))["state"]
    count = missing_count(ranges, state)
    return (count, f"{stream}: {reason}") if count else None


async def _full_subject_reason(
    client: Client, config: Mapping[str, Any], sent_subject: str
) -> str | None:
    """Return that the limit of a subject may have removed new messages; None if it has fewer."""
    most_msgs = number_at(config, "max_msgs_per_subject")
    if most_msgs <= 0 or is_on(config, "discard_new_per_subject"):
        return None
    (stored_subject,) = stored_filters(config, [sent_subject])
    body = {"subjects_filter": stored_subject}
    info = json.loads(await client.request(f"STREAM.INFO.{text_at(config, 'name')}", body))
    subject_msgs = max((info["state"].get("subjects") or {}).values(), default=0)
    if subject_msgs < most_msgs:
        return None
    return f"max messages per subject {most_msgs:,}, or acks of its consumers"


async def check_kept(client: Client, config: Mapping[str, Any], seq: int, subject: str) -> None:
    """Raise RequestFailed where a stream has acknowledged a message and not kept it, as interest
    retention does without a consumer. `config` is that of the stream; also raises the request
    errors.
    """
    if text_at(config, "retention") != "interest":
        return
    missing = await not_kept(client, text_at(config, "name"), [(seq, seq)], subject)
    if missing is not None:
        raise RequestFailed(f"acknowledged, and not kept by {missing[1]}")


async def gone_since(
    client: Client, stream: str, ranges: Sequence[Sequence[int]]
) -> tuple[int, str, bool]:
    """Return how many messages that a stream stored before are gone, and what may have removed
    them, and whether its consumers may: their acks are no loss.

    `ranges` are the first and last sequence of each. Raises the request errors.
    """
    info = json.loads(await client.request(f"STREAM.INFO.{stream}", {"deleted_details": True}))
    count = missing_count(ranges, info["state"])
    consumers_count = number_at(info["state"], "consumer_count")
    reason = f"{stream} by {later_removal_reason(info['config'], info['state'])}"
    is_consumed = consumers_count > 0 and text_at(info["config"], "retention") in CONSUMED
    return count, reason, is_consumed


async def consumer_filters(client: Client, stream: str) -> list[str]:
    """Return the filter subjects of a stream's consumers; raises the request errors."""
    filters = list[str]()
    async for page in client.pages(f"CONSUMER.LIST.{stream}"):
        for consumer in json.loads(page).get("consumers") or ():
            config = consumer["config"]
            filters += config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    return filters


def missing_count(ranges: Sequence[Sequence[int]], state: Mapping[str, Any]) -> int:
    """Return how many sequences of ranges have no message in a stream.

    `state` is that of its INFO with deleted details.
    """
    deleted_seqs = sorted(state.get("deleted") or ())
    first_seq, last_seq = number_at(state, "first_seq"), number_at(state, "last_seq")
    if not number_at(state, "messages"):
        first_seq = last_seq + 1
    missing = 0
    for first, last in ranges:
        from_seq, to_seq = max(first, first_seq), min(last, last_seq)
        missing += last - first + 1
        if from_seq <= to_seq:
            holes = bisect_right(deleted_seqs, to_seq) - bisect_left(deleted_seqs, from_seq)
            missing -= to_seq - from_seq + 1 - holes
    return missing


def newest_of(state: Mapping[str, Any]) -> tuple[int, int]:
    """Return the last sequence of a stream, and when that message was stored, in UTC µs; 0 without
    one.
    """
    last_seq = number_at(state, "last_seq")
    return last_seq, time_us(state["last_ts"]) if last_seq and state.get("last_ts") else 0


async def has_gone_back(
    client: Client, stream: str, state: Mapping[str, Any], seq: int, stored_at_us: int
) -> bool:
    """Return whether a stream has lost its newest messages, and gives their sequences to others.

    One in the memory of a cluster does so when its server is restarted, and one on a disk that is
    put back to an earlier state; both keep their creation time. `state` is that of its INFO; `seq`
    and `stored_at_us` are of a message that it had. Raises the request errors.
    """
    if number_at(state, "last_seq") < seq:
        return True
    if not (seq and stored_at_us and number_at(state, "messages")):
        return False
    if number_at(state, "first_seq") > seq:
        return False
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", {"seq": seq}))
    except (NotFound, PermissionDenied):
        # Not looked at where the message is there: after a clock was set back, and in a mirror
        # whose origin was restored, the first message may be later than the last.
        return time_us(state["first_ts"]) > stored_at_us + _CLOCKS_DIFFER_US
    return time_us(reply["message"]["time"]) != stored_at_us


def gone_back_text(stream: str) -> str:
    """Return that a stream has gone back, as a clause."""
    return (
        f"{stream} has lost its newest messages (it was in memory and its server was restarted, "
        "or its disk was put back to an earlier state), and gives their sequences to others"
    )


async def check_domain(client: Client, subject: str) -> None:
    """Raise Refused if a message to another domain, or to the JetStream of another account, would
    also be stored in the local one.

    A subject outside the API names neither: every JetStream that receives it stores it.
    """
    if client.prefix == "$JS.API":
        return
    local = await _local_reply(client, "STREAM.NAMES", {"subject": subject})
    if local and (streams := local.get("streams")):
        other_text, server_text = _names_of(client.prefix)
        raise Refused(
            f"stream {streams[0]} of {await _local_text(client)} would store this as well as "
            f"{other_text}: connect {server_text} to write there"
        )


async def check_ack_consumer(client: Client, stream: str, consumer: str) -> None:
    """Raise Refused if an ack to a consumer of another domain, or of the JetStream of another
    account, would also reach a consumer of the same name in the local one.

    The subject of an ack names neither.
    """
    if client.prefix == "$JS.API":
        return
    if await _local_reply(client, f"CONSUMER.INFO.{stream}.{consumer}", {}):
        other_text, server_text = _names_of(client.prefix)
        raise Refused(
            f"an ack to {consumer} on {stream} of {other_text} would also be one to that of "
            f"{await _local_text(client)}: connect {server_text} to acknowledge there"
        )


async def _local_reply(client: Client, verb: str, body: dict[str, str]) -> dict[str, Any] | None:
    """Return a reply of the local JetStream where that is another one than the requests reach;
    None where it is not, where there is none or no such asset, or where it may not be asked.
    """
    try:
        local_domain = (await ask_api(client, "$JS.API", "INFO", {})).get("domain")
        # A leaf node without a JetStream of its own is served by the hub.
        if client.prefix == f"$JS.{local_domain}.API":
            return None
        return await ask_api(client, "$JS.API", verb, body)
    except RequestTimedOut:
        # One that is slow may store it all the same.
        raise
    except RequestFailed:
        return None


async def _local_text(client: Client) -> str:
    domain = (await ask_api(client, "$JS.API", "INFO", {})).get("domain")
    return f"domain {clean_line(str(domain))}" if domain else "the connected server"


def _names_of(prefix: str) -> tuple[str, str]:
    """Return the JetStream behind an API prefix, and with what its messages are written."""
    first, _, rest = prefix.partition(".")
    domain, _, api = rest.partition(".")
    if first == "$JS" and api == "API":
        return f"domain {domain}", f"to a server of domain {domain}"
    return f'that of "{prefix}"', "as a user of its account"


async def ask_api(
    client: Client, prefix: str, verb: str, body: Mapping[str, str]
) -> dict[str, Any]:
    """Return the reply of the JetStream behind an API prefix: that of another domain or account,
    or the local one. Raises the request errors.
    """
    reply = await client.ask(f"{prefix}.{verb}", json.dumps(body).encode())
    check_answered(reply, f"there is no JetStream behind {prefix}")
    check_reply(verb, reply.data)
    reply_body: dict[str, Any] = json.loads(reply.data)
    return reply_body


def is_unanswered(reply: Msg) -> bool:
    """Return whether there were no responders."""
    return status_of(reply.headers) == "503" and not reply.data


def check_answered(reply: Msg, sentence: str) -> None:
    """Raise RequestFailed with a sentence if there were no responders."""
    if is_unanswered(reply):
        raise RequestFailed(sentence, code=503)
