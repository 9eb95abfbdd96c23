"""Stores messages in streams, checks their acks, and whether the streams have kept them."""

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
    ActionRefusal,
    ConnectionLost,
    JetStreamUnavailable,
    NotFound,
    OutcomeUnknown,
    PermissionDenied,
    ReplyUnreadable,
    RequestFailed,
    RequestTimedOut,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import StreamState
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.replies import check_reply
from natstui.jetstream.connection.times import time_us
from natstui.model.assets.buckets import bucket_change_text
from natstui.model.assets.fields import is_on, number_at, text_at
from natstui.model.assets.limits_loss import (
    ACK_RETENTIONS,
    later_removal_reason,
    removal_reason,
    stored_filters,
)
from natstui.model.assets.subjects import contains, overlap
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.messages import PubAck

T = TypeVar("T")

LEADERLESS_TIMEOUT_S = 10.0
"""Maximum time to retry a message without a responder: electing a leader takes some seconds."""
_RETRY_INTERVAL_S = 0.25
_NO_META_LEADER_CODE = 10008
_MAX_CLOCK_DIFFERENCE_US = 500_000
"""Maximum time by which a message may seem to be stored after the next one: clocks differ."""


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
    """Send one message and return the ack of its stream.

    While the stream has no leader, the message is sent again. Raises RequestFailed if no stream
    has the subject or elects a leader in time, what `check_ack` raises, and the request errors.
    """
    until_s = steady_s() + LEADERLESS_TIMEOUT_S
    while has_no_responders(
        reply := await client.request_subject(subject, payload, headers=headers or None)
    ):
        if stream is None:
            await _check_has_stream(client, subject)
        if steady_s() > until_s:
            raise RequestFailed(
                f'nothing stores "{subject}": no stream has this subject, or its stream elected '
                f"no leader within {LEADERLESS_TIMEOUT_S:g} s",
                code=503,
            )
        await asyncio.sleep(_RETRY_INTERVAL_S)
    check_reply("publish", reply.data)
    ack = read_ack(subject, reply.data, _PubAck)
    domain = None if ack.domain == client.link.domain else ack.domain
    pub_ack = PubAck(ack.stream, ack.seq, ack.duplicate, ack.val, domain)
    check_ack(pub_ack, subject, (headers or {}).items(), stream)
    if stream is not None:
        check_ack_domain(client, subject, stream, ack.domain)
    return pub_ack


def read_ack(subject: str, data: bytes, kind: type[T]) -> T:
    """Return the decoded ack of a message; raises ReplyUnreadable if it is none.

    The message may be stored nevertheless: a service may reply before the stream, and the ack of a
    stream with a control character in its name is no valid JSON.
    """
    try:
        return decoder_of(kind).decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ReplyUnreadable(
            f'the reply on "{subject}" is no acknowledgement of a stream'
        ) from error


async def has_stream(client: Client, subject: str) -> bool | None:
    """Return whether a stream has a subject, even without a leader; None if no server knows now.

    Raises PermissionDenied and RequestFailed.
    """
    try:
        reply = await client.request("STREAM.NAMES", {"subject": subject})
    except (RequestTimedOut, ConnectionLost):
        return None
    except JetStreamUnavailable as error:
        # While the cluster elects the leader of its meta group, no server knows.
        return None if error.err_code == _NO_META_LEADER_CODE else False
    return bool(json.loads(reply).get("streams"))


_CHANGING_SYSTEM_SUBJECTS = (
    "$SYS.REQ.SERVER.*.KICK", "$SYS.REQ.SERVER.*.LDM", "$SYS.REQ.SERVER.*.RELOAD",
    "$SYS.REQ.CLAIMS.>", "$SYS.REQ.ACCOUNT.*.CLAIMS.>", "$SYS.ACCOUNT.*.CLAIMS.>",
)  # fmt: skip
"""Subjects of system requests that change something."""


