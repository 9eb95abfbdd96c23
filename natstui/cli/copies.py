"""`natstui messages copy`: copies messages of a stream or a file, each once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from natstui.clean import clean_json, clean_line
from natstui.cli.complete import complete_streams
from natstui.cli.core.options import parse_optional_time
from natstui.cli.manage.names import parse_name
from natstui.cli.manage.writing import run_with_writer, write_confirmed
from natstui.cli.options import (
    SEQUENCE,
    ConnectionFlags,
    OutputPath,
    change_flags,
    connection_flags,
)
from natstui.cli.sections import Group, command
from natstui.cli.terminal_line import TerminalLine
from natstui.cli.text_table import print_rows
from natstui.config import Connection
from natstui.engine.stopping import StopEvent, make_stop_event
from natstui.errors import Interrupted, NatstuiError, RequestFailed, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.copying.account import CopyAccount, CopyState, StateFile
from natstui.jetstream.messages.copying.copy import (
    MAX_SHOWN_SUBJECTS,
    CopyCounts,
    CopyPace,
    CopyTarget,
    MessageCopy,
    count_copy,
    read_duplicate_window_s,
    send_copy,
    write_copy,
)
from natstui.jetstream.messages.copying.losses import describe_changed_keys, describe_copy_loss
from natstui.jetstream.messages.copying.selection import Selection, SelectionRequest, select
from natstui.jetstream.messages.copying.window import DUPLICATE_WINDOW_USABLE_RATIO
from natstui.model.assets.subjects import is_valid_subject
from natstui.model.records.copies import MaxDeliverDrop
from natstui.paths import expand_user_path
from natstui.units import bytes_text, counted, parse_count
from natstui.values import replace

_PROGRESS_INTERVAL_S = 0.2
_SOURCE_OPTIONS = (
    click.option("--from-file", metavar="FILE",
        help="Read the messages from a file instead of a stream; - is stdin."),
    click.option("--from-seq", type=SEQUENCE, help="First sequence to copy."),
    click.option("--to-seq", type=SEQUENCE, help="Last sequence to copy."),
    click.option("--since", metavar="TIME",
        help="Only messages stored since: 10m, 2m ago, a time. Begins at the first of them."),
    click.option("--until", metavar="TIME",
        help="Only messages stored until this time. Ends before the first later one."),
    click.option("--subject", "subjects", metavar="SUBJECT", multiple=True,
                 help="Only this subject, may have wildcards. Repeat for several."),
    click.option("--unacknowledged", metavar="CONSUMER",
                 help="Only messages that this consumer has not acknowledged."),
    click.option("--given-up", metavar="CONSUMER",
                 help="Only messages that this consumer dropped after max deliver."),
    click.option("--session", "sessions", metavar="NAME", multiple=True,
                 help="A recording that saw messages reach max deliver. Repeat for several."),
)  # fmt: skip
_TARGET_OPTIONS = (
    click.option("--to-subject", metavar="SUBJECT", help="Publish all messages to this subject."),
    click.option("--to-stream", metavar="NAME",
        help="Refuse copies unless this stream stores them."),
    click.option("--to-file", metavar="FILE", type=OutputPath(),
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
        help="Keep the original pauses between messages, up to a day."),
)  # fmt: skip
_MODE_OPTIONS = (
    click.option("--dry-run", is_flag=True, help="Only count what would be copied."),
    click.option("--resume", is_flag=True,
                 help="Continue a stopped copy, and try refused messages again."),
    click.option("--accept-duplicates", is_flag=True,
                 help="Continue even if messages may be stored twice."),
)  # fmt: skip


def copy_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of source, target and mode of a copy to a command, which gets each as an
    argument.
    """
    for option in reversed((*_SOURCE_OPTIONS, *_TARGET_OPTIONS, *_MODE_OPTIONS)):
        command = option(command)
    return command


