"""The server's processor time, where it can be known, and why not where it cannot."""

import socket

import pytest

from natstui.bench.result.server_process import ServerProcess
from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import Role
from tests.bench.running import plan, run_plan

pytestmark = pytest.mark.server


async def test_the_server_of_this_machine_is_found_and_measured(broker: Broker) -> None:
    found = ServerProcess.find(broker.url)
    assert found.pid == broker.pid
    what = plan(Role("p", "publish", total_msgs=None), duration_s=0.4)
    result, _ = await run_plan(Connection(servers=(broker.url,)), what)
    assert result.server_cpu_ratio is not None
    assert 0.02 < result.server_cpu_ratio < 4
    assert result.server_cpu_unknown is None


def test_what_cannot_be_known_is_said(nats_server: Broker) -> None:
    assert ServerProcess.find("nats://example.org:4222").unknown_reason == (
        "the server is on another machine"
    )
    assert ServerProcess.find(None).unknown_reason == "the server is on another machine"
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        behind = ServerProcess.find(f"nats://127.0.0.1:{port}").unknown_reason or ""
        assert behind.startswith("the connection goes through another process")
    found = ServerProcess.find(nats_server.url)
    assert found.cpu_since().unknown_reason == "the run was too short"
    nats_server.kill()
    assert found.cpu_since().unknown_reason == "the server's process ended during the run"
