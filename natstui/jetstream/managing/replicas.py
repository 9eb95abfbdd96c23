"""Removes a replica of a stream, and waits until the replicas are complete."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from time import monotonic

from natstui.errors import ConnectionLost, JetStreamUnavailable, RequestTimedOut
from natstui.jetstream.connection.decode.asset import replicas_of
from natstui.jetstream.connection.writer import Asset, Writer, WriteRequest
from natstui.jetstream.managing.configure import (
    ChangeResult,
    read_asset,
    read_target_with_loss,
    recreated_text,
)
from natstui.jetstream.managing.losses import members_of
from natstui.model.records.managing import Change
from natstui.values import replace

REPLICAS_TIMEOUT_S = 30.0
_CHECK_INTERVAL_S = 0.2


async def remove_peer_stream(writer: Writer, change: Change) -> ChangeResult:
    """Remove the replica on the server `peer`, and wait up to 30 s for a complete new one.

    Raises UsageError for a server without a replica and for the only replica, ActionRefusal and
    the request errors, also if no other server can have the new replica.
    """
    peer = str(json.loads(change.body_json).get("peer") or "")
    target = await read_target_with_loss(writer, change)
    replicas_count = len(members_of(target))
    verb = f"STREAM.PEER.REMOVE.{change.stream}"
    await writer.write(change, WriteRequest(verb, {"peer": peer}, {"peer": peer}, target))
    result = ChangeResult(f"{change.stream}: {peer} has no copy any more", None, None)
    return await wait_for_replicas(
        writer,
        change.stream,
        target.created_at_us,
        lambda current_servers: (
            peer not in current_servers and len(current_servers) >= replicas_count
        ),
        result,
    )


async def wait_for_replicas(
    writer: Writer,
    stream: str,
    created_at_us: int | None,
    is_placed: Callable[[list[str]], bool],
    result: ChangeResult,
) -> ChangeResult:
    """Wait until the replicas are on the right servers and complete; return the result with their
    servers.

    `is_placed` returns whether servers are the right ones. The result is unfinished if replicas
    are missing or incomplete after 30 s, or the stream was not created at `created_at_us`.
    """
    end_s = monotonic() + REPLICAS_TIMEOUT_S
    while True:
        try:
            asset = await read_asset(writer, "stream", stream)
        except (RequestTimedOut, JetStreamUnavailable, ConnectionLost):
            # During the election of a leader, no server replies; a lost connection comes back.
            asset = None
        if asset is not None and asset.created_at_us != created_at_us:
            return replace(result, unfinished=recreated_text("stream", stream))
        if asset is not None and is_placed(members_of(asset)) and not _is_changing(asset):
            servers_text = f"it is current on {', '.join(sorted(members_of(asset)))}"
            return replace(result, text=f"{result.text}; {servers_text}")
        if monotonic() > end_s:
            problem = (
                f"it was not complete within {REPLICAS_TIMEOUT_S:g} s: "
                f"{_describe_incomplete(asset)}"
            )
            return replace(result, unfinished=problem)
        await asyncio.sleep(_CHECK_INTERVAL_S)


def _is_changing(asset: Asset) -> bool:
    """Return whether replicas are being created or removed, or are incomplete."""
    cluster = asset.stream_info.cluster
    return bool((cluster and cluster.desired) or _find_incomplete(asset))


def _find_incomplete(asset: Asset) -> list[str]:
    """Return the servers whose replica is incomplete."""
    replicas = replicas_of(asset.stream_info.cluster)
    return [replica.name for replica in replicas if not replica.current or replica.pending]


def _describe_incomplete(asset: Asset | None) -> str:
    if asset is None:
        return "no server has reported yet where its replicas are"
    servers_text = ", ".join(sorted(members_of(asset))) or "no server with a known name"
    incomplete_text = ", ".join(_find_incomplete(asset))
    return f"it is on {servers_text} so far" + (
        f", not complete on {incomplete_text}" if incomplete_text else ""
    )
