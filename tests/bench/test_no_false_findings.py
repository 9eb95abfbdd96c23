"""A benchmark without faults accuses nobody, while the same poller looks on as in the viewer."""

from __future__ import annotations

import asyncio

import pytest

from natstui.bench.plan.flags import with_changes
from natstui.bench.plan.scenario import built_in_scenarios, find_scenario
from natstui.bench.run.controller import Benchmark
from natstui.config.connection import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.events.subscriptions import read_events
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.poller import poll
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.findings.catalogue.account import API_SLOW, ROWS_STALE
from natstui.model.findings.catalogue.consumers import REDELIVERING
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.live.state import State
from natstui.model.records.record import Record
from natstui.values import replace
from tests.accounts import Account
from tests.bench.running import Records

pytestmark = pytest.mark.server

_OF_A_BUSY_MACHINE = {API_SLOW, ROWS_STALE}
_LOOKED_ON_US = 3_000_000
IN_SHORT = {"request-reply"}
"""It has consumers that share, and streams of requests and of responses."""


class Judge:
    """A sink that keeps whatever was told at any time."""

    def __init__(self) -> None:
        self.state = State()
        self.told: dict[tuple[str, str], str] = {}

    def add(self, record: Record) -> None:
        self.state = apply_and_evaluate(self.state, record)
        for one in self.state.findings.list_open_findings():
            if one.kind not in _OF_A_BUSY_MACHINE and one.kind.severity != "info":
                self.told[one.kind.code, one.entity.text] = one.text


def short(name: str) -> BenchmarkPlan:
    """Return a ready scenario that lasts for seconds, at a rate that a busy machine manages."""
    plan = find_scenario(name)
    has_rate = any(role.schedule for role in plan.roles)
    changes = {"rate": "150", "msgs": "450"} if has_rate else {"msgs": "3k"}
    if plan.duration_s is not None:
        changes["duration"] = "6s"
    plan = with_changes(plan, changes)
    # As few processes as share something.
    roles = tuple(replace(one, workers_count=min(one.workers_count, 2)) for one in plan.roles)
    return replace(plan, roles=roles, warmup_s=0.0, faults=())


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in IN_SHORT else pytest.mark.long)
        for name in built_in_scenarios()
    ],
)
async def test_a_ready_scenario_without_faults_raises_nothing(name: str, account: Account) -> None:
    connection, judge = Connection(servers=(account.url,)), Judge()
    client = await connect(connection)
    watching = [
        asyncio.create_task(read_events(client, judge)),
        asyncio.create_task(poll(client, PollControl(0.5), judge)),
    ]
    try:
        result = await asyncio.wait_for(Benchmark(short(name), connection, Records()).run(), 240)
        seen_us = judge.state.now_mono_us
        while judge.state.now_mono_us < seen_us + _LOOKED_ON_US:
            await asyncio.sleep(0.2)
    finally:
        for task in watching:
            task.cancel()
        await asyncio.gather(*watching, return_exceptions=True)
        await client.close()
    # Where the receivers themselves counted some, a machine was too busy, and it is true.
    true = {REDELIVERING.code} if result.accounting.redelivered_msgs else set[str]()
    assert seen_us and not [one for one in judge.told if one[0] not in true], judge.told
