"""Why there is no connection: the failed step and its real cause, as one of our errors."""

from __future__ import annotations

import re
import socket
import ssl

import nats.errors

from natstui.clean import clean_line
from natstui.config import Connection
from natstui.errors import AuthenticationFailed, ConnectionFailed, NatstuiError, UsageError
from natstui.jetstream.connection.authentication import expired_since_s
from natstui.jetstream.connection.nats_client import OurSideFailed
from natstui.jetstream.connection.transport import Step
from natstui.units import duration_text

_AUTH = re.compile("authorization|authentication|credentials|auth callout|expired|revoked")


def explain(
    place: str, step: Step, error: BaseException, refusal: str | None = None
) -> NatstuiError:
    """Return our error for an attempt to connect to `place` (host:port) that failed at `step`.

    `refusal` is what the server said before it hung up.
    """
    if isinstance(error, OurSideFailed):
        return error.cause
    if refusal is not None:
        return _refusal(place, nats.errors.Error(refusal))
    if isinstance(error, nats.errors.SecureConnWantedError):
        reason = f"{place} offers no TLS, but TLS is required: nothing was sent to it"
        return ConnectionFailed(reason, step="TLS")
    if step == "address":
        return ConnectionFailed(_address_reason(place, error), step=step)
    if step == "TCP":
        return ConnectionFailed(_tcp_reason(place, error), step=step)
    if step == "TLS":
        return ConnectionFailed(_tls_reason(place, error), step=step)
    if step == "greeting":
        return ConnectionFailed(_greeting_reason(place, error), step=step)
    return _refusal(place, error)


def explain_refusal(place: str, error: NatstuiError, connection: Connection) -> NatstuiError:
    """Return the better reason for a refused user, when we know it: our JWT has expired.

    The server only says that it does not accept the user.
    """
    if not isinstance(error, AuthenticationFailed):
        return error
    try:
        since_s = expired_since_s(connection)
    except UsageError as unreadable:
        return unreadable
    if since_s is None:
        return error
    what = f"the JWT in {connection.creds_file}" if connection.creds_file else "the user's JWT"
    reason = f"{place} refuses the connection: {what} expired {duration_text(since_s)} ago"
    return AuthenticationFailed(reason, step="authentication")


def handshake_not_first(place: str) -> ConnectionFailed:
    """Return the error of a handshake that came before the server expected one.

    The handshake has then read the greeting, or the other way round.
    """
    reason = f"{place} does not begin with a TLS handshake: switch tls_first off"
    return ConnectionFailed(reason, step="TLS")


def explain_loss(error: BaseException | None, leaving: str | None = None) -> str:
    """Return one sentence on why an open connection was lost.

    `leaving` is the server that said it is in lame duck mode.
    """
    if leaving is not None:
        return f"{leaving} was in lame duck mode and closed the connection"
    if isinstance(error, nats.errors.UnexpectedEOF | ConnectionResetError):
        return "the server closed the connection"
    if isinstance(error, nats.errors.StaleConnectionError):
        return "the server does not reply any more"
    if error is None:
        return "the connection was lost"
    if isinstance(error, OSError):
        return f"the connection broke ({_words(error)})"
    return f"the server ended the connection ({_words(error)})"


def hung_up(error: BaseException) -> bool:
    """Tell whether a connection failed because the other end closed it, with or without a word."""
    closed = isinstance(error, nats.errors.UnexpectedEOF | OSError)
    return closed and not isinstance(error, TimeoutError | ssl.SSLError)


def _words(error: BaseException) -> str:
    """Return the text of a foreign error, made harmless and without its decoration."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = clean_line(text).removeprefix("nats: ").strip("'").lower()
    return text or type(error).__name__


def _address_reason(place: str, error: BaseException) -> str:
    host = clean_line(place.rpartition(":")[0])
    if isinstance(error, socket.gaierror):
        return f"the host {host!r} is not known ({_words(error)})"
    return f"looking up the host {host!r} takes too long"


def _tcp_reason(place: str, error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {place} (connection refused)"
    if isinstance(error, TimeoutError):
        return f"{place} does not reply: the host is down, or a firewall blocks it"
    return f"{place} cannot be reached ({_words(error)})"


def _tls_reason(place: str, error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = clean_line(error.verify_message)
        return f"the certificate of {place} is not trusted ({reason})"
    if isinstance(error, TimeoutError):
        return f"{place} does not complete the TLS handshake: is tls_first right?"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if "wrong version" in reason or "record layer" in reason:
            return handshake_not_first(place).reason
        return f"{place} refuses the handshake ({reason})"
    return f"{place} aborts the TLS handshake ({_words(error)})"


def _greeting_reason(place: str, error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"{place} accepts the connection, but does not greet as a NATS server does"
    if "empty response" in str(error) or isinstance(error, ConnectionResetError):
        return f"{place} closes the connection: is it a NATS server?"
    return f"{place} does not greet as a NATS server does ({_words(error)})"


def _refusal(place: str, error: BaseException) -> NatstuiError:
    """Explain a failure after our identity was sent."""
    text = _words(error)
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or text).replace("_", " ").lower()
        return ConnectionFailed(
            f"{place} requires a client certificate that it trusts ({reason})", step="TLS"
        )
    if hung_up(error):
        reason = (
            f"{place} closes the connection: does it require a client certificate (cert, key)?"
        )
        return ConnectionFailed(reason, step="authentication")
    if isinstance(error, TimeoutError):
        return ConnectionFailed(f"{place} does not answer", step="authentication")
    if "timeout" in text:
        # The server counts from its greeting: a slow link or a slow lookup here is enough.
        reason = f"{place} did not receive user or password in time ({text})"
        return ConnectionFailed(reason, step="authentication")
    if _AUTH.search(text):
        return AuthenticationFailed(_auth_reason(place, text), step="authentication")
    return ConnectionFailed(f"{place} refuses the connection ({text})", step="authentication")


def _auth_reason(place: str, text: str) -> str:
    if "expired" in text:
        return f"{place} reports that the JWT of this user or account has expired"
    if "revoked" in text:
        return f"{place} reports that this user has been revoked"
    return f"{place} does not accept this user, password, token or key ({text})"
