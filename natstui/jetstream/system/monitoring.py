"""The servers' monitoring ports (HTTP), asked for what the system account would tell."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping

import msgspec

from natstui.clock import steady_us
from natstui.config import Connection
from natstui.errors import RequestFailed
from natstui.http_client import http_request
from natstui.jetstream.connection.authentication import tls_options
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.asking import ServerAnswer

_MOST_BYTES = 192 * 1024 * 1024
"""What one server may answer: 10,000 streams with 5 consumers each are 68 MB."""


class _Whose(msgspec.Struct):
    server_id: str
    server_name: str = ""


class MonitoringPorts:
    """All monitoring ports that are named; each is one server's own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._context: ssl.SSLContext | None = None
        if any(one.startswith("https://") for one in connection.monitoring):
            self._context = tls_options(connection, wanted=True)["tls"]
        self.silent: dict[str, str] = {}
        """Address → why it did not answer, of the last question."""

    async def ask(
        self, path: str, options: Mapping[str, object], limit_s: float | None = None
    ) -> list[ServerAnswer]:
        """Return what each server answers, as `/varz`; raises RequestFailed when none does."""
        limit_s = limit_s or self._connection.request_timeout_s
        query = "&".join(f"{name}={value}" for name, value in options.items())
        urls = [f"{one.rstrip('/')}{path}?{query}" for one in self._connection.monitoring]
        found = await asyncio.gather(*(self._get(url, limit_s) for url in urls))
        self.silent = {
            _place(url): it for url, it in zip(urls, found, strict=True) if isinstance(it, str)
        }
        answers = [it for it in found if isinstance(it, ServerAnswer)]
        if not answers:
            told = "; ".join(f"{url}: {why}" for url, why in self.silent.items())
            raise RequestFailed(f"no monitoring port answers: {told}")
        # Two addresses may lead to the same server.
        return list({answer.server_id: answer for answer in answers}.values())

    async def _get(self, url: str, limit_s: float) -> ServerAnswer | str:
        """Return an answer, or why there is none."""
        asked_us = steady_us()
        try:
            # Never through a proxy of the environment: these ports are inside.
            reply = await http_request(
                "GET", url, limit_s, tls=self._context, most_bytes=_MOST_BYTES
            )
            whose = read(_place(url), reply.body, _Whose)
        except RequestFailed as error:
            return str(error)
        name = whose.server_name or whose.server_id
        return ServerAnswer(
            whose.server_id,
            name,
            None,
            None,
            reply.body,
            packed_bytes=len(reply.body),
            asked_mono_us=asked_us,
            began_mono_us=reply.began_mono_us,
            ended_mono_us=steady_us(),
        )


def _place(url: str) -> str:
    """Return an address without its query, and without a user."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"
