"""`natstui stream publishers`: who publishes to a stream."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from natstui.cli.clients.rows import COST, asker_json, asker_lines
from natstui.cli.complete import stream_name
from natstui.cli.connected import waited_for
from natstui.cli.manage.names import given_name
from natstui.cli.options import connection_options, reading_seconds
from natstui.cli.sections import command
from natstui.engine.stopping import stopped_by_signal
from natstui.jetstream.connection.client import connect
from natstui.jetstream.system.asking import Servers
from natstui.jetstream.system.clients import publishers as read_publishers
from natstui.jetstream.system.clients import read_subjects
from natstui.jetstream.system.reply_tap import MOST_MSGS
from natstui.model.clients.words import anonymous_text, cost_text

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.model.clients.requests import TappedRequests


@command()
@stream_name
@click.option(
    "--for", "for_text", metavar="TIME", default="10s", show_default=True,
    help="How long to read published messages; natstui receives a copy of each one.",
)  # fmt: skip
@click.option(
    "--most", "most_msgs", type=click.IntRange(1, MOST_MSGS), default=10_000, show_default=True,
    help="Stop after so many messages.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@connection_options
def publishers(
    connection: Connection, name: str, for_text: str, most_msgs: int, as_json: bool,
    **_words: Any,
) -> None:  # fmt: skip
    """List the clients that publish to NAME.

    Prints their connections, too. Lists the clients that publish during the time and wait for the
    stream's ack, as JetStream publishers do. Messages without a reply subject are anonymous, so
    they are only counted.
    """
    stream, for_s = given_name(name), reading_seconds(for_text, "--for")
    subjects, heard = asyncio.run(waited_for(_look(connection, stream, for_s, most_msgs)))
    if as_json:
        click.echo(_json(stream, subjects, heard))
        return
    for line in asker_lines(heard, "MESSAGES", "SUBJECTS", published=True):
        click.echo(line)
    if heard.anonymous_msgs:
        click.echo(anonymous_text(heard))
    click.echo(cost_text(heard, "message"))


async def _look(
    connection: Connection, stream: str, for_s: float, most_msgs: int
) -> tuple[list[str], TappedRequests]:
    client = await connect(connection)
    try:
        subjects = await read_subjects(client, stream)
        heard = await read_publishers(
            client, Servers(client), stream, subjects, for_s, most_msgs, stopped_by_signal()
        )
        return subjects, heard
    finally:
        await client.close()


def _json(stream: str, subjects: list[str], heard: TappedRequests) -> str:
    whole: dict[str, object] = {"schema": 1, "stream": stream, "subjects": subjects}
    whole["publishers"] = [
        asker_json(asker, "published_msgs", "subjects") for asker in heard.askers
    ]
    whole |= {name: getattr(heard, name) for name in COST}
    return json.dumps(whole).replace("\x7f", "\\u007f")
