"""Sends notices: bell, command, webhook, subject. Reports failures, and continues after them."""

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

from natstui.children import end_process_session, start_process_session
from natstui.clean import clean_line
from natstui.cli.alerts.notices import Notice
from natstui.cli.health.formats import finding_json
from natstui.config import Connection
from natstui.config.settings import Alert
from natstui.errors import NatstuiError, RequestFailed, UsageError
from natstui.http_client import http_request
from natstui.jetstream.connection.client import Client
from natstui.model.assets.subjects import is_literal, overlap
from natstui.model.findings.catalogue.account import ALERT_NOT_DELIVERED
from natstui.model.findings.finding import Entity, Finding

MAX_QUEUED_NOTICES = 1_000
"""Limit of notices that wait for one channel of a rule; further ones are dropped and reported."""
_COMMAND_TIMEOUT_S = 30.0
WEBHOOK_TIMEOUT_S = 10.0
"""Deadline of one attempt, from resolving the host to the status of the reply."""
RETRY_AFTER_S = (1.0, 4.0, 16.0)
"""Delays of further attempts after a webhook or a subject failed."""
RETRY_INTERVAL_S = 60.0
"""Delay of each later attempt, until the notice is received: an outage must lose no notice."""
_RETRIED_HTTP_STATUSES = (408, 429)
"""Refusals of a webhook that may end by themselves."""


def check_alerts(alerts: Mapping[str, Alert], connection: Connection | None) -> None:
    """Raise UsageError if there is no rule, or if a rule can never send a notice.

    That is a rule without a receiver, or with an unknown command, an invalid URL, or a subject
    that is invalid or belongs to the server. A read-only `connection` refuses every subject,
    because nothing can be published; `connection` is None if nothing will be sent.
    """
    if not alerts:
        raise UsageError("there are no alerts: write [alerts.NAME] into the configuration file")
    for name, alert in alerts.items():
        section = f"[alerts.{name}]"
        if not (alert.bell or alert.command or alert.webhook or alert.subject):
            raise UsageError(f"{section} has no receiver: set bell, command, webhook or subject")
        program = _program_of(alert.command or "")
        if alert.command is not None and shutil.which(program) is None:
            raise UsageError(f"{section}: there is no command {program!r}")
        if alert.webhook is not None and not alert.webhook.startswith(("http://", "https://")):
            raise UsageError(f"{section}: the webhook does not begin with http:// or https://")
        if alert.webhook is not None and not _is_url(alert.webhook):
            raise UsageError(f"{section}: the webhook is no URL: it has no valid host or port")
        if alert.subject is not None and not is_literal(alert.subject):
            raise UsageError(
                f"{section}: {clean_line(alert.subject)!r} is not a valid subject to publish to: "
                "it has a space, a wildcard or an empty token"
            )
        if alert.subject is not None and _is_server_subject(alert.subject, connection):
            raise UsageError(
                f"{section}: {clean_line(alert.subject)!r} belongs to the server: messages there "
                "are requests to the server, or become keys and files of buckets"
            )
        if alert.subject is not None and connection is not None and connection.read_only:
            raise UsageError(
                f"{section}: the connection is read-only, so nothing can be published"
            )


def subjects_of(alerts: Mapping[str, Alert]) -> list[str]:
    """Return the subjects that rules publish to, each once, in order."""
    return sorted({alert.subject for alert in alerts.values() if alert.subject is not None})


def _is_server_subject(subject: str, connection: Connection | None) -> bool:
    """Return whether the server processes messages to a subject: it begins with `$`, or with the
    API prefix of the connection.
    """
    is_api_subject = connection is not None and overlap(subject, f"{connection.js_api_prefix}.>")
    return subject.startswith("$") or is_api_subject


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        return False


def _program_of(command: str) -> str:
    """Return the program of a command line, without its arguments, which may contain a secret."""
    try:
        return next(iter(shlex.split(command)), "")
    except ValueError:
        return ""


