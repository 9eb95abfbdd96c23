"""The user's permissions, as reported by the server: in violations, and on request."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Literal

import msgspec

from natstui.jetstream.connection.replies import read
from natstui.model.records.link import Permitted

USER_INFO = "$SYS.REQ.USER.INFO"

_VIOLATION = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')


@dataclass(frozen=True, slots=True)
class Violation:
    """A subject that the server has refused; nats-py has lower-cased it."""

    kind: Literal["publish", "subscribe"]
    subject: str


def read_violation(text: str) -> Violation | None:
    """Return the violation in an asynchronous error of nats-py."""
    match = _VIOLATION.search(text.lower())
    if match is None:
        return None
    return Violation("publish" if match[1] == "publish" else "subscribe", match[2])


class _Rules(msgspec.Struct):
    allow: list[str] | None = None
    deny: list[str] | None = None


class _Permissions(msgspec.Struct):
    publish: _Rules | None = None
    subscribe: _Rules | None = None


class _User(msgspec.Struct):
    user: str | None = None
    account: str | None = None
    permissions: _Permissions | None = None
    expires: int = 0


class _Server(msgspec.Struct):
    id: str | None = None


class _UserInfo(msgspec.Struct):
    data: _User | None = None
    server: _Server | None = None


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Our user, as reported by the server; None if unknown."""

    user: str | None
    account: str | None
    permitted: Permitted
    server_id: str | None = None
    """The server that replied."""


def read_user_info(data: bytes) -> UserInfo:
    """Read the reply of `$SYS.REQ.USER.INFO`; raises RequestFailed when it cannot be read."""
    reply = read(USER_INFO, data, _UserInfo)
    user, server = reply.data or _User(), reply.server or _Server()
    rules = user.permissions or _Permissions()
    publish, subscribe = rules.publish or _Rules(), rules.subscribe or _Rules()
    permissions = Permitted(
        at_us=time.time_ns() // 1000,
        publish_allow=_tuple_or_all(publish.allow),
        publish_deny=tuple(publish.deny or ()),
        subscribe_allow=_tuple_or_all(subscribe.allow),
        subscribe_deny=tuple(subscribe.deny or ()),
    )
    return UserInfo(user.user, user.account, permissions, server.id)


def _tuple_or_all(subjects: list[str] | None) -> tuple[str, ...] | None:
    """Return the allowed subjects; a list that is empty or absent allows everything."""
    return tuple(subjects) if subjects else None
