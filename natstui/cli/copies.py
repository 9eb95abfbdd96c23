"""`natstui messages copy`: messages of a stream or a file, each once, elsewhere."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click

from natstui.clean import clean_json, clean_line
from natstui.cli.complete import streams
from natstui.cli.core.options import moment_of
from natstui.cli.manage.names import given_name
from natstui.cli.manage.writing import (
    change_flags,
    run_with_writer,
    write_confirmed,
)
from natstui.cli.options import SEQUENCE, ConnectionFlags, WrittenPath, connection_options
from natstui.cli.sections import Group, command
from natstui.cli.terminal_line import TerminalLine
from natstui.cli.text_table import print_rows
from natstui.config import Connection
from natstui.engine.stopping import stopped_by_signal
from natstui.errors import Interrupted, NatstuiError, RequestFailed, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.copying.account import Account, State, StateFile
from natstui.jetstream.messages.copying.copy import (
    MOST_SUBJECTS,
    Copy,
    Counts,
    Pace,
    Target,
    count_copy,
    remembering_s,
    send_copy,
    write_copy,
)
from natstui.jetstream.messages.copying.losses import copy_loss
from natstui.jetstream.messages.copying.selection import Wanted, select
from natstui.model.assets.subjects import is_subject
from natstui.paths import user_path
from natstui.session.library import find, sessions_folder
from natstui.session.read.given_up import recorded_give_ups
from natstui.session.read.recording import Recording
from natstui.units import bytes_text, counted, parse_count

_SIGINT = 2
_SHOWN_EVERY_S = 0.2
_FROM = (
    click.option("--from-file", metavar="FILE",
        help="Read the messages from a file instead of a stream."),
    click.option("--from-seq", type=SEQUENCE, help="First sequence to copy."),
    click.option("--to-seq", type=SEQUENCE, help="Last sequence to copy."),
    click.option("--since", metavar="TIME",
        help="Only messages stored since: 10m, 2m ago, a time."),
    click.option("--until", metavar="TIME", help="Only messages stored until this time."),
    click.option("--subject", "subjects", metavar="SUBJECT", multiple=True,
                 help="Only this subject, may have wildcards. Repeat for several."),
    click.option("--unacknowledged", metavar="CONSUMER",
                 help="Only messages that this consumer has not acknowledged."),
    click.option("--given-up", metavar="CONSUMER",
                 help="Only messages that this consumer dropped after max deliver."),
    click.option("--session", "sessions", metavar="NAME", multiple=True,
                 help="A recording that saw messages reach max deliver. Repeat for several."),
)  # fmt: skip
_TO = (
    click.option("--to-subject", metavar="SUBJECT", help="Publish all messages to this subject."),
    click.option("--to-stream", metavar="NAME",
        help="Refuse copies unless this stream stores them."),
    click.option("--to-file", metavar="FILE", type=WrittenPath(),
        help="Write the messages to a file, one line of JSON each."),
    click.option("--to-context", metavar="NAME",
        help="Copy to another system: the name of its context."),
    click.option("--map", "maps", metavar="FROM:TO", multiple=True,
                 help="Change subjects that match FROM to TO: 'a.*.>:b.$1.>'. Repeat for "
                     "several."),
    click.option("--msg-id", "ids", type=click.Choice(("made", "kept")), default="made",
                 help="made: each copy gets a new message id; kept: the publisher's id, if any."),
    click.option("--rate", metavar="NUMBER", help="Maximum messages per second: 500, 10k."),
    click.option("--original-pace", is_flag=True,
        help="Keep the original pauses between messages."),
)  # fmt: skip
_HOW = (
    click.option("--dry-run", is_flag=True, help="Only count what would be copied."),
    click.option("--resume", is_flag=True,
                 help="Continue a stopped copy, and try refused messages again."),
    click.option("--accept-duplicates", is_flag=True,
                 help="Continue even if messages may be stored twice."),
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
        raise UsageError("use either --unacknowledged or --given-up")
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
        said = f"{text} arrived so fast that the recording has only their count"
        click.echo(f"natstui: {said}: their sequences are not known", err=True)
    return tuple(found)


def given_target(words: dict[str, Any]) -> Target:
    """Return where messages go; raises UsageError."""
    subject, stream = words["to_subject"], words["to_stream"]
    if words["to_file"] and (subject or stream or words["to_context"]):
        raise UsageError("--to-file needs no --to-subject, --to-stream and --to-context")
    if not (subject or stream or words["to_file"] or words["to_context"]):
        raise UsageError(
            "the target is missing: use --to-subject, --to-stream, --to-context or --to-file"
        )
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


@command()
@click.argument("name", metavar="[STREAM]", required=False, shell_complete=streams)
@copy_options
@change_flags
@connection_options
def copy(connection: Connection, name: str | None, **words: Any) -> None:
    """Copy messages of STREAM.

    Copies them to a subject, a stream, another system or a file. Each message is stored once, also
    when the connection breaks: the target recognises the id (Nats-Msg-Id) of each copy. At the end
    every message is accounted for. Ctrl-C stops the copy; --resume continues it.
    """
    if (name is None) == (words["from_file"] is None):
        raise UsageError("name a stream or use --from-file")
    if words["dry_run"] and words["to_file"]:
        raise UsageError("--dry-run counts what would be sent; --to-file sends nothing")
    task = _Task(connection, name, words)
    if words["dry_run"]:
        task.count()
    else:
        task.run()


@click.group(cls=Group)
def messages() -> None:
    """Copy messages, or send dropped ones again."""


messages.add_command(copy)


class _Task:
    """One copy, from its words to its account."""

    def __init__(self, connection: Connection, name: str | None, words: dict[str, Any]) -> None:
        if name is None:
            only_of_streams(words)
        self._words, self._source = words, connection
        self._wanted = None if name is None else given_wanted(name, words)
        self._target = other_system(words, connection)
        self._asked = Copy(given_target(words), pace=given_pace(words))
        self._kept = StateFile(kept_under(words, name, connection))
        self._done: Copy | None = None
        self._is_loss_confirmed = False

    @property
    def _typed(self) -> str:
        """What has to be typed in production: where they go, or what goes there."""
        return str(
            self._words["to_stream"] or self._words["to_subject"]
            or (self._wanted.stream if self._wanted else self._words["from_file"])
        )  # fmt: skip

    def count(self) -> None:
        """Print what would be copied."""

        async def work(source: Client, writer: Writer) -> None:
            asked = await self._selected(source, None)
            print_counts(await count_copy(source, writer.client, asked), asked,
                         as_json=self._words["as_json"])  # fmt: skip

        run_with_writer(self._target, True, self._with_source(work), prints=True)

    def run(self) -> None:
        """Copy, and print what became of every message; raises what ended it."""
        failure: NatstuiError | None = None
        try:
            self._copy()
        except NatstuiError as error:
            failure = error
        if self._done is not None and (failure is None or self._done.account.read_msgs):
            print_account(self._done, as_json=self._words["as_json"])
        if failure is not None:
            raise failure
        self._end()

    def _end(self) -> None:
        assert self._done is not None
        account = self._done.account
        if account.is_stopped:
            raise Interrupted("the copy was stopped; --resume continues it", _SIGINT)
        if account.not_kept and not self._is_loss_confirmed:
            raise RequestFailed("the target acknowledged copies and did not keep them")
        if account.refused_msgs:
            raise RequestFailed("the target refused some messages; --resume tries them again")
        if account.removed_seqs:
            first_seq, last_seq = account.removed_seqs
            raise RequestFailed(
                f"sequences {first_seq:,} to {last_seq:,} were removed from {self._done.name} "
                "while the copy was stopped: what was there, and was not copied before, is missing"
            )

    def _copy(self) -> None:
        if self._words["to_file"]:
            run_with_writer(
                self._source, True, lambda writer: self._write(writer.client), prints=True
            )
            return

        async def work(writer: Writer, confirmed: str | None) -> None:
            await self._with_source(lambda source, _: self._send(source, writer, confirmed))(
                writer
            )

        write_confirmed(self._target, self._words, work)

    async def _write(self, source: Client) -> None:
        copy_ = self._done = await self._selected(source, self._resumed())
        with TerminalLine(_SHOWN_EVERY_S) as line:
            copy_.on_progress = partial(_show_progress, line)
            await write_copy(source, copy_, user_path(self._words["to_file"]), stopped_by_signal())

    async def _send(self, source: Client, writer: Writer, confirmed: str | None) -> None:
        writer.check(self._typed, confirmed)
        state = self._resumed()
        copy_ = await self._selected(source, state)
        loses = await copy_loss(source, writer.client, copy_)
        writer.check(self._typed, confirmed, loses=loses)
        self._is_loss_confirmed = loses is not None
        if state is not None and not state.is_settled:
            await self._check_safe(writer.client, copy_, state)
        self._done = copy_
        with TerminalLine(_SHOWN_EVERY_S) as line:
            copy_.on_progress = partial(_show_progress, line)
            await send_copy(source, writer, copy_, (self._typed, confirmed), stopped_by_signal())

    def _with_source(
        self, work: Callable[[Client, Writer], Awaitable[None]]
    ) -> Callable[[Writer], Awaitable[None]]:
        """Connect to where messages come from too, where that is elsewhere."""

        async def run(writer: Writer) -> None:
            async with AsyncExitStack() as stack:
                source = writer.client
                if self._target is not self._source:
                    source = await connect(dataclasses.replace(self._source, read_only=True))
                    stack.push_async_callback(source.close)
                await work(source, writer)

        return run

    async def _selected(self, source: Client, state: State | None) -> Copy:
        found = dataclasses.replace(self._asked, state=state, file=self._kept)
        if self._wanted is None:
            found.from_file = user_path(self._words["from_file"])
            return found
        selection = await select(source, self._wanted)
        if state is not None:
            selection = dataclasses.replace(selection, end_seq=state.end_seq)
            found.account.removed_seqs = selection.removed_after(state.done_seq)
        if selection.remark:
            click.echo(clean_line(f"natstui: {selection.remark}"), err=True)
        found.selection = selection
        return found

    def _resumed(self) -> State | None:
        state = self._kept.read()
        if self._words["resume"] and state is None:
            raise UsageError("nothing to resume: this copy was not stopped")
        if state is not None and not self._words["resume"]:
            click.echo(
                "natstui: this copy was stopped before; --resume would continue it", err=True
            )
            return None
        return state

    async def _check_safe(self, target: Client, copy_: Copy, state: State) -> None:
        """Raise UsageError when what was on its way may be stored already and not known again."""
        if self._words["accept_duplicates"]:
            return
        known_s = await remembering_s(target, copy_)
        age_s = state.age_s
        if age_s > known_s:
            _refuse_doubt(state)


def _refuse_doubt(state: State) -> NoReturn:
    raise UsageError(
        "the copy ended with messages in flight, and the target has forgotten their ids: "
        f"messages after sequence {state.done_seq:,} may be stored twice; --accept-duplicates "
        "copies them anyway"
    )


def _show_progress(line: TerminalLine, account: Account, waits: str) -> None:
    """Show what was copied, and what it waits for."""
    text = f"{counted(f'{account.read_msgs:,}', 'message')}, up to {account.last_seq}"
    line.show(f"{text}; waiting: {waits}" if waits else text, at_once=bool(waits))


def print_account(copy: Copy, *, as_json: bool) -> None:
    """Print what became of every message."""
    account = copy.account
    if as_json:
        told = dataclasses.asdict(account)
        told |= {"from": copy.name, "refusals": dict(account.refusals)}
        told |= {"not_kept": dict(account.not_kept)}
        del told["stored_ranges"]
        click.echo(clean_json(json.dumps(told)))
        return
    where = f", {account.first_seq}…{account.last_seq}" if account.first_seq else ""
    size = bytes_text(account.payload_bytes)
    click.echo(clean_line(f"{account.read_msgs:,} read from {copy.name}{where}, {size}"))
    again = f" ({account.confirmed_msgs:,} asked for twice)" if account.confirmed_msgs else ""
    for count, text in (
        (account.acknowledged_msgs, f"acknowledged{again}"),
        (account.not_kept.total(), "of these not kept by the target"),
        (account.duplicate_msgs, "duplicates: the target had them already"),
        (account.refused_msgs, "refused"),
        (account.unknown_msgs, "unknown: sent, but no reply"),
        (account.gone_msgs, "gone: removed from the stream before they were read"),
        (account.without_rollup_msgs, "sent without their roll-up header"),
    ):
        if count or text.startswith(("acknowledged", "duplicates", "refused")):
            click.echo(f"{count:>12,} {text}")
    for reason, count in account.not_kept.most_common():
        click.echo(clean_line(f"{'':12} {count:,} not kept by {reason}"))
    for stream in account.unchecked:
        text = f"not checked what {stream} kept: no permission to STREAM.INFO.{stream}"
        click.echo(clean_line(f"{'':12} {text}"))
    for reason, count in account.refusals.most_common():
        click.echo(clean_line(f"{'':12} {count:,} refused: {reason}"))


def print_counts(counts: Counts, copy: Copy, *, as_json: bool) -> None:
    """Print what would be copied."""
    if as_json:
        told = dataclasses.asdict(counts)
        told |= {"from": copy.name, "subjects": dict(counts.subjects.most_common())}
        click.echo(clean_json(json.dumps(told)))
        return
    print_rows(
        ("SUBJECT", "STORED IN", "MESSAGES"),
        [
            (subject, counts.streams.get(subject) or "no stream", f"{count:,}")
            for subject, count in counts.subjects.most_common(MOST_SUBJECTS)
        ],
        words_count=2,
    )
    more = len(counts.subjects) - MOST_SUBJECTS
    where = f", {counts.first_seq}…{counts.last_seq}" if counts.first_seq else ""
    text = f"{counted(f'{counts.messages:,}', 'message')} of {copy.name}{where}"
    text += f", {bytes_text(counts.payload_bytes)}; nothing was sent"
    text += f"; {more:,} more subjects" if more > 0 else ""
    text += f"; {counts.gone:,} are gone" if counts.gone else ""
    click.echo(clean_line(f"natstui: {text}"), err=True)
