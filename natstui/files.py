"""Files and folders that appear complete or not at all, and reading of files that may be hostile.

A target is replaced only if it is a plain file. Until it is complete, its content lies beside it
under a name that nobody can guess, created exclusively: no link, device or file of anybody else
is ever followed, emptied or replaced. What must be found again after a kill lies in a folder that
only its owner may enter; where that is, the user's state folder remembers.
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
from natstui.paths import private_folder

_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of the disk itself, which are not caused by the file name that the user chose."""
_KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISCHR, "a device"),
)
_PART_BYTES = 1024 * 1024
SILENT_S = 30.0
"""A pipe into which nothing is written for so long has no writer, or one that hangs."""
_LONGEST_NAME = 200
"""Limit of bytes in a file name: file systems allow 255, and natstui appends suffixes."""


def check_replaceable(target: Path, *, replaces: bool) -> None:
    """Raise OSError unless `target` is absent or, with `replaces`, a plain file."""
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "no plain file")
        if kind == "a folder":
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(target))
        raise OSError(errno.EINVAL, f"it is {kind}, and only plain files are replaced")
    if not replaces:
        raise FileExistsError(errno.EEXIST, "it exists already", str(target))


def write_failure(
    target: Path, error: OSError, otherwise: type[NatstuiError] = UsageError
) -> NatstuiError:
    """Return the error with which a command ends that could not write a file.

    WriteFailed where the disk failed; `otherwise` where the name is wrong: it exists already, is
    no plain file, has no folder, or may not be written.
    """
    kind = failure_kind(error, otherwise)
    return kind(f"{target} cannot be written: {error.strerror or error}")


def failure_kind(error: OSError, otherwise: type[NatstuiError] = UsageError) -> type[NatstuiError]:
    """Return WriteFailed for an error of the disk, `otherwise` for one of the name."""
    return WriteFailed if error.errno in _OF_THE_DISK else otherwise


@contextmanager
def writing(target: Path, otherwise: type[NatstuiError] = UsageError) -> Iterator[None]:
    """Turn an OSError of the block into the error that `write_failure` returns."""
    try:
        yield
    except OSError as error:
        raise write_failure(target, error, otherwise) from error


