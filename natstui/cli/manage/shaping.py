"""`natstui stream copy|seal|gaps`: another of its kind, its end, and what is missing in it."""

from __future__ import annotations

import functools
import json
from typing import Any

import click

from natstui.cli.complete import stream_name
from natstui.cli.manage.assets import Asked, add_asset, given_name
from natstui.cli.manage.options import as_json as json_flag
from natstui.cli.manage.options import config_options, file_options, read_files
from natstui.cli.manage.switches import WithSwitches
from natstui.cli.manage.writing import (
    change_flags,
    done_when_confirmed,
    print_changed,
    print_rows,
    run_with_writer,
)
from natstui.cli.options import connection_options, connection_options_beside_config
from natstui.config import Connection
from natstui.jetstream.managing.configure import read_config
from natstui.model.assets.fields import without_server_metadata
from natstui.model.records.managing import PreviewChange
from natstui.units import counted


@click.command(cls=WithSwitches)
@stream_name
@click.argument("new")
@functools.partial(file_options, adding=True)
@change_flags
@config_options("stream", adding=True)
@connection_options_beside_config
def copy(connection: Connection, name: str, new: str, **words: Any) -> None:
    """Make the stream NEW with the configuration of NAME, and no message of it."""
    words.pop("settings")
    source = given_name(name)
    start = run_with_writer(connection, True, lambda w: read_config(w, "stream", source))
    filed = read_files("stream", words["file"], words["whole"])
    asked = Asked(kind="stream", stream=given_name(new), consumer=None, filed=filed, **words)
    add_asset(connection, asked, without_server_metadata(start))


@click.command()
@stream_name
@change_flags
@connection_options
def seal(connection: Connection, name: str, **words: Any) -> None:
    """Let nothing be stored in, or removed from, the stream NAME any more, for ever."""
    seal_stream(connection, given_name(name), words)


def seal_stream(connection: Connection, stream: str, words: dict[str, Any]) -> None:
    """Seal a stream when that is confirmed, and print it."""
    config = run_with_writer(connection, True, lambda w: read_config(w, "stream", stream))
    body = json.dumps({**config, "sealed": True})
    change = PreviewChange(0, "edit_stream", stream, None, body)
    print_changed(done_when_confirmed(connection, change, words), words["as_json"])


@click.command()
@stream_name
@json_flag
@connection_options
def gaps(connection: Connection, name: str, as_json: bool, **_words: Any) -> None:
    """List the sequences that are missing between the first and the last of the stream NAME."""
    verb = f"STREAM.INFO.{given_name(name)}"
    reply = run_with_writer(
        connection, True, lambda w: w.client.request(verb, {"deleted_details": True})
    )
    state = json.loads(reply)["state"]
    # An empty stream says that 0 is missing, which no message can have.
    found = ranges_of(sorted(seq for seq in state.get("deleted") or () if seq))
    if as_json:
        rows = [{"first_seq": low, "last_seq": high, "missing_msgs": high - low + 1}
                for low, high in found]  # fmt: skip
        click.echo(json.dumps(rows))
        return
    print_rows(
        ("FIRST", "LAST", "MESSAGES"),
        [(f"{low}", f"{high}", f"{high - low + 1:,}") for low, high in found],
        words_count=0,
    )
    missing = counted(f"{state.get('num_deleted', 0):,}", "message")
    click.echo(f"natstui: {missing} missing in {counted(len(found), 'gap')}", err=True)


def ranges_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Return the first and last of every run of numbers without a hole; they are sorted."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found
