"""May the user do this? Answered from what the server told, without trying it."""

from __future__ import annotations

from natstui.model.record import Permitted

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


def may_publish(permitted: Permitted, subject: str) -> bool:
    """Return whether requests on `subject` (it may have wildcards) are allowed."""
    return _allows(permitted.publish_allow, permitted.publish_deny, subject)


def may_subscribe(permitted: Permitted, subject: str) -> bool:
    """Return whether `subject` (it may have wildcards) may be listened to."""
    return _allows(permitted.subscribe_allow, permitted.subscribe_deny, subject)


def _allows(allow: tuple[str, ...] | None, deny: tuple[str, ...], subject: str) -> bool:
    allowed = allow is None or any(covers(pattern, subject) for pattern in allow)
    return allowed and not any(covers(pattern, subject) for pattern in deny)


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
