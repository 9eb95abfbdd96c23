"""`natstui stream info|ls|get`."""

from __future__ import annotations

import base64
import dataclasses
import json
import sys
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.asset_commands import given_name
from natstui.cli.managing import print_fields, print_rows, run_with_writer
from natstui.cli.options import connection_options
from natstui.config import Connection
from natstui.errors import NotFound, UsageError
from natstui.jetstream.browse import read_message
from natstui.jetstream.stored_decode import from_api
from natstui.jetstream.writer import Writer
from natstui.model.config_change import fields_of
from natstui.model.config_field import read
from natstui.model.config_normal import normal_stream
from natstui.model.config_text import shown
from natstui.model.stored import ReadMessage, StoredMessage
from natstui.units import bytes_text, count_text

as_json = click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")


@click.command()
@click.argument("name")
@as_json
@connection_options
def info(connection: Connection, name: str, as_json: bool, **_words: Any) -> None:
    """Show the configuration and the state of the stream NAME."""
    verb = f"STREAM.INFO.{given_name(name)}"
    reply = run_with_writer(connection, True, lambda writer: writer.client.request(verb))
    if as_json:
        click.echo(reply)
        return
    whole = json.loads(reply)
    config, state = normal_stream(whole["config"]), whole["state"]
    values = {field.label: shown(field, read(config, field.path)) for field in fields_of("stream")}
    shown_values = {label: text for label, text in values.items() if text not in ("", "no", "0")}
    shown_values |= {
        "Messages": f"{state['messages']:,}",
        "Size": bytes_text(state["bytes"]),
        "Sequences": f"{state['first_seq']}…{state['last_seq']}",
        "Consumers": str(state["consumer_count"]),
        "Leader": (whole.get("cluster") or {}).get("leader") or "none",
    }
    print_fields(shown_values)


@click.command()
@click.option("--subject", metavar="SUBJECT", help="Only streams that store this.")
@as_json
@connection_options
def ls(connection: Connection, subject: str | None, as_json: bool, **_words: Any) -> None:
    """List the streams."""

    async def work(writer: Writer) -> list[dict[str, Any]]:
        body = {"subject": subject} if subject else {}
        pages = [json.loads(page) async for page in writer.client.pages("STREAM.LIST", body)]
        missing = [name for page in pages for name in page.get("missing") or ()]
        if missing:
            click.echo(f"natstui: not reachable: {clean_line(', '.join(missing))}", err=True)
        return [row for page in pages for row in page.get("streams") or ()]

    rows = run_with_writer(connection, True, work)
    if as_json:
        click.echo(json.dumps(rows))
        return
    print_rows(
        ("NAME", "SUBJECTS", "MESSAGES", "SIZE", "CONSUMERS"),
        [
            (
                row["config"]["name"],
                ",".join(row["config"].get("subjects") or ()),
                count_text(row["state"]["messages"]),
                bytes_text(row["state"]["bytes"]),
                str(row["state"]["consumer_count"]),
            )
            for row in rows
        ],
        words_count=2,
    )


@click.command()
@click.argument("name")
@click.argument("seq", type=click.IntRange(min=1), required=False)
@click.option("--last-for", metavar="SUBJECT", help="The newest message of this subject.")
@as_json
@connection_options
def get(
    connection: Connection,
    name: str,
    seq: int | None,
    last_for: str | None,
    as_json: bool,
    **_words: Any,
) -> None:
    """Print the payload of a stored message, byte by byte; --json adds all that is known of it."""
    given_name(name)
    if (seq is None) == (last_for is None):
        raise UsageError("say a sequence, or --last-for SUBJECT")

    async def work(writer: Writer) -> StoredMessage:
        if seq is not None:
            return await read_message(writer.client, ReadMessage(0, name, seq))
        body = {"last_by_subj": last_for}
        return from_api(await writer.client.request(f"STREAM.MSG.GET.{name}", body), None)

    try:
        message = run_with_writer(connection, True, work)
    except NotFound as error:
        if error.err_code != 10037:
            raise
        raise NotFound(f"stream {name} has no such message") from error
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(message)))
        return
    sys.stdout.buffer.write(base64.b64decode(message.payload_base64))