_READ_ONLY_VERBS = (
    "INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.*", "STREAM.MSG.GET.*", "DIRECT.GET.>",
    "CONSUMER.NAMES.*", "CONSUMER.LIST.*", "CONSUMER.INFO.*.*",
)  # fmt: skip
"""Verbs of the API that change nothing; all others may change something."""


def _may_be_changing_request(prefix: str, subject: str) -> bool:
    """Return whether a subject, or one that a filter matches, may be an API request that changes
    something.
    """
    return overlap(f"{prefix}.>", subject) and not any(
        contains(f"{prefix}.{verb}", subject) for verb in _READ_ONLY_VERBS
    )


async def describe_side_effects(client: Client, subjects: Sequence[str]) -> str | None:
    """Return a text of the side effects of messages to `subjects`; None if there are none.

    These are API requests in any domain, acks, and changes of servers and buckets. `subjects` may
    be filters.
    """

    def overlaps_subjects(server_subject: str) -> bool:
        return any(overlap(server_subject, subject) for subject in subjects)

    for prefix in dict.fromkeys((client.prefix, "$JS.API", "$JS.*.API")):
        changing_subjects = [
            subject for subject in subjects if _may_be_changing_request(prefix, subject)
        ]
        if not changing_subjects:
            continue
        for action_traits in CATALOGUE.values():
            verb = f"{prefix}.{action_traits.verb}"
            if action_traits.verb and any(overlap(verb, subject) for subject in changing_subjects):
                return f"it is a request to the server itself: {action_traits.help}"
        return "it is a request to the server itself, which may change something"
    for subject in subjects:
        # Another account may offer its API under any name.
        _, api, verb = subject.partition(".API.")
        changing_verbs = [
            action_traits.verb for action_traits in CATALOGUE.values() if action_traits.verb
        ]
        if api and any(
            overlap(api_verb, verb) for api_verb in (*changing_verbs, "STREAM.SNAPSHOT.*")
        ):
            return "it has the form of a request to a server, which would change something"
    if overlaps_subjects("$JS.ACK.>"):
        return "it is the acknowledgement of a message, which may remove it from its stream"
    if any(overlaps_subjects(server_subject) for server_subject in _CHANGING_SYSTEM_SUBJECTS):
        return "it is a request to the server itself, which changes it or disconnects clients"
    return await describe_bucket_changes(client, subjects)


async def describe_bucket_changes(client: Client, subjects: Iterable[str]) -> str | None:
    """Return a text of the keys and objects that messages to `subjects` change; None if there are
    none.

    `subjects` may be filters. A subject of no stream changes nothing; one whose stream may not be
    read counts as stored.
    """
    change_clauses = []
    for subject in dict.fromkeys(subjects):
        clause = bucket_change_text(subject)
        if clause and await _may_be_stored(client, subject):
            change_clauses.append(clause)
    return " and ".join(dict.fromkeys(change_clauses)) or None


async def _may_be_stored(client: Client, subject: str) -> bool:
    if client.prefix != "$JS.API" or not subject.startswith("$"):
        return True
    try:
        return await has_stream(client, subject) is not False
    except RequestFailed:
        return True


async def _check_has_stream(client: Client, subject: str) -> None:
    """Raise RequestFailed if no stream has a subject; without permission to list streams, pass."""
    with suppress(PermissionDenied):
        if await has_stream(client, subject) is False:
            raise make_no_stream_error(subject)


def make_no_stream_error(subject: str) -> RequestFailed:
    """Return the error for a subject that no stream stores."""
    return RequestFailed(f'no stream stores "{subject}"', code=503)


EXPECTED_STREAM = "Nats-Expected-Stream"
MESSAGE_ID = "nats-msg-id"


