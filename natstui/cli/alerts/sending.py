"""Tells notices: the bell, a command, a webhook, a subject. A failure is said and ends nothing."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from natstui.children import kill
from natstui.cli.alerts.notices import Notice
from natstui.cli.health.formats import finding_json
from natstui.config.settings import Alert
from natstui.errors import NatstuiError, UsageError
from natstui.jetstream.connection.client import Client

MOST_AT_ONCE = 32
"""Messages that may be on their way; more wait."""
MOST_WAITING = 1_000
"""Messages that may wait; more are left out, which is said."""
_COMMAND_S = 30.0
_WEBHOOK_S = 10.0

Say = Callable[[str], None]


def check(alerts: Mapping[str, Alert], *, read_only: bool) -> None:
    """Refuse alerts that could never be sent; raises UsageError."""
    if not alerts:
        raise UsageError("there are no alerts: write [alerts.NAME] into the configuration file")
    for name, alert in alerts.items():
        where = f"[alerts.{name}]"
        if not (alert.bell or alert.command or alert.webhook or alert.subject):
            raise UsageError(f"{where} tells nobody: set bell, command, webhook or subject")
        if alert.command is not None and not _program(alert.command):
            raise UsageError(f"{where}: there is no command {alert.command!r}")
        if alert.webhook is not None and not alert.webhook.startswith(("http://", "https://")):
            raise UsageError(f"{where}: a webhook begins with http:// or https://")
        if alert.subject is not None and read_only:
            raise UsageError(f"{where}: nothing is published on a connection that is read-only")


def _program(command: str) -> str | None:
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    return shutil.which(words[0]) if words else None


def notice_json(notice: Notice) -> dict[str, Any]:
    """Return a notice as it is sent, and printed with --json."""
    about = {"schema": 1, "alert": notice.alert, "status": notice.status}
    return {**about, **finding_json(notice.finding)}


class Sender:
    """Sends notices beside everything else, each for itself."""

    def __init__(self, alerts: Mapping[str, Alert], say: Say) -> None:
        self._alerts = alerts
        self._say = say
        self._going: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._left_out_count = 0
        self.client: Client | None = None
        """The connection, once there is one."""

    def send(self, notice: Notice) -> None:
        """Tell everybody whom the rule names; returns at once."""
        alert = self._alerts[notice.alert]
        body = json.dumps(notice_json(notice)).encode()
        if alert.bell:
            sys.stderr.write("\a")
            sys.stderr.flush()
        if alert.command is not None:
            self._begin(notice.alert, run_command(alert.command, body))
        if alert.webhook is not None:
            self._begin(notice.alert, post(alert.webhook, body))
        if alert.subject is not None:
            self._begin(notice.alert, self._publish(alert.subject, body))

    def _begin(self, alert: str, work: Coroutine[Any, Any, str | None]) -> None:
        if len(self._going) >= MOST_WAITING:
            work.close()
            self._left_out_count += 1
            if self._left_out_count == 1 or self._left_out_count % 100 == 0:
                self._say(f"{self._left_out_count} messages left out: {MOST_WAITING} wait already")
            return
        task = asyncio.create_task(self._told(alert, work))
        self._going.add(task)
        task.add_done_callback(self._going.discard)

    async def _told(self, alert: str, work: Coroutine[Any, Any, str | None]) -> None:
        async with self._places:
            if (problem := await work) is not None:
                self._say(f"alert {alert}: {problem}")

    async def _publish(self, subject: str, body: bytes) -> str | None:
        if self.client is None:
            return f"not published to {subject}: there is no connection"
        try:
            await self.client.tell(subject, body)
        except NatstuiError as error:
            return f"not published to {subject}: {error}"
        return None

    async def finish(self) -> None:
        """Wait until everything was sent or has failed."""
        while self._going:
            await asyncio.wait(set(self._going))


async def run_command(command: str, body: bytes) -> str | None:
    """Give a command the text on its standard input; return what went wrong, if anything did."""
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        return f"{command!r} cannot be started: {error.strerror or error}"
    try:
        async with asyncio.timeout(_COMMAND_S):
            await process.communicate(body)
    except TimeoutError:
        kill(process)
        await process.wait()
        return f"{command!r} was stopped after {_COMMAND_S:.0f} s"
    return f"{command!r} ended with {process.returncode}" if process.returncode else None


async def post(address: str, body: bytes) -> str | None:
    """Post JSON to an address; return what went wrong, if anything did."""
    return await asyncio.to_thread(_post, address, body)


def _post(address: str, body: bytes) -> str | None:
    headers = {"Content-Type": "application/json", "User-Agent": "natstui"}
    # What begins otherwise than with http was refused at the start.
    request = urllib.request.Request(address, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=_WEBHOOK_S):
            return None
    except urllib.error.HTTPError as error:
        return f"the webhook answered {error.code}"
    except (OSError, ValueError) as error:
        return f"the webhook cannot be reached: {error}"
