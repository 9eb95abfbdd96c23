"""`natstui sub`: prints published messages as they arrive."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import complete_streams
from natstui.cli.core.options import parse_optional_seconds, parse_optional_time
from natstui.cli.core.printer import MessagePrinter, output_format
from natstui.cli.losses import LossCounter
from natstui.cli.manage.names import parse_name
from natstui.cli.manage.writing import confirm_name
from natstui.cli.options import COUNT, SEQUENCE, YES_HELP, connection_options
from natstui.cli.sections import command
from natstui.cli.terminal_line import print_stderr
from natstui.config import Connection
from natstui.engine.stopping import cancel_on_signal, make_stop_event
from natstui.errors import (
    ActionRefusal,
    Interrupted,
    NotFound,
    RequestFailed,
    RequestTimedOut,
    UsageError,
)
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.writer import READ_ONLY
from natstui.jetstream.messages.pull import describe_listening_loss
from natstui.jetstream.messages.reading import DeliverPolicy, Reader, check_limits_retention
from natstui.model.assets.subjects import has_wildcard, overlap
from natstui.units import counted

if TYPE_CHECKING:
    from nats.aio.msg import Msg

_POLICY_AND_TEXT_BY_FLAG: dict[str, tuple[DeliverPolicy, str]] = {
    "from_all": ("all", "from the first message"),
    "from_last": ("last", "from the last message"),
    "from_new": ("new", "from now on"),
    "last_per_subject": ("last_per_subject", "from the last message of each subject"),
}
"""Flag → deliver policy, and its text."""
_START_FLAGS = (*_POLICY_AND_TEXT_BY_FLAG, "since", "start_sequence")
_STREAM_OPTIONS = (
    click.option("--stream", metavar="NAME", shell_complete=complete_streams,
                 help="Read from this stream; only new messages, unless another flag sets the "
                     "start."),
    click.option("--since", metavar="TIME",
                 help="Begin with messages stored since: 10m, 2m ago, a time."),
    click.option("--start-sequence", metavar="SEQ", type=SEQUENCE,
                 help="Begin with this sequence of the stream."),
    click.option("--all", "from_all", is_flag=True, help="Begin with the first stored message."),
    click.option("--last", "from_last", is_flag=True, help="Begin with the last stored message."),
    click.option("--last-per-subject", is_flag=True,
                 help="Begin with the last stored message of each subject."),
    click.option("--new", "from_new", is_flag=True, help="Read only messages stored from now on."),
)  # fmt: skip
_CONSUMER_HINT = "natstui consumer sub STREAM NAME --ack reads a consumer and acknowledges"
_HINT_BY_NATS_CLI_FLAG = {
    "--durable": (True, _CONSUMER_HINT),
    "--ack": (False, _CONSUMER_HINT),
    "--direct": (False, "natstui stream view STREAM reads without a consumer"),
    "--dump": (True, "--json > FILE keeps every message with its payload"),
    "--translate": (True, "--raw | COMMAND gets the payloads"),
    "--match-replies": (False, "natstui request prints replies"),
    "--report-subjects": (False, ":sub SUBJECT in the app counts by subject"),
    "--graph": (False, ":sub SUBJECT in the app shows the rates"),
}
"""Flags of the NATS CLI with another equivalent here: whether they have a value, and the hint."""


@dataclass
class SubscriptionPrinter:
    """Prints the messages published to subjects, until enough are printed or it is stopped."""

    subjects: tuple[str, ...]
    queue: str
    ignored_subjects: tuple[str, ...]
    max_msgs: int | None
    quiet_s: float | None
    """Printing ends after this time without a message."""
    printer: MessagePrinter
    losses: LossCounter = field(
        default_factory=lambda: LossCounter(
            "messages published in the meantime are missed", "some are missing"
        )
    )
    failure: BaseException | None = None
    stop_event: asyncio.Event = field(default_factory=asyncio.Event)
    message_event: asyncio.Event = field(default_factory=asyncio.Event)

    async def run_until_stopped(self, connection: Connection) -> None:
        """Connect, subscribe and print until `max_msgs` messages are printed, none came for
        `quiet_s`, or a signal came.

        Raises ConnectionFailed and RequestFailed if it cannot start, and the error that ended it,
        such as BrokenPipeError.
        """
        self.stop_event = make_stop_event()
        client = await connect(connection, on_link=self.losses.add)
        try:
            await self._subscribe(client)
            await self._wait_until_stopped()
        finally:
            await client.close()
        if self.failure is not None:
            raise self.failure

    async def _subscribe(self, client: Client) -> None:
        for subject in self.subjects:
            await client.subscribe(
                subject, self._print_message, self._stop_with_error, queue=self.queue
            )
        group = f" in the queue group {self.queue}" if self.queue else ""
        # After this line nothing is missed: the server knows of the subscriptions.
        timeout_s = client.connection.request_timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await (await client.nc.ping())
        except TimeoutError as error:
            raise RequestTimedOut(self.subjects[0], timeout_s) from error
        text = f"natstui: listening to {', '.join(self.subjects)}{group}"
        click.echo(clean_line(text), err=True)

    async def _wait_until_stopped(self) -> None:
        while not self.stop_event.is_set():
            self.message_event.clear()
            wait_tasks = [
                asyncio.ensure_future(event.wait())
                for event in (self.stop_event, self.message_event)
            ]
            finished_tasks, unfinished_tasks = await asyncio.wait(
                wait_tasks, timeout=self.quiet_s, return_when=asyncio.FIRST_COMPLETED
            )
            for task in unfinished_tasks:
                task.cancel()
            if not finished_tasks:
                return

    async def _print_message(self, msg: Msg) -> None:
        if self.stop_event.is_set() or any(
            overlap(pattern, msg.subject) for pattern in self.ignored_subjects
        ):
            return
        self.message_event.set()
        try:
            self.printer.write(msg)
        except OSError as error:
            # Stdout has no reader, or cannot be written. nats-py would drop the error.
            self._stop_with_error(error)
        if self.printer.printed_count == self.max_msgs:
            self.stop_event.set()

    def _stop_with_error(self, error: BaseException) -> None:
        self.failure = error
        self.stop_event.set()


def _refuse_nats_cli_flag(
    _context: click.Context, parameter: click.Parameter, value: object
) -> None:
    if value:
        flag = parameter.opts[0]
        raise UsageError(f"{flag} is not supported here: {_HINT_BY_NATS_CLI_FLAG[flag][1]}")


def stream_start_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that select a stream and the start in it to a command.

    Flags of the NATS CLI without an equivalent here are hidden; they raise UsageError with a hint.
    """
    for option in reversed(_STREAM_OPTIONS):
        command = option(command)
    for flag, (needs_value, _) in _HINT_BY_NATS_CLI_FLAG.items():
        hidden_option = click.option(
            flag,
            is_flag=not needs_value,
            hidden=True,
            expose_value=False,
            callback=_refuse_nats_cli_flag,
        )
        command = hidden_option(command)
    return command


