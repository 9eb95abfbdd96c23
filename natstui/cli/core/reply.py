"""`natstui reply`: replies to requests, with a text, an echo or the output of a command."""

from __future__ import annotations

import asyncio
import os
import shlex
from contextlib import suppress
from typing import Any

import click

from natstui.children import end_process_session, start_process_session
from natstui.cli.core.options import parse_optional_seconds
from natstui.cli.core.payload import fill_templates, parse_headers
from natstui.cli.losses import LossCounter
from natstui.cli.manage.writing import write_confirmed
from natstui.cli.options import COUNT, change_flags, connection_options
from natstui.cli.sections import command
from natstui.cli.terminal_line import print_stderr
from natstui.config import Connection
from natstui.engine.stopping import make_stop_event
from natstui.errors import NatstuiError, RequestFailed, UsageError
from natstui.files import MAX_PAYLOAD_BYTES
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.reply import MakeReply, ReceivedRequest, Reply, Responder
from natstui.model.assets.limits_loss import CONTROL_HEADER_PREFIXES
from natstui.units import counted

_ENDLESS_COUNT = 2**62
_BODY_VARIABLE = b"NATS_REQUEST_BODY"
_MAX_BODY_VARIABLE_BYTES = 100_000
_READ_CHUNK_BYTES = 1 << 16


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
    count: int | None, **flags: Any,
) -> None:  # fmt: skip
    """Reply to requests on SUBJECT with BODY.

    Runs until it is stopped. In BODY, {{Count}}, {{Time}}, {{ID}} and the other templates of
    `natstui pub` are replaced. A command runs without a shell, with the request on stdin.
    NATS_REQUEST_SUBJECT contains its subject, and NATS_REQUEST_BODY its payload; that is unset if
    the payload has a NUL byte or more than 100,000 bytes. Exit code 4: some requests got no
    reply.
    """
    if sum((body is not None, flags["echo"], command is not None)) != 1:
        raise UsageError("use exactly one of BODY, --echo and --command")
    create_reply = _create_reply_function(body, command, flags)
    responders: list[Responder] = []
    loss_counter = LossCounter(
        "requests sent in the meantime are missed", "some requests are missed"
    )

    async def serve(writer: Writer, confirmed_name: str | None) -> None:
        responder = Responder(
            subject, queue, count, create_reply, print_stderr,
            lambda: print_stderr(
                f"replying on {subject}{f' in the group {queue}' if queue else ''}"
            ),
            confirmed_name,
        )  # fmt: skip
        responder.stop_event = make_stop_event()
        responders[:] = [responder]
        await responder.serve(writer)

    try:
        write_confirmed(connection, flags, serve, on_link=loss_counter.add)
    except NatstuiError:
        if responders:
            print_stderr(_summary_text(responders[0], loss_counter))
        raise
    text = _summary_text(responders[0], loss_counter)
    if responders[0].requests_without_reply_count:
        # A script continues after 0.
        raise RequestFailed(text)
    print_stderr(text)


def _summary_text(responder: Responder, loss_counter: LossCounter) -> str:
    text = counted(responder.replies_count, "reply")
    if count := responder.requests_without_reply_count:
        text += f"; {counted(count, 'request')} got no reply"
    return f"{text}{loss_counter.end_text}"


def _create_reply_function(
    body: str | None, command: str | None, flags: dict[str, Any]
) -> MakeReply:
    """Return the function that creates replies; raises UsageError for an invalid flag or
    template.
    """
    headers = parse_headers(flags["headers"])
    for name, _ in headers:
        if name.lower().startswith(CONTROL_HEADER_PREFIXES):
            raise UsageError(
                f"a reply cannot have the header {name}: with it a server removes "
                "messages, or publishes others"
            )
    sleep_s = parse_optional_seconds(flags["sleep"], "--sleep") or 0.0
    timeout_s = parse_optional_seconds(flags["timeout"], "--timeout") or 0.0
    bodies = fill_templates((body or "").encode(errors="surrogateescape"), _ENDLESS_COUNT)
    program = None if command is None else _split_command(command)

    async def create_reply(request: ReceivedRequest) -> Reply:
        await asyncio.sleep(sleep_s)
        if program is not None:
            return Reply(await _run_program(program, request, timeout_s), headers)
        if flags["echo"]:
            echoed_headers = [
                header
                for header in request.headers
                if not header[0].lower().startswith(CONTROL_HEADER_PREFIXES)
            ]
            return Reply(request.payload, (*echoed_headers, *headers))
        return Reply(next(bodies), headers)

    return create_reply


def _split_command(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--command {command!r}: {str(error).lower()}") from error


async def _run_program(program: list[str], request: ReceivedRequest, timeout_s: float) -> bytes:
    """Return the output of a command that gets the payload of a request on stdin.

    Raises NatstuiError if it cannot be run, fails, lasts longer than `timeout_s`, or prints more
    than a payload may have.
    """
    if "\0" in request.subject:
        # A server accepts it, but an environment variable cannot have it.
        raise NatstuiError("its subject has a NUL byte")
    environment = {**os.environb, b"NATS_REQUEST_SUBJECT": request.subject.encode()}
    # That of a request that started natstui itself is not this one.
    environment.pop(_BODY_VARIABLE, None)
    if len(request.payload) <= _MAX_BODY_VARIABLE_BYTES and b"\0" not in request.payload:
        environment[_BODY_VARIABLE] = request.payload
    try:
        transport, process = await start_process_session(
            program, stdout=asyncio.subprocess.PIPE, stderr=None, env=environment
        )
    except OSError as error:
        raise NatstuiError(f"{program[0]} cannot be run: {error.strerror}") from error
    output = None
    try:
        async with asyncio.timeout(timeout_s):
            output = await _communicate(process, request.payload)
            if output is not None:
                await process.wait()
    except TimeoutError as error:
        verb_before_duration = "took"
        if process.returncode is not None:
            verb_before_duration = "ended, but what it has started kept its output open for"
        raise NatstuiError(
            f"{program[0]} {verb_before_duration} longer than {timeout_s:g} s"
        ) from error
    finally:
        # What it has started may hold the pipe although it has ended itself.
        if output is None or process.returncode is None:
            await end_process_session(transport, process)
    if output is None:
        limit_text = f"{MAX_PAYLOAD_BYTES:,} bytes, the most that a server accepts"
        raise NatstuiError(f"{program[0]} printed more than {limit_text}")
    if process.returncode:
        raise NatstuiError(f"{program[0]} ended with {process.returncode}")
    return output


async def _communicate(process: asyncio.subprocess.Process, body: bytes) -> bytes | None:
    """Write `body` to the stdin of a process; return its output, None if that is too long to
    send.
    """
    assert process.stdin is not None
    assert process.stdout is not None

    async def write_body(stdin: asyncio.StreamWriter) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # it need not read it
            stdin.write(body)
            await stdin.drain()
        stdin.close()

    write_task = asyncio.ensure_future(write_body(process.stdin))
    try:
        output = bytearray()
        while chunk := await process.stdout.read(_READ_CHUNK_BYTES):
            output += chunk
            if len(output) > MAX_PAYLOAD_BYTES:
                return None
        await write_task
    finally:
        write_task.cancel()
    return bytes(output)
