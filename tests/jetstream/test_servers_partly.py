"""What servers refuse to tell of themselves is missing, and the rest is told."""

from __future__ import annotations

from collections.abc import Mapping

from natstui.errors import RequestFailed
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
