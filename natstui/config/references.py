"""Secrets that are references: `file://`, `env://`, `data:`, `op://` and `nsc://`."""

from __future__ import annotations

import base64
import binascii
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

from natstui.children import run_program
from natstui.clean import clean_line
from natstui.errors import UsageError
from natstui.files import MAX_TEXT_BYTES, read_user_file
from natstui.parsing import parse_json

# Long enough for the fingerprint that `op` may require.
_TOOL_TIMEOUT_S = 60.0
SEED_PATTERN = re.compile(r"\bS[ANOUX][A-Z2-7]{56}\b")
"""The seed of an nkey."""
_SECRET_PATTERN = re.compile(rf"{SEED_PATTERN.pattern}|-----BEGIN |\beyJ[\w-]+\.")
"""A seed, what a creds or key file begins with, and a JWT."""


def expand_path(path: str) -> str:
    """Return a path with `~` and `$VAR` replaced; raises UsageError if the text is a secret."""
    _refuse_secret(path)
    return os.path.expanduser(os.path.expandvars(path))


def has_secret(text: str) -> bool:
    """Return whether a text is or contains a secret: a seed, a key, credentials or a JWT."""
    return _SECRET_PATTERN.search(text) is not None


def _refuse_secret(text: str) -> None:
    """Raise UsageError, without showing the text, if a secret is set where a path is expected."""
    if has_secret(text):
        raise UsageError(
            "a secret was given where the name of a file is expected: write the secret into a "
            "file that only you can read, and give its name, or give a reference, as env://NAME"
        )


def make_absolute(reference: str) -> str:
    """Return a path, or a `file://` reference, as an absolute path.

    A path that begins with `~` or a variable, and other references stay as they are. Raises
    UsageError for a secret, and if the current folder was deleted.
    """
    if _known_scheme(reference) not in (None, "file"):
        return reference
    prefix = "file://" if _known_scheme(reference) else ""
    path = reference[len(prefix) :]
    _refuse_secret(path)
    if not path or path.startswith(("~", "$", "/")):
        return reference
    try:
        return f"{prefix}{Path(path).absolute()}"
    except FileNotFoundError as error:
        raise UsageError(f"{path} is not found: the current folder does not exist") from error


def file_or_secret(reference: str) -> tuple[str | None, str | None]:
    """Return (path, None) for a reference to a file, (None, secret) for any other reference.

    A path without a scheme is a reference to a file, too. A FIFO or a pipe of a shell is read at
    once, because it can be read only once, and each connection reads the file again. Raises
    UsageError for a secret instead of a path, and for a reference that cannot be read.
    """
    if not _known_scheme(reference):
        reference = f"file://{reference}"
    if not reference.startswith("file://"):
        return None, resolve_secret(reference)
    path = expand_path(reference.removeprefix("file://"))
    return (None, _read_file(reference)) if Path(path).is_fifo() else (path, None)


def resolve_secret(reference: str) -> str:
    """Return the secret that a reference points to; a text without a known scheme is the secret.

    Raises UsageError if the secret cannot be read or is empty; the error shows the reference, but
    never the secret.
    """
    scheme = _known_scheme(reference)
    if scheme is None:
        return reference
    secret = _READER_BY_SCHEME[scheme](reference).rstrip("\r\n")
    if not secret:
        raise UsageError(f"{reference} is an empty secret")
    return secret


def _known_scheme(reference: str) -> str | None:
    scheme = reference.partition(":")[0].lower()
    separator = ":" if scheme == "data" else "://"
    is_reference = scheme in _READER_BY_SCHEME and reference[len(scheme) :].startswith(separator)
    return scheme if is_reference else None


def _read_file(reference: str) -> str:
    path = expand_path(reference.partition("://")[2])
    try:
        return read_user_file(Path(path), MAX_TEXT_BYTES).decode()
    except OSError as error:
        raise UsageError(f"{reference} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{reference} is not text") from error


def _read_variable(reference: str) -> str:
    name = reference.partition("://")[2]
    value = os.environ.get(name, "")
    if not value:
        raise UsageError(f"{reference}: the environment variable {name!r} is not set")
    return value


def _read_data_url(reference: str) -> str:
    header, comma, payload = reference.removeprefix("data:").partition(",")
    if not comma or "base64" not in [parameter.strip() for parameter in header.split(";")]:
        raise UsageError("a data: reference is written data:;base64,…")
    try:
        return base64.b64decode(payload, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UsageError("the payload of a data: reference is not text in base64") from error


def _read_1password(reference: str) -> str:
    return run_tool(reference, "op", "read", reference)


def _read_nsc_creds(reference: str) -> str:
    creds, _ = nsc_profile(reference)
    return _read_file(f"file://{creds}")


_READER_BY_SCHEME: dict[str, Callable[[str], str]] = {
    "file": _read_file,
    "env": _read_variable,
    "data": _read_data_url,
    "op": _read_1password,
    "nsc": _read_nsc_creds,
}


def nsc_profile(reference: str) -> tuple[str, str | None]:
    """Return the creds file, and the servers or None, of `nsc://operator/account/user`.

    Raises UsageError if the program `nsc` fails or knows no creds file.
    """
    output = run_tool(
        reference, "nsc", "generate", "profile", f"nsc://{reference.removeprefix('nsc://')}"
    )
    try:
        profile = parse_json(output)
        creds, server_urls = profile.get("user_creds"), profile.get("operator", {}).get("service")
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{reference}: the output of nsc is not a profile") from error
    if not creds:
        raise UsageError(f"{reference}: nsc knows no creds file for it")
    return str(creds), ",".join(server_urls) if server_urls else None


def run_tool(reference: str, *command: str) -> str:
    """Return the output of the program that resolves a reference; raises UsageError if it fails.

    A program that prints nothing has failed, whatever its exit code is.
    """
    tool_path = shutil.which(command[0])
    if tool_path is None:
        raise UsageError(f"{reference} needs the tool {command[0]!r}, which is not installed")
    try:
        completed_process = run_program([tool_path, *command[1:]], _TOOL_TIMEOUT_S)
        if completed_process.returncode:
            error_text = clean_line(
                " ".join(completed_process.stderr.decode(errors="replace").split())[:200]
            )
            raise UsageError(f"{reference}: {command[0]} failed: {error_text}")
        output = completed_process.stdout.decode()
    except OSError as error:
        reason = error.strerror or error
        raise UsageError(f"{reference}: {command[0]} cannot be used: {reason}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{reference}: the output of {command[0]} is not text") from error
    if not output.strip():
        raise UsageError(f"{reference}: the command {shlex.join(command)} printed nothing")
    return output
