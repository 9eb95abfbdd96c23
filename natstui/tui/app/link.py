"""The viewer's connection to an engine process: starts it, decodes its records, sends it
commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import shlex
import time
from collections.abc import AsyncIterator, Callable, Sequence
from time import perf_counter

from natstui.clean import clean_line
from natstui.errors import NatstuiError
from natstui.lines import BadLine, decode_record, encode_command
from natstui.model.records.record import Command, EngineStarted, Record
from natstui.output import write_all
from natstui.tui.app.engine_process import EngineFailed, EngineProcess, start_engine
from natstui.tui.frame.requests import (
    ENGINE_ENDED,
    ENGINE_NOT_RUNNING,
    PendingRequest,
    ReplyRecord,
)
from natstui.units import bytes_text
from natstui.values import replace

_READ_BYTES = 1 << 20
_MAX_UNSENT_BYTES = 1 << 20
"""Limit of queued commands for an engine that does not read: thousands of keys."""
_MAX_FIRST_LINE_BYTES = 1 << 20
MAX_LINE_BYTES = 128 << 20
"""Limit of a line of the engine: the largest message has 64 MiB, and a third more as text."""
_YIELD_TO_KEYS_AFTER_S = 0.004
_NOTIFY_NO_OUTPUT_AFTER_S = 3.0
START_TIMEOUT_S = 60.0
"""How long to wait for the first line: ssh to a busy machine takes seconds, a password prompt
forever.
"""
_MAX_SHOWN_COMMAND_CHARS = 80


def _endless_line_error(max_bytes: int) -> str:
    return (
        f"the engine writes more than {bytes_text(max_bytes)} without a line end: it is not an "
        "engine of natstui"
    )


class Link:
    """An engine process, connected by pipes only: a child process on the terminal would read its
    keys.
    """

    def __init__(self, engine: Sequence[str] | EngineProcess, first_line: bytes = b"") -> None:
        """Start the engine if `engine` is a command line, and send it `first_line`; raises
        EngineFailed.
        """
        self.engine = engine if isinstance(engine, EngineProcess) else start_engine(engine)
        self._unsent_commands = bytearray()
        """Commands that the engine has not read yet."""
        self._writer_loop: asyncio.AbstractEventLoop | None = None
        """The event loop that calls `_write_queued_commands` when the engine reads again."""
        self.pending: dict[int, PendingRequest] = {}
        """The requests without a reply yet, by their ids."""
        self._output_reads_count = 0
        """Number of reads that returned output of the engine."""
        self._has_engine_ended = False
        self._stdout_transport: asyncio.ReadTransport | None = None
        """The transport of the engine's stdout; while records are read, only the transport may
        close stdout.
        """
        if first_line:
            with contextlib.suppress(BrokenPipeError):
                write_all(self.engine.stdin.fileno(), first_line)
        # An engine that hangs reads nothing, and must not block the viewer.
        os.set_blocking(self.engine.stdin.fileno(), False)

    @property
    def pid(self) -> int:
        """Return the process id of the engine."""
        return self.engine.process.pid

    def wait_started(
        self,
        notify: Callable[[str], None] = lambda _text: None,
        *,
        timeout_s: float = START_TIMEOUT_S,
    ) -> EngineStarted:
        """Wait for the first record and return it.

        `notify` is called with a sentence after 3 s without output. Raises EngineFailed with the
        reason if the engine ends, or without a record after `timeout_s`.
        """
        first_line = self._read_first_line(notify, time.monotonic() + timeout_s)
        if first_line is None:
            stderr_line = self.engine.last_stderr_line()
            stderr_note = f"; it wrote {stderr_line!r} to stderr" if stderr_line else ""
            raise EngineFailed(
                f"the engine {self._command_text} did not reply within {timeout_s:g} s"
                f"{stderr_note}: run it in a shell to see what it waits for",
                1,
            )
        if len(first_line) > _MAX_FIRST_LINE_BYTES:
            raise EngineFailed(_endless_line_error(_MAX_FIRST_LINE_BYTES), 1)
        record = decode_record(first_line) if first_line.endswith(b"\n") else None
        if isinstance(record, EngineStarted):
            return record
        code = self.engine.wait_for_end()
        if code is None:
            raise EngineFailed(
                "the process is not an engine of natstui: its first line is wrong", 1
            )
        # As in a shell: 128 and the number of the signal.
        exit_code = 128 - code if code < 0 else code or 1
        raise EngineFailed(self.engine.end_reason(), exit_code)

    async def wait_started_in_thread(self, notify: Callable[[str], None]) -> EngineStarted:
        """Wait for the first record as `wait_started` does, but in a thread.

        Closes the link if there is no such record. If the wait is cancelled, the engine is ended,
        so that the thread ends too.
        """
        try:
            return await asyncio.to_thread(self.wait_started, notify)
        except NatstuiError:
            await self.close_in_thread()
            raise
        except asyncio.CancelledError:
            # The files stay open: the thread may still read.
            await asyncio.to_thread(self.engine.end)
            raise

    def _read_first_line(self, notify: Callable[[str], None], deadline_s: float) -> bytes | None:
        """Return the first line, read byte by byte: a buffer would also consume the bytes after
        it.

        None without a complete line at `deadline_s` of the monotonic clock.
        """
        stdout, line = self.engine.stdout.fileno(), bytearray()
        poller = select.poll()
        poller.register(stdout, select.POLLIN)
        if not poller.poll(
            max(0.0, min(_NOTIFY_NO_OUTPUT_AFTER_S, deadline_s - time.monotonic())) * 1000
        ):
            notify(f"the engine {self._command_text} has not replied yet: still waiting")
        while not line.endswith(b"\n") and len(line) <= _MAX_FIRST_LINE_BYTES:
            if not poller.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
                return None
            byte = os.read(stdout, 1)
            if not byte:
                break
            line += byte
        return bytes(line)

    @property
    def _command_text(self) -> str:
        """Return the command line of the engine, in backquotes."""
        args = self.engine.process.args
        command_line = shlex.join(args) if isinstance(args, list | tuple) else str(args)
        command_line = clean_line(command_line)
        return (
            f"`{command_line[:_MAX_SHOWN_COMMAND_CHARS]}…`"
            if len(command_line) > _MAX_SHOWN_COMMAND_CHARS
            else f"`{command_line}`"
        )

    async def records(
        self, on_bad_line: Callable[[BadLine, int], None] = lambda _error, _count: None
    ) -> AsyncIterator[Record]:
        """Yield every record that is no reply to a request, until the engine ends.

        An unreadable line is skipped, and `on_bad_line` is called with the error and the number of
        such lines. Raises EngineFailed for a line longer than `MAX_LINE_BYTES`.
        """
        bad_lines_count = 0
        stdout = self.engine.stdout
        if stdout.closed:
            return
        loop = asyncio.get_running_loop()
        # Nothing piles up here: what is not folded yet waits in the pipe, and then in the engine.
        reader = asyncio.StreamReader(limit=4 * _READ_BYTES)
        self._stdout_transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), stdout
        )
        try:
            incomplete_line_parts: list[bytes] = []
            incomplete_line_bytes = 0
            last_pause_at_s = perf_counter()
            # Not readline(): it searches a large line again from its start with every chunk.
            while chunk := await reader.read(_READ_BYTES):
                self._output_reads_count += 1
                complete_lines, newline, incomplete_line = chunk.rpartition(b"\n")
                if not newline:
                    incomplete_line_parts.append(chunk)
                    incomplete_line_bytes += len(chunk)
                    if incomplete_line_bytes > MAX_LINE_BYTES:
                        raise EngineFailed(_endless_line_error(MAX_LINE_BYTES), 1)
                    continue
                incomplete_line_bytes = len(incomplete_line)
                lines = b"".join((*incomplete_line_parts, complete_lines)).split(b"\n")
                incomplete_line_parts = [incomplete_line] if incomplete_line else []
                for line in lines:
                    try:
                        record = decode_record(line)
                    except BadLine as error:
                        bad_lines_count += 1
                        on_bad_line(error, bad_lines_count)
                    else:
                        if isinstance(record, ReplyRecord) and record.command_id in self.pending:
                            self.pending[record.command_id].add(record)
                        else:
                            yield record
                    # Many lines, or a large one, take tens of milliseconds: let keys through.
                    if perf_counter() - last_pause_at_s > _YIELD_TO_KEYS_AFTER_S:
                        await asyncio.sleep(0)
                        last_pause_at_s = perf_counter()
        finally:
            self._close_stdout()
            self._fail_pending()

    def _fail_pending(self) -> None:
        """Fail all requests without a reply, after the engine has ended."""
        self._has_engine_ended = True
        for request in list(self.pending.values()):
            request.fail(ENGINE_ENDED)
        self.pending.clear()

    def _remove_request(self, command_id: int) -> None:
        self.pending.pop(command_id, None)

    @property
    def pending_commands(self) -> list[Command]:
        """Return the commands without a reply yet."""
        commands = (request.command for request in self.pending.values())
        return [command for command in commands if command is not None]

    def request(self, command: Command) -> PendingRequest:
        """Send a command with a new id, and return the pending request."""
        request = PendingRequest(self._remove_request, lambda: self._output_reads_count)
        if self._has_engine_ended:
            request.fail(ENGINE_NOT_RUNNING)
            return request
        self.pending[request.command_id] = request
        request.command = replace(command, command_id=request.command_id)
        try:
            self.send(request.command)
        except EngineFailed as error:
            request.fail(str(error))
        return request

    def send(self, command: Command) -> None:
        """Send a command, or queue it while the engine does not read.

        After the engine has ended the command is dropped. Raises EngineFailed if the queue is
        full.
        """
        line = encode_command(command)
        if len(self._unsent_commands) + len(line) > _MAX_UNSENT_BYTES:
            raise EngineFailed("the engine accepts no commands: it hangs", 1)
        is_writer_waiting = bool(self._unsent_commands)
        self._unsent_commands += line
        if not is_writer_waiting:
            self._write_queued_commands()

    def _write_queued_commands(self) -> None:
        """Write as many queued commands as the pipe accepts, and the rest when it accepts more."""
        stdin = self.engine.stdin
        try:
            while self._unsent_commands and not stdin.closed:
                del self._unsent_commands[: os.write(stdin.fileno(), self._unsent_commands)]
        except BlockingIOError:
            if self._writer_loop is None:
                self._writer_loop = asyncio.get_running_loop()
                self._writer_loop.add_writer(stdin.fileno(), self._write_queued_commands)
            return
        except BrokenPipeError:
            pass
        self._stop_writing()

    def _stop_writing(self) -> None:
        """Discard the queued commands, and stop waiting for the pipe."""
        self._unsent_commands.clear()
        if self._writer_loop is not None and not self.engine.stdin.closed:
            self._writer_loop.remove_writer(self.engine.stdin.fileno())
        self._writer_loop = None

    async def close_in_thread(self) -> int:
        """Close the link as `close` does, but wait in a thread: an engine may need seconds."""
        self._stop_writing()
        self._fail_pending()
        code = await asyncio.to_thread(self.engine.end)
        self._close_files()
        return code

    def close(self) -> int:
        """Close the engine's stdin, and kill the engine if it does not end within 3 s.

        Returns its exit code.
        """
        self._stop_writing()
        self._fail_pending()
        code = self.engine.end()
        self._close_files()
        return code

    def _close_stdout(self) -> None:
        """Close the engine's stdout, through its transport if the event loop uses one."""
        if self._stdout_transport is not None:
            self._stdout_transport.close()
            self._stdout_transport = None
        else:
            self.engine.stdout.close()

    def _close_files(self) -> None:
        self._close_stdout()
        self.engine.close_stderr()
