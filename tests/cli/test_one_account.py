"""Another account than one's own: the commands that judge and measure it, as its rows are told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import nats
import pytest
from prometheus_client.metrics_core import Metric

from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_manage import run_here as run
from tests.cli.test_metrics import scraped, served_here, value
from tests.jetstream.test_connections import as_user
from tests.jetstream.test_other_account import BOTH, a_consumer

pytestmark = pytest.mark.server


async def filled(url: str) -> None:
    nc = await nats.connect(url)
    await a_consumer(nc, "SAME", "C")
    await nc.close()


def test_one_other_account_is_judged_and_measured(
    nats_server_factory: Callable[..., Broker], held_port: int
) -> None:
    server = nats_server_factory(BOTH)
    asyncio.run(filled(as_user(server.url, "other")))
    of_it = ("--server", as_user(server.url, "sys"), "--account", "OTHER")
    seen = run("health", *of_it, "--json")
    assert seen.returncode in (0, 1, 2), seen.stderr
    report = json.loads(seen.stdout)
    assert (report["streams_count"], report["consumers_count"]) == (1, 1)
    seen = run("stuck", "SAME", "C", *of_it, "--json")
    assert json.loads(seen.stdout)["state"]["stream"] == "SAME", seen.stderr
    seen = run("stuck", "SAME", "C", *of_it, "--tap", "1s")
    assert seen.returncode == 3
    assert "the account OTHER is watched through the system account" in seen.stderr
    for command in ("health", "metrics", "alert"):
        seen = run(command, *of_it[:3], "APP,OTHER")
        assert "--account names one account here" in seen.stderr and seen.returncode in (2, 3)
    found: dict[str, Metric] = {}

    def look(page: str) -> None:
        found.update(scraped(page, lambda seen: "jetstream_consumer_num_pending" in seen))

    served_here(held_port, look, "--interval", "200ms", *of_it)
    assert value(found, "jetstream_stream_last_seq", stream_name="SAME", account="OTHER") == 0
