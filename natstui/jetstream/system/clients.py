"""Finds the clients of a consumer and the publishers of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
from nats.aio.msg import Msg

from natstui.decoding import decoder_of
from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import stream_configuration
from natstui.jetstream.system.connections import read_subscribers
from natstui.jetstream.system.reply_tap import MAX_TAP_MSGS, ReplyTap, TappedRequest
from natstui.jetstream.system.requests import ServerRequests
from natstui.model.clients.recipients import ConsumerDelivery, FoundClients, Listener, listeners_of
from natstui.model.clients.requests import TappedRequests
from natstui.model.live.permissions import covers
from natstui.model.records.system import ReadClients

_MAX_PUBLISHED_MSGS = 10_000
_API_PREFIX = "$JS.API"
_PULL_REQUEST_VERB = "CONSUMER.MSG.NEXT"
_MAX_SUBJECTS = 200


async def read_clients(client: Client, command: ReadClients, stop: asyncio.Event) -> FoundClients:
    """Return the clients that are found until the time of the command is over, or `stop` is set.

    Raises NotFound, PermissionDenied, and what `ServerRequests.request_all` raises.
    """
    servers = ServerRequests(client)
    if command.consumer is None:
        subjects = await read_subjects(client, command.stream)
        requests = await read_publishers(
            client, servers, command.stream, subjects, command.for_s, _MAX_PUBLISHED_MSGS, stop
        )
        return FoundClients(None, heard=requests)
    consumer = await read_consumer(client, command.stream, command.consumer)
    if consumer.deliver_subject is not None:
        subscribers = await read_push_clients(
            servers, consumer.deliver_subject, consumer.deliver_group
        )
        return FoundClients(consumer, tuple(subscribers))
    requests = await read_pull_clients(
        client, servers, command.stream, command.consumer, command.for_s, stop
    )
    # The pinned client may have changed meanwhile.
    return FoundClients(
        await read_consumer(client, command.stream, command.consumer), heard=requests
    )


class _PullRequest(msgspec.Struct):
    batch: int = 1
    expires: int = 0
    id: str | None = None


async def read_consumer(client: Client, stream: str, consumer: str) -> ConsumerDelivery:
    """Return the fields of a consumer that a search of its clients needs.

    Raises NotFound, and what `Client.request` raises.
    """
    info = await client.consumer_info(stream, consumer)
    config = info.read_config()
    return ConsumerDelivery(
        deliver_subject=config.get("deliver_subject") or None,
        deliver_group=config.get("deliver_group") or None,
        waiting_count=info.num_waiting,
        pins=tuple(priority_group.pinned_client_id for priority_group in info.priority_groups or ()
                   if priority_group.pinned_client_id),
    )  # fmt: skip


async def read_push_clients(
    servers: ServerRequests, subject: str, group: str | None
) -> list[Listener]:
    """Return the subscribers of a push consumer.

    Raises what `ServerRequests.request_all` raises.
    """
    subscriptions = await read_subscribers(servers, subject)
    return listeners_of(subscriptions.rows, subject, group)


async def read_pull_clients(
    client: Client, servers: ServerRequests, stream: str, consumer: str, for_s: float,
    stop: asyncio.Event | None = None,
) -> TappedRequests:  # fmt: skip
    """Tap the pull requests of an existing consumer for `for_s`, or until `stop` is set.

    Returns the clients that sent them. Raises PermissionDenied, and what
    `ServerRequests.request_all` raises.
    """
    # A server maps requests through its domain's prefix to the plain subject.
    prefixes = dict.fromkeys((_API_PREFIX, client.prefix))
    subjects = [f"{prefix}.{_PULL_REQUEST_VERB}.{stream}.{consumer}" for prefix in prefixes]
    deleted_subject = (
        f"{client.connection.js_event_prefix}.ADVISORY.CONSUMER.DELETED.{stream}.{consumer}"
    )
    requests_tap = ReplyTap(
        subjects, _read_pull_request, for_s=for_s, deletion_subject=deleted_subject, stop=stop
    )
    await requests_tap.begin(client, servers)
    return await requests_tap.run(servers)


def _read_pull_request(message: Msg) -> TappedRequest:
    """Return the decoded pull request: JSON, a number of messages, or empty for one message."""
    data = message.data.strip()
    if data.isdigit():
        return TappedRequest(data[:20].decode())
    try:
        pull_request = decoder_of(_PullRequest).decode(data or b"{}")
    except (msgspec.DecodeError, RecursionError):
        return TappedRequest("not readable")
    wait_s = pull_request.expires / 1e9 if pull_request.expires > 0 else None
    return TappedRequest(str(max(1, pull_request.batch)), pull_request.id or None, wait_s)


async def read_subjects(client: Client, stream: str) -> list[str]:
    """Return the subjects that a stream stores, without subjects that another one covers.

    Raises NotFound, RequestFailed for a stream without subjects, and what `Client.request` raises.
    """
    configuration = stream_configuration(await client.stream_info(stream))
    subjects = _drop_covered(configuration.subjects)
    if not subjects:
        names = configuration.mirror or ", ".join(configuration.sources)
        raise RequestFailed(
            f"stream {stream} has no publishers: it has no subjects, its messages come from "
            f"{names or 'nowhere'}"
        )
    if len(subjects) > _MAX_SUBJECTS:
        raise RequestFailed(
            f"stream {stream} has {len(subjects)} subjects: natstui reads at most {_MAX_SUBJECTS}"
        )
    return subjects


def _drop_covered(subjects: Sequence[str]) -> list[str]:
    """Return the subjects that no other of them covers, so that each message arrives once."""
    distinct_subjects = list(dict.fromkeys(subjects))
    return [
        subject
        for subject in distinct_subjects
        if not any(
            other_subject != subject and covers(other_subject, subject)
            for other_subject in distinct_subjects
        )
    ]


async def read_publishers(
    client: Client, servers: ServerRequests, stream: str, subjects: Sequence[str], for_s: float,
    max_msgs: int = MAX_TAP_MSGS, stop: asyncio.Event | None = None,
) -> TappedRequests:  # fmt: skip
    """Tap the messages published to the subjects of a stream for `for_s`, or until `stop` is set.

    Returns the publishers that wait for acks. Raises PermissionDenied, and what
    `ServerRequests.request_all` raises.
    """
    requests_tap = ReplyTap(
        subjects,
        lambda message: TappedRequest(message.subject),
        for_s=for_s,
        max_msgs=max_msgs,
        deletion_subject=f"{client.connection.js_event_prefix}.ADVISORY.STREAM.DELETED.{stream}",
        stop=stop,
    )
    await requests_tap.begin(client, servers)
    return await requests_tap.run(servers)
