"""All sessions in one folder: find, list, name, annotate, pack, delete, seal what was cut off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import assert_never

import msgspec
from platformdirs import user_data_path

from natstui.config.settings import Session
from natstui.errors import SessionError, UsageError
from natstui.files import changing
from natstui.model.live.state import State
from natstui.model.records.recording import ChangeSession, SessionSummary
from natstui.paths import user_path
from natstui.session.files.folder import (
    INFO,
    LOCK,
    check_name,
    folder_name,
    folder_size_bytes,
    is_own_name,
    is_recording,
    lock,
    segments,
)
from natstui.session.files.info import (
    SessionInfo,
    read_info,
    read_info_to_change,
    write_given_info,
    write_info,
)
from natstui.session.files.layout import HOUR
from natstui.session.files.segment import readable
from natstui.session.read.recording import Recording
from natstui.session.share.pack import pack
from natstui.session.write.seal import seal
from natstui.units import counted


def session_folders(sessions: Path) -> list[Path]:
    """Return the folders of a library, the newest first; none when there is no library.

    A link is no session of the library: what it leads to is another one's. Raises SessionError
    without permission.
    """
    try:
        if not sessions.is_dir():
            return []
        folders = [path for path in sessions.iterdir() if not path.name.startswith(".")]
        return sorted(
            (path for path in folders if not path.is_symlink() and (path / INFO).is_file()),
            reverse=True,
        )
    except PermissionError as error:
        raise SessionError(f"no permission to read {error.filename}") from error


def find(sessions: Path, name: str) -> Path:
    """Return the session with a folder path, id, name, id prefix, or `last`.

    Raises UsageError when there is none, or more than one.
    """
    if not name:
        raise UsageError("the name of the session is empty; `last` is the newest one")
    path = Path(name)
    # A folder of that name is ./last.
    if name != "last" and (path / INFO).is_file():
        return path
    folders = session_folders(sessions)
    if name == "last" and folders:
        return folders[0]
    for matches in (
        [folder for folder in folders if folder.name == name],
        [folder for folder in folders if _name(folder) == name],
        [folder for folder in folders if folder.name.startswith(name)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(folder.name for folder in matches[:5])
            raise UsageError(f"{name!r} means more than one session: {ids}")
    raise UsageError(f"no session {name!r} in {sessions}; natstui sessions ls shows those there")


def _name(folder: Path) -> str | None:
    try:
        return read_info(folder).name
    except SessionError:
        return None


def summaries(sessions: Path) -> Iterator[SessionSummary]:
    """Yield a summary per session, the newest first; damaged ones say what is wrong."""
    yield from map(summary_of, session_folders(sessions))


def summary_of(folder: Path) -> SessionSummary:
    """Return what a list shows of the session in a folder; a damaged one says what is wrong."""
    try:
        return summary(Recording(folder))
    except SessionError as error:
        return SessionSummary(
            str(folder), folder.name, "", "", 0, 0, 0, None, None, 0, 0, 0, "", (), str(error)
        )


def listed_json(sessions: Path) -> str:
    """Return every summary as one list, for a viewer."""
    return msgspec.json.encode(list(summaries(sessions))).decode()


def summary(recording: Recording) -> SessionSummary:
    """Return what a list shows of one session."""
    info = recording.info
    counts = records_count(recording)
    streams_count, consumers_count = _rows_count(recording)
    return SessionSummary(
        folder=str(recording.folder),
        id=recording.folder.name,
        name=info.name,
        server=info.server_name or info.target,
        started_at_us=recording.start_us,
        ended_at_us=recording.end_us,
        size_bytes=folder_size_bytes(recording.folder),
        streams_count=streams_count,
        consumers_count=consumers_count,
        polls_count=counts.get("snapshot", 0),
        benchmarks_count=counts.get("benchmark_planned", 0),
        gaps_count=counts.get("gap", 0) + (info.dropped is not None),
        status=_status(recording),
        notes=info.notes,
    )


def _status(recording: Recording) -> str:
    if recording.is_recording:
        return "recording"
    info = recording.info
    has_open_segment = any(not span.file.sealed for span in recording.spans)
    if info.ended_at_us is None or info.cut_off or has_open_segment:
        return "cut off"
    return "damaged" if recording.damage() else "complete"


def records_count(recording: Recording) -> dict[str, int]:
    """Return how many records of each kind there are."""
    counts: dict[str, int] = {}
    for span in recording.spans:
        for kind, count in span.index.records_count.items():
            counts[kind] = counts.get(kind, 0) + count
    return counts


def _rows_count(recording: Recording) -> tuple[int | None, int | None]:
    """Return how many streams and consumers were known near the end; None before any poll."""
    for span in reversed(recording.spans):
        entries = [e for e in recording.part(span, (HOUR,)).entries if e.is_poll]
        whole = next((at for at in reversed(range(len(entries))) if entries[at].complete), None)
        polls = [readable(entry) for entry in entries[whole or 0 :]]
        if whole is None:
            # Large servers are polled in turns: the rows of other turns stand in the keyframe.
            keyframe = recording.keyframe(span)
            polls.insert(0, keyframe.snapshot if keyframe else None)
        state = reduce(State.after, (poll for poll in polls if poll is not None), State())
        if state.costs:
            return len(state.streams), len(state.consumers)
    return None, None


def rename(folder: Path, name: str) -> Path:
    """Give a session another name, and its folder; raises UsageError and SessionError."""
    check_name(name)
    _not_while_recording(folder)
    _check_no_link(folder)
    with _changing(folder, "rename"):
        info = read_info_to_change(folder)
        renamed = folder.with_name(folder_name(info.started_at_us, name))
        if renamed != folder and renamed.exists():
            raise SessionError(f"there is already a session {renamed.name}")
        write_given_info(folder, replace(info, name=name))
        return folder.rename(renamed)


def annotate(folder: Path, text: str) -> SessionInfo:
    """Add a note about a session; raises SessionError."""
    _not_while_recording(folder)
    _check_no_link(folder)
    with _changing(folder, "write into"):
        info = read_info_to_change(folder)
        info = replace(info, notes=(*info.notes, text))
        write_given_info(folder, info)
    return info


def delete(folder: Path) -> str:
    """Delete a session; return what stays, as the end of a sentence: files of others, the folder.

    Raises SessionError.
    """
    read_info(folder)
    _not_while_recording(folder)
    _check_no_link(folder)
    with _changing(folder, "delete"):
        others_count = 0
        # The header last: a session that is half deleted can be deleted again.
        for path in sorted(folder.iterdir(), key=lambda path: path.name == INFO):
            if is_own_name(path.name) and not path.is_dir():
                path.unlink()
            else:
                others_count += 1
    if others_count:
        return f"; {counted(others_count, 'other file')} in {folder} stay"
    try:
        folder.rmdir()
    except OSError as error:
        return f"; its empty folder {folder} stays: {error.strerror or error}"
    return ""


@contextmanager
def _changing(folder: Path, verb: str) -> Iterator[None]:
    """Let nobody else change a session in the block; turn an OSError into a SessionError."""
    try:
        with changing(folder):
            yield
    except OSError as error:
        raise SessionError(f"cannot {verb} {folder}: {error.strerror or error}") from error


def _check_no_link(folder: Path) -> None:
    """Raise SessionError for a link: what is changed would lie elsewhere."""
    if folder.is_symlink():
        raise SessionError(f"{folder} is a link: name the folder that it leads to")


def _not_while_recording(folder: Path) -> None:
    if is_recording(folder):
        raise SessionError(f"{folder.name} is being recorded: stop that first")


def seal_left_open(sessions: Path) -> list[Path]:
    """Seal what killed recorders left open, and return those sessions; called before recording.

    What cannot be sealed now is left as it is: it can be read all the same.
    """
    sealed: list[Path] = []
    for folder in session_folders(sessions):
        try:
            if _sealed(folder):
                sealed.append(folder)
        except (OSError, SessionError):
            continue
    return sealed


def _sealed(folder: Path) -> bool:
    left = [segment.number for segment in segments(folder) if not segment.sealed]
    if is_recording(folder) or (not left and read_info(folder).ended_at_us is not None):
        return False
    info = read_info_to_change(folder)
    descriptor = lock(folder)
    try:
        for number in left:
            seal(folder, number)
        recording = Recording(folder)
        counts = records_count(recording)
        ended = replace(info, ended_at_us=recording.end_us, cut_off=True, records_count=counts)
        write_info(folder, ended)
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        os.close(descriptor)
    return True


def sessions_folder(settings: Session) -> Path:
    """Return the folder of all sessions; it may not exist yet."""
    if settings.folder is not None:
        return user_path(settings.folder)
    return user_data_path("natstui") / "sessions"


def execute_change(command: ChangeSession) -> str:
    """Do what the command asks for, and return a sentence; raises SessionError or UsageError."""
    folder, text = Path(command.folder), command.text.strip()
    if not text and command.action != "delete":
        raise UsageError(f"{command.action} {folder.name} needs a text")
    match command.action:
        case "rename":
            return f"renamed into {rename(folder, text)}"
        case "note":
            annotate(folder, text)
            return f"noted about {folder.name}"
        case "pack" | "pack redacted":
            redact = command.action == "pack redacted"
            target = user_path(text)
            return f"packed into {pack(folder, target, redact=redact, progress=_no_progress)}"
        case "delete":
            return f"deleted {folder}{delete(folder)}"
        case _:
            assert_never(command.action)


def _no_progress(_done_count: int, _all_count: int) -> None:
    """Ignore the progress."""
