"""A worker whose words cannot be understood ends its run, and not the patience of who waits."""

from __future__ import annotations

import asyncio

import pytest

from natstui.bench.job.protocol import Orders, Ready, Up
from natstui.bench.run.worker_processes import WorkerPool, WorkerProcess
from natstui.config.connection import Connection
from natstui.model.bench.plan import Role
from tests.accounts import Account

pytestmark = pytest.mark.server


async def test_a_worker_that_is_not_understood_is_ended_and_named(account: Account) -> None:
    heard: list[Up | None] = []

    def on_heard(member: WorkerProcess, said: Up | None) -> None:
        heard.append(said)
        if isinstance(said, Ready):
            raise KeyError("strange")

    pool = WorkerPool(on_heard)
    member = await pool.start(
        Orders(
            connection=Connection(servers=(account.url,)).to_line(),
            run_id="r",
            role=Role("pubs", "publish"),
            worker_id=0,
            publisher_id=0,
            which=0,
            of=1,
            share_msgs=None,
            stamp_of=None,
        )
    )
    async with asyncio.timeout(30):
        while not member.has_exited:
            await asyncio.sleep(0.05)
        assert await member.process.wait() != 0
    assert member.failed is not None and "strange" in member.failed.sentence
    assert heard[-1] is member.failed and member.is_over
    await pool.end_all()
