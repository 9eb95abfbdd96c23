"""Everything that can go wrong for a user, and the exit code it ends with.

NatstuiError (1)
├── UsageError (2)            the words of a command, a setting or a file are wrong
│   └── MissingExtra (2)      the command needs an optional part that is not installed
├── ConnectionFailed (3)      no usable connection: address, TCP, TLS, time-out
│   ├── AuthenticationFailed  the server refused the credentials
│   └── ServerGone            the connection was lost
├── RequestFailed (4)         the server answered with an error
│   ├── PermissionDenied      the user may not do this; names the subject
│   ├── JetStreamUnavailable  no JetStream for this server, domain or account
│   ├── NotFound              no such stream, consumer or message
│   ├── Conflict              it was changed meanwhile, or it exists already
│   ├── RequestTimedOut       no answer came in time
│   └── OutcomeUnknown        a write was sent, and no answer says whether it was done
├── Refused (5)               natstui itself refuses: read-only
├── AssertionFailed (1)       a check the user asked for does not hold
├── RunFailed (1)             a benchmark ended early; carries its partial result
├── Interrupted (129, 130, 143)  a signal ended a run early; without a result
├── BrokerFailed (1)          the embedded nats-server does not run
├── WriteFailed (6)           the disk does not take a file: full, over a quota, broken
├── BackupError (6)           a backup cannot be read or written, or is not complete
├── SessionError (6)          a recording cannot be read or written
│   └── DamagedSession        not all of it: the command did its work with the rest
└── AnalysisError (7)         Java, Spark or the data of an analysis
"""

from __future__ import annotations


class NatstuiError(Exception):
    """Something a user can understand and act on: one sentence, no traceback."""

    exit_code = 1


class UsageError(NatstuiError):
    """The words of a command, a setting or a file are wrong."""

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


class ServerGone(ConnectionFailed):
    """The connection was there and is lost at this moment."""

    def __init__(self, sentence: str, *, is_sent: bool = False, reason: str = "") -> None:
        super().__init__(sentence)
        self.sent = is_sent
        """Whether the request may have reached the server before the connection was lost."""
        self.reason = reason or sentence
        """Why the connection was lost, without what it means for a request."""


class RequestFailed(NatstuiError):
    """The server answered a request with an error."""

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
    """No JetStream answers for this server, domain or account."""


class NotFound(RequestFailed):
    """No such stream, consumer or message."""


class Conflict(RequestFailed):
    """It exists already, or it was changed meanwhile."""


class RequestTimedOut(RequestFailed):
    """No answer to a request came in time."""

    def __init__(self, subject: str, timeout_s: float) -> None:
        super().__init__(f'no reply on "{subject}" within {timeout_s:g} s')
        self.subject = subject
        self.timeout_s = timeout_s


class ReplyUnreadable(RequestFailed):
    """A reply has not the documented shape: of a write, it does not say whether it was done."""


class OutcomeUnknown(RequestFailed):
    """A write was sent, and no answer says whether it was done."""


class Refused(NatstuiError):
    """natstui itself refuses: read-only, or production not confirmed."""

    exit_code = 5


class AssertionFailed(NatstuiError):
    """A check the user asked for does not hold."""


class RunFailed(NatstuiError):
    """A benchmark ended early; what it measured until then was saved."""

    def __init__(self, sentence: str, summary: str) -> None:
        super().__init__(sentence)
        self.summary = summary
        """The partial result as text for people."""


class Interrupted(NatstuiError):
    """A signal ended a run early."""

    def __init__(self, sentence: str, signal_number: int) -> None:
        super().__init__(sentence)
        self.exit_code = 128 + signal_number


class BrokerFailed(NatstuiError):
    """The embedded nats-server did not start, or does not run."""


class WriteFailed(NatstuiError):
    """The disk does not take a file: it is full, over a quota, or broken."""

    exit_code = 6


class BackupError(NatstuiError):
    """A backup cannot be read or written, or is not complete."""

    exit_code = 6


class SessionError(NatstuiError):
    """A recording cannot be read or written."""

    exit_code = 6


class DamagedSession(SessionError):
    """Something of a recording cannot be read; what was asked was done with all the rest."""

    def __init__(self, session: object, done: str) -> None:
        super().__init__(f"{session} is damaged: {done}")


class AnalysisError(NatstuiError):
    """Java, Spark or the data of an analysis is not usable."""

    exit_code = 7