def selects_stream(flags: dict[str, Any]) -> bool:
    """Return whether a flag selects a stream, or a start in it, so that stored messages are
    read.
    """
    return bool(flags["stream"]) or any(flags[name] for name in _START_FLAGS)


@dataclass
class StreamPrinter:
    """Prints stored messages of a stream, until enough are printed or it is stopped.

    After a lost connection it continues with the message after the last printed one.
    """

    subjects: tuple[str, ...]
    ignored_subjects: tuple[str, ...]
    max_msgs: int | None
    quiet_s: float | None
    """Printing ends after this time without a message."""
    printer: MessagePrinter
    flags: dict[str, Any]
    """Flags as typed: `--stream` and the start."""
    losses: LossCounter = field(
        default_factory=lambda: LossCounter(
            "messages stored in the meantime are printed later",
            "none is missing",
            reads_missed_messages=True,
        )
    )

    async def run_until_stopped(self, connection: Connection) -> None:
        """Connect and print until `max_msgs` messages are printed, none came for `quiet_s`, or a
        signal came.

        Raises UsageError for several starts, or if not exactly one stream stores the subjects,
        ActionRefusal for a stream whose retention removes acked messages, and other NatstuiErrors
        if it cannot start or continue.
        """
        start_flags = [name for name in _START_FLAGS if self.flags[name]]
        if len(start_flags) > 1:
            raise UsageError("use only one start: --since, --all, --last …")
        stream_name = parse_name(self.flags["stream"]) if self.flags["stream"] else None
        since_time = parse_optional_time(self.flags["since"], "--since")
        from_time = None if since_time is None else since_time.astimezone(UTC).isoformat()
        client = await connect(connection, on_link=self.losses.add)
        try:
            with cancel_on_signal("reading"):
                stream = stream_name or await _find_stream(client, self.subjects)
                info = await client.stream_info(stream)
                check_limits_retention(info)
                policy, start_text = _POLICY_AND_TEXT_BY_FLAG.get(
                    start_flags[0] if start_flags else "from_new", ("all", "")
                )
                reader = Reader(
                    client, stream, self.subjects, policy, self.flags["start_sequence"],
                    from_time=from_time, quiet_s=self.quiet_s, created_at_us=info.created_at_us,
                )  # fmt: skip
                await self._read_and_print(
                    reader, start_text or f"from {self._start_position_text()} on"
                )
        except Interrupted:
            return
        finally:
            await client.close()

    def _start_position_text(self) -> str:
        seq = self.flags["start_sequence"]
        return f"sequence {seq}" if seq else str(self.flags["since"])

    async def _read_and_print(self, reader: Reader, start_text: str) -> None:
        async with reader:
            subjects_text = ", ".join(self.subjects) or "all"
            text = (
                f"natstui: listening to {subjects_text} in the stream {reader.stream}, "
                f"{start_text}"
            )
            click.echo(clean_line(text), err=True)
            try:
                await self._print_messages(reader)
            finally:
                if reader.has_caught_up:
                    self.losses.mark_caught_up()
            if not self.losses.is_lost:
                # What a recreated stream has stored would be missing without a word.
                await reader.check_stream()

    async def _print_messages(self, reader: Reader) -> None:
        while self.max_msgs is None or self.printer.printed_count < self.max_msgs:
            message = await anext(reader, None)
            if message is None:
                return
            if not any(overlap(pattern, message.subject) for pattern in self.ignored_subjects):
                self.printer.write_stored(message.as_stored(), {})


