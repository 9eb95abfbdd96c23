"""Files and folders that appear complete or not at all, and reading of files that may be hostile.

A target is replaced only if it is a regular file. Until its content is complete, a temporary file
beside it with a random name has the content. That file is created exclusively, so that no link,
device or file of another user is followed, emptied or replaced. If a later process must find a
partial folder again, only its owner can enter it, and its path is stored in a file in the user's
state folder.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import os
import re
import secrets
import select
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from natstui.errors import NatstuiError, UsageError, WriteFailed
from natstui.paths import create_private_folder

_DISK_ERROR_NUMBERS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Error numbers of a failed disk: a target with another name on that disk would fail, too."""
_FILE_TYPE_TESTS_WITH_NAMES = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)
_READ_CHUNK_BYTES = 1024 * 1024
PIPE_TIMEOUT_S = 30.0
"""A pipe into which nothing is written for so long has no writer, or one that hangs."""
_MAX_NAME_BYTES = 200
"""Limit of bytes in a file name: file systems allow 255, and natstui appends suffixes."""


def check_replaceable(target: Path, *, replaces: bool) -> None:
    """Raise OSError unless `target` is absent or, with `replaces`, a regular file."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        type_text = next(
            (name for is_type, name in _FILE_TYPE_TESTS_WITH_NAMES if is_type(mode)),
            "no plain file",
        )
        if type_text == "a folder":
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(target))
        raise OSError(errno.EINVAL, f"it is {type_text}, and only plain files are replaced")
    if not replaces:
        raise FileExistsError(errno.EEXIST, "it exists already", str(target))


def create_write_error(
    target: Path, error: OSError, other_error: type[NatstuiError] = UsageError
) -> NatstuiError:
    """Return the error that ends a command when a file could not be written.

    It is WriteFailed if the disk failed. It is `other_error` if the target is wrong: it exists
    already, is no regular file, has no folder, or may not be written.
    """
    error_type = choose_write_error_type(error, other_error)
    return error_type(f"{target} cannot be written: {error.strerror or error}")


def choose_write_error_type(
    error: OSError, other_error: type[NatstuiError] = UsageError
) -> type[NatstuiError]:
    """Return the type of error to raise for a failed write.

    It is WriteFailed if the disk failed (full, quota, file too large, I/O error), else
    `other_error`: the target is wrong.
    """
    return WriteFailed if error.errno in _DISK_ERROR_NUMBERS else other_error


@contextmanager
def translate_write_errors(
    target: Path, other_error: type[NatstuiError] = UsageError
) -> Iterator[None]:
    """Turn an OSError of the block into the error that `create_write_error` returns."""
    try:
        yield
    except OSError as error:
        raise create_write_error(target, error, other_error) from error


@contextmanager
def open_atomic_file(
    target: Path, *, replaces: bool, mode: int | None = None
) -> Iterator[BinaryIO]:
    """Yield a file to write, which gets the name `target` once its content is on the disk.

    Its permissions are `mode`, or else those of the file it replaces, or what the umask leaves of
    0666. Raises OSError, also if the target may not be replaced; then the target is unchanged.
    """
    check_replaceable(target, replaces=replaces)
    folder = target.absolute().parent
    temporary_path = folder / f"{_hidden_name(target)}.{secrets.token_hex(8)}.part"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary_path, flags, 0o666 if mode is None else mode)
    try:
        with open(descriptor, "wb") as file:
            if mode is None:
                with suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), stat.S_IMODE(target.lstat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish_file(temporary_path, target, replaces=replaces)
    finally:
        temporary_path.unlink(missing_ok=True)


def publish_file(temporary_path: Path, target: Path, *, replaces: bool) -> None:
    """Rename a complete file to its target; raises OSError if the target may not be replaced."""
    check_replaceable(target, replaces=replaces)
    if replaces:
        temporary_path.replace(target)
    else:
        try:
            # Unlike a rename, a link never replaces a file that was created there meanwhile.
            os.link(temporary_path, target)
        except FileExistsError as error:
            raise FileExistsError(errno.EEXIST, "it exists already", str(target)) from error
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            # This file system has no hard links.
            temporary_path.rename(target)
        else:
            temporary_path.unlink()
    sync_folder(target.absolute().parent)


def write_atomic_file(target: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file; after a crash, it has its old or its new content.

    Raises OSError if it cannot be written or replaced.
    """
    with open_atomic_file(target, replaces=True, mode=mode) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable; raises OSError if that is impossible."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def create_atomic_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to write into, which gets the name `target` once its files are on the disk.

    Files of a killed process for the same target are removed first. Raises OSError if the target
    exists and is no empty folder, or while another process writes to it; then the target is
    unchanged.
    """
    check_absent_or_empty_folder(target)
    with partial_folder(target) as folder:
        try:
            clear_folder(folder)
            yield folder
            for path in (*folder.rglob("*"), folder):
                _sync_path(path)
            check_absent_or_empty_folder(target)
            os.rename(folder, target)
            sync_folder(target.absolute().parent)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def check_absent_or_empty_folder(target: Path) -> None:
    """Raise OSError unless the path is absent or an empty folder, and not the current folder."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(mode):
        raise FileExistsError(errno.EEXIST, "it exists already, and is no folder", str(target))
    if target.samefile(os.curdir):
        raise OSError(errno.EBUSY, "it is the current folder", str(target))
    if any(target.iterdir()):
        raise OSError(errno.ENOTEMPTY, "it exists already, and is not empty", str(target))


