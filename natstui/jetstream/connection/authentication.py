"""Converts our identity and TLS settings to the options of nats-py's `connect`."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from natstui.config import Connection, Secret
from natstui.config.references import SEED_PATTERN
from natstui.config.servers import Address
from natstui.errors import UsageError
from natstui.files import MAX_TEXT_BYTES, read_regular_file
from natstui.paths import expand_user_path

_CREDS_JWT_PATTERN = re.compile(r"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END")


def auth_options(connection: Connection, addresses: tuple[Address, ...]) -> dict[str, Any]:
    """Return the arguments of nats-py's `connect` for our identity.

    The first of user, creds, nkey and JWT is used; a token is always sent. Files are read now, so
    that errors come early, and at every reconnect, so that renewed files are used. Raises
    UsageError for a file that is unreadable or has no JWT or nkey seed.
    """
    options: dict[str, Any] = {}
    user, password, token = _credentials(connection, addresses)
    if token is not None:
        options["token"] = token
    if user is not None:
        options.update(user=user, password=password or "")
    elif connection.creds or connection.creds_file:
        options.update(_creds_options(connection))
    elif connection.nkey or connection.nkey_file:
        options.update(_nkey_options(connection))
    elif connection.user_jwt:
        options.update(_jwt_options(connection))
    return options


def expired_since_s(connection: Connection) -> float | None:
    """Return the seconds since our own JWT expired; None if it has not, or without a JWT.

    Raises UsageError if the file with the JWT is unreadable.
    """
    if connection.user:
        return None
    if connection.creds or connection.creds_file:
        jwt_match = _CREDS_JWT_PATTERN.search(
            _read_secret(connection.creds, connection.creds_file)
        )
        jwt = jwt_match.group(1) if jwt_match else ""
    else:
        jwt = connection.user_jwt.reveal() if connection.user_jwt else ""
    claims = _read_claims(jwt)
    since_expiry_s = time.time() - claims["exp"] if isinstance(claims.get("exp"), int) else -1.0
    return since_expiry_s if since_expiry_s > 0 else None


def _read_claims(jwt: str) -> dict[str, Any]:
    """Return the claims of a JWT, unverified; empty for an invalid one."""
    payload_tokens = jwt.strip().split(".")[1:2]
    try:
        claims = (
            json.loads(base64.urlsafe_b64decode(payload_tokens[0] + "=="))
            if payload_tokens
            else {}
        )
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _credentials(
    connection: Connection, addresses: tuple[Address, ...]
) -> tuple[str | None, str | None, str | None]:
    """Return user, password and token; settings take precedence over server addresses."""
    user = connection.user
    password = connection.password.reveal() if connection.password else None
    token = connection.token.reveal() if connection.token else None
    address_with_user = next((a for a in addresses if a.user is not None), None)
    if user is None and token is None and address_with_user is not None:
        if address_with_user.password is None:
            return None, None, address_with_user.user
        user, password = address_with_user.user, address_with_user.password
    return user, password, token


def _creds_options(connection: Connection) -> dict[str, Any]:
    def read_jwt_and_seed() -> tuple[str, str]:
        text = _read_secret(connection.creds, connection.creds_file)
        source = connection.creds_file or "the creds of the settings"
        jwt = _CREDS_JWT_PATTERN.search(text)
        if jwt is None:
            raise UsageError(f"{source} has no NATS user JWT: it is not a creds file")
        return jwt.group(1), _find_seed(text, source)

    read_jwt_and_seed()
    return {
        "user_jwt_cb": lambda: read_jwt_and_seed()[0].encode(),
        "signature_cb": lambda nonce: _sign(read_jwt_and_seed()[1], nonce),
    }


def _nkey_options(connection: Connection) -> dict[str, Any]:
    text = _read_secret(connection.nkey, connection.nkey_file)
    seed = _find_seed(text, connection.nkey_file or "the nkey of the settings")
    return {"nkeys_seed_str": seed}


def _jwt_options(connection: Connection) -> dict[str, Any]:
    jwt = connection.user_jwt.reveal().strip() if connection.user_jwt else ""
    sign: Callable[[str], bytes] = lambda _nonce: b""  # noqa: E731  a bearer JWT needs no signature
    if connection.user_seed:
        seed = _find_seed(connection.user_seed.reveal(), "user_seed")
        sign = lambda nonce: _sign(seed, nonce)  # noqa: E731
    return {"user_jwt_cb": jwt.encode, "signature_cb": sign}


def _read_secret(secret: Secret | None, file: str | None) -> str:
    """Return a secret from its text or its file; raises UsageError for an unreadable file."""
    if secret is not None or file is None:
        return secret.reveal() if secret else ""
    try:
        return read_regular_file(expand_user_path(file), MAX_TEXT_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{file} cannot be read: {reason}") from error


def _find_seed(text: str, source: str) -> str:
    """Return the nkey seed in a text with comments around it; raises UsageError without one."""
    import nkeys  # brings libsodium, which only these identities need

    seed_match = SEED_PATTERN.search(text)
    if seed_match is None:
        raise UsageError(f"{source} has no nkey seed (a word of 58 letters that starts with SU)")
    seed_bytes = base64.b32decode(seed_match.group() + "=" * 6)
    if nkeys.crc16(seed_bytes[:-2]) != int.from_bytes(seed_bytes[-2:], "little"):
        raise UsageError(f"the nkey seed in {source} is damaged: the checksum does not match")
    return seed_match.group()


def _sign(seed: str, nonce: str) -> bytes:
    """Return the signature of the server's nonce, in base64."""
    import nkeys

    key_pair = nkeys.from_seed(bytearray(seed.encode()))
    signature = base64.b64encode(key_pair.sign(nonce.encode()))
    key_pair.wipe()
    return signature


