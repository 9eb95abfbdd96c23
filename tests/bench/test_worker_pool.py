"""A worker whose words cannot be understood ends its run, and not the patience of who waits."""

from __future__ import annotations

import asyncio

import pytest

from natstui.bench.job.protocol import Orders, ReadyReport, WorkerLine
from natstui.bench.run.worker_processes import WorkerPool, WorkerProcess
from natstui.config.connection import Connection
from natstui.model.bench.plan import Role
from tests.accounts import Account

pytestmark = pytest.mark.server


async def test_a_worker_that_is_not_understood_is_ended_and_named(account: Account) -> None:
    heard: list[WorkerLine | None] = []

    def on_heard(member: WorkerProcess, said: WorkerLine | None) -> None:
        heard.append(said)
        if isinstance(said, ReadyReport):
            raise KeyError("strange")

    pool = WorkerPool(on_heard)
    member = await pool.start(
        Orders(
            connection=Connection(servers=(account.url,)).to_json_line(),
            run_id="r",
            role=Role("pubs", "publish"),
            worker_id=0,
            publisher_id=0,
            worker_index=0,
            workers_count=1,
            share_msgs=None,
            received_payload=None,
        )
    )
    async with asyncio.timeout(30):
        while not member.has_exited:
            await asyncio.sleep(0.05)
        assert await member.process.wait() != 0
    assert member.failure is not None and "strange" in member.failure.sentence
    assert heard[-1] is member.failure and member.is_over
    await pool.end_all()
