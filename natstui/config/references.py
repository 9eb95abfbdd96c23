"""Secrets that are references: `file://`, `env://`, `data:`, `op://` and `nsc://`."""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from natstui.clean import clean_line
from natstui.errors import UsageError
from natstui.files import MOST_TEXT_BYTES, read_given
from natstui.parsing import parse_json

# Long enough for a fingerprint that `op` asks for.
_TOOL_S = 60.0


def expand(path: str) -> str:
    """Return a path with `~` and `$VAR` replaced."""
    return os.path.expanduser(os.path.expandvars(path))


def file_of(reference: str) -> str | None:
    """Return the path a reference to a file means; None when it is another kind of reference."""
    if reference.startswith("file://"):
        return expand(reference.removeprefix("file://"))
    return None if _scheme(reference) else expand(reference)


def resolve_secret(reference: str) -> str:
    """Return the secret itself; a text without a known scheme is the secret.

    Raises UsageError naming the reference, never the secret.
    """
    scheme = _scheme(reference)
    if scheme is None:
        return reference
    return _READERS[scheme](reference).rstrip("\r\n")


def _scheme(reference: str) -> str | None:
    scheme = reference.partition(":")[0].lower()
    separator = ":" if scheme == "data" else "://"
    known = scheme in _READERS and reference[len(scheme) :].startswith(separator)
    return scheme if known else None


def _read_file(reference: str) -> str:
    path = expand(reference.partition("://")[2])
    try:
        return read_given(Path(path), MOST_TEXT_BYTES).decode()
    except OSError as error:
        raise UsageError(f"{reference} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{reference} is not text") from error


def _read_environment(reference: str) -> str:
    name = reference.partition("://")[2]
    value = os.environ.get(name, "")
    if not value:
        raise UsageError(f"{reference}: the environment variable {name!r} is not set")
    return value


def _read_data(reference: str) -> str:
    header, comma, payload = reference.removeprefix("data:").partition(",")
    if not comma or "base64" not in [word.strip() for word in header.split(";")]:
        raise UsageError("a data: reference is written data:;base64,…")
    try:
        return base64.b64decode(payload, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise UsageError("the payload of a data: reference is not text in base64") from error


def _read_op(reference: str) -> str:
    return run_tool(reference, "op", "read", reference)


def _read_nsc(reference: str) -> str:
    creds, _ = nsc_profile(reference)
    return _read_file(f"file://{creds}")


_READERS: dict[str, Callable[[str], str]] = {
    "file": _read_file,
    "env": _read_environment,
    "data": _read_data,
    "op": _read_op,
    "nsc": _read_nsc,
}


def nsc_profile(reference: str) -> tuple[str, str | None]:
    """Return the creds file, and the servers if it names any, of `nsc://operator/account/user`."""
    output = run_tool(reference, "nsc", "generate", "profile", reference.removeprefix("nsc://"))
    try:
        profile = parse_json(output)
        creds, services = profile.get("user_creds"), profile.get("operator", {}).get("service")
    except (ValueError, AttributeError) as error:
        raise UsageError(f"{reference}: the output of nsc is not a profile") from error
    if not creds:
        raise UsageError(f"{reference}: nsc knows no creds file for it")
    return str(creds), ",".join(services) if services else None


def run_tool(reference: str, *command: str) -> str:
    """Return what a tool prints about a reference; raises UsageError with its complaint."""
    tool = shutil.which(command[0])
    if tool is None:
        raise UsageError(f"{reference} needs the tool {command[0]!r}, which is not installed")
    try:
        done = subprocess.run(
            [tool, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TOOL_S,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{reference}: {command[0]} did not end within {_TOOL_S:g} s") from error
    except subprocess.CalledProcessError as error:
        words = clean_line(" ".join(error.stderr.split())[:200])
        raise UsageError(f"{reference}: {command[0]} failed: {words}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{reference}: {command[0]} cannot be used: {error}") from error
    return done.stdout
