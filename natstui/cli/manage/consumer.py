"""`natstui consumer …`: the group of commands, and its list of consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from natstui.cli.complete import stream_of_consumer_argument
from natstui.cli.listing import print_consumers
from natstui.cli.manage.names import parse_name
from natstui.cli.options import connection_options, json_flag
from natstui.cli.sections import LazyGroup, command
from natstui.cli.text_table import print_rows
from natstui.units import count_text

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.jetstream.connection.decode.consumers import ConsumerRow


@command()
@stream_of_consumer_argument
@json_flag
@connection_options
def ls(connection: Connection, stream: str, as_json: bool, **_flags: Any) -> None:
    """List the consumers of STREAM."""
    print_consumers(connection, parse_name(stream), _print_consumers, as_json=as_json)


def _print_consumers(rows: list[ConsumerRow]) -> None:
    print_rows(
        ("NAME", "ACK POLICY", "UNPROCESSED", "ACK PENDING", "REDELIVERED", "WAITING"),
        [
            (
                row.name,
                row.read_config()["ack_policy"],
                count_text(row.num_pending),
                count_text(row.num_ack_pending),
                count_text(row.num_redelivered),
                count_text(row.num_waiting),
            )
            for row in rows
        ],
        text_columns_count=2,
    )


_CHANGES_MODULE = "natstui.cli.manage.consumer_changes"
_IMPORT_PATHS = {
    **{
        name: f"{_CHANGES_MODULE}:{name}"
        for name in ("add", "copy", "edit", "pause", "reset", "resume", "rm", "unpin")
    },
    "step-down": f"{_CHANGES_MODULE}:step_down",
    "info": "natstui.cli.manage.info:consumer_info",
    "ls": "natstui.cli.manage.consumer:ls",
    "clients": "natstui.cli.clients.consumer:clients",
    "find": "natstui.cli.watch.find:find_consumers",
    "report": "natstui.cli.watch.find:report_consumers",
    "next": "natstui.cli.manage.receiving:receive_next",
    "sub": "natstui.cli.manage.receiving:sub",
}


@click.group(cls=LazyGroup, import_paths=_IMPORT_PATHS)
def consumer() -> None:
    """Create, change, read and delete consumers."""