@contextmanager
def partial_folder(target: Path) -> Iterator[Path]:
    """Yield the private folder beside `target` for files that are not complete yet.

    It is the same folder for the same target until it is renamed or removed, so that a later
    process can continue or clear the files of a killed one. Raises OSError, also while another
    process of this user has the folder open.
    """
    state_path = _state_file(target)
    create_private_folder(state_path.parent)
    with open(open_lock(state_path), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(
                errno.EAGAIN, "another process is writing to it", str(target)
            ) from error
        folder = Path(os.fsdecode(file.read()))
        if not _is_private_sibling(folder, target):
            folder = (
                target.absolute().parent / f"{_hidden_name(target)}.{secrets.token_hex(8)}.part"
            )
            # Before the folder is created: else a killed process would leave an unknown folder.
            file.seek(0)
            file.truncate()
            file.write(os.fsencode(folder))
            file.flush()
            os.fsync(file.fileno())
            folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            if not folder.exists():
                state_path.unlink(missing_ok=True)


def has_partial_folder(target: Path) -> bool:
    """Return whether a killed or stopped process left a partial folder of this target."""
    try:
        return _is_private_sibling(Path(os.fsdecode(_state_file(target).read_bytes())), target)
    except FileNotFoundError:
        return False


def _hidden_name(target: Path) -> str:
    return "." + os.fsdecode(os.fsencode(target.name)[:_MAX_NAME_BYTES])


def _state_file(target: Path) -> Path:
    # Imported here: most commands write no file.
    from platformdirs import user_state_path

    name = hashlib.sha256(os.fsencode(os.path.abspath(target))).hexdigest()[:24]
    return user_state_path("natstui") / "unfinished" / name


def _is_private_sibling(folder: Path, target: Path) -> bool:
    """Return whether `folder` is a hidden folder beside `target` that only this user can enter.

    False for a link.
    """
    if folder.parent != target.absolute().parent or not folder.name.startswith("."):
        return False
    try:
        status = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.geteuid()
        and stat.S_IMODE(status.st_mode) == 0o700
    )


def clear_folder(folder: Path) -> None:
    """Remove the files in a partial folder that an earlier process left.

    Raises OSError if one cannot be removed.
    """
    for entry in folder.iterdir():
        _remove_path(entry)


def _remove_path(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def lock_for_change(folder: Path) -> Iterator[None]:
    """Lock a folder during the block, so that no other process of natstui changes its files.

    It waits for the lock. A process that reads a file and writes it again does both in the block.
    Raises OSError if the folder cannot be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int) -> None:
    """Lock an open file or folder against other processes until it is closed; waits for the lock.

    Does nothing on a file system without locks.
    """
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def open_lock(path: Path) -> int:
    """Return a descriptor of a lock file, created if missing; never follows a link.

    Raises OSError, also for a FIFO, device or folder. Nothing is written into it.
    """
    return _open_regular_file(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)


def open_log(path: Path, *, mode: int = 0o666) -> int:
    """Return a descriptor that appends to a file, created if missing; never follows a link.

    Raises OSError, also for a FIFO, device or folder, and for a file that has two names.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    descriptor = _open_regular_file(path, flags, mode)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "it is hard-linked: it has a second name", str(path))
    return descriptor


