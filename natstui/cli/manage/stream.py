"""`natstui stream …`: its commands, and those that list streams and gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from natstui.cli.complete import stream_name
from natstui.cli.connected import run_connected
from natstui.cli.lazy_group import LazyGroup
from natstui.cli.listing import list_streams
from natstui.cli.manage.names import given_name, given_subject
from natstui.cli.options import as_json, connection_options
from natstui.cli.sections import command
from natstui.cli.text_table import cut, print_rows
from natstui.units import bytes_text, count_text, counted

if TYPE_CHECKING:
    from natstui.config import Connection

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


@command()
@click.option(
    "--subject",
    metavar="SUBJECT",
    callback=given_subject,
    help="Only streams that store this subject.",
)
@as_json
@connection_options
def ls(connection: Connection, subject: str | None, as_json: bool, **_words: Any) -> None:
    """List the streams."""
    rows = run_connected(connection, lambda client: list_streams(client, subject))
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


@command()
@stream_name
@as_json
@connection_options
def gaps(connection: Connection, name: str, as_json: bool, **_words: Any) -> None:
    """List missing sequences of the stream NAME. Only between its first and last sequence."""
    verb = f"STREAM.INFO.{given_name(name)}"
    reply = run_connected(
        connection, lambda client: client.request(verb, {"deleted_details": True})
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


_HERE, _CHANGES = "natstui.cli.manage.stream", "natstui.cli.manage.stream_changes"
_TARGETS = {
    **{name: f"{_HERE}:{name}" for name in ("gaps", "ls")},
    **{
        name: f"{_CHANGES}:{name}"
        for name in ("add", "copy", "edit", "purge", "rm", "rmm", "seal")
    },
    "step-down": f"{_CHANGES}:step_down",
    "info": "natstui.cli.manage.info:stream_info",
    "backup": "natstui.cli.backups:stream_backup",
    "restore": "natstui.cli.backups:stream_restore",
    "find": "natstui.cli.watch.finding:find_streams",
    "report": "natstui.cli.watch.finding:report_streams",
    "move": "natstui.cli.manage.stream_changes:move",
    "peer-remove": "natstui.cli.manage.stream_changes:peer_remove",
    "scale": "natstui.cli.manage.stream_changes:scale",
    "publishers": "natstui.cli.clients.stream:publishers",
    "get": "natstui.cli.manage.viewing:get",
    "subjects": "natstui.cli.manage.viewing:subjects",
    "view": "natstui.cli.manage.viewing:view",
}


@click.group(cls=LazyGroup, targets=_TARGETS)
def stream() -> None:
    """Create, change, read and delete streams."""
