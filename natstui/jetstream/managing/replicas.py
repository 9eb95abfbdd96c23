"""Replicas of a stream: removing one, and waiting for new ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from natstui.errors import JetStreamUnavailable, RequestTimedOut
from natstui.jetstream.connection.writer import Asset, Request, Writer
from natstui.jetstream.managing.configure import (
    ChangeResult,
    read_asset,
    recreated_text,
    target_with_loss,
)
from natstui.jetstream.managing.losses import members_of
from natstui.model.records.managing import Change

SETTLES_WITHIN_S = 30.0
_LOOKED_AGAIN_S = 0.2


async def remove_peer_stream(writer: Writer, change: Change) -> ChangeResult:
    """Remove the replica on the server `peer`; wait until another one is complete, or a timeout.

    Raises UsageError for a server without a replica and for the only replica, Refused and the
    request errors; the server refuses it without another server.
    """
    peer = str(json.loads(change.body_json).get("peer") or "")
    target = await target_with_loss(writer, change)
    count = len(members_of(target))
    verb = f"STREAM.PEER.REMOVE.{change.stream}"
    await writer.write(change, Request(verb, {"peer": peer}, {"peer": peer}, target))
    result = ChangeResult(f"{change.stream}: {peer} has no copy any more", None, None)
    return await settled(
        writer,
        change.stream,
        target.created_at_us,
        lambda now: peer not in now and len(now) >= count,
        result,
    )


async def settled(
    writer: Writer,
    stream: str,
    created_at_us: int | None,
    holds: Callable[[list[str]], bool],
    result: ChangeResult,
) -> ChangeResult:
    """Wait until the replicas are on the right servers and complete; return the result with their
    state.

    Missing or incomplete replicas after a timeout make the change unfinished, and so does another
    stream of that name than the one created at `created_at_us`.
    """
    end = monotonic() + SETTLES_WITHIN_S
    while True:
        try:
            asset = await read_asset(writer, "stream", stream)
        except (RequestTimedOut, JetStreamUnavailable):
            # While another one is elected nobody answers.
            asset = None
        if asset is not None and asset.created_at_us != created_at_us:
            return replace(result, unfinished=recreated_text("stream", stream))
        if asset is not None and holds(members_of(asset)) and not _changes(asset):
            servers_text = f"it is current on {', '.join(sorted(members_of(asset)))}"
            return replace(result, text=f"{result.text}; {servers_text}")
        if monotonic() > end:
            problem = f"it was not complete within {SETTLES_WITHIN_S:g} s: {_unsettled(asset)}"
            return replace(result, unfinished=problem)
        await asyncio.sleep(_LOOKED_AGAIN_S)


def _changes(asset: Asset) -> bool:
    """Return whether replicas are still being created or removed; servers before 2.15
    report less.
    """
    return bool((asset.info.get("cluster") or {}).get("desired") or _behind(asset))


def _behind(asset: Asset) -> list[str]:
    """Return the servers whose replica is not complete yet."""
    replicas = (asset.info.get("cluster") or {}).get("replicas") or ()
    return [
        str(replica["name"])
        for replica in replicas
        if not replica.get("current") or replica.get("pending")
    ]


def _unsettled(asset: Asset | None) -> str:
    if asset is None:
        return "no server has reported yet where its replicas are"
    servers_text = ", ".join(sorted(members_of(asset))) or "no server with a known name"
    late = ", ".join(_behind(asset))
    return f"it is on {servers_text} so far" + (f", not whole on {late}" if late else "")
