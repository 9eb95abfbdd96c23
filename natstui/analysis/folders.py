"""Checks of local paths before Spark starts: so errors are reported at once, not after 10 s."""

from __future__ import annotations

import fcntl
import glob
import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from natstui.errors import AnalysisError
from natstui.files import choose_write_error_type, open_lock
from natstui.paths import create_private_folder

CONNECT_PORT = 15002
_MIN_FREE_BYTES = 1 << 20
"""Minimum free disk space: that of the tables of the smallest recording."""
CONNECT_WAIT_S = 10.0
_ESCAPED_CHARACTER_PATTERN = re.compile(r"\\(.)")
_ASSUMED_COMPRESSION_RATIO = 12
"""Estimated ratio of the uncompressed size of a sealed segment to its size on disk."""
COMPLETION_FILE_NAMES = ("_SUCCESS", "_delta_log")
"""Names in the folder of a completely written table: the first of files, the second of Delta."""
REPLACED_NAMES = ("gold", "silver", "bronze", "result.json")
"""Names that an analysis replaces in the folder of its tables."""
FINGERPRINT_PREFIX = "_made_of-"
"""Prefix of the name of an empty file in gold, which ends with the fingerprint of the tables."""
_LOCK_NAME = ".lock"


def is_url(text: str) -> bool:
    """Return whether a path is a URL for Hadoop instead of a local path."""
    return "://" in text


def resolve_sessions(patterns: list[str]) -> list[str]:
    """Return the matching folders of local patterns, as absolute globs, and all URLs unchanged.

    Raises AnalysisError if a local pattern matches no session, or one that cannot be read.
    """
    checked_patterns: list[str] = []
    for pattern in patterns:
        if is_url(pattern):
            checked_patterns.append(pattern)
            continue
        path = os.path.abspath(os.path.expanduser(pattern))
        folders = [path] if os.path.isdir(path) else sorted(glob.glob(path))
        sessions = [folder for folder in folders if os.path.isfile(f"{folder}/session.json")]
        if not sessions:
            raise AnalysisError(_no_session_text(pattern, folders))
        for folder in sessions:
            _check_readable(folder)
        checked_patterns += [escape_glob(folder) for folder in sessions]
    return checked_patterns


def _no_session_text(pattern: str, folders: list[str]) -> str:
    if not folders:
        return f"no recorded session matches {pattern}"
    for folder in folders:
        if os.path.isdir(folder) and not os.access(folder, os.R_OK | os.X_OK):
            return f"no permission to read {folder}"
    return f"{pattern} is not a recorded session: it has no session.json"


def _check_readable(folder: str) -> None:
    if not os.access(folder, os.R_OK | os.X_OK):
        raise AnalysisError(f"no permission to read {folder}")
    names = session_file_names(folder)
    for name in names:
        if not os.access(f"{folder}/{name}", os.R_OK):
            raise AnalysisError(f"no permission to read {folder}/{name}")
        if not os.path.isfile(f"{folder}/{name}"):
            raise AnalysisError(f"{folder}/{name} is not a plain file")
    if not any(os.path.getsize(f"{folder}/{name}") for name in names[1:]):
        raise AnalysisError(f"the session {folder} is empty: it has no records")


def session_file_names(folder: str) -> list[str]:
    """Return the file names of a session, its header first."""
    return ["session.json", *sorted(n for n in os.listdir(folder) if n.startswith("records-"))]


def check_connect_server(address: str) -> None:
    """Raise AnalysisError if nothing listens at the address of a Spark Connect server, `sc://…`.

    The client of Spark would try to connect for ten minutes.
    """
    # What follows the semicolon may be a token, which no sentence must show.
    address = address.partition("/;")[0].partition(";")[0]
    parts = urlsplit(address)
    if parts.scheme != "sc" or not parts.hostname:
        raise AnalysisError(
            f"{address} is not the address of a Spark Connect server: sc://host:port"
        )
    try:
        host, port = parts.hostname, parts.port or CONNECT_PORT
        socket.create_connection((host, port), CONNECT_WAIT_S).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise AnalysisError(f"no Spark Connect server replies at {address}: {reason}") from error


