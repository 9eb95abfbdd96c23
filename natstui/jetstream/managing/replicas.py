"""On which servers a stream has its copies: giving one up, and waiting for new ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from natstui.errors import JetStreamUnavailable, RequestTimedOut
from natstui.jetstream.connection.writer import Asset, Request, Writer
from natstui.jetstream.managing.configure import ChangeResult, read_asset, target_with_loss
from natstui.jetstream.managing.losses import members_of
from natstui.model.records.managing import Change

SETTLES_WITHIN_S = 30.0
_LOOKED_AGAIN_S = 0.2


async def remove_peer_stream(writer: Writer, change: Change) -> ChangeResult:
    """Give up the copy on the server `peer`; wait until another one has it all, or too long.

    Raises UsageError for a server without a copy and for the only copy, Refused and the request
    errors; the server refuses it where no other server is left.
    """
    peer = str(json.loads(change.body_json).get("peer") or "")
    found = await target_with_loss(writer, change)
    count = len(members_of(found))
    verb = f"STREAM.PEER.REMOVE.{change.stream}"
    await writer.write(change, Request(verb, {"peer": peer}, {"peer": peer}, found))
    changed = ChangeResult(f"{change.stream}: {peer} has no copy any more", None, None)
    return await settled(
        writer, change.stream, lambda now: peer not in now and len(now) >= count, changed
    )


async def settled(
    writer: Writer, stream: str, holds: Callable[[list[str]], bool], changed: ChangeResult
) -> ChangeResult:
    """Wait until the copies are where they should be and have everything; add how it is.

    Copies that are not there or not complete in time make the change unfinished.
    """
    end = monotonic() + SETTLES_WITHIN_S
    while True:
        try:
            asset = await read_asset(writer, "stream", stream)
        except (RequestTimedOut, JetStreamUnavailable):
            # While another one is elected nobody answers.
            asset = None
        if asset is not None and holds(members_of(asset)) and not _changes(asset):
            where = f"it is current on {', '.join(sorted(members_of(asset)))}"
            return replace(changed, text=f"{changed.text}; {where}")
        if monotonic() > end:
            waited = f"it was not complete within {SETTLES_WITHIN_S:g} s: {_unsettled(asset)}"
            return replace(changed, unfinished=waited)
        await asyncio.sleep(_LOOKED_AGAIN_S)


def _changes(asset: Asset) -> bool:
    """Return whether copies are still being made or given up; servers before 2.15 tell less."""
    return bool((asset.info.get("cluster") or {}).get("desired") or _behind(asset))


def _behind(asset: Asset) -> list[str]:
    """Return the servers whose copy is not whole yet."""
    replicas = (asset.info.get("cluster") or {}).get("replicas") or ()
    return [
        str(replica["name"])
        for replica in replicas
        if not replica.get("current") or replica.get("pending")
    ]


def _unsettled(asset: Asset | None) -> str:
    if asset is None:
        return "no server has reported yet where its replicas are"
    where = ", ".join(sorted(members_of(asset))) or "no server with a known name"
    late = ", ".join(_behind(asset))
    return f"it is on {where} so far" + (f", not whole on {late}" if late else "")
