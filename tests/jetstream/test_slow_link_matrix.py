"""Slow links to 201 streams: none is lost, every row is shown, and as old as it says."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import nats
import pytest
from nats.aio.client import Client as NatsClient

from natstui.clock import steady_s
from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import LinkChanged
from tests.ending import ended
from tests.jetstream.polling import Polled, api
from tests.jetstream.slow_link import SlowLink, Wire

pytestmark = [pytest.mark.server, pytest.mark.long]

STREAMS_COUNT = 201
TOLD_EVERY_COUNT = 20
"""One stream in so many gets a message a second, which tells how old a row is."""
WATCHED_S = 45.0
LOOK_S = 0.25
LIST_BYTES = 150_000
ROW_BYTES = 920
"""What one row weighs that is asked for by itself."""
TRIPS_COUNT = 16
"""Round trips from the first byte of a connection to the last row, at half a trip each."""
POLL_S = 2.5
BUSY_S = 8.0
"""What two cores that others use as well may add."""
EVERY_CELL = [(kb, ms) for kb in (10, 20, 60, 200) for ms in (0, 100, 300)]
"""Bandwidth in kB/s and latency in ms: rows alone and in a list, near and far."""


def needed_s(wire: Wire) -> float:
    """Return how long all rows are on a wire, in one list or, where that is too long, alone."""
    list_s = LIST_BYTES / wire.bytes_per_s
    if list_s < 5:
        return list_s
    return STREAMS_COUNT * ROW_BYTES / wire.bytes_per_s


@dataclass
class Stored:
    """When each message of a stream was stored: between these two moments, in seconds."""

    times_s: list[tuple[float, float]] = field(default_factory=list)

    def wrong_s(self, last_seq: int, sampled_s: float) -> float:
        """Return by how much a row with this sequence says it was made too early or too late.

        Negative is too early: rows would look older than they are.
        """
        earliest_s = self.times_s[last_seq - 1][0] if last_seq else sampled_s
        later = self.times_s[last_seq : last_seq + 1]
        latest_s = later[0][1] if later else sampled_s
        return min(0.0, sampled_s - earliest_s) or max(0.0, sampled_s - latest_s)


@dataclass
class Cell:
    """What was seen over one link."""

    wire: Wire
    joined_count: int = 0
    states: list[str] = field(default_factory=list)
    rows_count: int = 0
    complete_s: float | None = None
    allowed_s: float = 0.0
    oldest_s: float = 0.0
    early_s: float = 0.0
    late_s: float = 0.0
    told_s: float = 0.0
    polls_s: float = 0.0
    held_s: float = 0.0
    """How long others held up the process that polls, links and watches, in all."""
    reasons: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        wire = self.wire
        complete = "never" if self.complete_s is None else f"{self.complete_s:5.1f}"
        return (
            f"{wire.bytes_per_s // 1000:4} kB/s {wire.latency_s * 1000:4.0f} ms"
            f"  joined {self.joined_count}  rows {self.rows_count:3}  all after {complete} s"
            f" (allowed {self.allowed_s:5.1f})  oldest {self.oldest_s:5.1f} s"
            f"  ages wrong by {self.early_s:+.1f} to {self.late_s:+.1f} s"
            f"  polls every {self.polls_s:4.1f} s, told {self.told_s:4.1f}"
        )


async def fill(url: str) -> None:
    client = await connect(Connection(servers=(url,)))
    for number in range(STREAMS_COUNT):
        name = f"S{number:03}"
        body = {"name": name, "subjects": [name], "storage": "memory"}
        await api(client, f"STREAM.CREATE.{name}", body)
    await client.close()


async def tell(nc: NatsClient, stored: dict[str, Stored]) -> None:
    """Store a message a second in every stream that tells."""
    js = nc.jetstream()
    while True:
        for name, known in stored.items():
            sent_s = time.monotonic()
            await js.publish(name, b"", timeout=30)
            known.times_s.append((sent_s, time.monotonic()))
        await asyncio.sleep(1.0)


async def seen_over(server: Broker, wire: Wire, stored: dict[str, Stored], seed: int) -> Cell:
    """Poll over one link for a while."""
    cell, link, changes = Cell(wire), SlowLink(server.url, wire, seed), list[LinkChanged]()
    async with link.listening() as url:
        begun_s = time.monotonic()
        client = await connect(Connection(servers=(url,)), on_link=changes.append)
        polled = Polled(client)
        polled.control.set_interval(1.0)
        polling = asyncio.create_task(poll(client, polled.control, polled))
        while time.monotonic() - begun_s < WATCHED_S:
            looked_s = time.monotonic()
            await asyncio.sleep(LOOK_S)
            cell.held_s += time.monotonic() - looked_s - LOOK_S
            _look(cell, polled, stored, link, time.monotonic() - begun_s)
        polling.cancel()
        await ended(polling)
        cell.states = [change.state for change in changes]
        await client.close()
    cell.joined_count = link.joined_count
    polls = [record for record in polled.records if isinstance(record, Snapshot)]
    took_us = polls[-1].taken_mono_us - polls[0].taken_mono_us
    cell.polls_s = took_us / 1e6 / max(1, len(polls) - 1)
    cell.told_s = sum(p.cost.interval_us for p in polls[:-1]) / 1e6 / max(1, len(polls) - 1)
    cell.reasons = {poll.cost.backoff_reason or "" for poll in polls}
    return cell


def _look(
    cell: Cell, polled: Polled, stored: dict[str, Stored], link: SlowLink, at_s: float
) -> None:
    columns = polled.state.streams.columns
    cell.rows_count = len(columns.name)
    if cell.complete_s is None:
        wire = cell.wire
        way_s = TRIPS_COUNT * wire.latency_s + POLL_S + BUSY_S
        cell.allowed_s = needed_s(wire) + link.stalled_s + way_s
        cell.complete_s = at_s if cell.rows_count == STREAMS_COUNT else None
    else:
        oldest_s = steady_s() - min(columns.sampled_mono_us) / 1e6
        cell.oldest_s = max(cell.oldest_s, oldest_s)
    for name, last_seq, sampled_us in zip(
        columns.name, columns.last_seq, columns.sampled_mono_us, strict=True
    ):
        if name in stored:
            wrong_s = stored[name].wrong_s(last_seq, sampled_us / 1e6)
            cell.early_s = min(cell.early_s, wrong_s)
            cell.late_s = max(cell.late_s, wrong_s)


async def test_over_slow_links_all_streams_are_shown_with_true_ages_and_nothing_is_lost(
    nats_server: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    await fill(nats_server.url)
    stored = {f"S{n:03}": Stored() for n in range(0, STREAMS_COUNT, TOLD_EVERY_COUNT)}
    nc = await nats.connect(nats_server.url)
    telling = asyncio.create_task(tell(nc, stored))
    cells = await asyncio.gather(
        *(
            seen_over(nats_server, Wire(kb * 1000, ms / 1000), stored, seed)
            for seed, (kb, ms) in enumerate(EVERY_CELL)
        )
    )
    telling.cancel()
    await nc.close()
    with capsys.disabled():
        print("", *cells, sep="\n")
    for cell in cells:
        assert (cell.joined_count, cell.states) == (1, ["connected"]), cell
        assert cell.complete_s is not None, cell
        # The server, and the link to it, were held up as long as who polls.
        assert cell.complete_s <= cell.allowed_s + 2 * cell.held_s, cell
        assert cell.oldest_s <= 2 * cell.allowed_s + 2 * cell.held_s, cell
        slowness_s = cell.wire.latency_s + cell.wire.stall_s
        assert cell.early_s >= -1.0 - cell.held_s, cell
        assert cell.late_s <= slowness_s + POLL_S + cell.held_s, cell
        apart_s = 0.5 + cell.held_s
        assert cell.told_s == pytest.approx(cell.polls_s, rel=0.3, abs=apart_s), cell
        assert not [reason for reason in cell.reasons if "costs the server" in reason], cell.wire
