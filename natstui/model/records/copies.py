"""Messages that a consumer gave up, and sending them again: what is asked, and the answers."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.model.records.messages import StoredMessage

MOST_LISTED_MSGS = 5_000


@dataclass(frozen=True, slots=True)
class FindGivenUp:
    """Answer with the messages that a consumer gave up, as `GivenUpFound`."""

    command_id: int
    stream: str
    consumer: str
    heard: tuple[tuple[int, int], ...] = ()
    """When this viewer heard that which sequence was given up."""
    sessions: tuple[str, ...] = ()
    """Recordings that may have heard it."""
    preview_bytes: int = 512
    """Of each payload."""


@dataclass(frozen=True, slots=True)
class GivenUpFound:
    """Messages that a consumer gave up, or those among which they are."""

    messages: tuple[StoredMessage, ...]
    """In order of sequence: those that are still stored, the first 5,000 of them."""
    sequences: tuple[int, ...]
    """All that were found, also those not listed."""
    gone_count: int
    """Of those looked at, how many the stream does not have any more."""
    is_known: bool
    """Whether these were given up; False: among them are some that were acknowledged."""
    remark: str
    """Where they were found, or why it cannot be told which they are."""
    created_at_us: int
    """When the stream was made."""


@dataclass(frozen=True, slots=True)
class CountAgain:
    """Answer with what sending messages of a stream again would do, as `AgainCounted`."""

    command_id: int
    stream: str
    sequences: tuple[int, ...]
    created_at_us: int
    """When the stream was made whose messages they are; one recreated is another one."""
    to_subject: str | None = None
    """All get this subject; None: each keeps its own."""


@dataclass(frozen=True, slots=True)
class AgainCounted:
    """What sending messages again would do now."""

    messages_count: int
    payload_bytes: int
    gone_count: int
    subjects: tuple[tuple[str, int, str], ...]
    """Subject, messages, and the stream that would store them (empty: none), most first."""
    other_subjects_count: int
    """Of how many more subjects there are some."""
    loses: str | None = None
    """What it removes for good, a clause; None when nothing."""


@dataclass(frozen=True, slots=True)
class SendAgain:
    """Store messages of a stream again: under their own subjects, or all under one."""

    command_id: int
    stream: str
    sequences: tuple[int, ...]
    created_at_us: int
    to_subject: str | None = None
    confirmed: str | None = None
    """The stream's name as typed, in production or where messages are removed."""


CopyReading = FindGivenUp | CountAgain
CopyCommand = CopyReading | SendAgain