def parse_selection(stream: str, flags: dict[str, Any]) -> SelectionRequest:
    """Return the selection of messages of a stream that the flags describe.

    Reads the recordings of `--session`. Raises UsageError for invalid or conflicting flags,
    SessionError for a recording that cannot be read.
    """
    consumer_flags = [name for name in ("unacknowledged", "given_up") if flags[name]]
    if len(consumer_flags) > 1:
        raise UsageError("use either --unacknowledged or --given-up")
    if flags["sessions"] and consumer_flags != ["given_up"]:
        raise UsageError("--session belongs to --given-up")
    for subject in flags["subjects"]:
        if not is_valid_subject(subject):
            raise UsageError(f"--subject: {subject!r} is not a valid subject")
    consumer = parse_name(flags[consumer_flags[0]]) if consumer_flags else None
    selection = SelectionRequest(
        parse_name(stream), flags["subjects"], flags["from_seq"], flags["to_seq"],
        _parse_time_us(flags["since"], "--since"), _parse_time_us(flags["until"], "--until"),
        consumer,
        None if not consumer_flags
        else "given_up" if consumer_flags == ["given_up"] else "unacknowledged",
    )  # fmt: skip
    if flags["sessions"] and consumer is not None:
        recorded_drops = _read_recorded_drops(
            flags["sessions"], flags["settings"], selection.stream, consumer
        )
        return replace(selection, recorded_drops=recorded_drops)
    return selection


def refuse_stream_flags(flags: dict[str, Any]) -> None:
    """Raise UsageError for a flag that selects messages of a stream, if a file is the source."""
    stream_flags = ("from_seq", "to_seq", "since", "until", "subjects", "unacknowledged",
                    "given_up", "sessions")  # fmt: skip
    for name in stream_flags:
        if flags[name]:
            flag = {"subjects": "subject", "sessions": "session"}.get(name, name)
            raise UsageError(f"--{flag.replace('_', '-')} is about a stream, not about a file")


def _parse_time_us(text: str | None, option: str) -> int | None:
    moment = parse_optional_time(text, option)
    return None if moment is None else round(moment.timestamp() * 1_000_000)


def _read_recorded_drops(
    names: tuple[str, ...], settings: Any, stream: str, consumer: str
) -> tuple[MaxDeliverDrop, ...]:
    """Return the messages of a consumer that recordings report as dropped after max deliver.

    Raises UsageError for an unknown recording, SessionError for one that cannot be read.
    """
    # Imported here: they take a third of the start of a copy, and few copies read recordings.
    from natstui.session.library import find_session, sessions_folder
    from natstui.session.read.max_deliver import read_dropped_messages
    from natstui.session.read.recording import Recording

    all_drops, unidentified_drops_count = list[MaxDeliverDrop](), 0
    for name in names:
        recording = Recording(find_session(sessions_folder(settings.session), name))
        session_drops, session_unidentified_drops_count = read_dropped_messages(
            recording, stream, consumer
        )
        all_drops, unidentified_drops_count = (
            all_drops + session_drops,
            unidentified_drops_count + session_unidentified_drops_count,
        )
    if unidentified_drops_count:
        text = counted(f"{unidentified_drops_count:,}", "advisory")
        warning = f"{text} arrived so fast that the recording has only their count"
        click.echo(f"natstui: {warning}: their sequences are not known", err=True)
    return tuple(all_drops)


def parse_target(flags: dict[str, Any]) -> CopyTarget:
    """Return the target of a copy: stream, subject mappings and kind of message ids.

    Raises UsageError if there is no target, if targets exclude each other, or for an invalid
    mapping.
    """
    subject, stream = flags["to_subject"], flags["to_stream"]
    if flags["to_file"] and (subject or stream or flags["to_context"]):
        raise UsageError("--to-file needs no --to-subject, --to-stream and --to-context")
    if not (subject or stream or flags["to_file"] or flags["to_context"]):
        raise UsageError(
            "the target is missing: use --to-subject, --to-stream, --to-context or --to-file"
        )
    subject_mappings = []
    for text in flags["maps"]:
        source, colon, target_name = text.partition(":")
        if not colon or not source or not target_name:
            raise UsageError(f"--map {text!r}: write it as FROM:TO")
        subject_mappings.append((source, target_name))
    if subject:
        subject_mappings.append((">", subject))
    target = CopyTarget(
        parse_name(stream) if stream else None, tuple(subject_mappings), flags["ids"]
    )
    target.check()
    return target


