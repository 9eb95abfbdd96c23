"""All streams and consumers of an account in one reply of each server (JSZ).

The system account and the monitoring ports have it for any account; an import of JSZ has it for
the account itself.
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
from natstui.jetstream.system.asking import ServerAnswer, ServerRequests
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
    """Sends requests to the best available source; opens the system account's connection if
    needed.

    For the connection's own account, or for the other one that it names.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._system = System(client.connection, client)
        self._own = ServerRequests(client)
        self._names: dict[str, str] = {}
        """Server id → its name, which monitoring ports do not send with JSZ."""
        self.may_hold_bytes: int | None = None
        """Limit of uncompressed replies before a server closes the connection; None if unknown.
        Replies of ports belong to no connection.
        """
        self.silent: tuple[str, ...] = ()
        """Servers that replied before, but not to the last request."""
        self._id: str | None = None
        """Id of the other account in the servers' replies: with JWTs it is not its name."""

    async def ask(self, *, config: bool, packed: bool) -> Sequence[ServerAnswer] | None:
        """Return the reply of each server about the account; None without a source.

        Raises the request errors when the configured source does not reply.
        """
        other_account, account = self._client.connection.account, self._client.link.account
        if other_account is None and account is None:
            return None
        telling, missing = await self._system.telling()
        options: dict[str, str | int] = {"streams": True, "consumer": True, "config": config}
        if telling is not None:
            if other_account is not None:
                account = await self._id_of(other_account, telling)
            options["account"] = account or ""
            send = telling.ask if packed else telling.ask_unpacked
            # At once: who asks for the first time waits for servers that nobody knows of.
            replies, _ = await asyncio.gather(send("JSZ", options), self._learn(telling))
            self.silent = telling.silent(replies)
            named_replies = [self._named(reply) for reply in replies]
            if any(reply.server_id not in self._names for reply in replies):
                self._names.clear()
            return named_replies
        if missing:
            raise RequestFailed(missing[0].reason)
        if other_account is not None or account is None:
            raise RequestFailed(NOT_SET)
        return await self._imported(account, {"account": account, **options})

    async def _id_of(self, name: str, telling: CompleteSource) -> str:
        """Return the id of an account on the servers; raises RequestFailed where none knows it."""
        if self._id is None:
            replies = await telling.ask("JSZ", {"accounts": True, "limit": _MOST_ACCOUNTS})
            id_by_name: dict[str, str] = {}
            for reply in replies:
                for account_detail in read("JSZ", reply.data, _Accounts).account_details or ():
                    id_by_name[account_detail.name] = id_by_name[account_detail.id] = (
                        account_detail.id or account_detail.name
                    )
            if name not in id_by_name:
                names = ", ".join(
                    sorted(id_by_name.keys() - id_by_name.values()) or sorted(id_by_name)
                )
                exists = (
                    f"there is {names}" if names else "there are no accounts that use JetStream"
                )
                raise RequestFailed(
                    f"no server knows an account {name} that uses JetStream; {exists}"
                )
            self._id = id_by_name[name]
        return self._id

    async def _learn(self, telling: CompleteSource) -> None:
        """Learn names, and how much a server queues for a slow connection; once.

        The system account's replies have names: its rows are used before these are learned,
        compressed until then.
        """
        if self._names:
            return
        try:
            replies = await telling.ask("VARZ", {})
        except NatstuiError:
            if telling.source == "monitoring":
                raise
            return
        varz_replies = [read("VARZ", reply.data, _Varz) for reply in replies]
        self._names = {varz.server_id: varz.server_name or varz.server_id for varz in varz_replies}
        limits = [varz.max_pending for varz in varz_replies if varz.max_pending is not None]
        if telling.source == "monitoring":
            self.may_hold_bytes = sys.maxsize
        elif limits:
            self.may_hold_bytes = min(limits)

    def _named(self, reply: ServerAnswer) -> ServerAnswer:
        return replace(reply, name=self._names.get(reply.server_id, reply.name))

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
        """Close the system account's connection."""
        await self._system.close()
