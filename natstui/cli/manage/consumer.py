"""`natstui consumer …`: make, change, read, pause and remove consumers without the viewer."""

from __future__ import annotations

import json
from typing import Any

import click

from natstui.clean import clean_json
from natstui.cli.manage.assets import Asked, add_asset, edit_asset, given_name
from natstui.cli.manage.options import as_json, config_options
from natstui.cli.manage.writing import (
    change_flags,
    done_when_confirmed,
    print_changed,
    print_fields,
    print_rows,
    run_with_writer,
)
from natstui.cli.options import connection_options
from natstui.config import Connection
from natstui.jetstream.connection.writer import Writer
from natstui.model.assets.defaults import normal_consumer
from natstui.model.assets.differences import fields_of
from natstui.model.assets.fields import read
from natstui.model.assets.text import shown
from natstui.model.records.managing import Action, PreviewChange
from natstui.units import count_text


def _do(
    connection: Connection,
    action: Action,
    names: tuple[str, str],
    body: dict[str, Any],
    words: dict[str, Any],
) -> None:
    stream, name = map(given_name, names)
    change = PreviewChange(0, action, stream, name, json.dumps(body))
    print_changed(done_when_confirmed(connection, change, words), words["as_json"])


@click.command()
@click.argument("stream")
@click.argument("name")
@click.argument("until")
@change_flags
@connection_options
def pause(connection: Connection, stream: str, name: str, until: str, **words: Any) -> None:
    """Deliver nothing to NAME on STREAM before UNTIL: a time, or a duration as 1h30m."""
    body = {"pause_until": until}
    _do(connection, "pause_consumer", (stream, name), body, words)


@click.command()
@click.argument("stream")
@click.argument("name")
@change_flags
@connection_options
def resume(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Let NAME on STREAM deliver again."""
    _do(connection, "resume_consumer", (stream, name), {}, words)


@click.command()
@click.argument("stream")
@click.argument("name")
@click.option("--seq", type=click.IntRange(min=1), help="From here; without it, its ack floor.")
@change_flags
@connection_options
def reset(connection: Connection, stream: str, name: str, seq: int | None, **words: Any) -> None:
    """Let NAME on STREAM deliver again from a sequence."""
    body = {"seq": seq} if seq else {}
    _do(connection, "reset_consumer", (stream, name), body, words)


@click.command()
@click.argument("stream")
@click.argument("name")
@change_flags
@connection_options
def rm(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Delete the consumer NAME on STREAM."""
    _do(connection, "delete_consumer", (stream, name), {}, words)


@click.command()
@click.argument("stream")
@click.argument("name")
@click.option("--ephemeral", is_flag=True, help="The server removes it when nobody uses it.")
@click.option("--file", metavar="FILE", help="JSON, YAML or TOML to begin with; - is stdin.")
@click.option("--dry-run", is_flag=True, help="Print it; exit 1 unless it is so already.")
@change_flags
@config_options("consumer")
@connection_options
def add(connection: Connection, stream: str, name: str, ephemeral: bool, **words: Any) -> None:
    """Make the consumer NAME on STREAM."""
    words.pop("settings")
    start: dict[str, object] = {} if words["file"] else {"ack_policy": "explicit"}
    start |= {} if ephemeral else {"durable_name": given_name(name)}
    asked = Asked(kind="consumer", stream=given_name(stream), consumer=name, **words)
    add_asset(connection, asked, start)


@click.command()
@click.argument("stream")
@click.argument("name")
@click.option("--file", metavar="FILE", help="JSON, YAML or TOML with what shall change.")
@click.option("--dry-run", is_flag=True, help="Print the difference; exit 1 when there is one.")
@change_flags
@config_options("consumer")
@connection_options
def edit(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Change the consumer NAME on STREAM; an empty value takes an option away."""
    words.pop("settings")
    asked = Asked(kind="consumer", stream=given_name(stream), consumer=given_name(name), **words)
    edit_asset(connection, asked)


@click.command()
@click.argument("stream")
@click.argument("name")
@as_json
@connection_options
def info(connection: Connection, stream: str, name: str, as_json: bool, **_words: Any) -> None:
    """Show the configuration and the state of the consumer NAME on STREAM."""
    verb = f"CONSUMER.INFO.{given_name(stream)}.{given_name(name)}"
    reply = run_with_writer(connection, True, lambda writer: writer.client.request(verb))
    if as_json:
        click.echo(clean_json(reply.decode()))
        return
    whole = json.loads(reply)
    config = normal_consumer(whole["config"])
    values = {
        field.label: shown(field, read(config, field.path)) for field in fields_of("consumer")
    }
    shown_values = {label: text for label, text in values.items() if text not in ("", "no", "0")}
    delivered, floor = whole["delivered"], whole["ack_floor"]
    shown_values |= {
        "Unprocessed": f"{whole['num_pending']:,}",
        "Ack pending": f"{whole['num_ack_pending']:,}",
        "Redelivered": f"{whole['num_redelivered']:,}",
        "Waiting pulls": str(whole["num_waiting"]),
        "Delivered": f"{delivered['stream_seq']} in {delivered['consumer_seq']} deliveries",
        "Ack floor": str(floor["stream_seq"]),
        "Paused": "yes" if whole.get("paused") else "no",
    }
    print_fields(shown_values)


@click.command()
@click.argument("stream")
@as_json
@connection_options
def ls(connection: Connection, stream: str, as_json: bool, **_words: Any) -> None:
    """List the consumers of STREAM."""
    verb = f"CONSUMER.LIST.{given_name(stream)}"

    async def work(writer: Writer) -> list[dict[str, Any]]:
        pages = [json.loads(page) async for page in writer.client.pages(verb)]
        return [row for page in pages for row in page.get("consumers") or () if row.get("name")]

    rows = run_with_writer(connection, True, work)
    if as_json:
        click.echo(json.dumps(rows))
        return
    print_rows(
        ("NAME", "ACK POLICY", "UNPROCESSED", "ACK PENDING", "REDELIVERED", "WAITING"),
        [
            (
                row["name"],
                row["config"]["ack_policy"],
                *(
                    count_text(row[key])
                    for key in ("num_pending", "num_ack_pending", "num_redelivered", "num_waiting")
                ),
            )
            for row in rows
        ],
        words_count=2,
    )


@click.group()
def consumer() -> None:
    """Make, change, inspect, pause and remove consumers."""


for _command in (add, edit, info, ls, pause, resume, reset, rm):
    consumer.add_command(_command)
