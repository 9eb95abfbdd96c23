"""Why there is no connection: the failed step and its real cause, as one of our errors."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl

import nats.errors

from natstui.clean import clean_line
from natstui.errors import AuthenticationFailed, ConnectionFailed, NatstuiError
from natstui.jetstream.transport import OurSideFailed, Step

_AUTH = ("authorization violation", "authentication", "credentials", "auth callout")


def explain(place: str, step: Step, error: BaseException) -> NatstuiError:
    """Return our error for an attempt to connect to `place` (host:port) that failed at `step`."""
    if isinstance(error, OurSideFailed):
        return error.cause
    if isinstance(error, nats.errors.SecureConnWantedError):
        return ConnectionFailed(
            f"TLS: {place} does not offer TLS, and TLS is asked for: nothing was sent"
        )
    if step == "address":
        return ConnectionFailed(f"address: {_address_reason(place, error)}")
    if step == "tcp":
        return ConnectionFailed(f"TCP: {_tcp_reason(place, error)}")
    if step == "tls":
        return ConnectionFailed(f"TLS: {_tls_reason(place, error)}")
    if step == "greeting":
        return ConnectionFailed(f"TCP: {_greeting_reason(place, error)}")
    return _refusal(place, error)


def _address_reason(place: str, error: BaseException) -> str:
    host = place.rpartition(":")[0]
    if isinstance(error, socket.gaierror):
        return f"the host {host!r} is not known ({(error.strerror or str(error)).lower()})"
    return f"looking up the host {host!r} took too long"


def _tcp_reason(place: str, error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {place} (connection refused)"
    if isinstance(error, asyncio.TimeoutError):
        return f"{place} does not answer: a firewall, or the host is down"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{place} cannot be reached ({reason.lower()})"


def _tls_reason(place: str, error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of {place} is not trusted ({error.verify_message}); is ca right?"
    if isinstance(error, ssl.SSLError) and error.reason:
        if error.reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"}:
            return f"{place} does not start with a TLS handshake; tls_first is wrong here"
        return f"{place} refused the handshake ({error.reason.replace('_', ' ').lower()})"
    if isinstance(error, asyncio.TimeoutError):
        return f"{place} does not finish the handshake; tls_first is wrong here, or it is frozen"
    return f"{place} broke the handshake off; does it want a client certificate (cert, key)?"


def _greeting_reason(place: str, error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return f"{place} accepts connections but does not greet like a NATS server"
    return f"{place} is not a NATS server, or it hung up ({clean_line(str(error))})"


def _refusal(place: str, error: BaseException) -> NatstuiError:
    """Explain what went wrong after we said who we are."""
    text = clean_line(str(error)).removeprefix("nats: ").strip("'")
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or text).replace("_", " ").lower()
        return ConnectionFailed(
            f"TLS: {place} wants another client certificate (cert, key): {reason}"
        )
    if isinstance(error, nats.errors.UnexpectedEOF | ConnectionResetError):
        return ConnectionFailed(
            f"{place} hung up before it said yes: does it want a client certificate (cert, key)?"
        )
    if isinstance(error, asyncio.TimeoutError):
        return ConnectionFailed(f"authentication: {place} does not answer in time")
    if any(word in text.lower() for word in _AUTH):
        return AuthenticationFailed(f"authentication: {_auth_reason(place, text)}")
    return ConnectionFailed(f"{place} refused the connection: {text}")


def _auth_reason(place: str, text: str) -> str:
    if re.search("expired", text, re.IGNORECASE):
        return f"{place} says that the user's JWT or password has expired"
    if re.search("revoked", text, re.IGNORECASE):
        return f"{place} says that the user has been revoked"
    return f"{place} does not accept this user, password, token or key ({text.lower()})"


def explain_loss(error: BaseException | None) -> str:
    """Return one sentence on why a connection that stood is gone."""
    if isinstance(error, nats.errors.UnexpectedEOF | ConnectionResetError):
        return "the server closed the connection"
    if isinstance(error, nats.errors.StaleConnectionError):
        return "the server does not answer any more"
    if error is None:
        return "the connection was lost"
    text = clean_line(str(error)).removeprefix("nats: ").strip("'")
    return f"the server ended the connection: {text}"
