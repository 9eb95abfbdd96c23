"""`natstui stream …`: make, change, read and remove streams without the viewer."""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from natstui.clean import clean_json, clean_line
from natstui.cli.backups.restoring import stream_restore
from natstui.cli.backups.writing import stream_backup
from natstui.cli.clients.stream import publishers
from natstui.cli.complete import stream_name
from natstui.cli.manage.assets import Asked, add_asset, edit_asset, given_name
from natstui.cli.manage.options import (
    argument_options,
    as_json,
    config_options,
    file_options,
    given_subject,
    read_files,
)
from natstui.cli.manage.replicas import move, peer_remove, scale
from natstui.cli.manage.shaping import copy, gaps, seal
from natstui.cli.manage.switches import WithSwitches
from natstui.cli.manage.viewing import subjects, view
from natstui.cli.manage.writing import (
    change_flags,
    done_when_confirmed,
    print_changed,
    print_fields,
    print_rows,
    run_with_writer,
)
from natstui.cli.options import connection_options, connection_options_beside_config
from natstui.cli.text_table import cut
from natstui.cli.watch.finding import find_streams, report_streams
from natstui.config import Connection
from natstui.config.template_files import templates
from natstui.errors import NotFound, UsageError
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.configure import read_config
from natstui.jetstream.messages.browse import read_message
from natstui.jetstream.messages.decode import from_api
from natstui.model.assets.defaults import normal_stream
from natstui.model.assets.differences import fields_of
from natstui.model.assets.fields import Config, read, without_server_metadata
from natstui.model.assets.stream_fields import NEW_STREAM
from natstui.model.assets.templates import started
from natstui.model.assets.text import shown
from natstui.model.records.managing import PreviewChange
from natstui.model.records.messages import ReadMessage, StoredMessage
from natstui.units import bytes_text, count_text


@click.command()
@stream_name
@as_json
@connection_options
def info(connection: Connection, name: str, as_json: bool, **_words: Any) -> None:
    """Show the configuration and the state of the stream NAME."""
    verb = f"STREAM.INFO.{given_name(name)}"
    reply = run_with_writer(connection, True, lambda writer: writer.client.request(verb))
    if as_json:
        click.echo(clean_json(reply.decode()))
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


_MOST_LETTERS = 60


def _some(subjects: Sequence[str]) -> str:
    """Return subjects as far as a line has room for them, and how many more there are."""
    text = ",".join(subjects[:_MOST_LETTERS])
    if len(text) <= _MOST_LETTERS:
        return text
    kept: list[str] = []
    for subject in subjects:
        if kept and len(",".join((*kept, subject))) > _MOST_LETTERS:
            break
        kept.append(cut(subject, _MOST_LETTERS))
    left = len(subjects) - len(kept)
    return ",".join(kept) + (f" +{left:,}" if left else "")


@click.command()
@click.option(
    "--subject", metavar="SUBJECT", callback=given_subject, help="Only streams that store this."
)
@as_json
@connection_options
def ls(connection: Connection, subject: str | None, as_json: bool, **_words: Any) -> None:
    """List the streams."""

    async def work(writer: Writer) -> list[dict[str, Any]]:
        body = {"subject": subject} if subject else {}
        pages = [json.loads(page) async for page in writer.client.pages("STREAM.LIST", body)]
        refused = {n: why for page in pages for n, why in (page.get("offline") or {}).items()}
        missing = {name for page in pages for name in page.get("missing") or ()}
        for name, reason in sorted(refused.items()):
            click.echo(
                f"natstui: not run by its server: {clean_line(name)}: {clean_line(reason)}",
                err=True,
            )
        if missing - refused.keys():
            names = ", ".join(sorted(missing - refused.keys()))
            click.echo(f"natstui: not reachable: {clean_line(names)}", err=True)
        rows = [row for page in pages for row in page.get("streams") or ()]
        # The server fills rows of what is away with zeros.
        away = missing | refused.keys()
        return [row for row in rows if row["config"]["name"] not in away]

    rows = run_with_writer(connection, True, work)
    if as_json:
        click.echo(json.dumps(rows))
        return
    print_rows(
        ("NAME", "SUBJECTS", "MESSAGES", "SIZE", "CONSUMERS"),
        [
            (
                row["config"]["name"],
                _some(row["config"].get("subjects") or ()),
                count_text(row["state"]["messages"]),
                bytes_text(row["state"]["bytes"]),
                str(row["state"]["consumer_count"]),
            )
            for row in rows
        ],
        words_count=2,
    )