async def _find_stream(client: Client, subjects: tuple[str, ...]) -> str:
    """Return the stream that stores all of the subjects.

    Raises NotFound if no stream stores one of them, UsageError if several streams store them.
    """
    stream = ""
    for subject in subjects:
        reply = json.loads(await client.request("STREAM.NAMES", {"subject": subject}))
        streams = list(reply.get("streams") or ())
        if not streams:
            raise NotFound(
                f"no stream stores {subject}: omit --stream and flags that set the start"
            )
        if len(streams) > 1 or (stream and stream != streams[0]):
            names = ", ".join(sorted({*streams, *([stream] if stream else [])}))
            raise UsageError(f"several streams store these subjects: {names}; add --stream NAME")
        stream = streams[0]
    return stream


@command()
@click.argument("subjects", metavar="SUBJECT...", nargs=-1)
@click.option(
    "--queue",
    metavar="GROUP",
    default="",
    help="Join this queue group and receive a share of its messages.",
)
@click.option("--count", metavar="NUMBER", type=COUNT, help="End after this many messages.")
@click.option("--wait", metavar="TIME", help="End when no message came for this time: 500ms, 2s.")
@click.option(
    "--ignore-subject", "-I", "ignored_subjects", metavar="SUBJECT", multiple=True,
    help="Subject not to print, may have wildcards. Repeat for several.",
)  # fmt: skip
@click.option("--raw", "-r", is_flag=True, help="Print only the unchanged payloads, one per line.")
@click.option("--headers-only", is_flag=True, help="No payloads.")
@click.option("--subjects-only", is_flag=True, help="Only subjects.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print one JSON object per line.")
@stream_start_options
@click.option(
    "--confirm", metavar="NAME", help="The queue group, else the first subject, to confirm."
)
@click.option("--yes", "--force", "-f", is_flag=True, help=YES_HELP)
@connection_options
def sub(
    connection: Connection,
    subjects: tuple[str, ...],
    queue: str,
    count: int | None,
    wait: str | None,
    ignored_subjects: tuple[str, ...],
    **flags: Any,
) -> None:
    """Print what is published to SUBJECT.

    Runs until it is stopped. Other subscribers still receive everything, unless --queue joins
    their group. Prompts before it receives the messages of a push consumer without a subscriber.
    With --since, --all or another start, reads the stream that stores SUBJECT from
    there: without acks, and without a gap if the connection is lost.
    """
    reads_stream = selects_stream(flags)
    if not subjects and not flags["stream"]:
        raise UsageError("name a SUBJECT to subscribe to")
    quiet_s, printer = parse_optional_seconds(wait, "--wait"), MessagePrinter(output_format(flags))
    if queue and reads_stream:
        raise UsageError("--queue shares what is published; a stream is read by everybody")
    if not reads_stream:
        _prompt_if_others_lose_messages(connection, subjects, queue, flags)
    message_printer: SubscriptionPrinter | StreamPrinter
    if reads_stream:
        message_printer = StreamPrinter(subjects, ignored_subjects, count, quiet_s, printer, flags)
    else:
        message_printer = SubscriptionPrinter(
            subjects, queue, ignored_subjects, count, quiet_s, printer
        )
    try:
        asyncio.run(message_printer.run_until_stopped(connection))
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        _print_summary(message_printer)


