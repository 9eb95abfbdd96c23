"""All streams and consumers of an account in one answer of each server (JSZ).

The system account and the monitoring ports tell it, or an import of the account's own JSZ.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from natstui.errors import NatstuiError, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.asking import ServerAnswer, Servers
from natstui.jetstream.system.source import LONG_S, System, Telling
from natstui.model.live.permissions import may_publish


class _Varz(msgspec.Struct):
    server_id: str
    server_name: str = ""
    max_pending: int | None = None


class BulkAnswers:
    """Asks the best source that there is; opens the system account's connection when asked."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._system = System(client.connection)
        self._own = Servers(client)
        self._names: dict[str, str] = {}
        """Server id → its name, which monitoring ports do not tell with JSZ."""
        self.may_hold_bytes: int | None = None
        """Of answers that are not packed, before a server closes the connection; None if unknown.
        Answers of ports belong to no connection."""

    async def ask(self, *, config: bool, packed: bool) -> Sequence[ServerAnswer] | None:
        """Return what each server holds of the account; None where nobody may be asked.

        Raises the request errors when what was named for it does not answer.
        """
        account = self._client.link.account
        if account is None:
            return None
        options: dict[str, object] = {
            "account": account,
            "streams": True,
            "consumer": True,
            "config": config,
        }
        telling, missing = await self._system.telling()
        if telling is not None:
            asks = telling.ask if packed else telling.ask_unpacked
            # At once: who asks for the first time waits for servers that nobody knows of.
            answers, _ = await asyncio.gather(asks("JSZ", options), self._learn(telling))
            named = [self._named(one) for one in answers]
            if any(one.server_id not in self._names for one in answers):
                self._names.clear()
            return named
        if missing:
            raise RequestFailed(missing[0].reason)
        return await self._imported(account, options)

    async def _learn(self, telling: Telling) -> None:
        """Learn names, and how much a server keeps for a slow connection; once.

        The system account's answers have names: there the rows come without what could not be
        learned, packed until it is.
        """
        if self._names:
            return
        try:
            answers = await telling.ask("VARZ", {})
        except NatstuiError:
            if telling.source == "monitoring":
                raise
            return
        told = [read("VARZ", one.data, _Varz) for one in answers]
        self._names = {one.server_id: one.server_name or one.server_id for one in told}
        limits = [one.max_pending for one in told if one.max_pending is not None]
        if telling.source == "monitoring":
            self.may_hold_bytes = sys.maxsize
        elif limits:
            self.may_hold_bytes = min(limits)

    def _named(self, one: ServerAnswer) -> ServerAnswer:
        return replace(one, name=self._names.get(one.server_id, one.name))

    async def _imported(
        self, account: str, options: Mapping[str, object]
    ) -> Sequence[ServerAnswer] | None:
        subject = f"$SYS.REQ.ACCOUNT.{account}.JSZ"
        try:
            if not may_publish(await self._client.permissions(), subject):
                return None
            return await self._own.ask(subject, options, some=True, timeout_s=LONG_S)
        except NatstuiError:
            # Nobody promised it: without an import everything is asked for as usual.
            return None

    async def close(self) -> None:
        """End the system account's connection."""
        await self._system.close()
