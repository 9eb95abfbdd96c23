"""What a shell offers for names of streams, consumers and recordings, as they are now."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from natstui.cli.offering import offering
from natstui.model.assets.buckets import KV, OBJECTS, is_bucket, key_of

if TYPE_CHECKING:
    from natstui.jetstream.connection.client import Client

_PATIENCE_S = 1.0
_MOST_NAMES = 5_000


@offering
def recordings(context: click.Context) -> list[str]:
    """Offer the recordings of the library, the newest first."""
    from natstui.cli.sessions.options import library
    from natstui.session.library import session_folders

    # Of `analyze`, `sessions` are the recordings themselves.
    named, config = context.params.get("sessions"), context.params.get("config")
    folder = library(named if isinstance(named, str) else None, config)
    return ["last", *(session_folder.name for session_folder in session_folders(folder))]


@offering
def streams(context: click.Context) -> list[str]:
    """Offer the streams of the server that the flags name."""
    return _asked(context, lambda client: _names(client, "STREAM.NAMES", "streams"))


@offering
def consumers(context: click.Context) -> list[str]:
    """Offer the consumers of the stream that was typed."""
    stream = context.params.get("stream")
    if not isinstance(stream, str):
        return []
    return _asked(context, lambda client: _names(client, f"CONSUMER.NAMES.{stream}", "consumers"))


@offering
def buckets(context: click.Context) -> list[str]:
    """Offer the key-value buckets of the server that the flags name."""
    found = _asked(context, lambda client: _names(client, "STREAM.NAMES", "streams"))
    return [name.removeprefix(KV) for name in found if name.startswith(KV)]


@offering
def stores(context: click.Context) -> list[str]:
    """Offer the object stores of the server that the flags name."""
    found = _asked(context, lambda client: _names(client, "STREAM.NAMES", "streams"))
    return [name.removeprefix(OBJECTS) for name in found if name.startswith(OBJECTS)]


@offering
def keys(context: click.Context) -> list[str]:
    """Offer the keys of the bucket that was typed, deleted ones too."""
    bucket = context.params.get("bucket")
    if not isinstance(bucket, str) or not is_bucket(bucket):
        return []
    return _asked(context, lambda client: _keys(client, bucket))


def _asked(context: click.Context, ask: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    import asyncio
    import dataclasses

    from natstui.cli.options import ConnectionFlags
    from natstui.jetstream.connection.client import connect

    flags = {name: context.params.get(name) for name in ("context", "profile", "config")}
    servers = ",".join(context.params.get("server") or ()) or None
    _, connection = ConnectionFlags(server=servers, **flags).resolve()
    quick = dataclasses.replace(
        connection, connect_timeout_s=_PATIENCE_S, request_timeout_s=_PATIENCE_S
    )

    async def run() -> list[str]:
        client = await connect(quick)
        try:
            return await ask(client)
        finally:
            await client.close()

    return asyncio.run(run())


async def _names(client: Client, verb: str, of: str) -> list[str]:
    found: list[str] = []
    async for page in client.pages(verb):
        found += json.loads(page).get(of) or ()
        if len(found) >= _MOST_NAMES:
            break
    return found


async def _keys(client: Client, bucket: str) -> list[str]:
    info = await client.request(f"STREAM.INFO.{KV}{bucket}", {"subjects_filter": ">"})
    found = json.loads(info)["state"].get("subjects") or {}
    return sorted(map(key_of, found))[:_MOST_NAMES]


stream_name = click.argument("name", shell_complete=streams)
"""The argument NAME of a command about a stream."""
on_stream = click.argument("stream", shell_complete=streams)
consumer_name = click.argument("name", shell_complete=consumers)
"""The argument NAME of a command about a consumer of STREAM."""
session_name = click.argument("session", shell_complete=recordings)
"""The argument SESSION of a command about a recording."""
