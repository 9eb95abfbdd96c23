"""`natstui stream publishers`: lists the publishers of a stream."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from natstui.cli.clients.rows import READING_STATISTICS_FIELDS, requester_json, requester_lines
from natstui.cli.complete import stream_argument
from natstui.cli.connected import await_with_progress
from natstui.cli.manage.names import parse_name
from natstui.cli.options import connection_options, parse_reading_seconds
from natstui.cli.sections import command
from natstui.engine.stopping import StopEvent, make_stop_event
from natstui.jetstream.connection.client import connect
from natstui.jetstream.system.clients import read_publishers, read_subjects
from natstui.jetstream.system.reply_tap import MAX_TAP_MSGS
from natstui.jetstream.system.requests import ServerRequests
from natstui.model.clients.text import anonymous_text, tap_summary_text

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.model.clients.requests import TappedRequests


@command()
@stream_argument
@click.option(
    "--for", "for_text", metavar="TIME", default="10s", show_default=True,
    help="How long to read published messages; natstui receives a copy of each one.",
)  # fmt: skip
@click.option(
    "--most", "max_msgs", type=click.IntRange(1, MAX_TAP_MSGS), default=10_000, show_default=True,
    help="Stop after so many messages.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@connection_options
def publishers(
    connection: Connection, name: str, for_text: str, max_msgs: int, as_json: bool,
    **_flags: Any,
) -> None:  # fmt: skip
    """List the clients that publish to NAME.

    Prints their connections, too. Lists the clients that publish during the time and wait for the
    stream's ack, as JetStream publishers do. Messages without a reply subject are anonymous, so
    they are only counted.
    """
    stream, for_s = parse_name(name), parse_reading_seconds(for_text, "--for")
    subjects, requests, stop_event = asyncio.run(
        await_with_progress(_read_publishers(connection, stream, for_s, max_msgs))
    )
    if as_json:
        click.echo(_publishers_json(stream, subjects, requests))
        stop_event.check("reading")
        return
    for line in requester_lines(requests, "MESSAGES", "SUBJECTS", is_publish=True):
        click.echo(line)
    if requests.anonymous_msgs:
        click.echo(anonymous_text(requests))
    click.echo(tap_summary_text(requests, "message"))
    stop_event.check("reading")


async def _read_publishers(
    connection: Connection, stream: str, for_s: float, max_msgs: int
) -> tuple[list[str], TappedRequests, StopEvent]:
    client = await connect(connection)
    try:
        subjects = await read_subjects(client, stream)
        stop_event = make_stop_event()
        requests = await read_publishers(
            client, ServerRequests(client), stream, subjects, for_s, max_msgs, stop_event
        )
        return subjects, requests, stop_event
    finally:
        await client.close()


def _publishers_json(stream: str, subjects: list[str], requests: TappedRequests) -> str:
    values: dict[str, object] = {"schema": 1, "stream": stream, "subjects": subjects}
    values["publishers"] = [
        requester_json(requester, "published_msgs", "subjects")
        for requester in requests.requesters
    ]
    values |= {name: getattr(requests, name) for name in READING_STATISTICS_FIELDS}
    return json.dumps(values).replace("\x7f", "\\u007f")
