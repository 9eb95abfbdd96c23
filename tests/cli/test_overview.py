"""`natstui overview`: the first screen, printed once, and as JSON."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from pathlib import Path

import nats
import pytest
from rich.cells import cell_len

from natstui.cli.overview import bands_of_page
from natstui.tui.overview.panels import PanelId
from tests.accounts import Account
from tests.cli.test_manage import Shell
from tests.jetstream.pending import until_pending


async def filled(account: Account) -> None:
    nc = await nats.connect(account.url)
    jetstream = nc.jetstream()
    await jetstream.add_stream(name="ORDERS", subjects=["orders"])
    await jetstream.add_consumer("ORDERS", durable_name="billing", ack_policy="explicit")
    for _ in range(5):
        await jetstream.publish("orders", b"one")
    await until_pending(jetstream, "ORDERS", 5, "billing")
    await nc.close()


@pytest.mark.server
def test_it_prints_one_page_and_the_same_as_json(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(filled(account))
    shell = Shell(account.url, tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    page = shell.ok("overview")
    lines = page.rstrip("\n").split("\n")
    assert len(lines) <= 30 and {len(line) for line in lines[1:]} == {100}
    assert "ORDERS" in page and "billing" in page and "Wrong now" in page
    assert "\x1b" not in page, "colours are for a terminal"
    facts = json.loads(shell.ok("overview", "--json"))
    assert facts["pending_msgs"] == 5
    assert [one["name"] for one in facts["busiest_streams"]] == ["ORDERS"]
    assert facts["lagging_consumers"] == [
        {"stream": "ORDERS", "name": "billing", "pending_msgs": 5}
    ]
    assert facts["servers"][0]["name"] and facts["critical_count"] == 0


@pytest.mark.server
def test_wide_characters_do_not_move_the_frames(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a name was counted by its letters, the frame behind it stood too far to the right."""

    async def made() -> None:
        nc = await nats.connect(account.url)
        jetstream = nc.jetstream()
        await jetstream.add_stream(name="订单📦", subjects=["orders"])
        await jetstream.add_consumer("订单📦", durable_name="发货🚚", ack_policy="explicit")
        await jetstream.publish("orders", b"one")
        await until_pending(jetstream, "订单📦", 1, "发货🚚")
        await nc.close()

    asyncio.run(made())
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "30")
    page = Shell(account.url, tmp_path).ok("overview")
    lines = page.rstrip("\n").split("\n")
    assert "订单📦" in page and "发货🚚" in page
    assert {cell_len(line) for line in lines[1:]} == {100}


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (100, 20), (120, 40)])
def test_panels_beside_one_another_are_equally_high_however_much_is_wrong(
    width: int, height: int
) -> None:
    """Where events had to give way, the panels above them were cut to heights of their own."""
    for wrong, busiest, lagging in product(range(0, 40, 3), range(0, 7, 3), range(0, 7, 3)):
        counts: dict[PanelId, int] = {
            "wrong": wrong, "servers": 3, "busiest": busiest, "lagging": lagging, "events": 5,
        }  # fmt: skip
        for band in bands_of_page(width, height, counts):
            assert len({place.height for place in band}) == 1, (counts, band)
