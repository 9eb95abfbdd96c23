"""A position in a recording that is still being made, and whose oldest segments go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from natstui.lines import decode_record
from natstui.model.record import Record
from natstui.model.snapshot import Snapshot
from natstui.session.folder import segments
from natstui.session.player import Player
from natstui.session.recording import Recording
from tests.session.making import Maker, fold
from tests.session.scenario import START_US, Scenario

POLLS_PER_SEGMENT = 10


def sent(lines: Iterator[bytes]) -> list[Record]:
    return [decode_record(line) for line in lines if line]


def drop(folder: Path, count: int) -> None:
    for segment in segments(folder)[:count]:
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
    assert sent(player.forward(2**62)) == added
    more = add(maker, 55, 60)
    drop(maker.disk.folder, 1)
    assert player.refresh()
    assert sent(player.forward(2**62)) == more
    maker.disk.abandon()


def test_a_moment_that_is_deleted_is_followed_by_the_oldest_there_still_is(maker: Maker) -> None:
    player = Player(Recording(maker.disk.folder))
    sent(player.seek(START_US))
    drop(maker.disk.folder, 2)
    player.refresh()
    assert player.at_us == Recording(maker.disk.folder).start_us
    records = sent(player.forward(2**62))
    polls = [record for record in records if isinstance(record, Snapshot)]
    assert len(polls) == 1 + 20, "the keyframe's, and those of what is left"
    whole = fold(Recording(maker.disk.folder).records())
    assert fold(records).consumers.columns == whole.consumers.columns
    maker.disk.abandon()
