"""A position in a recording that is still being made, and whose oldest segments go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from natstui.errors import SessionError
from natstui.lines import decode_record
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Noted, Record
from natstui.model.records.recording import ReplayMarks, ReplayPosition
from natstui.session.files.folder import list_segments
from natstui.session.files.layout import EVENTS_MEMBER, FREQUENT_MEMBER
from natstui.session.files.segment import read_content, read_segment
from natstui.session.read.player import Player
from natstui.session.read.recording import Recording
from tests.session.making import Maker, fold, made
from tests.session.scenario import START_US, Scenario

POLLS_PER_SEGMENT = 10


def sent(lines: Iterator[bytes]) -> list[Record]:
    return [decode_record(line) for line in lines if line]


def drop(folder: Path, count: int) -> None:
    for segment in list_segments(folder)[:count]:
        segment.path.unlink()


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    scenario, maker = Scenario(streams=2, consumers=4), Maker(tmp_path, POLLS_PER_SEGMENT)
    for record in [*scenario.beginning(), *scenario.records(0, 40)]:
        maker.add(record)
    return maker


def add(maker: Maker, first_s: int, last_s: int) -> list[Record]:
    added = list(Scenario(streams=2, consumers=4).records(first_s, last_s))
    for record in added:
        maker.add(record)
    return added


def test_following_goes_on_where_it_was_when_older_segments_are_deleted(maker: Maker) -> None:
    player = Player(Recording(maker.disk.folder))
    sent(player.seek(2**62))
    added = add(maker, 40, 55)
    drop(maker.disk.folder, 2)
    assert player.refresh()
    assert sent(player.play_until(2**62)) == added
    more = add(maker, 55, 60)
    drop(maker.disk.folder, 1)
    assert player.refresh()
    assert sent(player.play_until(2**62)) == more
    maker.disk.abandon()


def test_a_recording_without_a_record_has_a_position_and_nothing_to_show(tmp_path: Path) -> None:
    player = Player(Recording(made(tmp_path, [])))
    position = decode_record(player.position())
    assert isinstance(position, ReplayPosition)
    assert (position.newest_at_us, position.left_out_lines_count) == (None, 0)
    assert sent(player.play_until(2**62)) == []


def test_a_moment_that_is_deleted_is_followed_by_the_oldest_there_still_is(maker: Maker) -> None:
    player = Player(Recording(maker.disk.folder))
    sent(player.seek(START_US))
    drop(maker.disk.folder, 2)
    player.refresh()
    assert player.at_us == Recording(maker.disk.folder).start_us
    records = sent(player.play_until(2**62))
    polls = [record for record in records if isinstance(record, Snapshot)]
    assert len(polls) == 1 + 20, "the keyframe's, and those of what is left"
    whole = fold(Recording(maker.disk.folder).records())
    assert fold(records).consumers.columns == whole.consumers.columns
    maker.disk.abandon()


def read_bytes() -> int:
    """Return how many bytes this process has read until now, from whatever."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(file.readline().removeprefix("rchar:"))


@pytest.mark.slow
def test_only_what_was_appended_to_the_open_segment_is_read(tmp_path: Path) -> None:
    maker = Maker(tmp_path)
    for number in range(150):
        maker.add(Noted(START_US + number, "x" * 12_000))
    player = Player(Recording(maker.disk.folder))
    sent(player.seek(2**62))
    size_bytes = maker.disk.segment_bytes
    assert size_bytes > 1 << 20
    before_bytes, rounds = read_bytes(), 8
    for number in range(rounds):
        added = Noted(START_US + 5_000 + number, "more")
        maker.add(added)
        assert player.refresh()
        assert sent(player.play_until(2**62)) == [added]
    # 8 notes are some 1 KB; the rest is session.json and the like.
    assert read_bytes() - before_bytes < size_bytes / 4
    maker.disk.abandon()


