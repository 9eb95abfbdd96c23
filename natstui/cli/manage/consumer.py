"""`natstui consumer …`: make, change, read, pause and remove consumers without the viewer."""

from __future__ import annotations

import functools
import json
from typing import Any

import click

from natstui.clean import clean_json
from natstui.cli.clients.consumer import clients
from natstui.cli.complete import consumer_name, on_stream
from natstui.cli.manage.assets import Asked, add_asset, edit_asset, given_name
from natstui.cli.manage.options import (
    argument_options,
    as_json,
    config_options,
    file_options,
    read_files,
)
from natstui.cli.manage.receiving import sub
from natstui.cli.manage.switches import WithSwitches
from natstui.cli.manage.taking import take_next
from natstui.cli.manage.writing import (
    change_flags,
    done_when_confirmed,
    print_changed,
    print_fields,
    print_rows,
    run_with_writer,
)
from natstui.cli.options import connection_options, connection_options_beside_config
from natstui.cli.watch.finding import find_consumers, report_consumers
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.configure import read_config
from natstui.model.assets.defaults import normal_consumer
from natstui.model.assets.differences import fields_of
from natstui.model.assets.fields import read, without_server_metadata
from natstui.model.assets.text import shown
from natstui.model.natscli.spellings import is_time
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
@on_stream
@consumer_name
@click.argument("until")
@change_flags
@connection_options
def pause(connection: Connection, stream: str, name: str, until: str, **words: Any) -> None:
    """Deliver nothing to NAME on STREAM before UNTIL: a time with a zone, or as 1h30m from now."""
    try:
        is_time(until)
    except ValueError as error:
        raise UsageError(f"UNTIL: {error}") from error
    body = {"pause_until": until}
    _do(connection, "pause_consumer", (stream, name), body, words)


@click.command()
@on_stream
@consumer_name
@change_flags
@connection_options
def resume(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Let NAME on STREAM deliver again."""
    _do(connection, "resume_consumer", (stream, name), {}, words)


@click.command()
@on_stream
@consumer_name
@click.option(
    "--seq", "--sequence", "seq", type=click.IntRange(min=1),
    help="From here; without it, its ack floor.",
)  # fmt: skip
@change_flags
@connection_options
def reset(connection: Connection, stream: str, name: str, seq: int | None, **words: Any) -> None:
    """Let NAME on STREAM deliver again from a sequence."""
    body = {"seq": seq} if seq else {}
    _do(connection, "reset_consumer", (stream, name), body, words)


@click.command()
@on_stream
@consumer_name
@change_flags
@connection_options
def rm(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Delete the consumer NAME on STREAM."""
    _do(connection, "delete_consumer", (stream, name), {}, words)


@click.command("step-down")
@on_stream
@consumer_name
@argument_options("step_down_consumer")
@change_flags
@connection_options
def step_down(
    connection: Connection, stream: str, name: str, asked: dict[str, Any], **words: Any
) -> None:
    """Let the consumer NAME on STREAM elect another leader."""
    _do(connection, "step_down_consumer", (stream, name), asked, words)


@click.command()
@on_stream
@consumer_name
@click.argument("group")
@change_flags
@connection_options
def unpin(connection: Connection, stream: str, name: str, group: str, **words: Any) -> None:
    """Take the pin of GROUP from the client that has it: the next one takes over."""
    _do(connection, "unpin_consumer", (stream, name), {"group": group}, words)


@click.command(cls=WithSwitches)
@on_stream
@click.argument("name", required=False)
@click.option("--ephemeral", is_flag=True, help="The server removes it when nobody uses it.")
@functools.partial(file_options, adding=True)
@change_flags
@config_options("consumer", adding=True)
@connection_options_beside_config
def add(
    connection: Connection, stream: str, name: str | None, ephemeral: bool, **words: Any
) -> None:
    """Create the consumer NAME on STREAM; without NAME, the one that the file names.

    An ephemeral one may be without a name.
    """
    words.pop("settings")
    filed = read_files("consumer", words["file"], words["whole"])
    if name is None:
        name = str(filed.get("durable_name") or filed.get("name") or "") or None
    if name is None and not ephemeral:
        raise UsageError("give the consumer a NAME, or a file that has one, or --ephemeral")
    has_file = words["file"] or words["whole"]
    start: dict[str, object] = {} if has_file else {"ack_policy": "explicit"}
    start |= {} if ephemeral else {"durable_name": given_name(name or "")}
    asked = Asked(kind="consumer", stream=given_name(stream), consumer=name, filed=filed, **words)
    add_asset(connection, asked, start)


@click.command(cls=WithSwitches)
@on_stream
@consumer_name
@click.argument("new")
@functools.partial(file_options, adding=True)
@change_flags
@config_options("consumer", adding=True)
@connection_options_beside_config
def copy(connection: Connection, stream: str, name: str, new: str, **words: Any) -> None:
    """Make the consumer NEW on STREAM with the configuration of NAME; it begins anew."""
    words.pop("settings")
    owner, source = given_name(stream), given_name(name)
    start = run_with_writer(connection, True, lambda w: read_config(w, "consumer", owner, source))
    subject = start.get("deliver_subject")
    filed = read_files("consumer", words["file"], words["whole"])
    asked = Asked(kind="consumer", stream=owner, consumer=given_name(new), filed=filed, **words)
    if subject and not (asked.file or asked.whole or "deliver_subject" in asked.texts):
        raise UsageError(
            f"{name} delivers to {subject!r}, where its clients would get every message twice: "
            "say --deliver-subject, or --pull"
        )
    add_asset(connection, asked, without_server_metadata(start))


@click.command(cls=WithSwitches)
@on_stream
@consumer_name
@functools.partial(file_options, adding=False)
@change_flags
@config_options("consumer", adding=False)
@connection_options_beside_config
def edit(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Change NAME on STREAM; an empty value takes an option away, --no-X switches X off."""
    words.pop("settings")
    filed = read_files("consumer", words["file"], words["whole"])
    owner, consumer = given_name(stream), given_name(name)
    asked = Asked(kind="consumer", stream=owner, consumer=consumer, filed=filed, **words)
    edit_asset(connection, asked)


@click.command()
@on_stream
@consumer_name
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
@on_stream
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


for _command in (
    add,
    clients,
    copy,
    edit,
    find_consumers,
    info,
    ls,
    take_next,
    pause,
    report_consumers,
    resume,
    reset,
    rm,
    step_down,
    sub,
    unpin,
):
    consumer.add_command(_command)
