"""The only way to change a server: refused when read-only, confirmed by name, journalled.

Everything that writes, acknowledges or consumes goes through a `Writer`; nothing else sends it.
"""

from __future__ import annotations

import asyncio
import getpass
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from natstui.errors import (
    NatstuiError,
    NotFound,
    OutcomeUnknown,
    Refused,
    RequestTimedOut,
    ServerGone,
)
from natstui.jetstream.client import Client
from natstui.jetstream.journal import Journal
from natstui.model.config_field import without_server_metadata
from natstui.model.manage import IRREVERSIBLE, Change, JournalAction, JournalEntry

Config = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One write to the JetStream API, and what it replaces."""

    verb: str
    body: Mapping[str, Any] | None
    asked: Mapping[str, Any]
    """What the journal shows as the request: the configuration, or the arguments."""
    before: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """What the journal keeps of a write, before its outcome is known."""

    action: JournalAction
    stream: str
    consumer: str | None
    asked: Mapping[str, Any]
    before: Mapping[str, Any] | None = None
    undoes: str | None = None
    doubt: str = "it may have been done all the same"
    """What to say when no answer comes."""


class Writer:
    """Writes to one server."""

    def __init__(self, client: Client, journal: Journal) -> None:
        self.client = client
        self.journal = journal

    def check(self, name: str, confirmed: str | None, *, irreversible: bool = False) -> None:
        """Raise Refused unless a write is allowed; `name` is what has to be typed."""
        connection = self.client.connection
        if connection.read_only:
            raise Refused("read-only: nothing is changed on this server")
        if (connection.production or irreversible) and confirmed != name:
            why = "this is production" if connection.production else "this cannot be undone"
            raise Refused(f"not confirmed: {why}, type {name!r} to do it")

    async def write(self, change: Change, request: Request, undoes: str | None = None) -> Config:
        """Send one request, journal it whatever happens, and return the reply.

        Raises Refused before anything is sent, SessionError when it cannot be journalled,
        OutcomeUnknown when it was sent and not answered, and what `Client.request` raises.
        """
        name = change.consumer or change.stream
        sealing = request.asked.get("sealed") is True and not (request.before or {}).get("sealed")
        self.check(name, change.confirmed, irreversible=change.action in IRREVERSIBLE or sealing)

        async def ask() -> Config:
            reply: Config = json.loads(await self.client.request(request.verb, request.body))
            return reply

        noted = Noted(
            change.action, change.stream, change.consumer, request.asked, request.before, undoes
        )
        return await self._journalled(noted, ask, lambda reply: reply.get("config"))

    async def send(
        self,
        noted: Noted,
        confirmed: tuple[str, str | None],
        work: Callable[[], Awaitable[T]],
        became: Callable[[T], Mapping[str, Any]],
    ) -> T:
        """Send or take a message, and journal it without its payload.

        `confirmed` is the name to be typed and what was typed; `became` tells what the journal
        keeps of the answer. Raises what `write` raises.
        """
        self.check(*confirmed)
        return await self._journalled(noted, work, became)

    async def _journalled(
        self,
        noted: Noted,
        work: Callable[[], Awaitable[T]],
        became: Callable[[T], Mapping[str, Any] | None],
    ) -> T:
        self.journal.check()
        try:
            result = await work()
        except (RequestTimedOut, ServerGone) as error:
            if isinstance(error, ServerGone) and not error.sent:
                self._note(noted, None, "failed", str(error))
                raise
            self._note(noted, None, "unknown", str(error))
            raise OutcomeUnknown(f"{error}: {noted.doubt}") from error
        except asyncio.CancelledError:
            self._note(noted, None, "unknown", "natstui ended before there was an answer")
            raise
        except NatstuiError as error:
            # A pull that found nothing has changed nothing.
            if noted.action != "pull" or not isinstance(error, NotFound):
                self._note(noted, None, "failed", str(error))
            raise
        self._note(noted, became(result), "done", None)
        return result

    def _note(
        self,
        noted: Noted,
        after: Mapping[str, Any] | None,
        outcome: Literal["done", "failed", "unknown"],
        reason: str | None,
    ) -> None:
        link = self.client.link
        self.journal.add(
            JournalEntry(
                entry=uuid.uuid4().hex[:8],
                at_us=time.time_ns() // 1000,
                server=self.client.connection.target,
                who=f"{link.user or '-'}@{link.account or '-'} ({getpass.getuser()})",
                action=noted.action,
                stream=noted.stream or str((after or {}).get("stream", "")),
                consumer=noted.consumer,
                request_json=_kept(noted.asked) or "{}",
                before_json=_kept(noted.before),
                after_json=_kept(after),
                outcome=outcome,
                reason=reason,
                undoes=noted.undoes,
            )
        )


def _kept(config: Mapping[str, Any] | None) -> str | None:
    return None if config is None else json.dumps(without_server_metadata(config))
