"""Permissions of the user, as reported by the server: what may be published."""

from __future__ import annotations

from collections.abc import Callable

from natstui.model.assets.subjects import overlap
from natstui.model.records.link import Permitted

READ_API_VERBS = (
    "INFO",
    "STREAM.LIST",
    "STREAM.NAMES",
    "STREAM.INFO.*",
    "CONSUMER.LIST.*",
    "CONSUMER.NAMES.*",
    "CONSUMER.INFO.*.*",
)
"""The verbs of the JetStream API that watching requires."""


def read_only_account_text(account: str) -> str:
    """Return the reason why an account watched through the system account is read-only."""
    return (
        f"the account {account} is watched through the system account, which shows only streams "
        "and consumers: for anything else, connect as a user of that account"
    )


def may_publish(permissions: Permitted, subject: str) -> bool:
    """Return whether the user may publish to all subjects that match `subject`."""
    return _allows(permissions, subject, covers)


def may_publish_some(permissions: Permitted | None, subject: str) -> bool:
    """Return whether the user may publish to any subject that matches `subject`.

    True also if the permissions are unknown.
    """
    return permissions is None or _allows(permissions, subject, overlap)


def _allows(permissions: Permitted, subject: str, matches: Callable[[str, str], bool]) -> bool:
    allowed_patterns = permissions.publish_allow
    is_allowed = allowed_patterns is None or any(
        matches(pattern, subject) for pattern in allowed_patterns
    )
    return is_allowed and not any(covers(pattern, subject) for pattern in permissions.publish_deny)


def covers(pattern: str, subject: str) -> bool:
    """Return whether `pattern` matches every subject that `subject` matches."""
    # A permission may name a queue group after the subject.
    pattern_tokens = pattern.split(" ")[0].split(".")
    subject_tokens = subject.split(".")
    for index, pattern_part in enumerate(pattern_tokens):
        if pattern_part == ">":
            return len(subject_tokens) > index
        if index >= len(subject_tokens) or subject_tokens[index] == ">":
            return False
        if pattern_part not in ("*", subject_tokens[index]):
            return False
    return len(subject_tokens) == len(pattern_tokens)
