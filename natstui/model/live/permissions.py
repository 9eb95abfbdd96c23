"""What the user may do, by the permissions that the server reported, without trying it."""

from __future__ import annotations

from collections.abc import Callable

from natstui.model.assets.subjects import overlap
from natstui.model.records.link import Permitted

READING = (
    "INFO",
    "STREAM.LIST",
    "STREAM.NAMES",
    "STREAM.INFO.*",
    "CONSUMER.LIST.*",
    "CONSUMER.NAMES.*",
    "CONSUMER.INFO.*.*",
)
"""The verbs of the JetStream API that watching needs."""


def only_watched(account: str) -> str:
    """Return why nothing but its rows is known of another account, and nothing done to it."""
    return (
        f"the account {account} is watched through the system account, which shows only streams "
        "and consumers: for anything else, connect as a user of that account"
    )


def may_publish(permitted: Permitted, subject: str) -> bool:
    """Return whether requests on all that `subject` means, wildcards included, are allowed."""
    return _allows(permitted, subject, covers)


def may_publish_some(permitted: Permitted | None, subject: str) -> bool:
    """Return whether requests on something that `subject` means are; unknown counts as yes."""
    return permitted is None or _allows(permitted, subject, overlap)


def _allows(permitted: Permitted, subject: str, fits: Callable[[str, str], bool]) -> bool:
    allow = permitted.publish_allow
    allowed = allow is None or any(fits(pattern, subject) for pattern in allow)
    return allowed and not any(covers(pattern, subject) for pattern in permitted.publish_deny)


def covers(pattern: str, subject: str) -> bool:
    """Return whether `pattern` matches everything that `subject` means, wildcards included."""
    # A permission may name a queue group after the subject.
    wanted = pattern.split(" ")[0].split(".")
    words = subject.split(".")
    for index, want in enumerate(wanted):
        if want == ">":
            return len(words) > index
        if index >= len(words) or words[index] == ">":
            return False
        if want not in ("*", words[index]):
            return False
    return len(words) == len(wanted)
