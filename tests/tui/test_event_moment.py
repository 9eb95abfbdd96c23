"""Which moment is meant by what somebody types who asks what happened then."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pytest

from natstui.model.live.state import EVENTS_KEPT
from natstui.model.records.record import Advisory, Noted
from natstui.model.records.recording import ReplayPosition
from natstui.tui.events.screen import describe_moment, moment_us
from tests.session.scenario import START_US
from tests.tui.engine_records import engine_records
from tests.tui.viewer import FedViewer, fed

NOW = datetime(2026, 11, 23, 14, 30, 20).astimezone()
NOW_US = round(NOW.timestamp() * 1e6)


@pytest.mark.parametrize("text", ["2m ago", "2m", " 120s ago ", "14:28:20"])
def test_two_minutes_ago_is_written_in_many_ways(text: str) -> None:
    assert moment_us(text, NOW_US) // 1_000_000 == NOW_US // 1_000_000 - 120


def test_a_time_of_day_is_the_last_one() -> None:
    assert moment_us("14:31", NOW_US) < NOW_US - 23 * 3_600_000_000
    assert 0 <= NOW_US - moment_us("14:30", NOW_US) <= 20_000_000


@pytest.mark.parametrize("text", ["", "soon", "25:00", "14:60", "m", "9" * 400 + "h ago"])
def test_what_is_no_time_is_told_how_to_write_it(text: str) -> None:
    with pytest.raises(ValueError, match="write it as 2m ago or 14:30"):
        moment_us(text, NOW_US)


@pytest.mark.parametrize(("text", "words"), [("2m", "14:28:20"), ("14:30", "14:30:"), ("so", "")])
def test_what_is_typed_is_said_as_it_is_understood(text: str, words: str) -> None:
    assert words in describe_moment(text, NOW_US)
    assert bool(describe_moment(text, NOW_US)) == bool(words)


def created(stream: str, at_us: int) -> Advisory:
    return Advisory(at_us, "stream_action", stream, None, f"stream {stream} was created", "{}")


async def test_a_key_leads_to_what_happened_then() -> None:
    first_us, third_us = START_US + 10_000_000, START_US + 30_000_000
    records = (created("FIRST", first_us), created("SECOND", first_us + 5_000_000))
    async with fed(*engine_records(), *records, size=(80, 24), first="events") as viewer:
        await viewer.until(lambda: "FIRST" in viewer.text and "SECOND" in viewer.text, "both")
        await viewer.press("t")
        await viewer.type("soon")
        await viewer.press("enter")
        await viewer.until(lambda: "is not a time" in viewer.words, "the reason")
        at = datetime.fromtimestamp(first_us / 1e6).astimezone().isoformat()
        await viewer.press("ctrl+u")
        await viewer.type(at)
        shown = datetime.fromtimestamp(first_us / 1e6).strftime("%Y-%m-%d %H:%M:%S")
        await viewer.until(lambda: shown in viewer.words, "what is understood")
        await viewer.press("enter")
        await viewer.until(lambda: viewer.table.table.cursor_key[0] == first_us, "the first")
        await viewer.press("t")
        # Later than the question: it is counted from now, not from then.
        await viewer.feed(created("THIRD", third_us), Noted(third_us + 3_000_000, "later"))
        await viewer.until(lambda: viewer.app.state.now_at_us > third_us, "a while")
        await viewer.type("2s ago")
        await viewer.press("enter")
        await viewer.until(lambda: viewer.table.table.cursor_key[0] == third_us, "from now on")
        await viewer.press("t")
        await viewer.type("2h ago")
        await viewer.press("enter")
        await viewer.until(lambda: "the oldest event here is from" in viewer.said, "how far back")
        oldest_us = min(event.at_us for event in viewer.app.state.recent_events)
        assert viewer.table.table.cursor_key[0] == oldest_us


async def test_thousands_of_events_unfold_and_a_key_leads_to_one_of_them() -> None:
    # So many are sorted beside the event loop.
    records = [created("SAME", START_US + number * 1_000) for number in range(EVENTS_KEPT)]
    async with fed(*engine_records(), first="events") as viewer:
        await viewer.feed(*records)
        await viewer.until(lambda: len(viewer.app.state.recent_events) == EVENTS_KEPT, "all")
        await viewer.until(lambda: list(shown_rows(viewer)) == [0], "one row for all")
        await viewer.press("f")
        await viewer.until(lambda: len(shown_rows(viewer)) == EVENTS_KEPT, "each", s=10)
        await viewer.press("f")
        await viewer.until(lambda: list(shown_rows(viewer)) == [0], "one row again", s=10)
        await viewer.press("t")
        moment_us = START_US + 2_000_000
        await viewer.type(datetime.fromtimestamp(moment_us / 1e6).astimezone().isoformat())
        await viewer.press("enter")
        await viewer.until(lambda: viewer.table.table.cursor_key[0] == moment_us, "then", s=10)
        assert "the oldest event here is from" not in viewer.said


async def test_a_key_leads_to_one_of_several_similar_events_in_a_paused_replay() -> None:
    first_us = START_US + 10_000_000
    records = [created("SAME", first_us + number * 1_000_000) for number in range(3)]
    position = ReplayPosition(
        START_US + 60_000_000, START_US, START_US + 90_000_000, 1.0, playing=False, recording=False
    )
    async with fed(*engine_records(), *records, position, first="events") as viewer:
        await viewer.until(lambda: "×3" in viewer.text, "one row for all")
        await viewer.press("t")
        await viewer.type(datetime.fromtimestamp(first_us / 1e6).astimezone().isoformat())
        await viewer.press("enter")
        await viewer.until(lambda: viewer.table.table.cursor_key[0] == first_us, "the first one")


def shown_rows(viewer: FedViewer) -> Sequence[int]:
    source = viewer.table.rows
    return source.order if source is not None else ()