def parse_copy_pace(flags: dict[str, Any]) -> CopyPace:
    """Return the pace: messages per second, or the original pauses; raises UsageError for an
    invalid rate.
    """
    try:
        text = flags["rate"]
        msgs_per_s = parse_count(text.removesuffix("/s")) if text else None
    except ValueError as error:
        raise UsageError(f"--rate: {error}") from error
    if msgs_per_s == 0:
        raise UsageError("--rate: at least 1")
    return CopyPace(msgs_per_s, flags["original_pace"])


def target_connection(
    connection_flags: ConnectionFlags, name: str | None, connection: Connection
) -> Connection:
    """Return the connection of the context `name`; None: that of the source, `connection`.

    `read_only` and `production` of the settings in `connection_flags` apply to the returned
    connection, too. Raises UsageError for an unknown context.
    """
    if name is None:
        return connection
    from natstui.config.resolve import context_connection

    return context_connection(connection_flags.load(), name)


def copy_identity(
    flags: dict[str, Any], stream: str | None, connection: Connection
) -> dict[str, Any]:
    """Return the values that identify a copy: source, target and selection, with absolute paths.

    Only a copy with the same values is continued by --resume.
    """
    path_by_flag = {name: str(Path(flags[name]).absolute())
             for name in ("from_file", "to_file") if flags[name]}  # fmt: skip
    names = ("from_seq", "to_seq", "since", "until", "subjects", "unacknowledged", "given_up",
             "to_subject", "to_stream", "to_context", "maps", "ids")  # fmt: skip
    flag_values = {name: flags[name] for name in names}
    return {**flag_values, **path_by_flag, "stream": stream, "target": connection.target}


@command()
@click.argument("name", metavar="[STREAM]", required=False, shell_complete=complete_streams)
@copy_options
@change_flags
@connection_flags
def copy(flags: ConnectionFlags, name: str | None, **options: Any) -> None:
    """Copy messages of STREAM.

    Copies them to a subject, a stream, another system or a file. Each message is stored once, also
    when the connection breaks: the target recognises the id (Nats-Msg-Id) of each copy. At the end
    every message is accounted for. Ctrl-C stops the copy; --resume continues it.
    """
    if (name is None) == (options["from_file"] is None):
        raise UsageError("name a stream or use --from-file")
    if options["dry_run"] and options["to_file"]:
        raise UsageError("--dry-run counts what would be sent; --to-file sends nothing")
    if options["from_file"] == "-":
        options["from_file"] = "/dev/stdin"
    copy_run = _CopyRun(flags, name, options)
    if options["dry_run"]:
        copy_run.print_dry_run()
    else:
        copy_run.run()


@click.group(cls=Group)
def messages() -> None:
    """Copy messages, or send dropped ones again."""


messages.add_command(copy)