def notice_json(notice: Notice) -> dict[str, Any]:
    """Return a notice as the JSON object that is sent, and printed with --json.

    It has `schema`, `alert` (name of the rule) and `status`, then the fields of `finding_json`.
    """
    notice_fields = {"schema": 1, "alert": notice.alert, "status": notice.status}
    return {**notice_fields, **finding_json(notice.finding)}


_SendFunction = Callable[[bytes], Awaitable[None]]


class NoticeSender:
    """Sends notices; has a queue for each channel of each rule, so that no channel waits for
    another.
    """

    def __init__(
        self,
        alerts: Mapping[str, Alert],
        report_failure: Callable[[str], None],
        *,
        webhook_timeout_s: float = WEBHOOK_TIMEOUT_S,
        retry_after_s: Sequence[float] = RETRY_AFTER_S,
        retry_interval_s: float = RETRY_INTERVAL_S,
    ) -> None:
        """Create a sender for the rules; `report_failure` is called with a sentence for each
        failure.

        `webhook_timeout_s` is the deadline of an attempt to call a webhook. `retry_after_s` are
        the delays of the first retries, `retry_interval_s` is the delay of each later one.
        """
        self._alerts = alerts
        self._report_failure = report_failure
        self._webhook_timeout_s = webhook_timeout_s
        self._retry_after_s, self._retry_interval_s = retry_after_s, retry_interval_s
        self._queue_by_rule_and_channel: dict[tuple[str, str], asyncio.Queue[bytes]] = {}
        self._send_tasks: list[asyncio.Task[None]] = []
        self._dropped_notices_count = 0
        self._failure_finding_by_channel: dict[str, Finding] = {}
        self.client: Client | None = None
        """The connection; None before it exists."""

    def send(self, notice: Notice) -> None:
        """Ring the bell at once, and queue the notice for the other channels of its rule.

        Returns without waiting; drops the notice if `MAX_QUEUED_NOTICES` are queued already.
        """
        alert = self._alerts[notice.alert]
        body = json.dumps(notice_json(notice)).encode()
        if alert.bell:
            sys.stderr.write("\a")
            sys.stderr.flush()
        if alert.command is not None:
            self._enqueue_notice(
                notice.alert, "command", partial(run_command, alert.command), body
            )
        if alert.webhook is not None:
            send_webhook = partial(post_json, alert.webhook, deadline_s=self._webhook_timeout_s)
            self._enqueue_notice(notice.alert, "webhook", send_webhook, body)
        if alert.subject is not None:
            self._enqueue_notice(
                notice.alert, "subject", partial(self._publish, alert.subject), body
            )

    def failure_findings(self) -> list[Finding]:
        """Return an open finding for each channel of a rule whose last attempt failed."""
        return list(self._failure_finding_by_channel.values())

    def _enqueue_notice(self, alert: str, channel: str, send: _SendFunction, body: bytes) -> None:
        queue = self._queue_by_rule_and_channel.get((alert, channel))
        if queue is None:
            queue = self._queue_by_rule_and_channel[alert, channel] = asyncio.Queue(
                MAX_QUEUED_NOTICES
            )
            self._send_tasks.append(
                asyncio.create_task(self._send_queued(alert, channel, send, queue))
            )
        try:
            queue.put_nowait(body)
        except asyncio.QueueFull:
            self._dropped_notices_count += 1
            if self._dropped_notices_count == 1 or self._dropped_notices_count % 100 == 0:
                self._report_failure(
                    f"{self._dropped_notices_count} notifications dropped: "
                    f"{MAX_QUEUED_NOTICES} are waiting already"
                )

    async def _send_queued(
        self, alert: str, channel: str, send: _SendFunction, queue: asyncio.Queue[bytes]
    ) -> None:
        while True:
            body, failed_attempts_count = await queue.get(), 0
            while True:
                try:
                    await send(body)
                except NatstuiError as error:
                    wait_s = self._retry_delay_s(channel, error, failed_attempts_count)
                    retry_text = "not sent" if wait_s is None else f"trying again in {wait_s:g} s"
                    self._report_failure(f"alert {alert}: {error}; {retry_text}")
                    self._add_failure(alert, channel, str(error))
                    if wait_s is None:
                        break
                    failed_attempts_count += 1
                    await asyncio.sleep(wait_s)
                else:
                    self._failure_finding_by_channel.pop(f"{alert} {channel}", None)
                    break
            queue.task_done()

    def _retry_delay_s(
        self, channel: str, error: NatstuiError, failed_attempts_count: int
    ) -> float | None:
        """Return after how many seconds a failed notice is sent again; None if it is dropped.

        A command is never repeated, because it may have done a part of its work.
        """
        if channel == "command":
            return None
        if failed_attempts_count < len(self._retry_after_s):
            return self._retry_after_s[failed_attempts_count]
        status = (error.code or 0) if isinstance(error, RequestFailed) else 0
        # A receiver that refuses it does so each time.
        is_permanent_error = 300 <= status < 500 and status not in _RETRIED_HTTP_STATUSES
        return None if is_permanent_error else self._retry_interval_s

    def _add_failure(self, alert: str, channel: str, reason: str) -> None:
        name = f"{alert} {channel}"
        if name not in self._failure_finding_by_channel:
            now_us = time.time_ns() // 1000
            entity = Entity(part=f"alert {alert}")
            self._failure_finding_by_channel[name] = Finding(
                ALERT_NOT_DELIVERED, entity, now_us, clean_line(reason)
            )

    async def _publish(self, subject: str, body: bytes) -> None:
        if self.client is None:
            raise RequestFailed(f"not published to {subject}: there is no connection")
        try:
            await self.client.publish_and_flush(subject, body)
        except NatstuiError as error:
            raise RequestFailed(f"not published to {subject}: {error}") from error

    async def finish(self, timeout_s: float) -> None:
        """Wait until queued notices are sent, for `timeout_s` at most, then stop.

        Reports how many channels still had notices to send.
        """
        queue_join_tasks = [
            asyncio.ensure_future(queue.join())
            for queue in self._queue_by_rule_and_channel.values()
        ]
        unfinished_tasks = (
            (await asyncio.wait(queue_join_tasks, timeout=timeout_s))[1]
            if queue_join_tasks
            else set()
        )
        for task in (*unfinished_tasks, *self._send_tasks):
            task.cancel()
        await asyncio.gather(*unfinished_tasks, *self._send_tasks, return_exceptions=True)
        if unfinished_tasks:
            self._report_failure(
                f"{len(unfinished_tasks)} of {len(queue_join_tasks)} receivers of alerts still "
                "had unsent notifications at the end"
            )


