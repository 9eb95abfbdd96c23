"""Moves leaders to a chosen server, or so that servers lead about equally many assets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from time import monotonic

from natstui.errors import (
    JetStreamUnavailable,
    NatstuiError,
    NotFound,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
    UsageError,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.asset import AssetRow, PeerRow, leader_of, replicas_of
from natstui.jetstream.connection.writer import Writer, WriteRequest
from natstui.jetstream.managing.configure import recreated_text
from natstui.model.assets.differences import AssetKind
from natstui.model.records.managing import Change
from natstui.model.servers.balance import Move, ReplicaGroup
from natstui.model.servers.text import step_down_failure_text

_ELECTION_TIMEOUT_S = 10.0
_CHECK_INTERVAL_S = 0.1
_INFO_TIMEOUT_S = 2.0
_MAX_CONTACT_AGE_NS = 5_000_000_000
"""Time without contact after which a replica counts as lost; `offline` is set much later or never.
"""


async def read_groups(client: Client) -> list[ReplicaGroup]:
    """Return the streams and consumers of the account with more than one replica.

    Raises the request errors.
    """
    groups = [_make_group(row, row.name, None) async for row in client.stream_rows()]
    for stream in [group.stream for group in groups]:
        rows = client.consumer_rows(stream)
        groups += [_make_group(row, stream, row.name) async for row in rows]
    return [group for group in groups if len(group.members) > 1]


def _make_group(row: AssetRow, stream: str, consumer: str | None) -> ReplicaGroup:
    replicas, leader = replicas_of(row.cluster), _leader_in(row)
    ready_servers = [
        replica.name
        for replica in replicas
        if replica.current and not replica.offline and replica.active < _MAX_CONTACT_AGE_NS
    ]
    other_members = [replica.name for replica in replicas if replica.name != leader]
    return ReplicaGroup(
        stream,
        consumer,
        row.created_at_us,
        leader,
        tuple(server for server in ready_servers if server != leader),
        (*([leader] if leader else []), *other_members),
    )


async def read_leader(client: Client, stream: str, consumer: str | None) -> str | None:
    """Return the current leader of a stream or consumer; None without one, or without a reply."""
    return _leader_in(await _read_asset_info(client, stream, consumer))


def _leader_in(row: AssetRow | None) -> str | None:
    return None if row is None else leader_of(row.cluster, None)


async def _read_asset_info(client: Client, stream: str, consumer: str | None) -> AssetRow | None:
    """Return the INFO of a stream or consumer; None without a reply."""
    try:
        if consumer is None:
            return await client.stream_info(stream, timeout_s=_INFO_TIMEOUT_S)
        return await client.consumer_info(stream, consumer, _INFO_TIMEOUT_S)
    except (RequestTimedOut, JetStreamUnavailable):
        return None


async def _wait_for_leader(
    client: Client, stream: str, consumer: str | None, previous_row: AssetRow | None
) -> AssetRow | None:
    """Wait until another server leads, 10 s at most; return the last INFO."""
    end_s = monotonic() + _ELECTION_TIMEOUT_S
    while True:
        row = await _read_asset_info(client, stream, consumer)
        if _leader_in(row) not in (None, _leader_in(previous_row)) or monotonic() > end_s:
            return row
        await asyncio.sleep(_CHECK_INTERVAL_S)


async def step_down(writer: Writer, change: Change) -> str:
    """Step down a leader in favour of another server, or the `preferred` one; return the result as
    text.

    Raises UsageError if no other server, or not the preferred one, has a replica, RequestFailed if
    no such server becomes leader or the asset was recreated, NotFound, ActionRefusal and the other
    request errors.
    """
    arguments = json.loads(change.body_json)
    preferred_server = arguments.get("preferred") or None
    target_text = f"{change.consumer} on {change.stream}" if change.consumer else change.stream
    try:
        previous_row = await _read_asset_info(writer.client, change.stream, change.consumer)
    except PermissionDenied:
        previous_row, can_read_leader = None, False
    else:
        can_read_leader = True
    previous_leader = _leader_in(previous_row)
    if previous_leader is not None and previous_row is not None:
        replicas = replicas_of(previous_row.cluster)
        _check_candidates(target_text, previous_leader, replicas, preferred_server)
    body = {"placement": {"preferred": preferred_server}} if preferred_server else None
    if preferred_server is not None and preferred_server == previous_leader:
        return f"{target_text} is led by {preferred_server} already: nothing was changed"
    verb = f"STREAM.LEADER.STEPDOWN.{change.stream}"
    if change.consumer is not None:
        verb = f"CONSUMER.LEADER.STEPDOWN.{change.stream}.{change.consumer}"
    await writer.write(
        change,
        WriteRequest(verb, body, {"preferred": preferred_server} if preferred_server else {}),
    )
    if not can_read_leader:
        return (
            f"{target_text}: its leader steps down; you have no permission to read the new leader"
        )
    row = await _wait_for_leader(writer.client, change.stream, change.consumer, previous_row)
    if row is not None and previous_row is not None and row.created != previous_row.created:
        kind: AssetKind = "stream" if change.consumer is None else "consumer"
        raise RequestFailed(recreated_text(kind, change.consumer or change.stream))
    leader = _leader_in(row)
    failure = step_down_failure_text(
        target_text, previous_leader, leader, preferred_server, _ELECTION_TIMEOUT_S
    )
    if failure:
        raise RequestFailed(failure)
    return f"{target_text} is led by {leader} now"


def _check_candidates(
    target_text: str, leader: str, replicas: tuple[PeerRow, ...], preferred_server: str | None
) -> None:
    """Raise UsageError if no other server can lead; the server would reply with success."""
    names = [replica.name for replica in replicas]
    if not names:
        raise UsageError(f"{target_text} is only on {leader}: no other server can lead it")
    if preferred_server not in (None, leader, *names):
        raise UsageError(
            f"{preferred_server} has no copy of {target_text}: it is on "
            f"{', '.join((leader, *names))}"
        )


async def move_leader(writer: Writer, move: Move, confirmed_name: str | None) -> str:
    """Move one leader of a plan, unless it changed or is unknown; return the result as text."""
    group = move.group
    leader = await read_leader(writer.client, group.stream, group.consumer)
    if leader != group.leader:
        return f"{group.text}: led by {leader or 'nobody'} meanwhile, not moved"
    change = Change(
        0,
        "step_down_stream" if group.consumer is None else "step_down_consumer",
        group.stream,
        group.consumer,
        json.dumps({"preferred": move.to}),
        confirmed=confirmed_name,
        created_at_us=group.created_at_us,
    )
    return await step_down(writer, change)


async def run_moves(
    writer: Writer,
    moves: tuple[Move, ...],
    pause_s: float,
    stop_event: asyncio.Event,
    report: Callable[[str], None],
) -> int:
    """Do moves one by one, with a pause after each, until `stop_event` is set.

    Returns the number of moves that were tried. An error of one move does not stop the others.
    `report` is called with a sentence for each.
    """
    for moves_count, move in enumerate(moves):
        if stop_event.is_set():
            return moves_count
        confirmed_name = move.group.consumer or move.group.stream
        try:
            report(await move_leader(writer, move, confirmed_name))
        except NotFound:
            report(f"{move.group.text}: deleted meanwhile")
        except NatstuiError as error:
            report(f"{move.group.text}: not moved ({error})")
        try:
            async with asyncio.timeout(pause_s):
                await stop_event.wait()
        except TimeoutError:
            continue
    return len(moves)
