"""`natstui sub`: print what is published, as it comes."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import click
from nats.aio.msg import Msg

from natstui.clean import clean_line
from natstui.cli.core.arrived import Printer, form_of
from natstui.cli.core.options import seconds_of
from natstui.cli.core.stored import StoredListening, is_stored, stored_options
from natstui.cli.manage.writing import confirmation
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.engine.stopping import stopped_by_signal
from natstui.errors import Refused, RequestTimedOut, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.writer import READ_ONLY
from natstui.model.assets.subjects import overlap
from natstui.model.records.link import LinkChanged
from natstui.units import counted


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
    lost_count: int = 0
    """How often the connection was lost."""
    is_connected: bool = False
    failed: BaseException | None = None
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    async def until_stopped(self, connection: Connection) -> None:
        """Listen; raises what ended it, and NatstuiError when it cannot begin."""
        self.stopped = stopped_by_signal()
        client = await connect(connection, on_link=self._link)
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

    def _link(self, change: LinkChanged) -> None:
        was_connected, self.is_connected = self.is_connected, change.state == "connected"
        if was_connected and change.state == "reconnecting":
            self.lost_count += 1
            why = f": {change.reason}" if change.reason else ""
            text = f"natstui: the connection is lost, what comes meanwhile is missed{why}"
            click.echo(clean_line(text), err=True)


@command()
@click.argument("subjects", metavar="SUBJECT...", nargs=-1)
@click.option("--queue", metavar="GROUP", default="", help="Take a share of a queue group.")
@click.option("--count", metavar="NUMBER", type=click.IntRange(min=1), help="End after so many.")
@click.option("--wait", metavar="TIME", help="End when nothing came for so long: 500ms, 2s.")
@click.option(
    "--ignore-subject", "-I", "ignored", metavar="SUBJECT", multiple=True,
    help="Do not print these; wildcards are understood. Give it again for more.",
)  # fmt: skip
@click.option("--raw", "-r", is_flag=True, help="Only payloads, as they are, each on a line.")
@click.option("--headers-only", is_flag=True, help="No payloads.")
@click.option("--subjects-only", is_flag=True, help="Only subjects.")
@click.option("--json", "-j", "as_json", is_flag=True, help="One JSON object a line.")
@stored_options
@click.option("--confirm", metavar="GROUP", help="In production: the queue group, typed out.")
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

    Runs until it is stopped. Nobody gets less because of it, unless --queue takes a share from
    the others in a group. With --since, --all or another place where to begin, the stream that
    stores SUBJECT is read from there: without an acknowledgement, and without a gap when the
    connection was lost.
    """
    from_stream = is_stored(words)
    if not subjects and not words["stream"]:
        raise UsageError("name a SUBJECT to listen to")
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
        raise Refused(f"{READ_ONLY}: {queue} would give messages to us that others wait for")
    if connection.production:
        question = f"This is production: others in {queue} get fewer messages"
        confirmation(connection, queue, question, yes=False, confirm=confirm)


def _tell_end(listening: Listening | StoredListening) -> None:
    text = f"natstui: {counted(listening.printer.printed_count, 'message')}"
    if listening.lost_count:
        are = "none is" if isinstance(listening, StoredListening) else "some are"
        text += f"; the connection was lost {counted(listening.lost_count, 'time')}: {are} missing"
    click.echo(text, err=True)
