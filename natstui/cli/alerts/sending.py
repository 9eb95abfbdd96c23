"""Tells notices: the bell, a command, a webhook, a subject. Reports failures, and ends by none."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from natstui.children import end_session
from natstui.clean import clean_line
from natstui.cli.alerts.notices import Notice
from natstui.cli.health.formats import finding_json
from natstui.config.settings import Alert
from natstui.errors import NatstuiError, RequestFailed, UsageError
from natstui.http_client import http_request
from natstui.jetstream.connection.client import Client
from natstui.model.assets.subjects import is_literal
from natstui.model.findings.catalogue.account import M_NOT_DELIVERED
from natstui.model.findings.finding import Entity, Finding

MOST_WAITING = 1_000
"""Notices that may wait for one way of one rule; more are left out, which is reported."""
_COMMAND_S = 30.0
WEBHOOK_S = 10.0
"""Deadline of one try, from the name of the host to the status of the reply."""
RETRY_AFTER_S = (1.0, 4.0, 16.0)
"""A webhook that failed is tried again after these times; then the notice is dropped."""


def check(alerts: Mapping[str, Alert], *, read_only: bool) -> None:
    """Refuse alerts that could never be sent; raises UsageError."""
    if not alerts:
        raise UsageError("there are no alerts: write [alerts.NAME] into the configuration file")
    for name, alert in alerts.items():
        where = f"[alerts.{name}]"
        if not (alert.bell or alert.command or alert.webhook or alert.subject):
            raise UsageError(f"{where} has no receiver: set bell, command, webhook or subject")
        if alert.command is not None and not _program(alert.command):
            raise UsageError(f"{where}: there is no command {alert.command!r}")
        if alert.webhook is not None and not alert.webhook.startswith(("http://", "https://")):
            raise UsageError(f"{where}: the webhook does not begin with http:// or https://")
        if alert.webhook is not None and not _is_url(alert.webhook):
            raise UsageError(f"{where}: the webhook is no URL: it has no valid host or port")
        if alert.subject is not None and not is_literal(alert.subject):
            raise UsageError(
                f"{where}: {clean_line(alert.subject)!r} is not a valid subject to publish to: "
                "it has a space, a wildcard or an empty token"
            )
        if alert.subject is not None and read_only:
            raise UsageError(f"{where}: the connection is read-only, so nothing can be published")


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        return False


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


_Send = Callable[[bytes], Awaitable[None]]


class Sender:
    """Sends notices: a queue for each way of each rule, so that none waits for another."""

    def __init__(
        self,
        alerts: Mapping[str, Alert],
        report: Callable[[str], None],
        *,
        webhook_s: float = WEBHOOK_S,
        retry_after_s: Sequence[float] = RETRY_AFTER_S,
    ) -> None:
        """`report` gets a sentence for each failure; a webhook has `webhook_s` for each try."""
        self._alerts = alerts
        self._report = report
        self._webhook_s = webhook_s
        self._retry_after_s = retry_after_s
        self._queues: dict[tuple[str, str], asyncio.Queue[bytes]] = {}
        self._workers: list[asyncio.Task[None]] = []
        self._left_out_count = 0
        self._failed: dict[str, Finding] = {}
        self.client: Client | None = None
        """The connection, once there is one."""

    def send(self, notice: Notice) -> None:
        """Queue a notice for everything that its rule names."""
        alert = self._alerts[notice.alert]
        body = json.dumps(notice_json(notice)).encode()
        if alert.bell:
            sys.stderr.write("\a")
            sys.stderr.flush()
        if alert.command is not None:
            self._queue(notice.alert, "command", partial(run_command, alert.command), body)
        if alert.webhook is not None:
            post_it = partial(post, alert.webhook, deadline_s=self._webhook_s)
            self._queue(notice.alert, "webhook", post_it, body)
        if alert.subject is not None:
            self._queue(notice.alert, "subject", partial(self._publish, alert.subject), body)

    def failed(self) -> list[Finding]:
        """Return a finding for each way of a rule that does not deliver now."""
        return list(self._failed.values())

    def _queue(self, alert: str, way: str, send: _Send, body: bytes) -> None:
        queue = self._queues.get((alert, way))
        if queue is None:
            queue = self._queues[alert, way] = asyncio.Queue(MOST_WAITING)
            self._workers.append(asyncio.create_task(self._work(alert, way, send, queue)))
        try:
            queue.put_nowait(body)
        except asyncio.QueueFull:
            self._left_out_count += 1
            if self._left_out_count == 1 or self._left_out_count % 100 == 0:
                self._report(
                    f"{self._left_out_count} notifications dropped: {MOST_WAITING} are waiting "
                    "already"
                )

    async def _work(self, alert: str, way: str, send: _Send, queue: asyncio.Queue[bytes]) -> None:
        while True:
            body = await queue.get()
            # What a command did before it failed must not be done twice.
            retry_after_s = self._retry_after_s if way == "webhook" else ()
            for wait_s in (*retry_after_s, None):
                try:
                    await send(body)
                except NatstuiError as error:
                    again = "not sent" if wait_s is None else f"trying again in {wait_s:g} s"
                    self._report(f"alert {alert}: {error}; {again}")
                    self._fail(alert, way, str(error))
                else:
                    self._failed.pop(f"{alert} {way}", None)
                    break
                if wait_s is not None:
                    await asyncio.sleep(wait_s)
            queue.task_done()

    def _fail(self, alert: str, way: str, reason: str) -> None:
        name = f"{alert} {way}"
        if name not in self._failed:
            now_us = time.time_ns() // 1000
            entity = Entity(part=f"alert {alert}")
            self._failed[name] = Finding(M_NOT_DELIVERED, entity, now_us, clean_line(reason))

    async def _publish(self, subject: str, body: bytes) -> None:
        if self.client is None:
            raise RequestFailed(f"not published to {subject}: there is no connection")
        try:
            await self.client.tell(subject, body)
        except NatstuiError as error:
            raise RequestFailed(f"not published to {subject}: {error}") from error

    async def finish(self, limit_s: float) -> None:
        """Send what waits, for `limit_s` at most, and report how much was not sent."""
        waiting = [asyncio.ensure_future(queue.join()) for queue in self._queues.values()]
        late = (await asyncio.wait(waiting, timeout=limit_s))[1] if waiting else set()
        for task in (*late, *self._workers):
            task.cancel()
        await asyncio.gather(*late, *self._workers, return_exceptions=True)
        if late:
            self._report(
                f"{len(late)} of {len(waiting)} receivers of alerts still had unsent "
                "notifications at the end"
            )


async def run_command(command: str, body: bytes, *, limit_s: float = _COMMAND_S) -> None:
    """Give a command the text on its standard input; raises RequestFailed when it fails."""
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(command),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        reason = error.strerror or error
        raise RequestFailed(f"{command!r} cannot be started: {reason}") from error
    try:
        async with asyncio.timeout(limit_s):
            await process.communicate(body)
    except TimeoutError as error:
        raise RequestFailed(f"{command!r} was stopped after {limit_s:g} s") from error
    finally:
        if process.returncode is None:
            await end_session(process)
    if process.returncode:
        raise RequestFailed(f"{command!r} ended with {process.returncode}")


async def post(address: str, body: bytes, *, deadline_s: float) -> None:
    """Post JSON to an address; raises RequestFailed when the reply is no 2xx in time."""
    try:
        await http_request(
            "POST",
            address,
            deadline_s,
            body=body,
            headers={"Content-Type": "application/json"},
            environment_proxy=True,
        )
    except RequestFailed as error:
        raise RequestFailed(f"webhook: {error}", code=error.code) from error
