"""Our identity and TLS context in the form that nats-py needs: user, token, nkey, creds or JWT."""

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
from natstui.config.references import SEED
from natstui.config.servers import Address
from natstui.errors import UsageError
from natstui.files import MOST_TEXT_BYTES, read_plain
from natstui.paths import user_path

_CREDS_JWT = re.compile(r"-+BEGIN NATS USER JWT-+\s+(\S+)\s+-+END")


def auth_options(connection: Connection, addresses: tuple[Address, ...]) -> dict[str, Any]:
    """Return the arguments of nats-py's `connect` for our identity.

    The first of user, creds, nkey and JWT is used; a token is always sent. Files are read now, so
    that errors come early, and at every reconnect, so that renewed files are used.
    """
    options: dict[str, Any] = {}
    user, password, token = _names(connection, addresses)
    if token is not None:
        options["token"] = token
    if user is not None:
        options.update(user=user, password=password or "")
    elif connection.creds or connection.creds_file:
        options.update(_creds(connection))
    elif connection.nkey or connection.nkey_file:
        options.update(_nkey(connection))
    elif connection.user_jwt:
        options.update(_jwt(connection))
    return options


def expired_since_s(connection: Connection) -> float | None:
    """Return when our own JWT has expired; None if it has not, or without one."""
    if connection.user:
        return None
    if connection.creds or connection.creds_file:
        jwt_match = _CREDS_JWT.search(_text(connection.creds, connection.creds_file))
        jwt = jwt_match.group(1) if jwt_match else ""
    else:
        jwt = connection.user_jwt.reveal() if connection.user_jwt else ""
    claims = _claims(jwt)
    since_s = time.time() - claims["exp"] if isinstance(claims.get("exp"), int) else -1.0
    return since_s if since_s > 0 else None


def _claims(jwt: str) -> dict[str, Any]:
    """Return the claims of a JWT, unverified; empty for an invalid one."""
    body = jwt.strip().split(".")[1:2]
    try:
        claims = json.loads(base64.urlsafe_b64decode(body[0] + "==")) if body else {}
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _names(
    connection: Connection, addresses: tuple[Address, ...]
) -> tuple[str | None, str | None, str | None]:
    """Return user, password and token; settings win over what a server address contains."""
    user = connection.user
    password = connection.password.reveal() if connection.password else None
    token = connection.token.reveal() if connection.token else None
    address_with_user = next((a for a in addresses if a.user is not None), None)
    if user is None and token is None and address_with_user is not None:
        if address_with_user.password is None:
            return None, None, address_with_user.user
        user, password = address_with_user.user, address_with_user.password
    return user, password, token


def _creds(connection: Connection) -> dict[str, Any]:
    def read() -> tuple[str, str]:
        text = _text(connection.creds, connection.creds_file)
        source = connection.creds_file or "the creds of the settings"
        jwt = _CREDS_JWT.search(text)
        if jwt is None:
            raise UsageError(f"{source} has no NATS user JWT: it is not a creds file")
        return jwt.group(1), _seed(text, source)

    read()
    return {
        "user_jwt_cb": lambda: read()[0].encode(),
        "signature_cb": lambda nonce: _sign(read()[1], nonce),
    }


def _nkey(connection: Connection) -> dict[str, Any]:
    text = _text(connection.nkey, connection.nkey_file)
    seed = _seed(text, connection.nkey_file or "the nkey of the settings")
    return {"nkeys_seed_str": seed}


def _jwt(connection: Connection) -> dict[str, Any]:
    jwt = connection.user_jwt.reveal().strip() if connection.user_jwt else ""
    sign: Callable[[str], bytes] = lambda _nonce: b""  # noqa: E731  a bearer JWT needs no signature
    if connection.user_seed:
        seed = _seed(connection.user_seed.reveal(), "user_seed")
        sign = lambda nonce: _sign(seed, nonce)  # noqa: E731
    return {"user_jwt_cb": jwt.encode, "signature_cb": sign}


def _text(secret: Secret | None, file: str | None) -> str:
    """Return a secret given as text or as a plain file, which is read again for each
    connection.
    """
    if secret is not None or file is None:
        return secret.reveal() if secret else ""
    try:
        return read_plain(user_path(file), MOST_TEXT_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{file} cannot be read: {reason}") from error


def _seed(text: str, source: str) -> str:
    """Find the seed in a text that may have comments and dashes around it."""
    import nkeys  # brings libsodium, which only these identities need

    match = SEED.search(text)
    if match is None:
        raise UsageError(f"{source} has no nkey seed (a word of 58 letters that starts with SU)")
    raw = base64.b32decode(match.group() + "=" * 6)
    if nkeys.crc16(raw[:-2]) != int.from_bytes(raw[-2:], "little"):
        raise UsageError(f"the nkey seed in {source} is damaged: the checksum does not match")
    return match.group()


def _sign(seed: str, nonce: str) -> bytes:
    """Return the signature of the server's nonce, in base64."""
    import nkeys

    pair = nkeys.from_seed(bytearray(seed.encode()))
    signature = base64.b64encode(pair.sign(nonce.encode()))
    pair.wipe()
    return signature


def tls_options(connection: Connection, *, is_wanted: bool) -> dict[str, Any]:
    """Return the TLS arguments of nats-py's `connect`.

    Raises UsageError with the file that is missing, unreadable or invalid.
    """
    if not is_wanted:
        return {}
    authorities = _authorities(connection.ca)
    if authorities is None:
        _check_default_authorities()
    context = ssl.create_default_context(cafile=authorities)
    if connection.key and not connection.cert:
        raise UsageError("a key without a certificate is useless: set cert as well")
    if connection.cert:
        _load_pair(context, connection.cert, connection.key)
    return {"tls": context, "tls_handshake_first": connection.tls_first}


def _check_default_authorities() -> None:
    """Raise UsageError for a file of OpenSSL's variable that it would read for ever."""
    variable = ssl.get_default_verify_paths().openssl_cafile_env
    file = os.environ.get(variable, "")
    try:
        if file and Path(file).exists():
            read_plain(Path(file), MOST_TEXT_BYTES)
    except OSError as error:
        raise UsageError(f"{variable}: {file} cannot be read: {error.strerror}") from error


def _authorities(ca: str | None) -> str | None:
    """Return the CA file after checking it."""
    if ca is None:
        return None
    path = str(user_path(ca))
    try:
        # OpenSSL reads a file without an end for ever.
        read_plain(Path(path), MOST_TEXT_BYTES)
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise UsageError(f"{ca} is not a file with PEM certificates") from error
    except OSError as error:
        raise UsageError(f"{ca} cannot be read: {error.strerror}") from error
    return path


def _load_pair(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    """Load the client certificate and its key into the context."""
    files = [str(user_path(file)) if file else None for file in (cert, key)]
    files_text = f"{cert} and {key}" if key else cert

    def refuse() -> bytes:
        raise UsageError(f"{key or cert} is encrypted, and natstui cannot ask for its password")

    try:
        for file in filter(None, files):
            read_plain(Path(file), MOST_TEXT_BYTES)
        context.load_cert_chain(files[0] or "", files[1], password=refuse)
    except ssl.SSLError as error:
        reason = (error.reason or "not PEM").replace("_", " ").lower()
        raise UsageError(f"{files_text} are not a certificate and its key: {reason}") from error
    except OSError as error:
        raise UsageError(f"{files_text} cannot be read: {error.strerror}") from error