class _CopyRun:
    """One run of `natstui messages copy`: parses its flags, copies or counts messages, and prints
    the result.
    """

    def __init__(
        self, connection_flags: ConnectionFlags, name: str | None, flags: dict[str, Any]
    ) -> None:
        if name is None:
            refuse_stream_flags(flags)
        settings, connection = connection_flags.resolve()
        flags = {**flags, "settings": settings}
        self._flags, self._source = flags, connection
        self._requested_selection = None if name is None else parse_selection(name, flags)
        self._target = target_connection(connection_flags, flags["to_context"], connection)
        self._requested_copy = MessageCopy(parse_target(flags), pace=parse_copy_pace(flags))
        self._state_file = StateFile(copy_identity(flags, name, connection))
        self._current_copy: MessageCopy | None = None
        self._is_loss_confirmed = False
        self._selection_before_prompt: Selection | None = None
        """The first selection, which was counted before the prompt."""
        self._stop_event = StopEvent()

    @property
    def _name_to_confirm(self) -> str:
        """Return the name to type in production: of the target, or of the copied stream."""
        selection = self._requested_selection
        source = selection.stream if selection else self._flags["from_file"]
        return str(self._flags["to_stream"] or self._flags["to_subject"] or source)

    def print_dry_run(self) -> None:
        """Print how many messages the copy would send, by subject."""

        async def work(source: Client, writer: Writer) -> None:
            selection = await self._prepare_copy(source, None)
            print_counts(await count_copy(source, writer.client, selection), selection,
                         as_json=self._flags["as_json"])  # fmt: skip

        run_with_writer(self._target, True, self._connect_source(work), work_prints=True)

    def run(self) -> None:
        """Copy, and print what happened to the messages; raises the error that ended the copy."""
        failure: NatstuiError | None = None
        try:
            self._copy_messages()
        except NatstuiError as error:
            failure = error
        if self._current_copy is not None and (
            failure is None or self._current_copy.account.read_msgs
        ):
            print_account(self._current_copy, as_json=self._flags["as_json"])
        if failure is not None:
            raise failure
        self._raise_if_copy_incomplete()

    def _raise_if_copy_incomplete(self) -> None:
        assert self._current_copy is not None
        copy_account = self._current_copy.account
        if copy_account.is_stopped:
            raise Interrupted(
                "the copy was stopped; --resume continues it", self._stop_event.signal_number
            )
        if copy_account.not_kept and not self._is_loss_confirmed:
            raise RequestFailed("the target acknowledged copies and did not keep them")
        if copy_account.refused_msgs:
            raise RequestFailed("the target refused some messages; --resume tries them again")
        if copy_account.no_longer_there and not copy_account.may_be_consumed:
            raise RequestFailed(
                "the target does not have all messages any more that it stored before: a copy "
                "after its duplicate window stores them again"
            )
        if copy_account.removed_seqs:
            first_seq, last_seq = copy_account.removed_seqs
            raise RequestFailed(
                f"messages from sequence {first_seq:,} to {last_seq:,} were removed from "
                f"{self._current_copy.name} before they were copied, and are missing"
            )

    def _copy_messages(self) -> None:
        if self._flags["to_file"]:
            run_with_writer(
                self._source,
                True,
                lambda writer: self._write_messages_file(writer.client),
                work_prints=True,
            )
            return

        async def work(writer: Writer, confirmed_name: str | None) -> None:
            await self._connect_source(
                lambda source, _: self._send_messages(source, writer, confirmed_name)
            )(writer)

        write_confirmed(self._target, self._flags, work)

    async def _write_messages_file(self, source: Client) -> None:
        copy_ = self._current_copy = await self._prepare_copy(source, self._read_copy_state())
        with TerminalLine(_PROGRESS_INTERVAL_S) as line:
            copy_.on_progress = partial(_show_progress, line)
            self._stop_event = make_stop_event()
            await write_copy(
                source, copy_, expand_user_path(self._flags["to_file"]), self._stop_event
            )

    async def _send_messages(
        self, source: Client, writer: Writer, confirmed_name: str | None
    ) -> None:
        writer.check_allowed(self._name_to_confirm, confirmed_name)
        state = self._read_copy_state()
        copy_ = await self._prepare_copy(source, state)
        loss_text = await describe_copy_loss(source, writer.client, copy_)
        changed_keys_text = await describe_changed_keys(source, writer.client, copy_)
        losses_text = " and ".join(filter(None, (loss_text, changed_keys_text))) or None
        writer.check_allowed(self._name_to_confirm, confirmed_name, loss_text=losses_text)
        self._is_loss_confirmed = loss_text is not None
        if state is not None and state.unknown_msgs:
            await self._check_duplicates(writer.client, copy_, state)
        self._current_copy = copy_
        with TerminalLine(_PROGRESS_INTERVAL_S) as line:
            copy_.on_progress = partial(_show_progress, line)
            self._stop_event = make_stop_event()
            await send_copy(
                source, writer, copy_, (self._name_to_confirm, confirmed_name), self._stop_event
            )

    def _connect_source(
        self, work: Callable[[Client, Writer], Awaitable[None]]
    ) -> Callable[[Writer], Awaitable[None]]:
        """Return a function that calls `work` with a client of the source, and the writer.

        The client has a connection of its own if the source is another system than the target.
        """

        async def run(writer: Writer) -> None:
            async with AsyncExitStack() as stack:
                source = writer.client
                if self._target is not self._source:
                    source = await connect(replace(self._source, read_only=True))
                    stack.push_async_callback(source.close)
                await work(source, writer)

        return run

    async def _prepare_copy(self, source: Client, state: CopyState | None) -> MessageCopy:
        prepared_copy = dataclasses.replace(
            self._requested_copy, state=state, file=self._state_file
        )
        if self._requested_selection is None:
            prepared_copy.from_file = expand_user_path(self._flags["from_file"])
            return prepared_copy
        requested_selection = self._requested_selection
        if state is not None:
            requested_selection = replace(
                requested_selection, since_us=state.since_us, until_us=state.until_us
            )
        selection = await select(source, requested_selection)
        # What was stored since it was counted for the prompt, or since the stopped copy began,
        # is not copied; what was removed since then is missing.
        original_range = state or self._selection_before_prompt
        if original_range is not None:
            selection = replace(
                selection, begin_seq=original_range.begin_seq, end_seq=original_range.end_seq,
                lacking_count=original_range.lacking_count,
            )  # fmt: skip
        self._selection_before_prompt = self._selection_before_prompt or selection
        if selection.remark:
            click.echo(clean_line(f"natstui: {selection.remark}"), err=True)
        prepared_copy.selection = selection
        return prepared_copy

    def _read_copy_state(self) -> CopyState | None:
        state = self._state_file.read()
        if self._flags["resume"] and state is None:
            raise UsageError("nothing to resume: this copy was not stopped")
        if state is not None and not self._flags["resume"]:
            click.echo(
                "natstui: this copy was stopped before; --resume would continue it", err=True
            )
            return None
        return state

    async def _check_duplicates(
        self, target: Client, copy_: MessageCopy, state: CopyState
    ) -> None:
        """Raise UsageError if messages that were in flight may be stored twice.

        That is if the target may have forgotten their ids; not checked with `--accept-duplicates`.
        """
        if self._flags["accept_duplicates"]:
            return
        duplicate_window_s = await read_duplicate_window_s(target, copy_)
        if state.age_s <= duplicate_window_s * DUPLICATE_WINDOW_USABLE_RATIO:
            return
        remaining_msgs = state.end_seq - state.first_seq + 1
        messages_text = counted(f"{min(state.unknown_msgs, remaining_msgs):,}", "message")
        raise UsageError(
            "the copy ended with messages in flight, and the target may have forgotten their ids: "
            f"up to {messages_text} from sequence {state.first_seq:,} on may be stored twice; "
            "--accept-duplicates copies them anyway"
        )


