"""Lists of streams and consumers: their rows, and on stderr the names of what is away."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import click

from natstui.clean import clean_line
from natstui.jetstream.connection.client import Client
from natstui.units import counted


async def list_streams(client: Client, subject: str | None = None) -> list[dict[str, Any]]:
    """Return the INFO of the streams that run, of those that store a subject if one is given."""
    return await _listed(client, "STREAM.LIST", "streams", {"subject": subject} if subject else {})


async def list_consumers(client: Client, stream: str) -> list[dict[str, Any]]:
    """Return the INFO of the consumers of a stream that run."""
    return await _listed(client, f"CONSUMER.LIST.{stream}", "consumers", {})


async def _listed(
    client: Client, verb: str, of: str, body: dict[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of a list, without those of what is away, which is printed to stderr."""
    pages = [json.loads(page) async for page in client.pages(verb, body)]
    refused = {name: why for page in pages for name, why in (page.get("offline") or {}).items()}
    missing = {name for page in pages for name in page.get("missing") or ()}
    print_away(missing, refused)
    # The server fills rows of what is away with zeros, and some without a name.
    away = missing | refused.keys()
    rows = [row for page in pages for row in page.get(of) or () if _name(row) not in {"", *away}]
    counted_count = max((page.get("total") or 0 for page in pages), default=0)
    left_out_count = counted_count - len(rows) - len(away)
    if left_out_count > 0:
        _print(f"the server counts {counted(left_out_count, f'more {of[:-1]}')} than it lists")
    return rows


def print_away(missing: Collection[str], refused: Mapping[str, str]) -> None:
    """Print to stderr who cannot be reached, and whom the server does not run, with the reason."""
    for name, reason in sorted(refused.items()):
        _print(f"the server does not run {name}: {reason}")
    if unreachable := sorted(set(missing) - refused.keys()):
        _print(f"not reachable: {', '.join(unreachable)}")


def _name(row: dict[str, Any]) -> str:
    name: str = row.get("name") or row["config"].get("name") or ""
    return name


def _print(text: str) -> None:
    click.echo(clean_line(f"natstui: {text}"), err=True)
