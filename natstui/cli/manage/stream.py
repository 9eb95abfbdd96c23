"""`natstui stream …`: the group of commands, and its lists of streams and of gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from natstui.cli.complete import stream_argument
from natstui.cli.connected import run_connected
from natstui.cli.listing import print_streams
from natstui.cli.manage.names import parse_name, parse_subject
from natstui.cli.options import connection_options, json_flag
from natstui.cli.sections import LazyGroup, command
from natstui.cli.text_table import cut_text, print_rows
from natstui.units import bytes_text, count_text, counted

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.jetstream.connection.decode.streams import StreamRow

_MAX_SUBJECTS_CELLS = 60


def _fit_subjects(subjects: Sequence[str]) -> str:
    """Return the subjects that fit into a line as text, with the number of the other subjects."""
    text = ",".join(subjects[:_MAX_SUBJECTS_CELLS])
    if len(text) <= _MAX_SUBJECTS_CELLS:
        return text
    fitting_subjects: list[str] = []
    for subject in subjects:
        if fitting_subjects and len(",".join((*fitting_subjects, subject))) > _MAX_SUBJECTS_CELLS:
            break
        fitting_subjects.append(cut_text(subject, _MAX_SUBJECTS_CELLS))
    more_count = len(subjects) - len(fitting_subjects)
    return ",".join(fitting_subjects) + (f" +{more_count:,}" if more_count else "")


@command()
@click.option(
    "--subject",
    metavar="SUBJECT",
    callback=parse_subject,
    help="Only streams that store this subject.",
)
@json_flag
@connection_options
def ls(connection: Connection, subject: str | None, as_json: bool, **_flags: Any) -> None:
    """List the streams."""
    print_streams(connection, _print_streams, as_json=as_json, subject=subject)


def _print_streams(rows: Sequence[StreamRow]) -> None:
    print_rows(
        ("NAME", "SUBJECTS", "MESSAGES", "SIZE", "CONSUMERS"),
        [
            (
                row.name,
                _fit_subjects(row.read_config().get("subjects") or ()),
                count_text(row.state.messages),
                bytes_text(row.state.bytes),
                str(row.state.consumer_count),
            )
            for row in rows
        ],
        text_columns_count=2,
    )


@command()
@stream_argument
@json_flag
@connection_options
def gaps(connection: Connection, name: str, as_json: bool, **_flags: Any) -> None:
    """List missing sequences of the stream NAME. Only between its first and last sequence."""
    stream, body = parse_name(name), {"deleted_details": True}
    state = run_connected(connection, lambda client: client.stream_info(stream, body)).state
    # An empty stream says that 0 is missing, which no message can have.
    missing_ranges = ranges_of(sorted(seq for seq in state.deleted or () if seq))
    if as_json:
        rows = [
            {
                "first_seq": first_seq,
                "last_seq": last_seq,
                "missing_msgs": last_seq - first_seq + 1,
            }
            for first_seq, last_seq in missing_ranges
        ]
        click.echo(json.dumps(rows))
        return
    print_rows(
        ("FIRST", "LAST", "MESSAGES"),
        [
            (f"{first_seq}", f"{last_seq}", f"{last_seq - first_seq + 1:,}")
            for first_seq, last_seq in missing_ranges
        ],
        text_columns_count=0,
    )
    missing = counted(f"{state.num_deleted:,}", "message")
    click.echo(f"natstui: {missing} missing in {counted(len(missing_ranges), 'gap')}", err=True)


def ranges_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Return first and last number of each run of consecutive numbers.

    `numbers` are sorted in ascending order, without duplicates.
    """
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


_THIS_MODULE, _CHANGES_MODULE = "natstui.cli.manage.stream", "natstui.cli.manage.stream_changes"
_IMPORT_PATHS = {
    **{name: f"{_THIS_MODULE}:{name}" for name in ("gaps", "ls")},
    **{
        name: f"{_CHANGES_MODULE}:{name}"
        for name in ("add", "copy", "edit", "purge", "rm", "rmm", "seal")
    },
    "step-down": f"{_CHANGES_MODULE}:step_down",
    "info": "natstui.cli.manage.info:stream_info",
    "backup": "natstui.cli.backups:stream_backup",
    "restore": "natstui.cli.backups:stream_restore",
    "find": "natstui.cli.watch.find:find_streams",
    "report": "natstui.cli.watch.find:report_streams",
    "move": "natstui.cli.manage.stream_changes:move",
    "peer-remove": "natstui.cli.manage.stream_changes:peer_remove",
    "scale": "natstui.cli.manage.stream_changes:scale",
    "publishers": "natstui.cli.clients.stream:publishers",
    "get": "natstui.cli.manage.viewing:get",
    "subjects": "natstui.cli.manage.viewing:subjects",
    "view": "natstui.cli.manage.viewing:view",
}


@click.group(cls=LazyGroup, import_paths=_IMPORT_PATHS)
def stream() -> None:
    """Create, change, read and delete streams."""
