"""All streams and consumers of an account in one answer of each server (JSZ).

The system account and the monitoring ports tell it, of any account, or an import of the
account's own JSZ.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from natstui.errors import NatstuiError, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.asking import ServerAnswer, Servers
from natstui.jetstream.system.source import LONG_S, NOT_SET, CompleteSource, Options, System
from natstui.model.live.permissions import may_publish


class _Varz(msgspec.Struct):
    server_id: str
    server_name: str = ""
    max_pending: int | None = None


class _Account(msgspec.Struct):
    name: str
    id: str = ""


class _Accounts(msgspec.Struct):
    account_details: list[_Account] | None = None


_MOST_ACCOUNTS = 1 << 20


class BulkAnswers:
    """Asks the best source that there is; opens the system account's connection when asked.

    Of the connection's own account, or of the other one that it names.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._system = System(client.connection, client)
        self._own = Servers(client)
        self._names: dict[str, str] = {}
        """Server id → its name, which monitoring ports do not tell with JSZ."""
        self.may_hold_bytes: int | None = None
        """Of answers that are not packed, before a server closes the connection; None if unknown.
        Answers of ports belong to no connection."""
        self.silent: tuple[str, ...] = ()
        """Servers that did not answer the last question, and did before."""
        self._id: str | None = None
        """Of the other account, in the servers' questions: with JWTs it is not its name."""

    async def ask(self, *, config: bool, packed: bool) -> Sequence[ServerAnswer] | None:
        """Return what each server holds of the account; None where nobody may be asked.

        Raises the request errors when what was named for it does not answer.
        """
        other, account = self._client.connection.account, self._client.link.account
        if other is None and account is None:
            return None
        telling, missing = await self._system.telling()
        options: dict[str, str | int] = {"streams": True, "consumer": True, "config": config}
        if telling is not None:
            if other is not None:
                account = await self._id_of(other, telling)
            options["account"] = account or ""
            asks = telling.ask if packed else telling.ask_unpacked
            # At once: who asks for the first time waits for servers that nobody knows of.
            answers, _ = await asyncio.gather(asks("JSZ", options), self._learn(telling))
            self.silent = telling.silent(answers)
            named = [self._named(answer) for answer in answers]
            if any(answer.server_id not in self._names for answer in answers):
                self._names.clear()
            return named
        if missing:
            raise RequestFailed(missing[0].reason)
        if other is not None or account is None:
            raise RequestFailed(NOT_SET)
        return await self._imported(account, {"account": account, **options})

    async def _id_of(self, name: str, telling: CompleteSource) -> str:
        """Return how servers call an account; raises RequestFailed where none knows it."""
        if self._id is None:
            told = await telling.ask("JSZ", {"accounts": True, "limit": _MOST_ACCOUNTS})
            known: dict[str, str] = {}
            for one in told:
                for account_detail in read("JSZ", one.data, _Accounts).account_details or ():
                    known[account_detail.name] = known[account_detail.id] = (
                        account_detail.id or account_detail.name
                    )
            if name not in known:
                names = ", ".join(sorted(known.keys() - known.values()) or sorted(known))
                there = (
                    f"there is {names}" if names else "there are no accounts that use JetStream"
                )
                raise RequestFailed(
                    f"no server knows an account {name} that uses JetStream; {there}"
                )
            self._id = known[name]
        return self._id

    async def _learn(self, telling: CompleteSource) -> None:
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
        told = [read("VARZ", answer.data, _Varz) for answer in answers]
        self._names = {one.server_id: one.server_name or one.server_id for one in told}
        limits = [one.max_pending for one in told if one.max_pending is not None]
        if telling.source == "monitoring":
            self.may_hold_bytes = sys.maxsize
        elif limits:
            self.may_hold_bytes = min(limits)

    def _named(self, one: ServerAnswer) -> ServerAnswer:
        return replace(one, name=self._names.get(one.server_id, one.name))

    async def _imported(self, account: str, options: Options) -> Sequence[ServerAnswer] | None:
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