def test_a_segment_that_grows_is_the_same_as_one_read_at_once(tmp_path: Path) -> None:
    scenario, maker = Scenario(streams=2, consumers=500), Maker(tmp_path, 100)
    for record in [*scenario.beginning(), *scenario.records(0, 5), Noted(START_US, "the end")]:
        maker.add(record)
    maker.disk.abandon()
    (path,) = (segment.path for segment in list_segments(maker.disk.folder))
    whole = path.read_bytes()
    assert any(len(entry.parts) > 2 for entry in read_content(path, sealed=False).entries)
    path.write_bytes(b"")
    recording = Recording(maker.disk.folder)
    for end in [*range(0, len(whole), 7_001), len(whole)]:
        with path.open("r+b") as file:
            file.seek(path.stat().st_size)
            file.write(whole[path.stat().st_size : end])
        recording.refresh()
        (span,) = recording.spans
        assert recording.content(span) == read_content(path, sealed=False)
    assert recording.spans == Recording(maker.disk.folder).spans
    # A write that failed on a full disk is taken back.
    path.write_bytes(whole[: len(whole) // 2])
    recording.refresh()
    assert recording.content(recording.spans[0]) == read_content(path, sealed=False)


def test_a_segment_that_is_sealed_between_listing_and_reading_is_read_all_the_same(
    maker: Maker,
) -> None:
    folder = maker.disk.folder
    listed = list_segments(folder)[-1]
    assert not listed.sealed
    before = [entry.record() for entry in read_segment(listed).entries]
    maker.disk.finish(START_US)
    assert not listed.path.exists()
    assert [entry.record() for entry in read_segment(listed).entries] == before
    list_segments(folder)[-1].path.unlink()
    with pytest.raises(SessionError, match=listed.path.name):
        read_segment(listed)


@pytest.mark.parametrize("change", ["deleted", "sealed"])
def test_a_segment_that_goes_just_after_it_was_listed_does_not_end_following(
    maker: Maker, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder, scan, changes = maker.disk.folder, os.scandir, list[str]()

    def change_after_listing(path: Path) -> list[os.DirEntry[str]]:
        entries = list(scan(path))
        if not changes:
            changes.append(change)
            if change == "deleted":
                drop(folder, 1)
            else:
                added.extend(add(maker, 45, 60))
        return entries

    recording = Recording(folder, skips_unreadable_parts=True)
    player = Player(recording)
    sent(player.seek(2**62))
    added = add(maker, 40, 45)
    monkeypatch.setattr(os, "scandir", change_after_listing)
    assert player.refresh()
    assert changes == [change]
    assert sent(player.play_until(2**62)) == added
    assert [span.file for span in recording.spans] == list_segments(folder)
    assert recording.damaged_segments_count == 0
    maker.disk.abandon()


def test_a_segment_that_was_deleted_is_not_read_ahead(maker: Maker) -> None:
    recording = Recording(maker.disk.folder, skips_unreadable_parts=True)
    drop(maker.disk.folder, 2)
    recording.cache_events()
    assert recording.damaged_segments_count == 0
    maker.disk.abandon()


def test_marks_are_sent_when_they_have_changed(maker: Maker) -> None:
    player = Player(Recording(maker.disk.folder))
    (marks,) = sent(player.marks())
    assert isinstance(marks, ReplayMarks) and marks.marks
    assert sent(player.marks()) == []
    note = Noted(START_US + 41_000_000, "a mark")
    maker.add(note)
    assert player.refresh()
    (more,) = sent(player.marks())
    assert isinstance(more, ReplayMarks) and len(more.marks) == len(marks.marks) + 1
    maker.disk.abandon()


def test_only_segments_with_something_small_are_read_before_it_is_asked_for(
    tmp_path: Path,
) -> None:
    scenario, note = Scenario(), Noted(START_US + 500_000, "a note")
    folder = made(tmp_path, [scenario.poll(0), note, scenario.poll(1)], polls_per_segment=1)
    recording = Recording(folder)
    only_a_poll, with_a_note = recording.spans
    recording.cache_events()
    drop(folder, 2)
    small = recording.read_members(with_a_note, (EVENTS_MEMBER, FREQUENT_MEMBER))
    assert [entry.record() for entry in small.entries] == [note]
    with pytest.raises(SessionError, match="cannot read"):
        recording.read_members(only_a_poll, (EVENTS_MEMBER, FREQUENT_MEMBER))