def check_ack(
    ack: PubAck, subject: str, headers: Iterable[tuple[str, str]], stream: str | None = None
) -> None:
    """Raise OutcomeUnknown if an ack cannot be of a message with this subject and headers.

    `stream` is the stream that stores it, if known.
    """
    expected_stream, has_message_id = stream, False
    for name, text in headers:
        has_message_id = has_message_id or name.lower() == MESSAGE_ID
        expected_stream = text if name == EXPECTED_STREAM else expected_stream
    problem = ""
    if expected_stream not in (None, ack.stream):
        problem = f"by stream {clean_line(ack.stream)} instead of {expected_stream}"
    elif ack.duplicate and not has_message_id:
        problem = f"as a duplicate of {ack.stored_seq} in {ack.stream}, though it has no id"
    # A cluster may not know the sequence of a duplicate yet, while the message is being stored.
    elif ack.stored_seq < (0 if ack.duplicate else 1):
        problem = f"with sequence {ack.stored_seq}, which no message has"
    if problem:
        raise OutcomeUnknown(f'"{subject}": acknowledged {problem}')


def check_ack_domain(client: Client, subject: str, stream: str, domain: str | None) -> None:
    """Raise OutcomeUnknown if an ack comes from a stream of another domain than ours.

    Streams of both domains may store a message; only the first ack is received.
    """
    own_domain = client.link.domain
    if None not in (domain, own_domain) and domain != own_domain:
        raise OutcomeUnknown(
            f'"{subject}": acknowledged by {clean_line(stream)} of domain '
            f"{clean_line(str(domain))}; it is not known whether domain {own_domain} stores it too"
        )


async def count_not_kept(
    client: Client,
    stream: str,
    ranges: Sequence[Sequence[int]],
    subject: str | None = None,
    age_s: float = math.inf,
    sent_msgs: Mapping[str, int] | None = None,
) -> tuple[int, str] | None:
    """Return how many acknowledged messages a stream has not kept, and the reason; None if it has
    all.

    An acknowledgement only means that the stream has received a message: its limits may have
    removed the message since, and interest retention without a consumer stores nothing. Messages
    acked by consumers are not counted. `ranges` are first and last sequences; with a `subject`,
    sequences that are deleted between the stream's first and last are not counted. `age_s` is the
    age of the oldest message, `sent_msgs` is the number of messages by subject. Raises the request
    errors.
    """
    info = await client.stream_info(stream)
    config, state = info.read_config(), info.state
    has_interest_retention = text_at(config, "retention") == "interest"
    acked_msgs = sum(last_seq - first_seq + 1 for first_seq, last_seq in ranges)
    sent_msgs = {subject: acked_msgs} if subject else sent_msgs or {}
    if sent_msgs and has_interest_retention and state.consumer_count:
        filters = await consumer_filters(client, stream)
        unconsumed_msgs_by_subject = {
            sent_subject: count
            for sent_subject, count in sent_msgs.items()
            if not any(
                overlap(subject_filter, stored_filter)
                for stored_filter in stored_filters(config, [sent_subject])
                for subject_filter in filters
            )
        }
        if unconsumed_msgs_by_subject:
            subjects_text = (
                next(iter(unconsumed_msgs_by_subject))
                if len(unconsumed_msgs_by_subject) == 1
                else f"{len(unconsumed_msgs_by_subject):,} subjects"
            )
            text = f"{stream}: interest retention, and no consumer of {subjects_text}"
            return sum(unconsumed_msgs_by_subject.values()), text
    reason = removal_reason(config, state, age_s)
    if reason is None and state.consumer_count and len(sent_msgs) == 1:
        reason = await _describe_subject_limit(client, config, next(iter(sent_msgs)))
    if has_interest_retention and not state.consumer_count:
        # Messages from a time when it had consumers may still be stored.
        return acked_msgs, f"{stream}: {reason}"
    if reason is None and any(last_seq > state.last_seq for _, last_seq in ranges):
        reason = "it has lost its newest messages"
    if reason is None:
        return None
    if subject is None and state.num_deleted:
        # The list of deleted sequences may be long: it is only read here.
        state = (await client.stream_info(stream, {"deleted_details": True})).state
    count = count_missing(ranges, state)
    return (count, f"{stream}: {reason}") if count else None


