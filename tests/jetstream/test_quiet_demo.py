"""The consumers and streams of the demo that are healthy stay without a finding."""

from __future__ import annotations

import asyncio

import pytest

from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.events.subscriptions import read_events
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.testbed.shop.traffic import CONSUMERS, STREAMS
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.live.state import State
from natstui.model.records.record import Record
from tests.jetstream.demo_watch import PATIENCE_S, headless_demo

pytestmark = [pytest.mark.server, pytest.mark.long]

_SICK = {
    "ORDERS > newsletter", "ORDERS > legacy-erp", "PICKING > pickers-large",
    "PAYMENTS > settlement", "RETURNS > fraud-check", "INVOICES", "RETURNS",
    "ORDERS > shipping-labels", "ORDERS > loyalty-points", "PAYMENTS > risk-score", "PICKING",
}  # fmt: skip
_ALWAYS = {
    "NT-C05", "NT-C08", "NT-C09", "NT-C21", "NT-C27", "NT-C32", "NT-C54", "NT-S21", "NT-S26",
}  # fmt: skip
"""What there is to see in the demo at any time."""
_LOOKED_ON_S = 45.0
"""More than half a minute: one wave of the sign-ups, and six fetches of their lazy reader."""


class Judge:
    """A sink that keeps whatever was told of what."""

    def __init__(self) -> None:
        self.state = State()
        self.told: dict[tuple[str, str], str] = {}

    def add(self, record: Record) -> None:
        self.state = apply_and_evaluate(self.state, record)
        for one in self.state.findings.list_open_findings():
            if one.entity.stream:
                self.told[one.entity.text, one.kind.code] = one.text


async def test_the_healthy_half_of_the_demo_raises_nothing_and_the_other_half_does() -> None:
    judge = Judge()
    with headless_demo() as (_, url):
        client = await connect(Connection(servers=(url,)))
        watching = [
            asyncio.create_task(read_events(client, judge)),
            asyncio.create_task(poll(client, PollControl(1.0), judge)),
        ]
        try:
            async with asyncio.timeout(PATIENCE_S + _LOOKED_ON_S):
                while not judge.state.costs or _lasted_s(judge.state) < _LOOKED_ON_S:
                    await asyncio.sleep(0.5)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            await client.close()
    healthy = {key: text for key, text in judge.told.items() if key[0] not in _SICK}
    assert not healthy
    assert {name for name, _ in judge.told} >= _SICK - {"PICKING > pickers-large", "RETURNS"}
    codes = {code for _, code in judge.told}
    assert codes >= _ALWAYS and len(codes) >= 10
    assert len(judge.state.streams) == len(STREAMS)
    assert len(judge.state.consumers) >= sum(map(len, CONSUMERS.values()))


def _lasted_s(state: State) -> float:
    return (state.costs[-1].mono_us - state.costs[0].mono_us) / 1e6
