"""What server, account and user we got, once a connection stands."""

from __future__ import annotations

import time
from dataclasses import dataclass

import msgspec

from natstui.config import Connection
from natstui.errors import JetStreamUnavailable, PermissionDenied
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.permissions import UserInfo
from natstui.model.records.link import LinkChanged, LinkState

_NOT_FOR_ACCOUNT = 10039


class _Api(msgspec.Struct):
    level: int | None = None


class AccountInfo(msgspec.Struct):
    """The reply of `$JS.API.INFO`, as far as the link needs it."""

    domain: str | None = None
    api: _Api = msgspec.field(default_factory=_Api)


@dataclass(frozen=True, slots=True)
class Identity:
    """Our user and account and their JetStream, as the server says; None is not known."""

    jetstream: bool | None = None
    reason: str | None = None
    """Why there is no JetStream, or why it is not known."""
    api_level: int | None = None
    domain: str | None = None
    user: UserInfo | None = None
    denied: bool = False
    """Whether the user may not ask for INFO, so that asking again is pointless."""


def link_changed(
    client: GuardedClient,
    connection: Connection,
    state: LinkState,
    reason: str | None,
    identity: Identity,
) -> LinkChanged:
    """Return the record of the link's present state; nothing in it is secret."""
    info = client.server_info
    user = identity.user
    return LinkChanged(
        at_us=time.time_ns() // 1000,
        state=state,
        reason=reason or identity.reason,
        server_name=info.get("server_name"),
        server_version=info.get("version"),
        server_url=client.url,
        cluster=info.get("cluster"),
        user=(user.user if user else None) or connection.user,
        account=user.account if user else None,
        tls=client.encryption is not None,
        jetstream=identity.jetstream,
        api_level=identity.api_level,
        domain=identity.domain,
        max_payload_bytes=info.get("max_payload"),
    )


def identity_of(reply: AccountInfo | BaseException, user: UserInfo | None) -> Identity:
    """Return our identity from the answer to the first INFO of JetStream, or from its error."""
    if isinstance(reply, AccountInfo):
        # Servers before 2.11 have no level.
        level = reply.api.level or 0
        return Identity(jetstream=True, api_level=level, domain=reply.domain, user=user)
    if not isinstance(reply, JetStreamUnavailable):
        denied = isinstance(reply, PermissionDenied)
        return Identity(reason=str(reply), user=user, denied=denied)
    reason = str(reply)
    if reply.err_code == _NOT_FOR_ACCOUNT and user is not None:
        reason = f"JetStream is not enabled for the account {user.account!r}"
    return Identity(jetstream=False, reason=reason, user=user)
