"""Reads all streams and consumers of an account in one reply of each server (JSZ).

The system account and the monitoring ports reply for any account; an import of JSZ replies for the
account itself.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from natstui.errors import NatstuiError, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.replies import read
from natstui.jetstream.system.requests import ServerReply, ServerRequests
from natstui.jetstream.system.source import (
    LONG_REPLY_TIMEOUT_S,
    MAX_REPLY_ACCOUNTS,
    NO_SYSTEM_USER_TEXT,
    CompleteSource,
    RequestOptions,
    SystemConnection,
)
from natstui.model.live.permissions import may_publish
from natstui.values import replace


class _Varz(msgspec.Struct):
    server_id: str
    server_name: str = ""
    max_pending: int | None = None


class _Account(msgspec.Struct):
    name: str
    id: str = ""


class _Accounts(msgspec.Struct):
    account_details: list[_Account] | None = None


class JszSource:
    """Requests JSZ from the best available source: of the connection's own account, or of the
    other account that its settings name.

    It opens the system account's connection if needed.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._system_connection = SystemConnection(client.connection, client)
        self._own_requests = ServerRequests(client)
        self._server_name_by_id: dict[str, str] = {}
        """Server id → its name, which monitoring ports do not send with JSZ."""
        self.max_pending_bytes: int | None = None
        """Limit of bytes that wait for the connection before a server closes it; None if unknown.
        Monitoring ports have no such limit.
        """
        self.silent_servers: tuple[str, ...] = ()
        """Names of servers that replied before, but not to the last request."""
        self._account_id: str | None = None
        """Id of the other account in the servers' replies: with JWTs not the same as its name."""

    async def request(self, *, config: bool, compressed: bool) -> Sequence[ServerReply] | None:
        """Return the reply of each server about the account; None without a source.

        They have configurations if `config`, and are compressed on the link if `compressed`.
        Raises the request errors when the configured source does not reply.
        """
        other_account, account = self._client.connection.account, self._client.link.account
        if other_account is None and account is None:
            return None
        source, missing = await self._system_connection.find_source()
        options: dict[str, str | int] = {"streams": True, "consumer": True, "config": config}
        if source is not None:
            if other_account is not None:
                account = await self._find_account_id(other_account, source)
            options["account"] = account or ""
            send = source.request if compressed else source.request_uncompressed
            # Concurrently: each first request waits for servers that are not known yet.
            replies, _ = await asyncio.gather(send("JSZ", options), self._read_limits(source))
            self.silent_servers = source.find_silent(replies)
            named_replies = [self._add_name(reply) for reply in replies]
            if any(reply.server_id not in self._server_name_by_id for reply in replies):
                self._server_name_by_id.clear()
            return named_replies
        if missing:
            raise RequestFailed(missing[0].reason)
        if other_account is not None or account is None:
            raise RequestFailed(NO_SYSTEM_USER_TEXT)
        return await self._request_imported_jsz(account, {"account": account, **options})

    async def _find_account_id(self, name: str, source: CompleteSource) -> str:
        """Return the id of an account on the servers; raises RequestFailed if none has it."""
        if self._account_id is None:
            replies = await source.request("JSZ", {"accounts": True, "limit": MAX_REPLY_ACCOUNTS})
            account_id_by_name: dict[str, str] = {}
            for reply in replies:
                for account_detail in read("JSZ", reply.data, _Accounts).account_details or ():
                    account_id_by_name[account_detail.name] = account_id_by_name[
                        account_detail.id
                    ] = account_detail.id or account_detail.name
            if name not in account_id_by_name:
                names = ", ".join(
                    sorted(account_id_by_name.keys() - account_id_by_name.values())
                    or sorted(account_id_by_name)
                )
                known_accounts_text = (
                    f"there is {names}" if names else "there are no accounts that use JetStream"
                )
                raise RequestFailed(
                    f"no server knows an account {name} that uses JetStream; {known_accounts_text}"
                )
            self._account_id = account_id_by_name[name]
        return self._account_id

    async def _read_limits(self, source: CompleteSource) -> None:
        """Read the servers' names and limits of pending bytes, unless they are known.

        Until then, the system account's replies are compressed; these contain the names.
        """
        if self._server_name_by_id:
            return
        try:
            replies = await source.request("VARZ", {})
        except NatstuiError:
            if source.name == "monitoring":
                raise
            return
        varz_replies = [read("VARZ", reply.data, _Varz) for reply in replies]
        self._server_name_by_id = {
            varz.server_id: varz.server_name or varz.server_id for varz in varz_replies
        }
        limits = [varz.max_pending for varz in varz_replies if varz.max_pending is not None]
        if source.name == "monitoring":
            self.max_pending_bytes = sys.maxsize
        elif limits:
            self.max_pending_bytes = min(limits)

    def _add_name(self, reply: ServerReply) -> ServerReply:
        return replace(reply, name=self._server_name_by_id.get(reply.server_id, reply.name))

    async def _request_imported_jsz(
        self, account: str, options: RequestOptions
    ) -> Sequence[ServerReply] | None:
        subject = f"$SYS.REQ.ACCOUNT.{account}.JSZ"
        try:
            if not may_publish(await self._client.permissions(), subject):
                return None
            return await self._own_requests.request_all(
                subject, options, skips_errors=True, timeout_s=LONG_REPLY_TIMEOUT_S
            )
        except NatstuiError:
            # The import is optional: without one, the poller requests lists.
            return None

    async def close(self) -> None:
        """Close the system account's connection."""
        await self._system_connection.close()
