"""`nats bench` as a child process: its words, its environment, and the rate that it prints."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from natstui.bench.result.server_process import ServerProcess
from natstui.bench.versus.rows import Row, subject_of
from natstui.children import kill
from natstui.config.connection import Connection, Secret
from natstui.errors import NatstuiError

_RATE = re.compile(r"([\d,]+) msgs/sec")
_TOGETHER = re.compile(r"aggregated stats: ([\d,]+) msgs/sec")
_ERROR = re.compile(r"(nats: )?error: ")
_INBOX = "_INBOX"
_RUN_S = 300.0
_BESIDE_S = 1.5
"""Until a subscriber or a service of the other program is surely there; nothing says so."""
_END_S = 5.0


class RivalFailed(NatstuiError):
    """The other program did not say how fast it was."""


@dataclass(frozen=True, slots=True)
class Rival:
    """The NATS CLI on this machine, connected as we are."""

    program: str
    connection: Connection
    server_url: str | None

    async def run(self, row: Row, total: int, stream: str) -> tuple[float, float | None]:
        """Run a row; return messages per second and the server's share of a core."""
        with tempfile.TemporaryDirectory(prefix="natstui-versus-") as home:
            environment = {**_environment(self.connection), "XDG_CONFIG_HOME": home}
            if row.before_words:
                words = row.before_words
                await self._ended(await self._start(words, row, total, stream, environment))
            async with self._beside(row, total, stream, environment) as beside:
                server = ServerProcess.find(self.server_url)
                text = await self._ended(
                    await self._start(row.words, row, total, stream, environment)
                )
                if beside is not None and row.counts_beside:
                    text = await self._ended(beside)
                return rate_in(text), server.until_now().ratio

    @asynccontextmanager
    async def _beside(
        self, row: Row, total: int, stream: str, environment: dict[str, str]
    ) -> AsyncIterator[asyncio.subprocess.Process | None]:
        if not row.beside_words:
            yield None
            return
        words = f"{row.beside_words} --clients {row.beside_count}"
        # Every one of its clients waits for so many.
        beside = await self._start(words, row, total, stream, environment)
        try:
            await asyncio.sleep(_BESIDE_S)
            yield beside
        finally:
            await _end(beside)

    async def _start(
        self, words: str, row: Row, total: int, stream: str, environment: dict[str, str]
    ) -> asyncio.subprocess.Process:
        names = {"subject": subject_of(row, stream), "stream": stream, "consumer": "nats-bench"}
        parts = [word.format_map(names) for word in words.split()]
        numbers = ["--msgs", str(total), "--size", str(row.size_bytes), "--no-progress"]
        return await asyncio.create_subprocess_exec(
            self.program,
            *flags(self.connection),
            "bench",
            *parts,
            *numbers,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
        )

    async def _ended(self, process: asyncio.subprocess.Process) -> str:
        try:
            async with asyncio.timeout(_RUN_S):
                output, _ = await process.communicate()
        except TimeoutError as error:
            raise RivalFailed(f"nats bench did not end within {_RUN_S:g} s") from error
        finally:
            await _end(process)
        text = output.decode("utf-8", "replace")
        if process.returncode:
            raise RivalFailed(f"nats bench failed: {failure_in(text, process.returncode)}")
        return text


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that still runs."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        kill(process)
        await process.wait()


def rate_in(text: str) -> float:
    """Return the rate that `nats bench` printed: of several clients the one of all together."""
    # Clients that run one after the other are each faster than all of them together.
    found = _TOGETHER.search(text) or _RATE.search(text)
    if found is None:
        lines = text.strip().splitlines() or ["nothing"]
        raise RivalFailed(f"nats bench printed no rate, but: {lines[-1]}")
    return float(found[1].replace(",", ""))


def failure_in(text: str, exit_code: int) -> str:
    """Return the line that says why `nats bench` failed; its usage may follow below."""
    lines = text.strip().splitlines() or [f"exit code {exit_code}"]
    return next((line for line in lines if _ERROR.match(line)), lines[-1])


def why_not(connection: Connection) -> str | None:
    """Return why `nats` cannot connect as we do; None when it can."""
    if connection.creds or connection.nkey or connection.user_jwt or connection.user_seed:
        return "it would need the credentials in a file, and they are not in one"
    return None


def _environment(connection: Connection) -> dict[str, str]:
    """Return the environment of a child: secrets must not stand on its command line."""
    values: Sequence[tuple[str, str | Secret | None]] = (
        ("NATS_URL", ",".join(connection.servers)),
        ("NATS_USER", connection.user),
        ("NATS_PASSWORD", connection.password),
        ("NATS_TOKEN", connection.token),
        ("NATS_CREDS", connection.creds_file),
        ("NATS_NKEY", connection.nkey_file),
        ("NATS_CA", connection.ca),
        ("NATS_CERT", connection.cert),
        ("NATS_KEY", connection.key),
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NATS_")}
    return kept | {
        name: value.reveal() if isinstance(value, Secret) else value
        for name, value in values
        if value is not None
    }


def flags(connection: Connection) -> list[str]:
    """Return how the other program is told what the environment cannot say."""
    # What is the default is not said: an older program may not know the flag.
    words = []
    if connection.inbox_prefix != _INBOX:
        words += ["--inbox-prefix", connection.inbox_prefix]
    if connection.tls_first:
        words.append("--tlsfirst")
    if connection.domain:
        words += ["--js-domain", connection.domain]
    elif connection.api_prefix:
        words += ["--js-api-prefix", connection.api_prefix]
    return words
