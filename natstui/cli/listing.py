"""Lists of streams and consumers: their rows, and on stderr the names without a row."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from natstui.cli.terminal_line import print_stderr
from natstui.jetstream.connection.client import Client
from natstui.units import counted


async def list_streams(client: Client, subject: str | None = None) -> list[dict[str, Any]]:
    """Return STREAM.INFO of each running stream, decoded; with `subject`, of those that store it.

    The names of the others, and how many the server leaves out, are printed to stderr. Raises
    RequestFailed.
    """
    return await _list_running(
        client, "STREAM.LIST", "streams", {"subject": subject} if subject else {}
    )


async def list_consumers(client: Client, stream: str) -> list[dict[str, Any]]:
    """Return CONSUMER.INFO of each running consumer of a stream, decoded.

    The names of the others, and how many the server leaves out, are printed to stderr. Raises
    RequestFailed, NotFound without such a stream.
    """
    return await _list_running(client, f"CONSUMER.LIST.{stream}", "consumers", {})


async def _list_running(
    client: Client, verb: str, list_field: str, body: dict[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of a list; names without a row are printed to stderr."""
    pages = [json.loads(page) async for page in client.pages(verb, body)]
    refused_reasons = {
        name: reason for page in pages for name, reason in (page.get("offline") or {}).items()
    }
    missing_names = {name for page in pages for name in page.get("missing") or ()}
    print_away(missing_names, refused_reasons)
    # The server fills rows of what is away with zeros, and some without a name.
    rowless_names = missing_names | refused_reasons.keys()
    rows = [
        row
        for page in pages
        for row in page.get(list_field) or ()
        if _row_name(row) not in {"", *rowless_names}
    ]
    total_count = max((page.get("total") or 0 for page in pages), default=0)
    left_out_count = total_count - len(rows) - len(rowless_names)
    if left_out_count > 0:
        print_stderr(
            f"the server counts {counted(left_out_count, f'more {list_field[:-1]}')} than it lists"
        )
    return rows


def print_away(missing_names: Collection[str], refused_reasons: Mapping[str, str]) -> None:
    """Print to stderr the assets without a row.

    `missing_names` cannot be reached; `refused_reasons` has those that the server refuses to run,
    by name, with its reason.
    """
    for name, reason in sorted(refused_reasons.items()):
        print_stderr(f"the server does not run {name}: {reason}")
    if unreachable := sorted(set(missing_names) - refused_reasons.keys()):
        print_stderr(f"not reachable: {', '.join(unreachable)}")


def _row_name(row: dict[str, Any]) -> str:
    name: str = row.get("name") or row["config"].get("name") or ""
    return name
