"""The sessions in a folder: list, find, rename, annotate, pack and delete them, and seal
unfinished ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import assert_never

import msgspec
from platformdirs import user_data_path

from natstui.config.settings import Session
from natstui.errors import SessionError, UsageError
from natstui.files import lock_for_change
from natstui.model.live.state import State
from natstui.model.records.recording import ChangeSession, SessionSummary
from natstui.paths import expand_user_path
from natstui.session.files.folder import (
    INFO,
    LOCK,
    check_recording_name,
    folder_name,
    folder_size_bytes,
    is_recording,
    is_recording_file_name,
    is_session,
    list_segments,
    lock_recording,
)
from natstui.session.files.info import (
    SessionInfo,
    read_info,
    read_info_to_change,
    write_info,
    write_user_edited_info,
)
from natstui.session.files.layout import HOUR_POLLS_MEMBER
from natstui.session.files.segment import decode_or_none
from natstui.session.read.recording import Recording
from natstui.session.share.pack import pack
from natstui.session.write.seal import seal
from natstui.units import counted
from natstui.values import replace


def list_session_folders(sessions: Path) -> list[Path]:
    """Return the folders of all sessions, the newest first; empty without a library.

    A link is not listed, because the session is in another folder, nor a folder that cannot be
    entered. Raises SessionError without permission for `sessions` itself.
    """
    try:
        if not sessions.is_dir():
            return []
        folders = [path for path in sessions.iterdir() if not path.name.startswith(".")]
        return sorted(
            (path for path in folders if not path.is_symlink() and is_session(path)),
            reverse=True,
        )
    except PermissionError as error:
        raise SessionError(f"no permission to read {error.filename}") from error


def find_session(sessions: Path, name: str) -> Path:
    """Return the folder of a session by its path, id, name or id prefix; `last` is the newest.

    Raises UsageError if there is none, or more than one.
    """
    if not name:
        raise UsageError("the name of the session is empty; `last` is the newest one")
    path = Path(name)
    # A folder of that name is ./last.
    if name != "last" and is_session(path):
        # The folders `.` and `..` have no name of their own.
        return path.resolve() if path.name in ("", "..") else path
    folders = list_session_folders(sessions)
    if name == "last" and folders:
        return folders[0]
    for matching_folders in (
        [folder for folder in folders if folder.name == name],
        [folder for folder in folders if _read_name(folder) == name],
        [folder for folder in folders if folder.name.startswith(name)],
    ):
        if len(matching_folders) == 1:
            return matching_folders[0]
        if matching_folders:
            session_ids = ", ".join(folder.name for folder in matching_folders[:5])
            raise UsageError(f"{name!r} means more than one session: {session_ids}")
    raise UsageError(
        f"no session {name!r} in {sessions}; natstui sessions ls lists the sessions there"
    )


def _read_name(folder: Path) -> str | None:
    try:
        return read_info(folder).name
    except SessionError:
        return None


def summaries(sessions: Path) -> Iterator[SessionSummary]:
    """Yield the summary of each session, the newest first; of a damaged one, with its error."""
    yield from map(read_summary, list_session_folders(sessions))


def read_summary(folder: Path) -> SessionSummary:
    """Return the summary of the session in a folder; if it cannot be read, with the error."""
    try:
        return build_summary(Recording(folder))
    except SessionError as error:
        return SessionSummary(
            str(folder), folder.name, "", "", 0, 0, 0, None, None, 0, 0, 0, "", (), str(error)
        )


def summaries_json(sessions: Path) -> str:
    """Return the summaries of all sessions as a JSON array."""
    return msgspec.json.encode(list(summaries(sessions))).decode()


def build_summary(recording: Recording) -> SessionSummary:
    """Return the summary of a recording: its row in the list of sessions."""
    info = recording.info
    counts = count_records(recording)
    streams_count, consumers_count = _count_rows(recording)
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
        status=_recording_status(recording),
        notes=info.notes,
    )


def _recording_status(recording: Recording) -> str:
    if recording.is_recording:
        return "recording"
    info = recording.info
    has_open_segment = any(not span.file.sealed for span in recording.spans)
    if info.ended_at_us is None or info.cut_off or has_open_segment:
        return "cut off"
    return "damaged" if recording.damage_marks() else "complete"


def count_records(recording: Recording) -> dict[str, int]:
    """Return kind of record → number of records."""
    counts: dict[str, int] = {}
    for span in recording.spans:
        for kind, count in span.index.records_count.items():
            counts[kind] = counts.get(kind, 0) + count
    return counts


def _count_rows(recording: Recording) -> tuple[int | None, int | None]:
    """Return how many streams and consumers there were at the end; (None, None) before any
    poll.
    """
    for span in reversed(recording.spans):
        entries = [
            entry
            for entry in recording.read_members(span, (HOUR_POLLS_MEMBER,)).entries
            if entry.is_poll
        ]
        complete_poll_index = next(
            (index for index in reversed(range(len(entries))) if entries[index].is_complete), None
        )
        polls = [decode_or_none(entry) for entry in entries[complete_poll_index or 0 :]]
        if complete_poll_index is None:
            # Large servers are polled in turns: the keyframe has the rows of other turns.
            keyframe = recording.keyframe(span)
            polls.insert(0, keyframe.snapshot if keyframe else None)
        state = reduce(State.after, (poll for poll in polls if poll is not None), State())
        if state.costs:
            return len(state.streams), len(state.consumers)
    return None, None


def rename_session(folder: Path, name: str) -> Path:
    """Rename a session and its folder, and return the new folder.

    Raises UsageError for a name with a path, and SessionError if the new folder exists, or the
    session is being recorded, is a link, is damaged or cannot be written.
    """
    check_recording_name(name)
    _refuse_while_recording(folder)
    _refuse_link(folder)
    with _lock_for_change(folder, "rename"):
        info = read_info_to_change(folder)
        new_folder = folder.with_name(folder_name(info.started_at_us, name))
        if new_folder != folder and new_folder.exists():
            raise SessionError(f"there is already a session {new_folder.name}")
        write_user_edited_info(folder, replace(info, name=name))
        return folder.rename(new_folder)


def add_note(folder: Path, text: str) -> SessionInfo:
    """Add a note to a session and return its info.

    Raises SessionError if it is being recorded, is a link, is damaged or cannot be written.
    """
    _refuse_while_recording(folder)
    _refuse_link(folder)
    with _lock_for_change(folder, "write into"):
        info = read_info_to_change(folder)
        info = replace(info, notes=(*info.notes, text))
        write_user_edited_info(folder, info)
    return info


def delete_session(folder: Path) -> str:
    """Delete the files of a session; return the end of a sentence about files that stay, empty if
    none.

    Raises SessionError if it is being recorded, is a link or no session, or cannot be deleted.
    """
    read_info(folder)
    _refuse_while_recording(folder)
    _refuse_link(folder)
    with _lock_for_change(folder, "delete"):
        other_files_count = 0
        # The header last: a session that is half deleted can be deleted again.
        for path in sorted(folder.iterdir(), key=lambda path: path.name == INFO):
            if is_recording_file_name(path.name) and not path.is_dir():
                path.unlink()
            else:
                other_files_count += 1
    if other_files_count:
        return f"; {counted(other_files_count, 'other file')} in {folder} stay"
    try:
        folder.rmdir()
    except OSError as error:
        return f"; its empty folder {folder} stays: {error.strerror or error}"
    return ""


@contextmanager
def _lock_for_change(folder: Path, verb: str) -> Iterator[None]:
    """Lock a session during the block; an OSError becomes a SessionError: cannot `verb` the
    session.
    """
    try:
        with lock_for_change(folder):
            yield
    except OSError as error:
        raise SessionError(f"cannot {verb} {folder}: {error.strerror or error}") from error


def _refuse_link(folder: Path) -> None:
    """Raise SessionError for a link, because the change would be in another folder."""
    if folder.is_symlink():
        raise SessionError(f"{folder} is a link: name the folder that it leads to")


def _refuse_while_recording(folder: Path) -> None:
    if is_recording(folder):
        raise SessionError(f"{folder.name} is being recorded: stop that first")


def seal_unfinished_sessions(sessions: Path) -> list[Path]:
    """Seal the segments that killed recorders left open; return the folders of those sessions.

    A session that cannot be sealed is left unchanged: it can be read nevertheless. Called before a
    recording.
    """
    sealed_folders: list[Path] = []
    for folder in list_session_folders(sessions):
        try:
            if _seal_if_unfinished(folder):
                sealed_folders.append(folder)
        except (OSError, SessionError):
            continue
    return sealed_folders


def _seal_if_unfinished(folder: Path) -> bool:
    open_segment_numbers = [
        segment.number for segment in list_segments(folder) if not segment.sealed
    ]
    if is_recording(folder) or (
        not open_segment_numbers and read_info(folder).ended_at_us is not None
    ):
        return False
    info = read_info_to_change(folder)
    descriptor = lock_recording(folder)
    try:
        for number in open_segment_numbers:
            seal(folder, number)
        recording = Recording(folder)
        counts = count_records(recording)
        # By the clock of the recorder, which may have been set back: not on the timeline.
        last_record_times_us = [span.index.last_wall_us for span in recording.spans]
        ended_at_us = next(filter(None, reversed(last_record_times_us)), info.started_at_us)
        ended_info = replace(info, ended_at_us=ended_at_us, cut_off=True, records_count=counts)
        write_info(folder, ended_info)
    finally:
        (folder / LOCK).unlink(missing_ok=True)
        os.close(descriptor)
    return True


def sessions_folder(settings: Session) -> Path:
    """Return the folder of all sessions, which may not exist yet."""
    if settings.folder is not None:
        return expand_user_path(settings.folder)
    return user_data_path("natstui") / "sessions"


def execute_change(command: ChangeSession) -> str:
    """Change a session as the command says, and return a sentence that reports the change.

    Raises UsageError for a missing or invalid text, SessionError if the session cannot be changed.
    """
    folder, text = Path(command.folder), command.text.strip()
    if not text and command.action != "delete":
        raise UsageError(f"{command.action} {folder.name} needs a text")
    match command.action:
        case "rename":
            return f"renamed into {rename_session(folder, text)}"
        case "note":
            add_note(folder, text)
            return f"noted about {folder.name}"
        case "pack" | "pack redacted":
            redact = command.action == "pack redacted"
            target = expand_user_path(text)
            return f"packed into {pack(folder, target, redact=redact, progress=_ignore_progress)}"
        case "delete":
            return f"deleted {folder}{delete_session(folder)}"
        case _:
            assert_never(command.action)


def _ignore_progress(_done_count: int, _all_count: int) -> None:
    """Do nothing: the progress is not shown."""
