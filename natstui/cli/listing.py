"""Lists of streams and consumers: their rows, and on stderr the names without a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import click

from natstui.clean import clean_json
from natstui.cli.connected import run_connected
from natstui.cli.terminal_line import print_stderr
from natstui.config import Connection
from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.asset import Page
from natstui.jetstream.connection.decode.consumers import ConsumerRow, read_consumers
from natstui.jetstream.connection.decode.streams import StreamRow, read_streams
from natstui.units import counted

Row = TypeVar("Row", StreamRow, ConsumerRow)


def print_streams(
    connection: Connection,
    print_table: Callable[[list[StreamRow]], None],
    *,
    as_json: bool,
    subject: str | None = None,
    prefix: str = "",
) -> None:
    """Print STREAM.INFO of each running stream; raises RequestFailed, also for an incomplete list.

    `subject` selects the streams that store it, `prefix` those whose names begin with it.
    """
    body = {"subject": subject} if subject else {}
    _print_list(
        connection, "STREAM.LIST", "streams", read_streams, body, prefix, print_table,
        as_json=as_json,
    )  # fmt: skip


def print_consumers(
    connection: Connection,
    stream: str,
    print_table: Callable[[list[ConsumerRow]], None],
    *,
    as_json: bool,
) -> None:
    """Print CONSUMER.INFO of each running consumer of a stream.

    Raises RequestFailed, also for an incomplete list, and NotFound without such a stream.
    """
    api_verb = f"CONSUMER.LIST.{stream}"
    _print_list(
        connection, api_verb, "consumers", read_consumers, {}, "", print_table, as_json=as_json
    )


def _print_list(
    connection: Connection,
    api_verb: str,
    list_field: str,
    read_page: Callable[[bytes], Page[Row]],
    body: dict[str, str],
    prefix: str,
    print_table: Callable[[list[Row]], None],
    *,
    as_json: bool,
) -> None:
    """Print the rows of a list of the API, then to stderr the names without a row.

    Raises RequestFailed if a request fails, or if there are names without a row.
    """

    async def read(client: Client) -> list[bytes]:
        return [reply async for reply in client.pages(api_verb, body)]

    replies = run_connected(connection, read)
    pages = [read_page(reply) for reply in replies]
    refusal_reason_by_name = {
        name: reason for page in pages for name, reason in page.offline.items()
    }
    missing_names: set[str] = {name for page in pages for name in page.missing}
    # The server fills rows of what is away with zeros, and some without a name.
    rows = [row for page in pages for row in page.rows if row.name not in {"", *missing_names}]
    total_count = max((page.total_count for page in pages), default=0)
    unlisted_count = total_count - len(rows) - len(missing_names)
    printed_rows = [row for row in rows if row.name.startswith(prefix)]
    if as_json:
        names = {row.name for row in printed_rows}
        server_rows = [row for reply in replies for row in json.loads(reply).get(list_field) or ()]
        printed_server_rows = [row for row in server_rows if _row_name(row) in names]
        click.echo(clean_json(json.dumps(printed_server_rows)))
    else:
        print_table(printed_rows)
    if unlisted_count > 0:
        print_stderr(
            f"the server counts {counted(unlisted_count, f'more {list_field[:-1]}')} than it lists"
        )
    raise_if_incomplete(
        {name for name in missing_names if name.startswith(prefix)},
        {
            name: reason
            for name, reason in refusal_reason_by_name.items()
            if name.startswith(prefix)
        },
        unlisted_count=unlisted_count,
    )


def raise_if_incomplete(
    missing_names: Collection[str],
    refusal_reason_by_name: Mapping[str, str],
    unlisted_count: int = 0,
) -> None:
    """Print to stderr the assets without a row; raises RequestFailed if there are any.

    `missing_names` are the names of unreachable assets; `refusal_reason_by_name` is about assets
    that the server refuses to run; `unlisted_count` is the number of assets without a name.
    """
    for name, reason in sorted(refusal_reason_by_name.items()):
        print_stderr(f"the server does not run {name}: {reason}")
    if unreachable_names := sorted(set(missing_names) - refusal_reason_by_name.keys()):
        print_stderr(f"not reachable: {', '.join(unreachable_names)}")
    if missing_names or refusal_reason_by_name or unlisted_count > 0:
        raise RequestFailed("the list is incomplete")


def _row_name(row: dict[str, Any]) -> str:
    name: str = row.get("name") or row["config"].get("name") or ""
    return name
