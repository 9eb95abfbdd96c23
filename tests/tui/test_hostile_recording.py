"""Recordings that somebody else made: what they say neither ends the viewer nor is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from natstui.model.records.record import Configured, Noted, Record
from natstui.values import replace
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.viewer import replaying

pytestmark = pytest.mark.slow

BEYOND_CALENDARS_US = 9 * 10**17


STREAMS_JSON = ("{not json", '{"backoff": ["x", 1000000000]}')


def without_sense(records: list[Record]) -> list[Record]:
    """Give each stream a configuration that is none, and note something in a year to come."""
    changed = [
        replace(
            it,
            streams=tuple(
                replace(stream, config_json=config_json)
                for stream, config_json in zip(it.streams, STREAMS_JSON, strict=True)
            ),
        )
        if isinstance(it, Configured)
        else it
        for it in records
    ]
    return [*changed, Noted(BEYOND_CALENDARS_US, "from the year 30489")]


async def test_a_recording_that_makes_no_sense_is_shown_as_far_as_it_does(tmp_path: Path) -> None:
    scenario = Scenario(streams=2, consumers=4)
    folder = made(tmp_path, without_sense([*scenario.beginning(), *scenario.records(0, 5)]))
    async with replaying(folder, size=(120, 60), panel=True) as viewer:
        await viewer.until(lambda: "paused" in viewer.text, "the replay")
        await viewer.type_command("seek +3s")
        await viewer.until(viewer.rows, "streams")
        seen = ""
        for key in ("home", "end"):
            await viewer.press(key, "d")
            await viewer.until(lambda: "CONFIGURATION" in viewer.text, "the stream")
            seen += viewer.text
            await viewer.press("escape")
        assert "{not json" in seen and "backoff" in seen
        # The next mark: no distance reaches what is later than any calendar.
        await viewer.press("right_curly_bracket", "3")
        await viewer.until(lambda: "from the year 30489" in viewer.text, "the note")
