"""`natstui sessions`: the library of recordings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.complete import session_argument
from natstui.cli.json_line import print_json
from natstui.cli.options import OutputPath
from natstui.cli.sections import Group, command
from natstui.cli.sessions.options import (
    library_options,
    print_session,
    progress_bar_callback,
    session_summary_fields,
)
from natstui.errors import ActionRefusal, DamagedSession

if TYPE_CHECKING:
    from natstui.model.records.recording import SessionSummary
    from natstui.session.share.export_tables import ExportFormat
    from natstui.session.share.verify import Verdict


@click.group(cls=Group)
def sessions() -> None:
    """List, check, share and delete recordings."""


def _time_text(at_us: int) -> str:
    from natstui.session.share.verify import millisecond_text

    return millisecond_text(at_us)[:19]


def _count_text(number: int | None) -> str:
    return "–" if number is None else str(number)


def _summary_line(summary: SessionSummary) -> str:
    """Return the line of a session in the list."""
    from natstui.units import bytes_text, duration_text

    if summary.problem is not None:
        return clean_line(f"{summary.id:<32}  {summary.problem}")
    span_s = (summary.ended_at_us - summary.started_at_us) / 1e6
    return clean_line(
        f"{summary.id:<32}  {summary.server[:20]:<20}  {_time_text(summary.started_at_us)}"
        f"  {duration_text(span_s):>7}  {bytes_text(summary.size_bytes):>9}"
        f"  {_count_text(summary.streams_count):>7}  {_count_text(summary.consumers_count):>9}"
        f"  {summary.benchmarks_count:>10}  {summary.gaps_count:>4}  {summary.status}"
    )


def _field_line(key: str, value: object) -> str:
    """Return a field of a recording as a line of text."""
    from natstui.units import bytes_text, counted

    label = key
    for unit_suffix in ("_at_us", "_count", "_bytes"):
        label = label.removesuffix(unit_suffix)
    if isinstance(value, int) and key.endswith(("_at_us", "_bytes")):
        text = _time_text(value) if key.endswith("_at_us") else bytes_text(value)
    elif isinstance(value, dict) and key == "dropped":
        until_text = _time_text(value["until_at_us"])
        segments_text = counted(value["segments_count"], "segment")
        text = f"{segments_text}, before {until_text}, by {value['reason']}"
    elif isinstance(value, dict):
        text = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in value.items())
    elif isinstance(value, tuple | list):
        text = "; ".join(map(str, value))
    else:
        text = "" if value is None else str(value)
    return f"{label.replace('_', ' '):<24}{text or '–'}"


@sessions.command("ls")
@library_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per session.")
def list_sessions(sessions: Path, *, as_json: bool) -> None:
    """List all recordings, the newest first."""
    from natstui.session.library import summaries

    if not as_json:
        click.echo(
            f"{'SESSION':<32}  {'SERVER':<20}  {'START (UTC)':<19}  {'SPAN':>7}  {'SIZE':>9}"
            f"  STREAMS  CONSUMERS  BENCHMARKS  GAPS  STATUS"
        )
    for summary in summaries(sessions):
        if as_json:
            print_json(to_builtins(summary))
        else:
            click.echo(_summary_line(summary))


@sessions.command()
@session_argument
@library_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(sessions: Path, session: str, *, as_json: bool) -> None:
    """Show what is in a recording.

    SESSION is a folder, an id, a name, the beginning of an id, or `last`.
    """
    from natstui.session.library import build_summary, count_records, find_session
    from natstui.session.read.recording import Recording

    recording = Recording(find_session(sessions, session))
    fields = to_builtins(build_summary(recording))
    fields["records_count"] = count_records(recording)
    fields["consumer_samples_count"] = sum(
        span.index.consumer_samples_count for span in recording.spans
    )
    info = to_builtins(recording.info)
    fields |= {key: info[key] for key in ("natstui_version", "schema_version", "dropped")}
    if as_json:
        print_json(fields)
        return
    for key, value in fields.items():
        click.echo(clean_line(_field_line(key, value)))
    for mark in recording.marks():
        click.echo(clean_line(f"{_time_text(mark.at_us)}  {mark.kind:<14}{mark.text}"))


@sessions.command()
@session_argument
@library_options
@click.option("--yes", is_flag=True, help="Do not prompt.")
@click.option("--json", "as_json", is_flag=True, help="Print what was deleted as JSON.")
def rm(sessions: Path, session: str, *, yes: bool, as_json: bool) -> None:
    """Delete a recording."""
    from natstui.model.records.recording import deleted_session_text
    from natstui.session.library import delete_session, find_session, read_summary

    folder = find_session(sessions, session)
    session_text = deleted_session_text(read_summary(folder))
    if not yes and (as_json or not sys.stdin.isatty()):
        # A prompt beside JSON, or without a terminal, would get no reply.
        raise ActionRefusal(f"this deletes {session_text} for good: add --yes to confirm")
    if not yes:
        click.confirm(f"Delete {session_text}? This cannot be undone.", abort=True, err=True)
    deleted_session = session_summary_fields(folder) if as_json else {}
    text = f"deleted {session_text}{delete_session(folder)}"
    if as_json:
        print_json(deleted_session)
    else:
        click.echo(text, err=True)


@sessions.command()
@session_argument
@click.argument("name")
@library_options
@click.option("--json", "as_json", is_flag=True, help="Print the renamed session as JSON.")
def rename(sessions: Path, session: str, name: str, *, as_json: bool) -> None:
    """Rename a recording. Prints its new folder."""
    from natstui.session.library import find_session
    from natstui.session.library import rename_session as rename_recording

    _print_folder(rename_recording(find_session(sessions, session), name), as_json=as_json)


def _print_folder(folder: Path, *, as_json: bool) -> None:
    if as_json:
        print_session(folder)
    else:
        click.echo(str(folder))


@sessions.command()
@session_argument
@click.argument("text")
@library_options
@click.option("--json", "as_json", is_flag=True, help="Print the session with its notes as JSON.")
def note(sessions: Path, session: str, text: str, *, as_json: bool) -> None:
    """Add a note to a recording."""
    from natstui.session.library import add_note, find_session

    folder = find_session(sessions, session)
    add_note(folder, text)
    if as_json:
        print_session(folder)


@sessions.command()
@session_argument
@library_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(sessions: Path, session: str, *, as_json: bool) -> None:
    """Read and check a recording completely. Exit code 6 when it is damaged or was cut off."""
    from natstui.errors import DamagedSession, SessionError
    from natstui.session.library import find_session
    from natstui.session.share.verify import verify as verdict_of

    folder = find_session(sessions, session)
    verdict = verdict_of(folder)
    if as_json:
        print_json({"folder": str(folder), **to_builtins(verdict), "damaged": verdict.damaged})
    else:
        _print_verdict(verdict)
    if verdict.damaged:
        raise DamagedSession(folder, "only the recordings above exist")
    if verdict.cut_off:
        raise SessionError(f"{folder} was cut off; everything that was written can be read")


def _print_verdict(verdict: Verdict) -> None:
    from natstui.units import counted

    for finding in verdict.findings:
        click.echo(clean_line(("damaged: " if finding.damage else "note: ") + finding.text))
    counts = (
        (verdict.segments_count, "segment"),
        (verdict.records_count, "record"),
        (verdict.polls_count, "poll"),
        (verdict.consumer_samples_count, "consumer sample"),
    )
    click.echo(", ".join(counted(count, noun) for count, noun in counts))


@sessions.command()
@session_argument
@click.argument("file", type=OutputPath(Path), required=False)
@library_options
@click.option("--redact", is_flag=True, help="Replace names by pseudonyms, and leave text out.")
@click.option("--json", "as_json", is_flag=True, help="Print the file and its size as JSON.")
def pack(sessions: Path, session: str, file: Path | None, *, redact: bool, as_json: bool) -> None:
    """Pack a recording into one file. Prints its path; send it to somebody."""
    from natstui.session.library import find_session
    from natstui.session.share.pack import pack as pack_recording

    folder = find_session(sessions, session)
    name = "redacted" if redact else folder.name
    target = file or Path(f"{name}.natstui")
    pack_path = pack_recording(
        folder, target, redact=redact, progress=progress_bar_callback("packing")
    )
    if as_json:
        size_bytes = pack_path.stat().st_size
        result = {"folder": str(folder), "file": str(pack_path), "size_bytes": size_bytes}
        print_json({**result, "redacted": redact})
    else:
        click.echo(str(pack_path))


@sessions.command()
@click.argument("file", type=click.Path(path_type=Path))
@library_options
@click.option("--json", "as_json", is_flag=True, help="Print the unpacked session as JSON.")
def unpack(sessions: Path, file: Path, *, as_json: bool) -> None:
    """Add a packed recording to the library. Checks it first; prints its folder."""
    from natstui.session.share.pack import unpack as unpack_recording

    _print_folder(unpack_recording(file, sessions), as_json=as_json)


@sessions.command("format")
def format_() -> None:
    """Print the format of a recording. Explains every field, with its unit."""
    from natstui.session.share.format import format_text

    click.echo(format_text(), nl=False)


@command()
@session_argument
@library_options
@click.option(
    "--to",
    "target",
    required=True,
    metavar="DIR",
    type=OutputPath(Path),
    help="New folder for the tables.",
)
@click.option(
    "--format", "kind", type=click.Choice(["csv", "jsonl"]), default="csv", show_default=True
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def export(
    sessions: Path, session: str, target: Path, kind: ExportFormat, *, as_json: bool
) -> None:
    """Write a recording as flat tables.

    Writes a file per table; `columns.csv` explains every column. Prints the number of rows of each
    table. In CSV, an unknown value is empty and an empty text is two quotes; text is escaped as in
    JSON (\\n, \\u001b, \\\\); a ' stands before text that begins with = + - @ '.
    """
    from natstui.session.library import find_session
    from natstui.session.share.export_tables import export as export_recording

    folder, damage_texts = find_session(sessions, session), list[str]()
    counts = export_recording(
        folder, target, kind, progress_bar_callback("exporting"), damage_texts.append
    )
    if as_json:
        result = {"folder": str(folder), "target": str(target), "format": kind}
        print_json({**result, "rows_count": counts, "damage": damage_texts})
    else:
        _print_export(counts, damage_texts)
    if damage_texts:
        raise DamagedSession(folder, "only the readable part was exported")


def _print_export(rows_count_by_table: dict[str, int], damage_texts: list[str]) -> None:
    for name, rows_count in rows_count_by_table.items():
        click.echo(f"{name}\t{rows_count}")
    for text in damage_texts:
        click.echo(clean_line(f"damaged: {text}"), err=True)
