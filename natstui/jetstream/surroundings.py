"""What a form needs to know of the server: names taken, subjects taken, servers, templates."""

from __future__ import annotations

import json
from typing import Any

from natstui.errors import RequestFailed
from natstui.jetstream.client import Client
from natstui.jetstream.template_files import templates
from natstui.model.surroundings import Neighbour, Surroundings


async def read_surroundings(client: Client, stream: str | None) -> Surroundings:
    """Ask for the account's streams, and for the consumers of one; raises the request errors."""
    pages = [json.loads(page) async for page in client.pages("STREAM.LIST")]
    rows = [row for page in pages for row in page.get("streams") or ()]
    streams = tuple(
        Neighbour(row["config"]["name"], tuple(row["config"].get("subjects") or ()))
        for row in rows
    )
    consumers = await _consumers(client, stream) if stream else {}
    return Surroundings(streams, await _servers(client), client.api_level, consumers, templates())


async def _consumers(client: Client, stream: str) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    async for page in client.pages(f"CONSUMER.LIST.{stream}"):
        for row in json.loads(page).get("consumers") or ():
            config: dict[str, Any] = row["config"]
            single = config.get("filter_subject")
            filters = config.get("filter_subjects") or ([single] if single else [])
            found[config.get("name") or row["name"]] = tuple(filters)
    return found


async def _servers(client: Client) -> int | None:
    """Return how many servers can hold replicas: those of our cluster, which a client is told."""
    info = client.nc.server_info
    if not info.get("cluster"):
        return 1
    try:
        reply = await client.ask("$SYS.REQ.SERVER.PING.STATSZ", timeout_s=1.0)
    except RequestFailed:
        return None
    if (reply.headers or {}).get("Status"):
        return None
    servers = json.loads(reply.data).get("statsz", {}).get("active_servers")
    return int(servers) if isinstance(servers, int) else None