def _open_regular_file(path: Path, flags: int, mode: int = 0o600) -> int:
    try:
        # A FIFO without a reader or writer is not waited for.
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno == errno.ELOOP and flags & os.O_NOFOLLOW and path.is_symlink():
            raise OSError(errno.ELOOP, "it is a link", str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a plain file", str(path))
    return descriptor


def open_regular_file(path: Path) -> BinaryIO:
    """Open a regular file to read, following links; raises OSError for a FIFO, device or
    folder.
    """
    return open(_open_regular_file(path, os.O_RDONLY), "rb")


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file; raises OSError, also above `max_bytes`."""
    with open_regular_file(path) as file:
        return _read_limited(file, path, max_bytes)


def read_user_file(path: Path, max_bytes: int) -> bytes:
    """Return the content of a file that the user named, which may be a FIFO or a pipe of a shell.

    Raises OSError, also above `max_bytes`, for a terminal, and for a pipe into which nothing is
    written for 30 s.
    """
    content = bytearray()
    with open_user_file(path) as file:
        while part := file.read(min(_READ_CHUNK_BYTES, max_bytes + 1 - len(content))):
            content += part
            _wait_for_writer(file.fileno(), path)
    _check_size(content, path, max_bytes)
    return bytes(content)


def open_user_file(path: Path) -> io.FileIO:
    """Open a file that the user named, which may be a FIFO or a pipe of a shell.

    For a FIFO or pipe, waits until something is written into it. Raises OSError, also for a
    terminal, and when nothing is written for 30 s. The file is not buffered: at its end, Python
    would wait for a thread that fills a buffer.
    """
    try:
        # A FIFO without a writer would be waited for in here, without a limit.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO and path.is_socket():
            raise OSError(errno.EINVAL, "it is a socket", str(path)) from error
        raise
    file = io.FileIO(descriptor)
    try:
        if file.isatty():
            raise OSError(errno.EINVAL, "it is a terminal", str(path))
        _wait_for_writer(descriptor, path)
    except OSError:
        file.close()
        raise
    os.set_blocking(descriptor, True)
    return file


def _wait_for_writer(descriptor: int, path: Path) -> None:
    """Wait until a descriptor can be read or has ended; raises OSError after 30 s without a write.

    A regular file is always ready.
    """
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    if not poller.poll(PIPE_TIMEOUT_S * 1000):
        reason = f"nothing was written into it within {PIPE_TIMEOUT_S:g} s"
        raise OSError(errno.ETIMEDOUT, reason, str(path))


def read_stdin(max_bytes: int) -> bytes:
    """Return stdin up to its end; raises OSError above `max_bytes`."""
    return _read_limited(sys.stdin.buffer, Path("stdin"), max_bytes)


def read_stdin_line(max_bytes: int) -> bytes:
    """Return the first line of stdin without its line feed; raises OSError above `max_bytes`."""
    line = sys.stdin.buffer.readline(max_bytes + 1)
    _check_size(line, Path("stdin"), max_bytes)
    return line.rstrip(b"\r\n")


def _read_limited(file: BinaryIO, path: Path, max_bytes: int) -> bytes:
    content = file.read(max_bytes + 1)
    _check_size(content, path, max_bytes)
    return content


def _check_size(content: bytes | bytearray, path: Path, max_bytes: int) -> None:
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes:,} bytes", str(path))


MAX_TEXT_BYTES = 16 * 1024 * 1024
"""Limit of a file with settings, a configuration or a key that the user named."""
MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""Limit of a file to send: no server accepts more."""
MAX_LINE_BYTES = 1024 * 1024
"""Limit of a secret or an address that is read from stdin."""


_UNSAFE_IN_NAME_PATTERN = re.compile(r"^\.|[^\w.+@ -]")


def file_name(name: str) -> str:
    """Return a file name for a name that came from a server: never a path, never hidden.

    Letters, digits and `_.+@ -` stay as they are; other characters are written as %XX of their
    UTF-8, and a long name is cut and ends with a checksum. Different names get different file
    names.
    """
    encoded_name = _UNSAFE_IN_NAME_PATTERN.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")), name
    )
    encoded_bytes = encoded_name.encode()
    if len(encoded_bytes) > _MAX_NAME_BYTES:
        checksum = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
        cut_name = encoded_bytes[: _MAX_NAME_BYTES - 17].decode(errors="ignore")
        encoded_name = f"{cut_name}~{checksum}"
    return encoded_name or "%"
