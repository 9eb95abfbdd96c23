"""The INFO of a stream as the server writes it: JSON, YAML, searched, copied."""

from __future__ import annotations

import json

import nats
import pytest

from tests.accounts import Account
from tests.tui.viewer import viewing

pytestmark = pytest.mark.server


async def test_a_stream_is_shown_raw_searched_and_copied(account: Account) -> None:
    nc = await nats.connect(account.url)
    await nc.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
    await nc.close()
    async with viewing(account.url, size=(100, 30)) as viewer:
        await viewer.until(lambda: "ORDERS" in viewer.rows(), "no stream in the table")
        await viewer.press("y")
        await viewer.until(lambda: '"name": "ORDERS"' in viewer.text, "no JSON")
        await viewer.press("slash")
        await viewer.type("subjects")
        await viewer.press("enter")
        await viewer.until(lambda: "match 1 of" in viewer.words, "no match")
        await viewer.press("c")
        copied = json.loads(viewer.app.clipboard)
        assert copied["config"]["subjects"] == ["orders.>"]
        await viewer.press("y")
        await viewer.until(lambda: "name: ORDERS" in viewer.words, "no YAML")
        await viewer.press("escape")
        await viewer.until(lambda: "STREAM" in viewer.text, "not back")
