"""The only way to change a server: refused when read-only, confirmed by name, journalled.

Everything that writes, acknowledges or consumes goes through a `Writer`; nothing else sends it.
"""

from __future__ import annotations

import getpass
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from natstui.errors import NatstuiError, Refused, RequestTimedOut, ServerGone
from natstui.jetstream.client import Client
from natstui.jetstream.journal import Journal
from natstui.model.config_field import without_server_metadata
from natstui.model.manage import IRREVERSIBLE, Change, JournalEntry

Config = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One write to the JetStream API, and what it replaces."""

    verb: str
    body: Mapping[str, Any] | None
    asked: Mapping[str, Any]
    """What the journal shows as the request: the configuration, or the arguments."""
    before: Mapping[str, Any] | None = None


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

        Raises Refused before anything is sent, SessionError when it cannot be journalled, and
        what `Client.request` raises.
        """
        name = change.consumer or change.stream
        sealing = request.asked.get("sealed") is True and not (request.before or {}).get("sealed")
        irreversible = change.action in IRREVERSIBLE or sealing
        self.check(name, change.confirmed, irreversible=irreversible)
        self.journal.check()
        try:
            reply: Config = json.loads(await self.client.request(request.verb, request.body))
        except (RequestTimedOut, ServerGone) as error:
            self._note(change, request, None, "unknown", str(error), undoes)
            raise
        except NatstuiError as error:
            self._note(change, request, None, "failed", str(error), undoes)
            raise
        self._note(change, request, reply.get("config"), "done", None, undoes)
        return reply

    def _note(
        self,
        change: Change,
        request: Request,
        after: Config | None,
        outcome: Literal["done", "failed", "unknown"],
        reason: str | None,
        undoes: str | None,
    ) -> None:
        link = self.client.link
        self.journal.add(
            JournalEntry(
                entry=uuid.uuid4().hex[:8],
                at_us=time.time_ns() // 1000,
                server=self.client.connection.target,
                who=f"{link.user or '-'}@{link.account or '-'} ({getpass.getuser()})",
                action=change.action,
                stream=change.stream,
                consumer=change.consumer,
                request_json=_kept(request.asked) or "{}",
                before_json=_kept(request.before),
                after_json=_kept(after),
                outcome=outcome,
                reason=reason,
                undoes=undoes,
            )
        )


def _kept(config: Mapping[str, Any] | None) -> str | None:
    return None if config is None else json.dumps(without_server_metadata(config))