@contextmanager
def complete_file(target: Path, *, replaces: bool, mode: int | None = None) -> Iterator[BinaryIO]:
    """Yield a file to write, which is named `target` once all of it is on the disk.

    It has `mode`, or else that of the file it replaces, or what the umask leaves of 0666. Raises
    OSError, also for a target that may not be replaced; then the target is unchanged.
    """
    check_replaceable(target, replaces=replaces)
    folder = target.absolute().parent
    temporary = folder / f"{_hidden(target)}.{secrets.token_hex(8)}.part"
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode)
    try:
        with open(descriptor, "wb") as file:
            if mode is None:
                with suppress(FileNotFoundError):
                    os.fchmod(file.fileno(), stat.S_IMODE(target.lstat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        publish_file(temporary, target, replaces=replaces)
    finally:
        temporary.unlink(missing_ok=True)


def publish_file(temporary: Path, target: Path, *, replaces: bool) -> None:
    """Rename a complete file to its target; raises OSError where the target may not be
    replaced.
    """
    check_replaceable(target, replaces=replaces)
    if replaces:
        temporary.replace(target)
    else:
        try:
            # Unlike a rename, a link never replaces what somebody put there meanwhile.
            os.link(temporary, target)
        except FileExistsError as error:
            raise FileExistsError(errno.EEXIST, "it exists already", str(target)) from error
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            # This file system has no hard links.
            temporary.rename(target)
        else:
            temporary.unlink()
    sync_folder(target.absolute().parent)


def write_complete(target: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a file that after a crash is the old one or the new one; raises OSError."""
    with complete_file(target, replaces=True, mode=mode) as file:
        file.write(content)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable; raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def complete_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to write into, which is named `target` once all of it is on the disk.

    Remains of a killed run for the same target are removed. Raises OSError when the target exists
    and is no empty folder, or while another process writes to it; then the target is unchanged.
    """
    check_free_folder(target)
    with unfinished(target) as folder:
        try:
            empty_folder(folder)
            yield folder
            for path in (*folder.rglob("*"), folder):
                _sync(path)
            check_free_folder(target)
            os.rename(folder, target)
            sync_folder(target.absolute().parent)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise


def check_free_folder(target: Path) -> None:
    """Raise OSError unless a folder can take this name: absent, or an empty folder."""
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
def unfinished(target: Path) -> Iterator[Path]:
    """Yield the private folder beside `target` for what is not complete yet.

    It is the same folder for the same target until it was renamed or removed, so that a later
    process continues or clears what a killed one left. Raises OSError, also while another process
    of this user has it.
    """
    state = _state_file(target)
    private_folder(state.parent)
    with open(open_lock(state), "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(
                errno.EAGAIN, "another process is writing to it", str(target)
            ) from error
        folder = Path(os.fsdecode(file.read()))
        if not _is_private(folder, target):
            folder = target.absolute().parent / f"{_hidden(target)}.{secrets.token_hex(8)}.part"
            # Before there is a folder: of one that nothing names, nobody could say whose it is.
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
                state.unlink(missing_ok=True)


def has_unfinished(target: Path) -> bool:
    """Return whether a killed or stopped process left files of this target to continue with."""
    try:
        return _is_private(Path(os.fsdecode(_state_file(target).read_bytes())), target)
    except FileNotFoundError:
        return False


def _hidden(target: Path) -> str:
    return "." + os.fsdecode(os.fsencode(target.name)[:_LONGEST_NAME])


def _state_file(target: Path) -> Path:
    # Imported here: most commands write no file.
    from platformdirs import user_state_path

    name = hashlib.sha256(os.fsencode(os.path.abspath(target))).hexdigest()[:24]
    return user_state_path("natstui") / "unfinished" / name


def _is_private(folder: Path, target: Path) -> bool:
    """Return whether a folder is beside `target`, is no link, and only this user may enter it."""
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


def empty_folder(folder: Path) -> None:
    """Remove the files of an earlier process in a folder of `unfinished`; raises OSError."""
    for entry in folder.iterdir():
        _remove(entry)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def changing(folder: Path) -> Iterator[None]:
    """Let no other process of natstui change the files of a folder in the block: it waits.

    Whoever reads such a file and writes it again does both inside. Raises OSError.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def wait_for_lock(descriptor: int) -> None:
    """Lock an open file or folder against other processes, until it is closed."""
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def open_lock(path: Path) -> int:
    """Return a descriptor of a lock file, created if missing; never follows a link.

    Raises OSError, also for a FIFO, device or folder. Nothing is written into it.
    """
    return _plain_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)


def open_log(path: Path, *, mode: int = 0o666) -> int:
    """Return a descriptor that appends to a file, created if missing; never follows a link.

    Raises OSError, also for a FIFO, device or folder, and for a file that has two names.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    descriptor = _plain_descriptor(path, flags, mode)
    if os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EMLINK, "it is hard-linked: it has a second name", str(path))
    return descriptor


def _plain_descriptor(path: Path, flags: int, mode: int = 0o600) -> int:
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


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file to read, following links; raises OSError for a FIFO, device or folder."""
    return open(_plain_descriptor(path, os.O_RDONLY), "rb")


def read_plain(path: Path, most_bytes: int) -> bytes:
    """Return the content of a plain file; raises OSError, also when it is larger than allowed."""
    with open_plain(path) as file:
        return _bounded(file, path, most_bytes)


def read_given(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file that the user named, which may be a FIFO or a pipe of a shell.

    Raises OSError, also for one that is longer than `most_bytes` or has no end, for a terminal,
    and for a pipe into which nothing is written for 30 s.
    """
    content = bytearray()
    with open_given(path) as file:
        while part := file.read(min(_PART_BYTES, most_bytes + 1 - len(content))):
            content += part
            _wait_for_writer(file.fileno(), path)
    _check_size(content, path, most_bytes)
    return bytes(content)


def open_given(path: Path) -> io.FileIO:
    """Open a file that the user named; a FIFO or a pipe once something is written into it.

    Raises OSError, also for a terminal, and when nothing is written for 30 s. It is not buffered:
    at its end, Python would wait for a thread that fills a buffer.
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
    """Wait until something can be read, or the end; raises OSError when nothing is written.

    A plain file is always ready.
    """
    reader = select.poll()
    reader.register(descriptor, select.POLLIN)
    if not reader.poll(SILENT_S * 1000):
        reason = f"nothing was written into it within {SILENT_S:g} s"
        raise OSError(errno.ETIMEDOUT, reason, str(path))


def read_stdin(most_bytes: int) -> bytes:
    """Return all of stdin until it ends; raises OSError once it is longer than `most_bytes`."""
    return _bounded(sys.stdin.buffer, Path("stdin"), most_bytes)


def read_stdin_line(most_bytes: int) -> bytes:
    """Return the first line on stdin without its end; raises OSError for one that is too long."""
    line = sys.stdin.buffer.readline(most_bytes + 1)
    _check_size(line, Path("stdin"), most_bytes)
    return line.rstrip(b"\r\n")


def _bounded(file: BinaryIO, path: Path, most_bytes: int) -> bytes:
    content = file.read(most_bytes + 1)
    _check_size(content, path, most_bytes)
    return content


def _check_size(content: bytes | bytearray, path: Path, most_bytes: int) -> None:
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes:,} bytes", str(path))


MOST_TEXT_BYTES = 16 * 1024 * 1024
"""Limit of a file with settings, a configuration or a key that the user named."""
MOST_PAYLOAD_BYTES = 64 * 1024 * 1024
"""Limit of a file to send: no server accepts more."""
MOST_LINE_BYTES = 1024 * 1024
"""Limit of a secret or an address that is read from stdin."""


_UNSAFE_IN_NAME = re.compile(r"^\.|[^\w.+@ -]")


def file_name(name: str) -> str:
    """Return a file name for a name that came from a server: never a path, never hidden.

    Letters, digits and `_.+@ -` stay as they are; other characters are written as %XX of their
    UTF-8, and what is too long ends with a checksum. Different names get different file names.
    """
    encoded = _UNSAFE_IN_NAME.sub(
        lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "replace")), name
    )
    as_bytes = encoded.encode()
    if len(as_bytes) > _LONGEST_NAME:
        checksum = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
        encoded = f"{as_bytes[: _LONGEST_NAME - 17].decode(errors='ignore')}~{checksum}"
    return encoded or "%"
