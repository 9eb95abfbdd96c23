"""`natstui consumer add|edit|info|ls`."""

from __future__ import annotations

import json
from typing import Any

import click

from natstui.cli.asset_commands import Asked, add_asset, edit_asset, given_name
from natstui.cli.config_options import config_options
from natstui.cli.managing import managing, print_fields, print_rows, run_with_writer
from natstui.cli.options import connection_options
from natstui.cli.stream_read import as_json
from natstui.config import Connection
from natstui.jetstream.writer import Writer
from natstui.model.config_change import fields_of
from natstui.model.config_field import read
from natstui.model.config_text import shown
from natstui.model.consumer_normal import normal_consumer
from natstui.units import count_text


@click.command()
@click.argument("stream")
@click.argument("name")
@click.option("--ephemeral", is_flag=True, help="The server removes it when nobody uses it.")
@click.option("--file", metavar="FILE", help="JSON, YAML or TOML to begin with; - is stdin.")
@click.option("--dry-run", is_flag=True, help="Print it; exit 1 unless it is so already.")
@managing
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
@managing
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
        click.echo(reply)
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
