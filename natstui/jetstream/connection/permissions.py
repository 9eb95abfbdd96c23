"""Reads the user's permissions that the server reports: in violations, and on request."""

from __future__ import annotations

import re
import time
from typing import Literal

import msgspec
from msgspec import Struct

from natstui.jetstream.connection.replies import read
from natstui.model.records.link import Permitted

USER_INFO = "$SYS.REQ.USER.INFO"

_VIOLATION_PATTERN = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"')


class PermissionViolation(Struct, frozen=True):
    """A denied subject, in lower case as nats-py reports it."""

    kind: Literal["publish", "subscribe"]
    subject: str


def read_violation(text: str) -> PermissionViolation | None:
    """Return the violation in an asynchronous error of nats-py; None without one."""
    match = _VIOLATION_PATTERN.search(text.lower())
    if match is None:
        return None
    return PermissionViolation("publish" if match[1] == "publish" else "subscribe", match[2])


class _SubjectRules(msgspec.Struct):
    allow: list[str] | None = None
    deny: list[str] | None = None


class _Permissions(msgspec.Struct):
    publish: _SubjectRules | None = None
    subscribe: _SubjectRules | None = None


class _UserData(msgspec.Struct):
    user: str | None = None
    account: str | None = None
    permissions: _Permissions | None = None
    expires: int = 0


class _ReplyingServer(msgspec.Struct):
    id: str | None = None


class _UserInfoReply(msgspec.Struct):
    data: _UserData | None = None
    server: _ReplyingServer | None = None


class UserInfo(Struct, frozen=True):
    """Our user, account and permissions, as the server reports them."""

    user: str | None
    account: str | None
    permitted: Permitted
    server_id: str | None = None
    """Id of the server that replied."""


def read_user_info(data: bytes) -> UserInfo:
    """Decode the reply to `$SYS.REQ.USER.INFO`; raises RequestFailed if it is unreadable."""
    reply = read(USER_INFO, data, _UserInfoReply)
    user, server = reply.data or _UserData(), reply.server or _ReplyingServer()
    user_permissions = user.permissions or _Permissions()
    publish, subscribe = (
        user_permissions.publish or _SubjectRules(),
        user_permissions.subscribe or _SubjectRules(),
    )
    permissions = Permitted(
        at_us=time.time_ns() // 1000,
        publish_allow=_allowed_subjects(publish.allow),
        publish_deny=tuple(publish.deny or ()),
        subscribe_allow=_allowed_subjects(subscribe.allow),
        subscribe_deny=tuple(subscribe.deny or ()),
    )
    return UserInfo(user.user, user.account, permissions, server.id)


def _allowed_subjects(subjects: list[str] | None) -> tuple[str, ...] | None:
    """Return the allowed subjects; None if the list is empty or absent, which allows all."""
    return tuple(subjects) if subjects else None
