"""Explains failed connections: the failed step and its cause, as errors of natstui."""

from __future__ import annotations

import re
import socket
import ssl

import nats.errors

from natstui.clean import clean_line
from natstui.config import Connection
from natstui.errors import AuthenticationFailed, ConnectionFailed, NatstuiError, UsageError
from natstui.jetstream.connection.authentication import expired_since_s
from natstui.jetstream.connection.nats_client import LocalHandshakeError
from natstui.jetstream.connection.transport import Step
from natstui.units import duration_text

_AUTH_ERROR_PATTERN = re.compile(
    "authorization|authentication|credentials|auth callout|expired|revoked"
)


def explain_failed_attempt(
    address_text: str, step: Step, error: BaseException, refusal: str | None = None
) -> NatstuiError:
    """Return natstui's error for a failed attempt to connect to `address_text` (host:port).

    It failed at `step`; `refusal` is the error that the server sent before it closed the
    connection.
    """
    if isinstance(error, LocalHandshakeError):
        return error.cause
    if refusal is not None:
        return _explain_login_error(address_text, nats.errors.Error(refusal))
    if isinstance(error, nats.errors.SecureConnWantedError):
        reason = f"{address_text} offers no TLS, but TLS is required: nothing was sent to it"
        return ConnectionFailed(reason, step="TLS")
    if step == "address":
        return ConnectionFailed(_address_reason(address_text, error), step=step)
    if step == "TCP":
        return ConnectionFailed(_tcp_reason(address_text, error), step=step)
    if step == "TLS":
        return ConnectionFailed(_tls_reason(address_text, error), step=step)
    if step == "greeting":
        return ConnectionFailed(_greeting_reason(address_text, error), step=step)
    return _explain_login_error(address_text, error)


def explain_refusal(
    address_text: str, error: NatstuiError, connection: Connection
) -> NatstuiError:
    """Return the error with a more precise reason if our JWT has expired, else the same error.

    The server only reports that it does not accept the user.
    """
    if not isinstance(error, AuthenticationFailed):
        return error
    try:
        since_expiry_s = expired_since_s(connection)
    except UsageError as unreadable:
        return unreadable
    if since_expiry_s is None:
        return error
    subject = f"the JWT in {connection.creds_file}" if connection.creds_file else "the user's JWT"
    reason = (
        f"{address_text} refuses the connection: {subject} expired "
        f"{duration_text(since_expiry_s)} ago"
    )
    return AuthenticationFailed(reason, step="authentication")


def make_handshake_error(address_text: str) -> ConnectionFailed:
    """Return the error for a server that does not expect a TLS handshake first.

    Whether the server has TLS is not known: the advice must not lead to a connection without TLS.
    """
    reason = (
        f"{address_text} does not begin with a TLS handshake: tls:// in the address instead of "
        "tls_first expects TLS after the greeting, and refuses to connect without it"
    )
    return ConnectionFailed(reason, step="TLS")


def explain_lost_connection(
    error: BaseException | None, lame_duck_server: str | None = None
) -> str:
    """Return a clause with the reason why an open connection was lost.

    `lame_duck_server` is the server that announced lame duck mode, if any.
    """
    if lame_duck_server is not None:
        return f"{lame_duck_server} was in lame duck mode and closed the connection"
    if isinstance(error, nats.errors.UnexpectedEOF | ConnectionResetError):
        return "the server closed the connection"
    if isinstance(error, nats.errors.StaleConnectionError):
        return "the server does not reply any more"
    if error is None:
        return "the connection was lost"
    if isinstance(error, OSError):
        return f"the connection broke ({_error_text(error)})"
    return f"the server ended the connection ({_error_text(error)})"


def is_closed_by_server(error: BaseException) -> bool:
    """Return whether a connection failed because the server closed it."""
    is_closed = isinstance(error, nats.errors.UnexpectedEOF | OSError)
    return is_closed and not isinstance(error, TimeoutError | ssl.SSLError)


def _error_text(error: BaseException) -> str:
    """Return the cleaned text of an error of nats-py or Python, in lower case."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    text = clean_line(text).removeprefix("nats: ").strip("'").lower()
    return text or type(error).__name__


def _address_reason(address_text: str, error: BaseException) -> str:
    host = clean_line(address_text.rpartition(":")[0])
    if isinstance(error, socket.gaierror):
        return f"the host {host!r} is not known ({_error_text(error)})"
    return f"looking up the host {host!r} takes too long"


def _tcp_reason(address_text: str, error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {address_text} (connection refused)"
    if isinstance(error, TimeoutError):
        return f"{address_text} does not reply: the host is down, or a firewall blocks it"
    return f"{address_text} cannot be reached ({_error_text(error)})"


def _tls_reason(address_text: str, error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = clean_line(error.verify_message)
        return f"the certificate of {address_text} is not trusted ({reason})"
    if isinstance(error, TimeoutError):
        return f"{address_text} does not complete the TLS handshake in time"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        if "wrong version" in reason or "record layer" in reason:
            return make_handshake_error(address_text).reason
        return f"{address_text} refuses the handshake ({reason})"
    return f"{address_text} aborts the TLS handshake ({_error_text(error)})"


def _greeting_reason(address_text: str, error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"{address_text} accepts the connection, but does not greet as a NATS server does"
    if "empty response" in str(error) or isinstance(error, ConnectionResetError):
        return f"{address_text} closes the connection: is it a NATS server?"
    return f"{address_text} does not greet as a NATS server does ({_error_text(error)})"


def _explain_login_error(address_text: str, error: BaseException) -> NatstuiError:
    """Return the error for a failure after our identity was sent to the server."""
    text = _error_text(error)
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or text).replace("_", " ").lower()
        return ConnectionFailed(
            f"{address_text} requires a client certificate that it trusts ({reason})", step="TLS"
        )
    if is_closed_by_server(error):
        reason = (
            f"{address_text} closes the connection before it accepts the user: it was stopped, "
            "or it requires a client certificate (cert, key)"
        )
        return ConnectionFailed(reason, step="authentication")
    if isinstance(error, TimeoutError):
        return ConnectionFailed(f"{address_text} does not reply", step="authentication")
    if "timeout" in text:
        # The server counts from its greeting: a slow link or a slow lookup here is enough.
        reason = f"{address_text} did not receive user or password in time ({text})"
        return ConnectionFailed(reason, step="authentication")
    if _AUTH_ERROR_PATTERN.search(text):
        return AuthenticationFailed(_auth_reason(address_text, text), step="authentication")
    return ConnectionFailed(
        f"{address_text} refuses the connection ({text})", step="authentication"
    )


def _auth_reason(address_text: str, error_text: str) -> str:
    if "expired" in error_text:
        return f"{address_text} reports that the JWT of this user or account has expired"
    if "revoked" in error_text:
        return f"{address_text} reports that this user has been revoked"
    return f"{address_text} does not accept this user, password, token or key ({error_text})"
