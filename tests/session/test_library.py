"""What a list of recordings says of each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from natstui.errors import SessionError, UsageError
from natstui.model.live.snapshot import ConsumerColumns, Snapshot
from natstui.session.library import (
    add_note,
    build_summary,
    delete_session,
    find_session,
    list_session_folders,
    rename_session,
)
from natstui.session.read.recording import Recording
from natstui.values import replace
from tests.session.making import made
from tests.session.scenario import Scenario


def turn(poll: Snapshot, number: int) -> Snapshot:
    """Return a poll of a large server: all streams, the consumers of one of them."""
    stream = poll.streams.name[number]
    rows = [row for row, name in enumerate(poll.consumers.stream) if name == stream]
    columns = (getattr(poll.consumers, column) for column in ConsumerColumns.__struct_fields__)
    consumers = ConsumerColumns(*(tuple(values[row] for row in rows) for values in columns))
    return replace(poll, consumers=consumers, consumers_complete=False, swept_streams=(stream,))


@pytest.mark.parametrize("polls_per_segment", [4, 60])
def test_a_server_polled_in_turns_is_listed_with_all_its_consumers(
    tmp_path: Path, polls_per_segment: int
) -> None:
    scenario = Scenario(streams=3, consumers=12)
    polls = [turn(scenario.poll(second), second % 3) for second in range(9)]
    folder = made(tmp_path, [*scenario.beginning(), *polls], polls_per_segment)
    listed = build_summary(Recording(folder))
    assert (listed.streams_count, listed.consumers_count) == (3, 12)


def test_a_recording_without_a_poll_is_listed_with_unknown_counts(tmp_path: Path) -> None:
    listed = build_summary(Recording(made(tmp_path, Scenario().beginning())))
    assert (listed.streams_count, listed.consumers_count) == (None, None)


def test_deleting_a_recording_leaves_what_others_put_into_its_folder(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path / "sessions", [*scenario.beginning(), scenario.poll(1)])
    (folder / ".records-000001.jsonl.gz.0123456789abcdef.part").write_bytes(b"cut")
    (folder / "my-notes.txt").write_text("mine")
    (folder / "records-000009.jsonl").mkdir()
    (folder / "src").mkdir()
    (folder / "src" / "a.c").write_text("x")
    assert delete_session(folder) == f"; 3 other files in {folder} stay"
    assert sorted(path.name for path in folder.rglob("*")) == [
        "a.c", "my-notes.txt", "records-000009.jsonl", "src",
    ]  # fmt: skip


def test_deleting_a_recording_removes_its_folder_when_nothing_else_is_in_it(
    tmp_path: Path,
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path / "sessions", [*scenario.beginning(), scenario.poll(1)])
    link = tmp_path / "link"
    link.symlink_to(folder)
    content = (folder / "session.json").read_bytes()
    changes: tuple[Callable[[], object], ...] = (
        lambda: delete_session(link),
        lambda: rename_session(link, "x"),
        lambda: add_note(link, "x"),
    )
    for change in changes:
        with pytest.raises(SessionError, match="is a link"):
            change()
    assert link.is_symlink()
    assert (folder / "session.json").read_bytes() == content
    assert (delete_session(folder), folder.exists()) == ("", False)


def test_a_folder_that_cannot_be_deleted_stays_empty_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path / "sessions", [*scenario.beginning(), scenario.poll(1)])
    monkeypatch.chdir(folder)
    assert delete_session(Path()) == "; its empty folder . stays: Invalid argument"
    assert not list(folder.iterdir())


def test_last_is_the_newest_recording_whatever_is_called_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario(streams=1, consumers=1)
    sessions = tmp_path / "sessions"
    folder = made(sessions, [*scenario.beginning(), scenario.poll(1)])
    elsewhere = made(tmp_path / "elsewhere", [*scenario.beginning(), scenario.poll(1)])
    (sessions / "last").symlink_to(elsewhere)
    (sessions / "zzz").symlink_to(elsewhere)
    monkeypatch.chdir(sessions)
    assert find_session(sessions, "last") == folder
    assert list_session_folders(sessions) == [folder]
    with pytest.raises(UsageError, match="no session 'zz'"):
        find_session(sessions, "zz")
    # A path that leads to a recording is still one.
    assert find_session(sessions, "./last") == Path("last")


def test_notes_that_are_written_at_once_are_all_kept(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path, [*scenario.beginning(), scenario.poll(1)])
    notes = [f"note {number}" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda note: add_note(folder, note), notes))
    assert sorted(Recording(folder).info.notes) == sorted(notes)


def test_a_recording_can_be_read_whatever_is_noted_about_it(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path, [*scenario.beginning(), scenario.poll(1)])
    add_note(folder, "short")
    with pytest.raises(SessionError, match="too long"):
        for _ in range(20):
            add_note(folder, "x" * 125_000)
    with pytest.raises(SessionError, match="too long"):
        rename_session(folder, "x" * 525_000)
    folder = rename_session(folder, "later")
    assert Recording(folder).info.notes[0] == "short"


def test_a_path_is_no_name_of_a_recording(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path, [*scenario.beginning(), scenario.poll(1)])
    for name in ("../../x", "/x", "a/../b", "..", ".", "~/x", "..\\x"):
        with pytest.raises(UsageError, match="is a path, not a name of a recording"):
            rename_session(folder, name)
    assert rename_session(folder, "Incident 7/3 ...").name.endswith("-Incident-7-3")


def test_a_name_that_no_file_can_have_is_no_recording(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path, [*scenario.beginning(), scenario.poll(1)])
    name = "x" * 300
    with pytest.raises(UsageError, match="no session 'xxx"):
        find_session(tmp_path, name)
    rename_session(folder, name)
    assert find_session(tmp_path, name) == list_session_folders(tmp_path)[0]


def test_no_recording_is_meant_by_an_empty_name(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path, [*scenario.beginning(), scenario.poll(1)])
    assert find_session(tmp_path, folder.name) == folder
    with pytest.raises(UsageError, match="is empty"):
        find_session(tmp_path, "")
