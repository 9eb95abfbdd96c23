"""The API audit on the screen: which client requests what, while natstui itself is silent."""

from __future__ import annotations

import asyncio
from functools import partial

import nats
import pytest
from nats.aio.client import Client as Nats

from natstui.model.records.messages import Answered
from natstui.model.records.record import ReadApiAudit
from natstui.tui.connections import screen as connections_screen
from natstui.tui.connections.screen import AuditScreen
from tests.accounts import Account
from tests.ending import ended
from tests.tui.engine_records import engine_records
from tests.tui.viewer import fed, viewing

pytestmark = pytest.mark.server


async def _request(client: Nats) -> None:
    while True:
        await client.request("$JS.API.CONSUMER.INFO.ORDERS.nope", b"", timeout=10)
        await client.request("$JS.API.STREAM.NAMES", b"", timeout=10)
        await asyncio.sleep(0.05)


async def test_the_audit_names_client_request_and_error_and_polling_goes_on_after_it(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections_screen, "ReadApiAudit", partial(ReadApiAudit, for_s=3.0))
    client = await nats.connect(account.url, name="billing-7")
    await client.jetstream().add_stream(name="ORDERS", subjects=["orders"])
    requesting = asyncio.create_task(_request(client))
    async with viewing(account.url) as viewer:
        await viewer.becomes("ORDERS", msgs="0")
        await viewer.press("6", "A")
        await viewer.until(lambda: isinstance(viewer.app.screen, AuditScreen), "the audit")
        await viewer.until(lambda: "polling is paused meanwhile" in viewer.words, "that it reads")
        await viewer.until(lambda: "polling was paused" in viewer.words, "what was read")
        shown = viewer.words
        assert "CONSUMER.INFO.ORDERS.nope · billing-7" in shown
        assert "10014 consumer not found" in shown
        failed, others = shown.split("OTHER REQUESTS")
        assert "nope" in failed and "nope" not in others and "STREAM.NAMES" in others
        await client.jetstream().publish("orders", b"x")
        await viewer.press("escape", "1")
        await viewer.becomes("ORDERS", msgs="1")
    requesting.cancel()
    await ended(requesting)
    await client.close()


async def test_why_there_is_no_audit_is_one_sentence() -> None:
    async with fed(*engine_records({"S": ["C"]})) as viewer:
        await viewer.press("6", "A")
        await viewer.until(lambda: viewer.sent(ReadApiAudit), "the request")
        (asked,) = viewer.sent(ReadApiAudit)
        await viewer.feed(Answered(1, asked.command_id, "failed", "may not subscribe"))
        await viewer.until(lambda: "API audit · may not subscribe" in viewer.words, "the reason")