def tls_options(connection: Connection, *, is_tls_wanted: bool) -> dict[str, Any]:
    """Return the TLS arguments of nats-py's `connect`; none unless `is_tls_wanted`.

    Raises UsageError with the file that is missing, unreadable or invalid.
    """
    if not is_tls_wanted:
        return {}
    ca_file = _check_ca_file(connection.ca)
    if ca_file is None:
        _check_default_authorities()
    context = ssl.create_default_context(cafile=ca_file)
    if connection.key and not connection.cert:
        raise UsageError("a key without a certificate is useless: set cert as well")
    if connection.cert:
        _load_certificate(context, connection.cert, connection.key)
    return {"tls": context, "tls_handshake_first": connection.tls_first}


def _check_default_authorities() -> None:
    """Raise UsageError if the CA file that OpenSSL's environment variable names is unreadable."""
    variable_name = ssl.get_default_verify_paths().openssl_cafile_env
    file = os.environ.get(variable_name, "")
    try:
        if file and Path(file).exists():
            read_regular_file(Path(file), MAX_TEXT_BYTES)
    except OSError as error:
        raise UsageError(f"{variable_name}: {file} cannot be read: {error.strerror}") from error


def _check_ca_file(ca: str | None) -> str | None:
    """Return the path of the CA file, None without one; raises UsageError if it is invalid."""
    if ca is None:
        return None
    ca_path = str(expand_user_path(ca))
    try:
        # OpenSSL would read a file without an end for ever.
        read_regular_file(Path(ca_path), MAX_TEXT_BYTES)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=ca_path)
    except ssl.SSLError as error:
        raise UsageError(f"{ca} is not a file with PEM certificates") from error
    except OSError as error:
        raise UsageError(f"{ca} cannot be read: {error.strerror}") from error
    return ca_path


def _load_certificate(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    """Load the client certificate and its key into a context; raises UsageError if that fails."""
    expanded_paths = [str(expand_user_path(file)) if file else None for file in (cert, key)]
    files_text = f"{cert} and {key}" if key else cert

    def refuse_key_password() -> bytes:
        raise UsageError(
            f"{key or cert} is encrypted, and natstui does not prompt for its password"
        )

    try:
        for file in filter(None, expanded_paths):
            read_regular_file(Path(file), MAX_TEXT_BYTES)
        context.load_cert_chain(
            expanded_paths[0] or "", expanded_paths[1], password=refuse_key_password
        )
    except ssl.SSLError as error:
        reason = (error.reason or "not PEM").replace("_", " ").lower()
        raise UsageError(f"{files_text} are not a certificate and its key: {reason}") from error
    except OSError as error:
        raise UsageError(f"{files_text} cannot be read: {error.strerror}") from error