@click.command()
@stream_name
@click.argument("seq", type=click.IntRange(min=1), required=False)
@click.option(
    "--last-for",
    metavar="SUBJECT",
    callback=given_subject,
    help="The newest message of this subject.",
)
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
    """Print the payload of a stored message unchanged; --json adds all that is known of it."""
    given_name(name)
    if (seq is None) == (last_for is None):
        raise UsageError("give a sequence, or --last-for SUBJECT")

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


@click.command(cls=WithSwitches)
@click.argument("name", required=False)
@functools.partial(file_options, adding=True)
@click.option("--template", metavar="NAME", help="A template to begin with; `?` lists them.")
@click.option("--clone", metavar="STREAM", help="Another stream to begin with.")
@change_flags
@config_options("stream", adding=True)
@connection_options_beside_config
def add(
    connection: Connection,
    name: str | None,
    template: str | None,
    clone: str | None,
    **words: Any,
) -> None:
    """Create the stream NAME; without NAME, the one that the file names."""
    words.pop("settings")
    if template == "?":
        _template(template)
    filed = read_files("stream", words["file"], words["whole"])
    name = name or str(filed.get("name") or "")
    if not name:
        raise UsageError("give the stream a NAME, or a file that has one")
    start = {} if words["file"] or words["whole"] else dict(NEW_STREAM)
    if template is not None:
        start = _template(template)
    if clone is not None:
        start = run_with_writer(connection, True, lambda w: read_config(w, "stream", clone))
    asked = Asked(kind="stream", stream=given_name(name), consumer=None, filed=filed, **words)
    add_asset(connection, asked, without_server_metadata(start))


def _template(name: str) -> Config:
    known = templates()
    if name == "?":
        for one in known:
            click.echo(f"{one.name}: {one.help}")
        sys.exit(0)
    found = next((one for one in known if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in known)
        raise UsageError(f"there is no template {name!r}: there are {names}")
    return started(found)


@click.command(cls=WithSwitches)
@stream_name
@functools.partial(file_options, adding=False)
@change_flags
@config_options("stream", adding=False)
@connection_options_beside_config
def edit(connection: Connection, name: str, **words: Any) -> None:
    """Change the stream NAME; an empty value takes an option away, --no-X switches X off."""
    words.pop("settings")
    filed = read_files("stream", words["file"], words["whole"])
    asked = Asked(kind="stream", stream=given_name(name), consumer=None, filed=filed, **words)
    edit_asset(connection, asked)


@click.command()
@stream_name
@argument_options("purge_stream")
@change_flags
@connection_options
def purge(connection: Connection, name: str, asked: dict[str, object], **words: Any) -> None:
    """Remove messages of the stream NAME."""
    change = PreviewChange(0, "purge_stream", given_name(name), None, json.dumps(asked))
    print_changed(done_when_confirmed(connection, change, words), words["as_json"])


@click.command()
@stream_name
@change_flags
@connection_options
def rm(connection: Connection, name: str, **words: Any) -> None:
    """Delete the stream NAME, its messages and its consumers."""
    change = PreviewChange(0, "delete_stream", given_name(name))
    print_changed(done_when_confirmed(connection, change, words), words["as_json"])


@click.command()
@stream_name
@click.argument("seq", type=click.IntRange(min=1))
@change_flags
@connection_options
def rmm(connection: Connection, name: str, seq: int, **words: Any) -> None:
    """Delete the message SEQ of the stream NAME."""
    body = json.dumps({"seq": seq})
    change = PreviewChange(0, "delete_message", given_name(name), None, body)
    print_changed(done_when_confirmed(connection, change, words), words["as_json"])


@click.command("step-down")
@stream_name
@argument_options("step_down_stream")
@change_flags
@connection_options
def step_down(connection: Connection, name: str, asked: dict[str, Any], **words: Any) -> None:
    """Let the stream NAME elect another leader."""
    change = PreviewChange(0, "step_down_stream", given_name(name), None, json.dumps(asked))
    print_changed(done_when_confirmed(connection, change, words), words["as_json"])


@click.group()
def stream() -> None:
    """Make, change, inspect and remove streams."""


for _command in (
    add, copy, edit, find_streams, gaps, get, info, ls, move, peer_remove, publishers, purge,
    report_streams, rm, rmm, scale, seal, step_down, stream_backup, stream_restore, subjects, view,
):  # fmt: skip
    stream.add_command(_command)
