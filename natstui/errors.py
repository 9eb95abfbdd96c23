"""Everything that can go wrong for a user, and the exit code of the command.

NatstuiError (1)
├── UsageError (2)            an option, a setting or an input file is not valid
│   └── MissingExtra (2)      the command needs an optional part that is not installed
├── ConnectionFailed (3)      no usable connection: address, TCP, TLS, timeout
│   ├── AuthenticationFailed  the server refused the credentials
│   └── ConnectionLost        the connection was open, and was lost
├── RequestFailed (4)         an error reply, no reply, or a reply that cannot be used
│   ├── PermissionDenied      the user may not do this; names the subject
│   ├── JetStreamUnavailable  no JetStream for this server, domain or account
│   ├── NotFound              no such stream, consumer or message
│   ├── Conflict              it was changed meanwhile, or it exists already
│   ├── RequestTimedOut       no reply came before the timeout
│   └── OutcomeUnknown        a write was sent, and no reply shows whether it was done
├── ActionRefusal (5)         natstui itself refuses: read-only
├── AssertionFailed (1)       a condition that the user gave to check is false
├── BenchmarkError (1)       a benchmark ended early; carries its partial result
├── Interrupted (129, 130, 143)  a signal ended a run early; without a result
├── EmbeddedServerError (1)  the embedded nats-server does not run
├── WriteFailed (6)           a file cannot be written: disk full, over a quota, or broken
├── BackupError (6)           a backup cannot be read or written, or is not complete
├── SessionError (6)          a recording cannot be read or written
│   └── DamagedSession        not all of it: the command did its work with the rest
└── AnalysisError (7)         Java, Spark or the data of an analysis is missing or not valid
"""

from __future__ import annotations


class NatstuiError(Exception):
    """An error that the user can act on: shown as one sentence, without a traceback."""

    exit_code = 1


class UsageError(NatstuiError):
    """A command line option, a setting or an input file is not valid."""

    exit_code = 2


class MissingExtra(UsageError):
    """A command needs an optional part that is not installed."""

    def __init__(self, command: str, extra: str) -> None:
        super().__init__(
            f"`natstui {command}` needs the extra {extra!r}: run pip install 'natstui[{extra}]'"
        )


class ConnectionFailed(NatstuiError):
    """There is no usable connection to a server."""

    exit_code = 3

    def __init__(self, reason: str, *, step: str | None = None) -> None:
        super().__init__(f"{step}: {reason}" if step else reason)
        self.reason = reason
        self.step = step
        """What failed on the way, as `address`, `TCP`, `TLS` or `authentication`."""


class AuthenticationFailed(ConnectionFailed):
    """The server refused the user, password, token, key or JWT."""


class ConnectionLost(ConnectionFailed):
    """The connection was open, and was lost at this moment."""

    def __init__(self, sentence: str, *, is_request_sent: bool = False, reason: str = "") -> None:
        super().__init__(sentence)
        self.sent = is_request_sent
        """Whether the request may have reached the server before the connection was lost."""
        self.reason = reason or sentence
        """Why the connection was lost, without what it means for a request."""


class RequestFailed(NatstuiError):
    """A request failed: an error reply, no reply, or a reply that cannot be used."""

    exit_code = 4

    def __init__(
        self, sentence: str, *, code: int | None = None, err_code: int | None = None
    ) -> None:
        super().__init__(sentence)
        self.code = code
        """HTTP-like code of the reply (`error.code`)."""
        self.err_code = err_code
        """JetStream's own number of the error (`error.err_code`)."""


class PermissionDenied(RequestFailed):
    """The user may not publish to, or subscribe to, a subject."""

    def __init__(self, subject: str, kind: str = "publish", advice: str = "") -> None:
        super().__init__(f'the user has no permission to {kind} to "{subject}"{advice}')
        self.subject = subject
        self.kind = kind


class JetStreamUnavailable(RequestFailed):
    """JetStream does not reply for this server, domain or account."""


class NotFound(RequestFailed):
    """No such stream, consumer or message."""


class Conflict(RequestFailed):
    """The target of a write exists already, or was changed meanwhile."""


class RequestTimedOut(RequestFailed):
    """No reply to a request came before its timeout."""

    def __init__(self, subject: str, timeout_s: float) -> None:
        super().__init__(f'no reply on "{subject}" within {timeout_s:g} s')
        self.subject = subject
        self.timeout_s = timeout_s


class ReplyUnreadable(RequestFailed):
    """A reply does not have the documented shape, so the outcome of a write is unknown."""


class OutcomeUnknown(RequestFailed):
    """A write was sent, and no reply shows whether it was done."""


class ActionRefusal(NatstuiError):
    """natstui itself refuses an action, as in read-only mode or without a confirmation."""

    exit_code = 5


class AssertionFailed(NatstuiError):
    """A condition that the user gave to check is false."""


class BenchmarkError(NatstuiError):
    """A benchmark ended early; what it measured until then was saved."""

    def __init__(self, sentence: str, summary: str) -> None:
        super().__init__(sentence)
        self.summary = summary
        """The partial result as text for people."""


class Interrupted(NatstuiError):
    """A signal ended a run early; the exit code is 128 plus the signal's number."""

    def __init__(self, sentence: str, signal_number: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + signal_number


class EmbeddedServerError(NatstuiError):
    """The embedded nats-server did not start, or does not run."""


class WriteFailed(NatstuiError):
    """A file cannot be written: the disk is full, over a quota, or broken."""

    exit_code = 6


class BackupError(NatstuiError):
    """A backup cannot be read or written, or is not complete."""

    exit_code = 6


class SessionError(NatstuiError):
    """A recording cannot be read or written."""

    exit_code = 6


class DamagedSession(SessionError):
    """A part of a recording cannot be read; the command did its work with the rest."""

    def __init__(self, session: object, result_text: str) -> None:
        super().__init__(f"{session} is damaged: {result_text}")


class AnalysisError(NatstuiError):
    """An analysis cannot run: Java, Spark or its data is missing or not valid."""

    exit_code = 7
