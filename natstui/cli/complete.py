"""Shell completion of names that need a connection: streams, consumers, keys."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import click

from natstui.cli.local_completion import create_completion
from natstui.model.assets.buckets import KV, OBJECTS, is_bucket_name, key_of
from natstui.values import replace

if TYPE_CHECKING:
    from natstui.jetstream.connection.client import Client

_REQUEST_TIMEOUT_S = 1.0
_MAX_NAMES = 5_000


@create_completion
def complete_recordings(context: click.Context) -> list[str]:
    """Return `last` and the recordings of the library that the flags name, the newest first."""
    from natstui.cli.sessions.options import library_folder
    from natstui.session.library import list_session_folders

    # Of `analyze`, `sessions` are the recordings themselves.
    sessions_folder, config = context.params.get("sessions"), context.params.get("config")
    folder = library_folder(sessions_folder if isinstance(sessions_folder, str) else None, config)
    return ["last", *(session_folder.name for session_folder in list_session_folders(folder))]


@create_completion
def complete_streams(context: click.Context) -> list[str]:
    """Return the streams of the server that the flags name; stops after 5,000."""
    return _request_names(context, lambda client: _read_names(client, "STREAM.NAMES", "streams"))


@create_completion
def complete_consumers(context: click.Context) -> list[str]:
    """Return the consumers of the typed stream; stops after 5,000. Empty before a stream is
    typed.
    """
    stream = context.params.get("stream")
    if not isinstance(stream, str):
        return []
    return _request_names(
        context, lambda client: _read_names(client, f"CONSUMER.NAMES.{stream}", "consumers")
    )


@create_completion
def complete_buckets(context: click.Context) -> list[str]:
    """Return the key-value buckets of the server that the flags name, without their prefix."""
    names = _request_names(context, lambda client: _read_names(client, "STREAM.NAMES", "streams"))
    return [name.removeprefix(KV) for name in names if name.startswith(KV)]


@create_completion
def complete_object_stores(context: click.Context) -> list[str]:
    """Return the object stores of the server that the flags name, without their prefix."""
    names = _request_names(context, lambda client: _read_names(client, "STREAM.NAMES", "streams"))
    return [name.removeprefix(OBJECTS) for name in names if name.startswith(OBJECTS)]


@create_completion
def complete_keys(context: click.Context) -> list[str]:
    """Return at most 5,000 keys of the typed bucket, with deleted keys; empty before a bucket is
    typed.
    """
    bucket = context.params.get("bucket")
    if not isinstance(bucket, str) or not is_bucket_name(bucket):
        return []
    return _request_names(context, lambda client: _read_keys(client, bucket))


def _request_names(
    context: click.Context, read_names: Callable[[Client], Awaitable[list[str]]]
) -> list[str]:
    import asyncio

    from natstui.cli.options import ConnectionFlags
    from natstui.jetstream.connection.client import connect

    flags = {name: context.params.get(name) for name in ("context", "profile", "config")}
    servers = ",".join(context.params.get("server") or ()) or None
    _, connection = ConnectionFlags(server=servers, **flags).resolve()
    short_timeout_connection = replace(
        connection, connect_timeout_s=_REQUEST_TIMEOUT_S, request_timeout_s=_REQUEST_TIMEOUT_S
    )

    async def run() -> list[str]:
        client = await connect(short_timeout_connection)
        try:
            return await read_names(client)
        finally:
            await client.close()

    return asyncio.run(run())


async def _read_names(client: Client, api_verb: str, list_field: str) -> list[str]:
    names: list[str] = []
    async for page in client.pages(api_verb):
        names += json.loads(page).get(list_field) or ()
        if len(names) >= _MAX_NAMES:
            break
    return names


async def _read_keys(client: Client, bucket: str) -> list[str]:
    info = await client.stream_info(f"{KV}{bucket}", {"subjects_filter": ">"})
    return sorted(map(key_of, info.state.subjects or ()))[:_MAX_NAMES]


stream_argument = click.argument("name", shell_complete=complete_streams)
"""The argument NAME of a command about a stream."""
stream_of_consumer_argument = click.argument("stream", shell_complete=complete_streams)
consumer_argument = click.argument("name", shell_complete=complete_consumers)
"""The argument NAME of a command about a consumer of STREAM."""
session_argument = click.argument("session", shell_complete=complete_recordings)
"""The argument SESSION of a command about a recording."""
