"""Publishers go on when an answer comes, not when they look again."""

from __future__ import annotations

import asyncio
import time

import pytest

from natstui.bench.job.job import Job
from natstui.bench.job.protocol import StartCommand
from natstui.bench.job.schedule import Schedule
from natstui.bench.job.tally import Tally
from natstui.bench.run.assets import RunAssets
from natstui.bench.run.orders import all_orders
from natstui.bench.wire import window
from natstui.bench.wire.link import WireLink
from natstui.bench.worker import build_program
from natstui.config.connection import Connection
from natstui.jetstream.connection.client import connect
from natstui.model.bench.plan import Pattern, Role, StreamPlan
from tests.accounts import Account
from tests.bench.running import plan

pytestmark = pytest.mark.server


@pytest.mark.parametrize("pattern", ["js-publish-async", "js-publish-atomic", "js-publish-fast"])
async def test_no_publisher_needs_to_look_whether_it_may_go_on(
    account: Account, monkeypatch: pytest.MonkeyPatch, pattern: Pattern
) -> None:
    monkeypatch.setattr(window, "_CHECK_INTERVAL_S", 600)
    stream = StreamPlan("WAIT", subjects=("wait",), storage="memory", allow_batches=True)
    what = plan(
        Role("pubs", pattern, subject="wait", total_msgs=900, batch_msgs=100), stream=stream
    )
    connection = Connection(servers=(account.url,))
    client = await connect(connection)
    link = WireLink(client.nc)
    link.replace_parser()
    assets = RunAssets(client, what, "r")
    await assets.create()
    try:
        (orders,) = all_orders(what, assets, connection.to_json_line())
        job = Job(orders, client, Tally(), Schedule(()))
        program = build_program(job, link)
        await program.begin()
        now_ns = time.monotonic_ns()
        job.begin(
            StartCommand(start_ns=now_ns, steady_ns=now_ns, end_ns=None, run_start_ns=now_ns)
        )
        await asyncio.wait_for(program.run(), 30)
        assert job.tally.count("acked_msgs") == 900
    finally:
        await assets.remove({"WAIT": 900})
        await link.close()
        await client.close()
