"""The streams' part of a poll: their list, over several polls if it is long."""

from __future__ import annotations

import asyncio
import time

from natstui.errors import NotFound, RequestFailed
from natstui.jetstream.availability import Availability
from natstui.jetstream.decode_stream import StreamRow, read_stream, read_streams
from natstui.jetstream.listing import Listing
from natstui.jetstream.metered import MeteredApi
from natstui.jetstream.poll_round import Round
from natstui.jetstream.poll_snapshot import StreamsSeen

_LIST = "STREAM.LIST"
_INFO = "STREAM.INFO"
_PATIENCE_S = 0.7


class StreamReading:
    """Lists the streams; those in view are asked for one by one while a long list goes on."""

    def __init__(self, api: MeteredApi, availability: Availability) -> None:
        self._api = api
        self._availability = availability
        self._listing: Listing[StreamRow] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._turn_count = 0
        self._missing: set[str] = set()
        self.rows: dict[str, StreamRow] = {}
        """Every stream as it was last seen."""

    async def read(self, allowed: Round, visible: tuple[str, ...]) -> StreamsSeen:
        """Read as much as half of the allowance gives; raises ServerGone only."""
        seen = StreamsSeen()
        if self._availability.may_ask(_LIST):
            await self._list(allowed, seen)
        if not seen.complete and visible and self._availability.may_ask(_INFO):
            await self._look_at(allowed, visible, seen)
        seen.missing = self._missing - {row.name for row in seen.rows}
        return seen

    async def close(self) -> None:
        """Drop the question that waits for its answer, if there is one."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    async def _list(self, allowed: Round, seen: StreamsSeen) -> None:
        listing = self._listing = self._listing or Listing(_LIST, read_streams)
        try:
            for _ in range(max(1, allowed.left_count // 2)):
                if not await self._step(listing):
                    return
                if listing.done or not allowed.has_half:
                    break
        except RequestFailed as error:
            self._listing = None
            self._availability.failed(_LIST, error)
            return
        self._availability.worked(_LIST)
        if listing.done:
            self._listing = None
            seen.rows, seen.complete = listing.rows, listing.steady
            self._missing = listing.missing
            kept = {name: row for name, row in self.rows.items() if name in self._missing}
            self.rows = kept | {row.name: row for row in listing.rows}

    async def _step(self, listing: Listing[StreamRow]) -> bool:
        """Read one page; False when the answer is left to a later poll.

        While a node is down every answer takes 4 s, and consumers shall not wait for it.
        """
        self._asking = self._asking or asyncio.create_task(listing.step(self._api))
        done, _ = await asyncio.wait({self._asking}, timeout=_PATIENCE_S)
        if not done:
            return False
        asked, self._asking = self._asking, None
        asked.result()
        return True

    async def _look_at(self, allowed: Round, visible: tuple[str, ...], seen: StreamsSeen) -> None:
        """Ask for streams in view, going on next time where the allowance ended."""
        for _ in range(min(len(visible), max(1, allowed.left_count // 2))):
            name = visible[self._turn_count % len(visible)]
            self._turn_count += 1
            try:
                reply, _ = await self._api.ask(f"{_INFO}.{name}")
                row = read_stream(reply, time.monotonic_ns() // 1000)
            except NotFound:
                continue
            except RequestFailed as error:
                self._availability.failed(_INFO, error)
                return
            self._availability.worked(_INFO)
            seen.rows.append(row)
            self.rows[name] = row
