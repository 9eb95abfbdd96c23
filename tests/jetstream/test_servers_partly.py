"""What servers refuse to tell of themselves is missing, and the rest is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any

from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.errors import RequestFailed
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.system.servers import _read_from_source
from natstui.jetstream.system.source import CompleteSource
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


async def test_the_previous_id_of_a_server_without_a_name_is_not_waited_for() -> None:
    ids = ["NA"]
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
    asking = ServerRequests(client)
    assert asking.find_silent(await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})) == ()
    ids[:] = ["NB"]
    assert asking.find_silent(await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})) == ()
    # One that joins replaces nobody.
    ids[:] = ["NC", "NB"]
    await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})
    ids[:] = ["NB"]
    replies = await asking.request_all("$SYS.REQ.ACCOUNT.PING.CONNZ", {})
    assert asking.find_silent(replies) == ("NC",)
