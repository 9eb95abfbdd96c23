"""`natstui sub`: print what is published, as it comes."""

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
from natstui.cli.complete import streams
from natstui.cli.core.arrived import Printer, form_of
from natstui.cli.core.options import moment_of, seconds_of
from natstui.cli.manage.names import given_name
from natstui.cli.manage.writing import confirmation
from natstui.cli.options import COUNT, SEQUENCE, connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.engine.stopping import cancelled_by_signal, stopped_by_signal
from natstui.errors import Interrupted, NotFound, Refused, RequestTimedOut, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.writer import READ_ONLY
from natstui.jetstream.messages.reading import Policy, Reader
from natstui.model.assets.subjects import overlap
from natstui.model.records.link import LinkChanged
from natstui.units import counted

if TYPE_CHECKING:
    from nats.aio.msg import Msg

_POLICIES: dict[str, tuple[Policy, str]] = {
    "from_all": ("all", "from the first message"),
    "from_last": ("last", "from the last message"),
    "from_new": ("new", "from now on"),
    "last_per_subject": ("last_per_subject", "from the last message of each subject"),
}
"""Flag → where the server begins, and in words."""
_BEGINNINGS = (*_POLICIES, "since", "start_sequence")
_OPTIONS = (
    click.option("--stream", metavar="NAME", shell_complete=streams,
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
_OF_CONSUMERS = "natstui consumer sub STREAM NAME --ack reads a consumer and acknowledges"
_ELSEWHERE = {
    "--durable": (True, _OF_CONSUMERS),
    "--ack": (False, _OF_CONSUMERS),
    "--direct": (False, "natstui stream view STREAM reads without a consumer"),
    "--dump": (True, "--json > FILE keeps every message with its payload"),
    "--translate": (True, "--raw | COMMAND hands the payloads on"),
    "--match-replies": (False, "natstui request prints replies"),
    "--report-subjects": (False, ":sub SUBJECT in the app counts by subject"),
    "--graph": (False, ":sub SUBJECT in the app shows the rates"),
}
"""Flags of the NATS CLI that are said in another way here: whether they take a value, and how."""


class LossCounter:
    """Counts how often the connection is lost, and prints each time what that means."""

    def __init__(self, meaning: str) -> None:
        self.count = 0
        self._meaning = meaning
        self._is_connected = False

    def add(self, change: LinkChanged) -> None:
        """Take a change of the link."""
        was_connected, self._is_connected = self._is_connected, change.state == "connected"
        if was_connected and change.state == "reconnecting":
            self.count += 1
            why = f": {change.reason}" if change.reason else ""
            text = f"natstui: the connection is lost; {self._meaning}{why}"
            click.echo(clean_line(text), err=True)


@dataclass
class Listening:
    """What is listened to, until enough came or it is stopped."""

    subjects: tuple[str, ...]
    queue: str
    ignored: tuple[str, ...]
    most_count: int | None
    quiet_s: float | None
    """It ends when nothing came for so long."""
    printer: Printer
    losses: LossCounter = field(
        default_factory=lambda: LossCounter("messages published in the meantime are missed")
    )
    failed: BaseException | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_stopped(self, connection: Connection) -> None:
        """Listen; raises what ended it, and NatstuiError when it cannot begin."""
        self.stopped = stopped_by_signal()
        client = await connect(connection, on_link=self.losses.add)
        try:
            await self._subscribe(client)
            await self._wait()
        finally:
            await client.close()
        if self.failed is not None:
            raise self.failed

    async def _subscribe(self, client: Client) -> None:
        for subject in self.subjects:
            await client.subscribe(subject, self._take, self._end, queue=self.queue)
        group = f" in the queue group {self.queue}" if self.queue else ""
        # After this line nothing is missed: the server knows of the subscriptions.
        limit_s = client.connection.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await (await client.nc.ping())
        except TimeoutError as error:
            raise RequestTimedOut(self.subjects[0], limit_s) from error
        text = f"natstui: listening to {', '.join(self.subjects)}{group}"
        click.echo(clean_line(text), err=True)

    async def _wait(self) -> None:
        while not self.stopped.is_set():
            self.came.clear()
            waits = [asyncio.ensure_future(one.wait()) for one in (self.stopped, self.came)]
            done, left = await asyncio.wait(
                waits, timeout=self.quiet_s, return_when=asyncio.FIRST_COMPLETED
            )
            for one in left:
                one.cancel()
            if not done:
                return

    async def _take(self, msg: Msg) -> None:
        if self.stopped.is_set() or any(overlap(one, msg.subject) for one in self.ignored):
            return
        self.came.set()
        try:
            self.printer.write(msg)
        except BrokenPipeError as error:
            self._end(error)
        if self.printer.printed_count == self.most_count:
            self.stopped.set()

    def _end(self, error: BaseException) -> None:
        self.failed = error
        self.stopped.set()


def _refuse(_context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value:
        flag = parameter.opts[0]
        raise UsageError(f"{flag} is not supported here: {_ELSEWHERE[flag][1]}")


def stored_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the flags that say from where of a stream it reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    for flag, (takes_value, _) in _ELSEWHERE.items():
        hidden = click.option(
            flag, is_flag=not takes_value, hidden=True, expose_value=False, callback=_refuse
        )
        command = hidden(command)
    return command


def is_stored(words: dict[str, Any]) -> bool:
    """Tell whether a stream is to be read, and not only what is published."""
    return bool(words["stream"]) or any(words[name] for name in _BEGINNINGS)


@dataclass
class StoredListening:
    """What is read of a stream, until enough came or it is stopped.

    After a lost connection it goes on with the message after the last one.
    """

    subjects: tuple[str, ...]
    ignored: tuple[str, ...]
    most_count: int | None
    quiet_s: float | None
    """It ends when nothing came for so long."""
    printer: Printer
    words: dict[str, Any]
    """Flags as they were typed: `--stream` and where to begin."""
    losses: LossCounter = field(
        default_factory=lambda: LossCounter("messages stored in the meantime are printed later")
    )

    async def until_stopped(self, connection: Connection) -> None:
        """Read and print; raises NatstuiError when it cannot begin or go on."""
        given = [name for name in _BEGINNINGS if self.words[name]]
        if len(given) > 1:
            raise UsageError("use only one start: --since, --all, --last …")
        named = given_name(self.words["stream"]) if self.words["stream"] else None
        since = moment_of(self.words["since"], "--since")
        from_time = None if since is None else since.astimezone(UTC).isoformat()
        client = await connect(connection, on_link=self.losses.add)
        try:
            with cancelled_by_signal("reading"):
                stream = named or await _stream_of(client, self.subjects)
                await _check_harmless(client, stream)
                policy, where = _POLICIES.get(given[0] if given else "from_new", ("all", ""))
                reader = Reader(
                    client, stream, self.subjects, policy, self.words["start_sequence"],
                    from_time=from_time,
                )  # fmt: skip
                await self._read(reader, where or f"from {self._place()} on")
        except Interrupted:
            return
        finally:
            await client.close()

    def _place(self) -> str:
        seq = self.words["start_sequence"]
        return f"sequence {seq}" if seq else str(self.words["since"])

    async def _read(self, reader: Reader, where: str) -> None:
        async with reader:
            what = ", ".join(self.subjects) or "all"
            text = f"natstui: listening to {what} in the stream {reader.stream}, {where}"
            click.echo(clean_line(text), err=True)
            while self.most_count is None or self.printer.printed_count < self.most_count:
                try:
                    async with asyncio.timeout(self.quiet_s):
                        one = await anext(reader)
                except TimeoutError:
                    return
                if not any(overlap(ignored, one.subject) for ignored in self.ignored):
                    self.printer.show(one.as_stored(), {})


async def _stream_of(client: Client, subjects: tuple[str, ...]) -> str:
    """Return the only stream that stores all of the subjects; raises NotFound, UsageError."""
    stream = ""
    for subject in subjects:
        reply = json.loads(await client.request("STREAM.NAMES", {"subject": subject}))
        found = list(reply.get("streams") or ())
        if not found:
            raise NotFound(
                f"no stream stores {subject}: omit --stream and flags that set the start"
            )
        if len(found) > 1 or (stream and stream != found[0]):
            names = ", ".join(sorted({*found, *([stream] if stream else [])}))
            raise UsageError(f"several streams store these subjects: {names}; add --stream NAME")
        stream = found[0]
    return stream


async def _check_harmless(client: Client, stream: str) -> None:
    """Refuse a stream that removes what consumers had: another consumer could remove more."""
    config = json.loads(await client.request(f"STREAM.INFO.{stream}"))["config"]
    if (kept := config.get("retention", "limits")) != "limits":
        raise Refused(
            f"{stream} has {kept} retention, so reading here could remove messages: natstui "
            f"stream view {stream} reads without a consumer"
        )


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
    "--ignore-subject", "-I", "ignored", metavar="SUBJECT", multiple=True,
    help="Subject not to print, may have wildcards. Repeat for several.",
)  # fmt: skip
@click.option("--raw", "-r", is_flag=True, help="Print only the unchanged payloads, one per line.")
@click.option("--headers-only", is_flag=True, help="No payloads.")
@click.option("--subjects-only", is_flag=True, help="Only subjects.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print one JSON object per line.")
@stored_options
@click.option(
    "--confirm", metavar="GROUP", help="In production: the name of the queue group, to confirm."
)
@connection_options
def sub(
    connection: Connection,
    subjects: tuple[str, ...],
    queue: str,
    count: int | None,
    wait: str | None,
    ignored: tuple[str, ...],
    confirm: str | None,
    **words: Any,
) -> None:
    """Print what is published to SUBJECT.

    Runs until it is stopped. Other subscribers still receive everything, unless --queue joins
    their group. With --since, --all or another start, reads the stream that stores SUBJECT from
    there: without acks, and without a gap if the connection is lost.
    """
    from_stream = is_stored(words)
    if not subjects and not words["stream"]:
        raise UsageError("name a SUBJECT to subscribe to")
    quiet_s, printer = seconds_of(wait, "--wait"), Printer(form_of(words))
    if queue:
        if from_stream:
            raise UsageError("--queue shares what is published; a stream is read by everybody")
        _allow_share(connection, queue, confirm)
    listening: Listening | StoredListening
    if from_stream:
        listening = StoredListening(subjects, ignored, count, quiet_s, printer, words)
    else:
        listening = Listening(subjects, queue, ignored, count, quiet_s, printer)
    try:
        asyncio.run(listening.until_stopped(connection))
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        _tell_end(listening)


def _allow_share(connection: Connection, queue: str, confirm: str | None) -> None:
    """Refuse to take messages from others where nothing may be changed; raises Refused."""
    if connection.read_only:
        raise Refused(
            f"{READ_ONLY}: {queue} would receive messages that others in the queue group need"
        )
    if connection.production:
        question = f"This is production: others in {queue} get fewer messages"
        confirmation(connection, queue, question, yes=False, confirm=confirm)


def _tell_end(listening: Listening | StoredListening) -> None:
    text = f"natstui: {counted(listening.printer.printed_count, 'message')}"
    if listening.losses.count:
        are = "none is" if isinstance(listening, StoredListening) else "some are"
        text += (
            f"; the connection was lost {counted(listening.losses.count, 'time')}: {are} missing"
        )
    click.echo(text, err=True)