async def _describe_subject_limit(
    client: Client, config: Mapping[str, Any], sent_subject: str
) -> str | None:
    """Return a text of the limit per subject if it may have removed messages; else None."""
    max_msgs = number_at(config, "max_msgs_per_subject")
    if max_msgs <= 0 or is_on(config, "discard_new_per_subject"):
        return None
    (stored_subject,) = stored_filters(config, [sent_subject])
    body = {"subjects_filter": stored_subject}
    info = await client.stream_info(text_at(config, "name"), body)
    subject_msgs = max((info.state.subjects or {}).values(), default=0)
    if subject_msgs < max_msgs:
        return None
    return f"max messages per subject {max_msgs:,}, or acks of its consumers"


async def check_kept(client: Client, config: Mapping[str, Any], seq: int, subject: str) -> None:
    """Raise RequestFailed if interest retention has not kept an acknowledged message, as no
    consumer needs it; also raises the request errors.
    """
    if text_at(config, "retention") != "interest":
        return
    count_and_reason = await count_not_kept(client, text_at(config, "name"), [(seq, seq)], subject)
    if count_and_reason is not None:
        raise RequestFailed(f"acknowledged, and not kept by {count_and_reason[1]}")


async def count_missing_since(
    client: Client, stream: str, ranges: Sequence[Sequence[int]]
) -> tuple[int, str, bool]:
    """Return how many of a stream's messages in `ranges` were removed, the possible reason, and
    whether acks of its consumers may be the reason, which is no loss.

    `ranges` are first and last sequences. Raises the request errors.
    """
    info = await client.stream_info(stream, {"deleted_details": True})
    config, state = info.read_config(), info.state
    reason = f"{stream} by {later_removal_reason(config, state)}"
    may_be_acked = state.consumer_count > 0 and text_at(config, "retention") in ACK_RETENTIONS
    return count_missing(ranges, state), reason, may_be_acked


async def consumer_filters(client: Client, stream: str) -> list[str]:
    """Return the filter subjects of a stream's consumers; raises the request errors."""
    filters = list[str]()
    async for consumer in client.consumer_rows(stream):
        config = consumer.read_config()
        filters += config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    return filters


def count_missing(ranges: Sequence[Sequence[int]], state: StreamState) -> int:
    """Return how many sequences in `ranges` have no message in a stream.

    `state` is from the stream's INFO, with deleted details.
    """
    deleted_seqs, last_seq = sorted(state.deleted or ()), state.last_seq
    first_seq = state.first_seq if state.messages else last_seq + 1
    missing_msgs = 0
    for range_first_seq, range_last_seq in ranges:
        from_seq, to_seq = max(range_first_seq, first_seq), min(range_last_seq, last_seq)
        missing_msgs += range_last_seq - range_first_seq + 1
        if from_seq <= to_seq:
            holes_count = bisect_right(deleted_seqs, to_seq) - bisect_left(deleted_seqs, from_seq)
            missing_msgs -= to_seq - from_seq + 1 - holes_count
    return missing_msgs


def newest_message(state: StreamState) -> tuple[int, int]:
    """Return the last sequence of a stream, and when its message was stored in UTC µs; 0 without
    one.
    """
    return state.last_seq, (state.last_at_us or 0) if state.last_seq else 0


async def has_lost_newest(
    client: Client, stream: str, state: StreamState, seq: int, stored_at_us: int
) -> bool:
    """Return whether a stream has lost its newest messages, and reuses their sequences.

    A memory stream of a cluster does so after a restart of its server, and a file stream after its
    disk is restored to an earlier state; both keep their creation time. `state` is from the
    stream's INFO; `seq` and `stored_at_us` are of a message that it had. Raises the request
    errors.
    """
    if state.last_seq < seq:
        return True
    if not (seq and stored_at_us and state.messages) or state.first_seq > seq:
        return False
    try:
        reply = json.loads(await client.request(f"STREAM.MSG.GET.{stream}", {"seq": seq}))
    except (NotFound, PermissionDenied):
        # Only compared without the message: after a clock was set back, and in a mirror whose
        # origin was restored, the first message may be later than the last.
        return (state.first_at_us or 0) > stored_at_us + _MAX_CLOCK_DIFFERENCE_US
    return time_us(reply["message"]["time"]) != stored_at_us