def _prompt_if_others_lose_messages(
    connection: Connection, subjects: tuple[str, ...], queue: str, flags: dict[str, Any]
) -> None:
    """Prompt before the subscription receives messages that are meant for others.

    These are messages of push consumers without a subscriber, and in production those of a queue
    group. Raises ActionRefusal in read-only mode, and if the prompt is not confirmed.
    """
    if queue and connection.read_only:
        raise ActionRefusal(
            f"{READ_ONLY}: {queue} would receive messages that others in the queue group need"
        )
    loss_text = asyncio.run(_read_loss_text(connection, subjects, queue))
    if loss_text is not None and connection.read_only:
        raise ActionRefusal(f"{READ_ONLY}: {loss_text}")
    prompt = loss_text
    if queue and connection.production:
        prompt = f"This is production: others in {queue} get fewer messages"
        prompt = " and ".join(filter(None, (prompt, loss_text)))
    if prompt is not None:
        name = queue or subjects[0]
        confirm_name(connection, name, prompt, yes=flags["yes"], confirm=flags["confirm"])


async def _read_loss_text(
    connection: Connection, subjects: tuple[str, ...], queue: str
) -> str | None:
    """Return a sentence about messages of push consumers that the subscription would receive.

    None if there are no such messages, or if that cannot be read.
    """
    if all(map(has_wildcard, subjects)):
        return None
    client = await connect(connection)
    try:
        return await describe_listening_loss(client, subjects, queue)
    except RequestFailed as error:
        print_stderr(f"unknown whether push consumers lose messages: {error}")
        return None
    finally:
        await client.close()


def _print_summary(message_printer: SubscriptionPrinter | StreamPrinter) -> None:
    messages_text = counted(message_printer.printer.printed_count, "message")
    print_stderr(f"{messages_text}{message_printer.losses.end_text}")