async def run_command(command: str, body: bytes, *, timeout_s: float = _COMMAND_TIMEOUT_S) -> None:
    """Run a command line without a shell; it gets `body` on stdin, and its output is discarded.

    Raises RequestFailed if it does not start, runs longer than `timeout_s`, or ends with another
    exit code than 0.
    """
    # The sentence goes to the other receivers.
    name = f"the command {_program_of(command)}"
    try:
        devnull = asyncio.subprocess.DEVNULL
        transport, process = await start_process_session(
            shlex.split(command), stdout=devnull, stderr=devnull, env=None
        )
    except OSError as error:
        reason = error.strerror or error
        raise RequestFailed(f"{name} cannot be started: {reason}") from error
    has_command_ended = False
    try:
        async with asyncio.timeout(timeout_s):
            await process.communicate(body)
        has_command_ended = True
    except TimeoutError as error:
        raise RequestFailed(f"{name} was stopped after {timeout_s:g} s") from error
    finally:
        if not has_command_ended:
            await end_process_session(transport, process)
    if process.returncode:
        raise RequestFailed(f"{name} ended with {process.returncode}")


async def post_json(address: str, body: bytes, *, deadline_s: float) -> None:
    """Post a JSON body to a URL, through the proxy that environment variables name, if any.

    Raises RequestFailed unless a reply with a status of 2xx comes within `deadline_s`.
    """
    try:
        await http_request(
            "POST",
            address,
            deadline_s,
            body=body,
            headers={"Content-Type": "application/json"},
            uses_environment_proxy=True,
        )
    except RequestFailed as error:
        raise RequestFailed(f"webhook: {error}", code=error.code) from error