def _show_progress(line: TerminalLine, copy_account: CopyAccount, waiting_for: str) -> None:
    """Show how many messages were copied, and what the copy waits for."""
    text = f"{counted(f'{copy_account.read_msgs:,}', 'message')}, up to {copy_account.last_seq}"
    line.show(
        f"{text}; waiting: {waiting_for}" if waiting_for else text, immediately=bool(waiting_for)
    )


def print_account(copy: MessageCopy, *, as_json: bool) -> None:
    """Print what happened to the messages of a copy: a line per count, or one JSON object.

    The counts are the messages read, acknowledged, duplicate, refused or unknown, with reasons.
    """
    copy_account = copy.account
    if as_json:
        result = to_builtins(copy_account)
        result |= {"from": copy.name, "refusals": dict(copy_account.refusals)}
        result |= {"not_kept": dict(copy_account.not_kept)}
        result |= {"no_longer_there": dict(copy_account.no_longer_there)}
        del result["stored_ranges"], result["stored_subjects"], result["stored_before_ranges"]
        click.echo(clean_json(json.dumps(result)))
        return
    range_text = (
        f", {copy_account.first_seq}…{copy_account.last_seq}" if copy_account.first_seq else ""
    )
    size_text = bytes_text(copy_account.payload_bytes)
    click.echo(
        clean_line(f"{copy_account.read_msgs:,} read from {copy.name}{range_text}, {size_text}")
    )
    confirmed_text = (
        f" ({copy_account.confirmed_msgs:,} sent twice)" if copy_account.confirmed_msgs else ""
    )
    for count, text in (
        (copy_account.acknowledged_msgs, f"acknowledged{confirmed_text}"),
        (copy_account.not_kept.total(), "of these not kept by the target"),
        (copy_account.duplicate_msgs, "duplicates: the target had stored them before"),
        (copy_account.no_longer_there.total(), "stored before, and not there any more"),
        (copy_account.refused_msgs, "refused"),
        (copy_account.unknown_msgs, "unknown: sent, but no reply"),
        (copy_account.gone_msgs, "removed from the stream before they were read"),
        (copy_account.without_rollup_msgs, "sent without their headers of a roll-up or schedule"),
    ):
        if count or text.startswith(("acknowledged", "duplicates", "refused")):
            click.echo(f"{count:>12,} {text}")
    for reason, count in copy_account.not_kept.most_common():
        click.echo(clean_line(f"{'':12} {count:,} not kept by {reason}"))
    for reason, count in copy_account.no_longer_there.most_common():
        click.echo(clean_line(f"{'':12} {count:,} not there any more: removed from {reason}"))
    for stream in copy_account.unchecked:
        text = f"not checked what {stream} kept: no permission to STREAM.INFO.{stream}"
        click.echo(clean_line(f"{'':12} {text}"))
    for reason, count in copy_account.refusals.most_common():
        click.echo(clean_line(f"{'':12} {count:,} refused: {reason}"))