def lost_newest_text(stream: str) -> str:
    """Return the clause about a stream that has lost its newest messages."""
    return (
        f"{stream} has lost its newest messages (it was in memory and its server was restarted, "
        "or its disk was restored to an earlier state), and reuses their sequences"
    )


async def check_domain(client: Client, subject: str) -> None:
    """Raise ActionRefusal if a local stream would also store a message to another domain or
    account.

    The subject of a message names no domain or account: each stream with that subject stores it.
    """
    if client.prefix == "$JS.API":
        return
    local_reply = await _local_reply(client, "STREAM.NAMES", {"subject": subject})
    if local_reply and (streams := local_reply.get("streams")):
        remote_text, target_text = _describe_prefix(client.prefix)
        raise ActionRefusal(
            f"stream {streams[0]} of {await _domain_text(client)} would store this as well as "
            f"{remote_text}: connect {target_text} to write there"
        )


async def check_ack_consumer(client: Client, stream: str, consumer: str) -> None:
    """Raise ActionRefusal if an ack would also reach a local consumer of the same name.

    The consumer is of another domain or account, which the subject of an ack does not name.
    """
    if client.prefix == "$JS.API":
        return
    if await _local_reply(client, f"CONSUMER.INFO.{stream}.{consumer}", {}):
        remote_text, target_text = _describe_prefix(client.prefix)
        raise ActionRefusal(
            f"an ack to {consumer} on {stream} of {remote_text} would also be one to that of "
            f"{await _domain_text(client)}: connect {target_text} to acknowledge there"
        )


async def _local_reply(client: Client, verb: str, body: dict[str, str]) -> dict[str, Any] | None:
    """Return the reply of the connected server's own JetStream; None if it replies with an error.

    Also None if the server has no JetStream, or if the client's requests go to this JetStream
    anyway. Raises RequestTimedOut.
    """
    try:
        local_domain = await _read_local_domain(client)
        # A leaf node without a JetStream of its own is served by the hub.
        if client.prefix == f"$JS.{local_domain}.API":
            return None
        reply: dict[str, Any] = json.loads(await request_api(client, "$JS.API", verb, body))
        return reply
    except RequestTimedOut:
        # A slow JetStream may store the message nevertheless.
        raise
    except RequestFailed:
        return None


async def _domain_text(client: Client) -> str:
    domain = await _read_local_domain(client)
    return f"domain {clean_line(str(domain))}" if domain else "the connected server"


async def _read_local_domain(client: Client) -> str | None:
    domain: str | None = json.loads(await request_api(client, "$JS.API", "INFO", {})).get("domain")
    return domain


def _describe_prefix(prefix: str) -> tuple[str, str]:
    """Return two texts: the JetStream behind an API prefix, and where to connect to reach it."""
    root, _, domain_and_api = prefix.partition(".")
    domain, _, api = domain_and_api.partition(".")
    if root == "$JS" and api == "API":
        return f"domain {domain}", f"to a server of domain {domain}"
    return f'that of "{prefix}"', "as a user of its account"


async def request_api(client: Client, prefix: str, verb: str, body: Mapping[str, str]) -> bytes:
    """Return the JSON reply to `<prefix>.<verb>`, for any prefix; raises the request errors."""
    reply = await client.request_subject(f"{prefix}.{verb}", json.dumps(body).encode())
    check_responders(reply, f"there is no JetStream behind {prefix}")
    data: bytes = reply.data
    check_reply(verb, data)
    return data


def has_no_responders(reply: Msg) -> bool:
    """Return whether a reply is the server's status for a subject without responders."""
    return status_of(reply.headers) == "503" and not reply.data


def check_responders(reply: Msg, sentence: str) -> None:
    """Raise RequestFailed with `sentence` if a subject had no responders."""
    if has_no_responders(reply):
        raise RequestFailed(sentence, code=503)
