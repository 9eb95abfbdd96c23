"""The flags of a copy of messages, and what they mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from natstui.cli.core.options import moment_of
from natstui.cli.manage.names import given_name
from natstui.cli.options import ConnectionFlags
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.messages.copying.copy import Pace, Target
from natstui.jetstream.messages.copying.selection import Wanted
from natstui.model.assets.subjects import is_subject
from natstui.session.library import find, sessions_folder
from natstui.session.read.given_up import recorded_give_ups
from natstui.session.read.recording import Recording
from natstui.units import counted, parse_count

_FROM = (
    click.option("--from-file", metavar="FILE", help="Read them from a file instead of a stream."),
    click.option("--from-seq", type=click.IntRange(min=1), help="From this sequence on."),
    click.option("--to-seq", type=click.IntRange(min=1), help="Up to this sequence."),
    click.option("--since", metavar="TIME", help="Stored since then: 10m, 2m ago, a time."),
    click.option("--until", metavar="TIME", help="Stored until then."),
    click.option("--subject", "subjects", metavar="SUBJECT", multiple=True,
                 help="Only of this subject; it may have wildcards. Give it again for more."),
    click.option("--unacknowledged", metavar="CONSUMER",
                 help="Only what this consumer has not acknowledged."),
    click.option("--given-up", metavar="CONSUMER",
                 help="Only what this consumer dropped after max deliver."),
    click.option("--session", "sessions", metavar="NAME", multiple=True,
                 help="A recording that knows what was given up. Give it again for more."),
)  # fmt: skip
_TO = (
    click.option("--to-subject", metavar="SUBJECT", help="All get this subject."),
    click.option("--to-stream", metavar="NAME", help="Only this stream may store them."),
    click.option("--to-file", metavar="FILE", help="Write them into a file, a line of JSON each."),
    click.option("--to-context", metavar="NAME", help="Another system, as a context names it."),
    click.option("--map", "maps", metavar="FROM:TO", multiple=True,
                 help="Subjects like FROM become TO: 'a.*.>:b.$1.>'. Give it again for more."),
    click.option("--msg-id", "ids", type=click.Choice(("made", "kept")), default="made",
                 help="Each gets an id of its own, or keeps the publisher's where it has one."),
    click.option("--rate", metavar="NUMBER", help="At most so many in a second: 500, 10k."),
    click.option("--original-pace", is_flag=True, help="As far apart as they were stored."),
)  # fmt: skip
_HOW = (
    click.option("--dry-run", is_flag=True, help="Only count what would be copied."),
    click.option("--resume", is_flag=True,
                 help="Go on where the same command was stopped, and try again what was refused."),
    click.option("--accept-duplicates", is_flag=True,
                 help="Go on also where some may be stored twice."),
)  # fmt: skip


def copy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags of a copy."""
    for option in reversed((*_FROM, *_TO, *_HOW)):
        command = option(command)
    return command


def given_wanted(stream: str, words: dict[str, Any]) -> Wanted:
    """Return which messages of a stream are meant; raises UsageError."""
    of = [name for name in ("unacknowledged", "given_up") if words[name]]
    if len(of) > 1:
        raise UsageError("give one of --unacknowledged and --given-up")
    if words["sessions"] and of != ["given_up"]:
        raise UsageError("--session belongs to --given-up")
    for subject in words["subjects"]:
        if not is_subject(subject):
            raise UsageError(f"--subject: {subject!r} is not a valid subject")
    consumer = given_name(words[of[0]]) if of else None
    found = Wanted(
        given_name(stream), words["subjects"], words["from_seq"], words["to_seq"],
        _moment_us(words["since"], "--since"), _moment_us(words["until"], "--until"), consumer,
        "given_up" if of == ["given_up"] else "unacknowledged" if of else None,
    )  # fmt: skip
    if words["sessions"] and consumer is not None:
        recorded = _recorded(words["sessions"], words["settings"], found.stream, consumer)
        return dataclasses.replace(found, recorded=recorded)
    return found


def only_of_streams(words: dict[str, Any]) -> None:
    """Raise UsageError for flags that a file has no meaning for."""
    of_streams = ("from_seq", "to_seq", "since", "until", "subjects", "unacknowledged", "given_up",
                  "sessions")  # fmt: skip
    for name in of_streams:
        if words[name]:
            flag = {"subjects": "subject", "sessions": "session"}.get(name, name)
            raise UsageError(f"--{flag.replace('_', '-')} is about a stream, not about a file")


def _moment_us(text: str | None, option: str) -> int | None:
    moment = moment_of(text, option)
    return None if moment is None else round(moment.timestamp() * 1_000_000)


def _recorded(
    names: tuple[str, ...], settings: Any, stream: str, consumer: str
) -> tuple[tuple[int, int], ...]:
    """Return when recordings heard that which message was given up; raises SessionError."""
    found, left_out = list[tuple[int, int]](), 0
    for name in names:
        recording = Recording(find(sessions_folder(settings.session), name))
        some, uncounted = recorded_give_ups(recording, stream, consumer)
        found, left_out = found + some, left_out + uncounted
    if left_out:
        text = counted(f"{left_out:,}", "announcement")
        said = f"{text} came so fast that the recording only counts them"
        click.echo(f"natstui: {said}: their sequences are not known", err=True)
    return tuple(found)


def given_target(words: dict[str, Any]) -> Target:
    """Return where messages go; raises UsageError."""
    subject, stream = words["to_subject"], words["to_stream"]
    if words["to_file"] and (subject or stream or words["to_context"]):
        raise UsageError("--to-file needs no --to-subject, --to-stream and --to-context")
    if not (subject or stream or words["to_file"] or words["to_context"]):
        raise UsageError("say where to: --to-subject, --to-stream, --to-context or --to-file")
    maps = []
    for text in words["maps"]:
        source, colon, wanted = text.partition(":")
        if not colon or not source or not wanted:
            raise UsageError(f"--map {text!r}: write it as FROM:TO")
        maps.append((source, wanted))
    if subject:
        maps.append((">", subject))
    target = Target(given_name(stream) if stream else None, tuple(maps), words["ids"])
    target.check()
    return target


def given_pace(words: dict[str, Any]) -> Pace:
    """Return how fast; raises UsageError."""
    try:
        text = words["rate"]
        per_s = parse_count(text.removesuffix("/s")) if text else None
    except ValueError as error:
        raise UsageError(f"--rate: {error}") from error
    if per_s == 0:
        raise UsageError("--rate: at least 1")
    return Pace(per_s, words["original_pace"])


def other_system(words: dict[str, Any], connection: Connection) -> Connection:
    """Return where messages go to; without --to-context where they come from."""
    name = words["to_context"]
    if name is None:
        return connection
    from natstui.config.target import context_alone

    return context_alone(ConnectionFlags().load(), name)


def kept_under(
    words: dict[str, Any], stream: str | None, connection: Connection
) -> dict[str, Any]:
    """Return what makes a copy the same one, so that it goes on."""
    paths = {name: str(Path(words[name]).absolute())
             for name in ("from_file", "to_file") if words[name]}  # fmt: skip
    names = ("from_seq", "to_seq", "since", "until", "subjects", "unacknowledged", "given_up",
             "to_subject", "to_stream", "to_context", "maps", "ids")  # fmt: skip
    said = {name: words[name] for name in names}
    return {**said, **paths, "stream": stream, "target": connection.target}