def escape_glob(folder: str) -> str:
    """Return a folder's path with the glob characters of Hadoop escaped."""
    return "".join(
        f"\\{character}" if character in "*?[]{}\\" else character for character in folder
    )


def unescape_glob(pattern: str) -> str:
    """Return the folder's path from a pattern that `escape_glob` returned."""
    return _ESCAPED_CHARACTER_PATTERN.sub(r"\1", pattern)


def prepare_tables_folder(out: str) -> str:
    """Return the absolute path of the tables' folder, which is created; a URL unchanged.

    Raises AnalysisError if the folder cannot be written, or has files of other programs.
    """
    if is_url(out):
        return out
    path = Path(out).expanduser().absolute()
    try:
        create_private_folder(path)
        # Only a write shows whether the folder can be written.
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
    except OSError as error:
        kind = choose_write_error_type(error, AnalysisError)
        raise kind(f"cannot write the tables to {path}: {error.strerror}") from error
    _check_own_tables(path)
    return str(path)


def check_disk_space(out: str) -> None:
    """Raise WriteFailed if a local disk has less than 1 MiB of free space for the tables."""
    if is_url(out):
        return
    try:
        with tempfile.TemporaryFile(dir=out) as file:
            file.write(bytes(_MIN_FREE_BYTES))
    except OSError as error:
        kind = choose_write_error_type(error, AnalysisError)
        raise kind(f"cannot write the tables to {out}: {error.strerror}") from error


def _check_own_tables(out: Path) -> None:
    """Raise AnalysisError if tables would replace files that no analysis has written."""
    present_names = [name for name in REPLACED_NAMES if os.path.lexists(out / name)]
    for name in present_names:
        if (out / name).is_symlink():
            raise AnalysisError(f"cannot write the tables to {out}: {name} in it is a link")
    lock_file = out / _LOCK_NAME
    is_own_folder = (lock_file.is_file() and not lock_file.stat().st_size) or any(
        out.glob(f"gold/{FINGERPRINT_PREFIX}*")
    )
    if present_names and not is_own_folder:
        raise AnalysisError(foreign_files_text(str(out), present_names))


def foreign_files_text(out: str, names: list[str]) -> str:
    """Return the error text for files in `out` that natstui did not write and would replace."""
    return (
        f"cannot write the tables to {out}: it has {' and '.join(names)} already, which "
        "natstui did not write and would replace; name another folder with --out"
    )


@contextmanager
def lock_folder(out: str, on_wait: Callable[[], None]) -> Iterator[bool]:
    """Lock the folder of the tables and yield True; yield False for a URL.

    Waits while another run has the lock, after a call of `on_wait`. Object stores have no locks:
    there the user must run one analysis at a time.
    """
    if is_url(out):
        yield False
        return
    try:
        descriptor = open_lock(Path(out, _LOCK_NAME))
    except OSError as error:
        kind = choose_write_error_type(error, AnalysisError)
        raise kind(f"cannot write the tables to {out}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield True
    finally:
        os.close(descriptor)


def recorded_bytes(sessions: list[str]) -> int | None:
    """Return the estimated uncompressed bytes of session folders (globs); None if one is a URL."""
    if any(map(is_url, sessions)):
        return None
    return sum(map(_uncompressed_bytes, map(unescape_glob, sessions)))


def _uncompressed_bytes(folder: str) -> int:
    names = session_file_names(folder)
    return sum(uncompressed_bytes(name, os.path.getsize(f"{folder}/{name}")) for name in names)


def uncompressed_bytes(name: str, size_bytes: int) -> int:
    """Return the estimated uncompressed size of a file, from its name and its size on disk."""
    return size_bytes * (_ASSUMED_COMPRESSION_RATIO if name.endswith(".gz") else 1)
