"""What servers refuse to tell of themselves is missing, and the rest is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.errors import RequestFailed
from natstui.jetstream.system import requests as system_requests
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.system.servers import _read_from_source
from natstui.jetstream.system.source import CompleteSource, SystemConnection
from natstui.model.servers.server import MissingData


async def test_what_one_request_cannot_tell_is_missing_and_the_rest_is_told() -> None:
    requests: list[str] = []

    async def ask(request: str, _options: Mapping[str, object]) -> list[object]:
        requests.append(request)
        if request == "VARZ":
            return []
        raise RequestFailed(f"{request}: no leader", code=503)

    servers = await _read_from_source(CompleteSource("system", ask, ask, lambda _: ("n1",)), ())  # type: ignore[arg-type]
    assert requests == ["VARZ", "JSZ", "STATZ"]
    assert servers.silent == ("n1",)
    assert servers.missing == (
        MissingData("JetStream", "JSZ: no leader"), MissingData("accounts", "STATZ: no leader"),
    )  # fmt: skip


async def test_the_accounts_of_a_server_are_requested_without_the_limit_of_a_reply() -> None:
    options_by_request: dict[str, Mapping[str, object]] = {}

    async def ask(request: str, options: Mapping[str, object]) -> list[object]:
        options_by_request[request] = options
        return []

    await _read_from_source(CompleteSource("system", ask, ask, lambda _: ()), ())  # type: ignore[arg-type]
    # Without one, a server sends 1,024 accounts.
    assert options_by_request["JSZ"]["limit"] == 1 << 20


async def test_monitoring_ports_that_cannot_be_used_are_missing() -> None:
    """The connection itself needs no TLS, so it has not checked the certificate."""
    ports = Connection(servers=(), monitoring=("https://127.0.0.1:1",), key="key.pem")
    source, missing = await SystemConnection(ports).find_source()
    reason = "a key without a certificate is useless: set cert as well"
    assert (source, missing) == (None, [MissingData("the monitoring ports", reason)])


def _requests_to(ids: list[str]) -> ServerRequests:
    """Return requests to which the servers of these ids reply, in this order."""
    no_client: Any = None
    arrival = SimpleNamespace(began_mono_us=0, ended_mono_us=0)

    async def reply(*_words: Any, **_flags: Any) -> AsyncIterator[Msg]:
        for server_id in ids:
            server = {"id": server_id, "name": server_id}
            yield Msg(no_client, data=json.dumps({"server": server, "data": {}}).encode())

    client: Any = SimpleNamespace(
        connection=Connection(servers=()),
        nc=SimpleNamespace(arrival_of=lambda _message: arrival),
        request_many=reply,
    )
    return ServerRequests(client)


async def test_the_previous_id_of_a_server_without_a_name_is_not_waited_for() -> None:
    ids = ["NA"]
    asking = _requests_to(ids)
    assert asking.find_silent(await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})) == ()
    ids[:] = ["NB"]
    assert asking.find_silent(await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})) == ()
    # One that joins replaces nobody.
    ids[:] = ["NC", "NB"]
    await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})
    ids[:] = ["NB"]
    replies = await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})
    assert asking.find_silent(replies) == ("NC",)


async def test_a_server_that_joined_and_is_farther_away_is_waited_for_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, ids = 1_000.0, ["NA", "NB"]
    monkeypatch.setattr(system_requests, "steady_s", lambda: now_s)
    asking = _requests_to(ids)

    async def replied() -> list[str]:
        replies = await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})
        return [reply.server_id for reply in replies]

    assert await replied() == ["NA", "NB"]
    # Its reply comes after those of the servers that are known.
    ids.append("NC")
    assert await replied() == ["NA", "NB"]
    now_s += 31
    assert await replied() == ["NA", "NB", "NC"]
    assert await replied() == ["NA", "NB", "NC"]


async def test_a_server_that_has_been_silent_for_a_day_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s, ids = 1_000.0, ["NA", "NB"]
    monkeypatch.setattr(system_requests, "steady_s", lambda: now_s)
    asking = _requests_to(ids)

    async def silent() -> tuple[str, ...]:
        replies = await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})
        return asking.find_silent(replies)

    assert await silent() == ()
    ids.remove("NB")
    assert await silent() == ("NB",)
    now_s += 23 * 3600
    assert await silent() == ("NB",)
    ids.append("NB")
    assert await silent() == ()
    ids.remove("NB")
    for _ in range(2):
        assert await silent() == ("NB",)
        now_s += 23 * 3600
    assert await silent() == ()
