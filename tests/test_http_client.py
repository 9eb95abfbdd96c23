"""One HTTP request ends within its deadline, whatever a server does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import pytest

from natstui.config import Connection
from natstui.errors import RequestFailed
from natstui.http_client import http_request
from natstui.jetstream.system.source import MonitoringPorts
from tests.wrong_http import MODES, wrong_http

REASONS = {
    "drip": "no complete reply within 2 s",
    "hang": "no complete reply within 2 s",
    "redirect": "the reply is 302, a redirect, which is not followed",
    "500": "the reply is 500",
    "ssh": "the reply is not valid HTTP",
}
DEADLINES_S = {"drip": 2.0, "hang": 2.0, "redirect": 20.0, "500": 20.0, "ssh": 20.0}
"""Short only where it is what ends the request, but long enough for a busy machine to send it."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[pytest.mark.long] * (mode == "hang")) for mode in MODES]
)
async def test_a_wrong_reply_is_a_failure_within_the_deadline(mode: str) -> None:
    requests: list[str] = []
    async with wrong_http(mode, requests) as address:
        began_s = time.monotonic()
        with pytest.raises(RequestFailed, match=REASONS[mode]) as failed:
            signed = f"{address}/SECRET?token=SECRET"
            await http_request("POST", signed, DEADLINES_S[mode], body=b"{}")
        assert time.monotonic() - began_s < 19
    assert requests == ["POST /SECRET?token=SECRET HTTP/1.1"]
    assert "SECRET" not in str(failed.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", [pytest.param(mode, marks=[pytest.mark.long] * (mode == "drip")) for mode in MODES]
)
async def test_a_wrong_monitoring_port_is_named_and_blocks_no_thread(mode: str) -> None:
    requests: list[str] = []
    async with wrong_http(mode, requests) as address:
        ports = MonitoringPorts(
            Connection(servers=("nats://127.0.0.1:1",), monitoring=(address,) * 40)
        )
        async with asyncio.timeout(30):
            with pytest.raises(RequestFailed, match=REASONS[mode]):
                await ports.request_all("/varz", {"subs": 1}, DEADLINES_S[mode])
    assert set(requests) == {"GET /varz?subs=1 HTTP/1.1"}


async def test_the_bytes_of_an_address_stay_and_a_reply_of_2xx_succeeds() -> None:
    requests: list[str] = []
    async with wrong_http("ok", requests) as address:
        await http_request("POST", f"{address}/a?signed=%2Fb%2fc&d=%41", 30)
    assert requests == ["POST /a?signed=%2Fb%2fc&d=%41 HTTP/1.1"]


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/", "http://[/", "http://", "http://a b", "ftp://a/", "a/b"]
)
async def test_an_address_without_a_server_is_one_sentence(address: str) -> None:
    with pytest.raises(RequestFailed) as failed:
        await http_request("POST", f"{address}?token=SECRET", 30)
    assert "\n" not in str(failed.value) and "SECRET" not in str(failed.value)


@pytest.mark.long
@pytest.mark.slow
def test_no_other_command_loads_the_http_client() -> None:
    modules = (
        "natstui.cli.root, natstui.http_client, natstui.cli.core.sub, natstui.engine.live, "
        "natstui.bench.worker"
    )
    code = f"import sys, {modules}; print({{'aiohttp', 'nats'}} & set(sys.modules))"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "{'nats'}\n"
