"""`natstui reply`: answer requests, with a text, an echo or what a command prints."""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import suppress
from typing import Any

import click

from natstui.children import end_session
from natstui.clean import clean_line
from natstui.cli.core.options import seconds_of
from natstui.cli.core.payload import filled, given_headers
from natstui.cli.manage.writing import (
    change_flags,
    write_confirmed,
)
from natstui.cli.options import COUNT, connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.engine.stopping import stopped_by_signal
from natstui.errors import NatstuiError, UsageError
from natstui.files import MOST_PAYLOAD_BYTES
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.reply import Answering, ReceivedRequest, Reply, Responder
from natstui.units import counted

_ENDLESS = 2**62
_MOST_IN_ENVIRONMENT_BYTES = 100_000
_READ_BYTES = 1 << 16


@command()
@click.argument("subject")
@click.argument("body", required=False)
@click.option("--echo", is_flag=True, help="Reply with the payload of the request.")
@click.option(
    "--command",
    metavar="COMMAND",
    help="Reply with the output of this command, which gets the request on stdin.",
)
@click.option(
    "--queue",
    metavar="GROUP",
    default="",
    help="Join this queue group and receive a share of its messages.",
)
@click.option("--count", metavar="NUMBER", type=COUNT, help="End after this many requests.")
@click.option("--sleep", metavar="TIME", help="Wait this long before each reply: 100ms, 2s.")
@click.option(
    "--timeout", metavar="TIME", default="30s", help="How long a command may take: 500ms, 2s."
)
@click.option("--header", "-H", "headers", metavar="NAME:VALUE", multiple=True, help="A header.")
@change_flags
@connection_options
def reply(
    connection: Connection, subject: str, body: str | None, command: str | None, queue: str,
    count: int | None, **words: Any,
) -> None:  # fmt: skip
    """Reply to requests on SUBJECT with BODY.

    Runs until it is stopped. In BODY, {{Count}}, {{Time}}, {{ID}} and the other templates of
    `natstui pub` are replaced. A command runs without a shell; NATS_REQUEST_SUBJECT and
    NATS_REQUEST_BODY contain the request.
    """
    if sum((body is not None, words["echo"], command is not None)) != 1:
        raise UsageError("use exactly one of BODY, --echo and --command")
    answering = _answering(body, command, words)
    served: list[Responder] = []

    async def serve(writer: Writer, confirmed: str | None) -> None:
        responder = Responder(
            subject, queue, count, answering, _tell,
            lambda: _tell(f"replying on {subject}{f' in the group {queue}' if queue else ''}"),
            confirmed,
        )  # fmt: skip
        responder.stopped = stopped_by_signal()
        served[:] = [responder]
        await responder.serve(writer)

    try:
        write_confirmed(connection, words, serve)
    finally:
        if served:
            _tell(counted(served[0].replies_count, "reply"))


def _tell(text: str) -> None:
    click.echo(clean_line(f"natstui: {text}"), err=True)


def _answering(body: str | None, command: str | None, words: dict[str, Any]) -> Answering:
    """Return what makes an answer; raises UsageError for what cannot."""
    headers = given_headers(words["headers"])
    sleep_s = seconds_of(words["sleep"], "--sleep") or 0.0
    timeout_s = seconds_of(words["timeout"], "--timeout") or 0.0
    bodies = filled((body or "").encode(errors="surrogateescape"), _ENDLESS)
    program = None if command is None else _words(command)

    async def answer(asked: ReceivedRequest) -> Reply:
        await asyncio.sleep(sleep_s)
        if program is not None:
            return Reply(await _printed(program, asked, timeout_s), headers)
        if words["echo"]:
            return Reply(asked.payload, (*asked.headers, *headers))
        return Reply(next(bodies), headers)

    return answer


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--command {command!r}: {str(error).lower()}") from error
    if not words:
        raise UsageError("--command needs a command")
    return words


async def _printed(program: list[str], asked: ReceivedRequest, timeout_s: float) -> bytes:
    """Return what a command prints; raises NatstuiError when it fails or takes too long."""
    body = asked.payload if len(asked.payload) <= _MOST_IN_ENVIRONMENT_BYTES else b""
    told = {b"NATS_REQUEST_SUBJECT": asked.subject.encode(), b"NATS_REQUEST_BODY": body}
    told = {name: text for name, text in told.items() if b"\0" not in text}
    try:
        process = await asyncio.create_subprocess_exec(
            *program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env={**os.environb, **told}, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise NatstuiError(f"{program[0]} cannot be run: {error.strerror}") from error
    try:
        async with asyncio.timeout(timeout_s):
            printed = await _communicated(process, asked.payload)
            if printed is not None:
                await process.wait()
    except TimeoutError as error:
        raise NatstuiError(f"{program[0]} took longer than {timeout_s:g} s") from error
    finally:
        if process.returncode is None:
            await end_session(process)
    if printed is None:
        most = f"{MOST_PAYLOAD_BYTES:,} bytes, the most that a server accepts"
        raise NatstuiError(f"{program[0]} printed more than {most}")
    if process.returncode:
        raise NatstuiError(f"{program[0]} ended with {process.returncode}")
    return printed


async def _communicated(process: asyncio.subprocess.Process, body: bytes) -> bytes | None:
    """Give a command its input; return what it prints, None for more than can be sent."""
    assert process.stdin is not None
    assert process.stdout is not None

    async def give(stdin: asyncio.StreamWriter) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it need not read it
            stdin.write(body)
            await stdin.drain()
        stdin.close()

    giving = asyncio.ensure_future(give(process.stdin))
    try:
        printed = bytearray()
        while chunk := await process.stdout.read(_READ_BYTES):
            printed += chunk
            if len(printed) > MOST_PAYLOAD_BYTES:
                return None
        await giving
    finally:
        giving.cancel()
    return bytes(printed)
