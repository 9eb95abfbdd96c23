"""What `natstui sub` prints of a stream: what is stored first, then what comes; none is missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import streams
from natstui.cli.core.arrived import Printer
from natstui.cli.core.options import moment_of
from natstui.cli.manage.names import given_name
from natstui.config import Connection
from natstui.engine.stopping import cancelled_by_signal
from natstui.errors import Interrupted, NotFound, Refused, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.messages.reading import Policy, Reader
from natstui.model.assets.subjects import overlap
from natstui.model.records.link import LinkChanged

_POLICIES: dict[str, tuple[Policy, str]] = {
    "from_all": ("all", "from its first message on"),
    "from_last": ("last", "from its last message on"),
    "from_new": ("new", "from now on"),
    "last_per_subject": ("last_per_subject", "from the last message of each subject on"),
}
"""Flag → where the server begins, and in words."""
_BEGINNINGS = (*_POLICIES, "since", "start_sequence")
_OPTIONS = (
    click.option("--stream", metavar="NAME", shell_complete=streams,
                 help="Read from this stream: from now on, unless a flag says from where."),
    click.option("--since", metavar="TIME",
                 help="Begin with what was stored since then: 10m, 2m ago, a time."),
    click.option("--start-sequence", metavar="SEQ", type=click.IntRange(min=1),
                 help="Begin with this sequence of the stream."),
    click.option("--all", "from_all", is_flag=True, help="Begin with all that is stored."),
    click.option("--last", "from_last", is_flag=True, help="Begin with the last stored message."),
    click.option("--last-per-subject", is_flag=True,
                 help="Begin with the last stored message of each subject."),
    click.option("--new", "from_new", is_flag=True, help="Read what a stream stores from now on."),
)  # fmt: skip
_OF_CONSUMERS = "natstui consumer sub STREAM NAME --ack reads a consumer and acknowledges"
_ELSEWHERE = {
    "--durable": (True, _OF_CONSUMERS),
    "--ack": (False, _OF_CONSUMERS),
    "--direct": (False, "natstui stream view STREAM reads without a consumer"),
    "--dump": (True, "--json > FILE keeps every message with its payload"),
    "--translate": (True, "--raw | COMMAND hands the payloads on"),
    "--match-replies": (False, "natstui request prints what is answered"),
    "--report-subjects": (False, ":sub SUBJECT on the screen counts by subject"),
    "--graph": (False, ":sub SUBJECT on the screen shows the rates"),
}
"""Flags of the NATS CLI that are said in another way here: whether they take a value, and how."""


def _refuse(_context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value:
        flag = parameter.opts[0]
        raise UsageError(f"{flag} is not understood here: {_ELSEWHERE[flag][1]}")


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
    lost_count: int = 0
    is_connected: bool = False

    async def until_stopped(self, connection: Connection) -> None:
        """Read and print; raises NatstuiError when it cannot begin or go on."""
        given = [name for name in _BEGINNINGS if self.words[name]]
        if len(given) > 1:
            raise UsageError("say one place where to begin: --since, --all, --last …")
        named = given_name(self.words["stream"]) if self.words["stream"] else None
        since = moment_of(self.words["since"], "--since")
        from_time = None if since is None else since.astimezone(UTC).isoformat()
        client = await connect(connection, on_link=self._link)
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

    def _link(self, change: LinkChanged) -> None:
        was_connected, self.is_connected = self.is_connected, change.state == "connected"
        if was_connected and change.state == "reconnecting":
            self.lost_count += 1
            why = f": {change.reason}" if change.reason else ""
            text = f"natstui: the connection is lost; what is stored meanwhile comes later{why}"
            click.echo(clean_line(text), err=True)


async def _stream_of(client: Client, subjects: tuple[str, ...]) -> str:
    """Return the only stream that stores all of the subjects; raises NotFound, UsageError."""
    stream = ""
    for subject in subjects:
        reply = json.loads(await client.request("STREAM.NAMES", {"subject": subject}))
        found = list(reply.get("streams") or ())
        if not found:
            raise NotFound(f"no stream stores {subject}: leave away where to begin, or --stream")
        if len(found) > 1 or (stream and stream != found[0]):
            names = ", ".join(sorted({*found, *([stream] if stream else [])}))
            raise UsageError(f"several streams store that: {names}; say --stream NAME")
        stream = found[0]
    return stream


async def _check_harmless(client: Client, stream: str) -> None:
    """Refuse a stream that removes what consumers had: another consumer could remove more."""
    config = json.loads(await client.request(f"STREAM.INFO.{stream}"))["config"]
    if (kept := config.get("retention", "limits")) != "limits":
        raise Refused(
            f"{stream} keeps messages by {kept}, so that reading them here could remove them: "
            f"natstui stream view {stream} looks without a consumer"
        )