def print_counts(counts: CopyCounts, copy: MessageCopy, *, as_json: bool) -> None:
    """Print how many messages a copy would send: a table by subject, or one JSON object.

    With a table, the total is printed to stderr.
    """
    if as_json:
        result = to_builtins(counts)
        result |= {"from": copy.name, "subjects": dict(counts.subjects.most_common())}
        click.echo(clean_json(json.dumps(result)))
        return
    print_rows(
        ("SUBJECT", "STORED IN", "MESSAGES"),
        [
            (subject, counts.streams.get(subject) or "no stream", f"{count:,}")
            for subject, count in counts.subjects.most_common(MAX_SHOWN_SUBJECTS)
        ],
        text_columns_count=2,
    )
    more_subjects_count = len(counts.subjects) - MAX_SHOWN_SUBJECTS
    range_text = f", {counts.first_seq}…{counts.last_seq}" if counts.first_seq else ""
    text = f"{counted(f'{counts.messages:,}', 'message')} of {copy.name}{range_text}"
    text += f", {bytes_text(counts.payload_bytes)}; nothing was sent"
    text += (
        f"; {counted(f'{more_subjects_count:,}', 'more subject')}"
        if more_subjects_count > 0
        else ""
    )
    text += f"; {counts.gone:,} are removed" if counts.gone else ""
    click.echo(clean_line(f"natstui: {text}"), err=True)
