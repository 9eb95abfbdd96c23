"""Recordings that somebody else made: what they say neither ends the viewer nor is believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from natstui.model.records.record import Configured, Noted, Record
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.viewer import replaying

pytestmark = pytest.mark.slow

BEYOND_CALENDARS_US = 9 * 10**17


def later_than_any_calendar(records: list[Record]) -> list[Record]:
    return [*records, Noted(BEYOND_CALENDARS_US, "from the year 30489")]


def configured_as(config_json: str) -> Callable[[list[Record]], list[Record]]:
    def change(records: list[Record]) -> list[Record]:
        return [
            replace(it, streams=tuple(replace(s, config_json=config_json) for s in it.streams))
            if isinstance(it, Configured)
            else it
            for it in records
        ]

    return change


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (later_than_any_calendar, "from the year 30489"),
        (configured_as("{not json"), "{not json"),
        (configured_as('{"backoff": ["x", 1000000000]}'), "backoff"),
    ],
)
async def test_a_recording_that_makes_no_sense_is_shown_as_far_as_it_does(
    tmp_path: Path, change: Callable[[list[Record]], list[Record]], shown: str
) -> None:
    scenario = Scenario(streams=2, consumers=4)
    folder = made(tmp_path, change([*scenario.beginning(), *scenario.records(0, 5)]))
    async with replaying(folder, size=(160, 60), panel=True) as viewer:
        await viewer.until(lambda: "paused" in viewer.text, "the replay")
        await viewer.type_command("seek +3s")
        await viewer.until(viewer.rows, "streams")
        # The next mark, if there is one: no distance reaches what is later than any calendar.
        await viewer.press("right_curly_bracket")
        await viewer.press("d")
        await viewer.until(lambda: "CONFIGURATION" in viewer.text, "the stream")
        if shown not in viewer.text:
            await viewer.press("escape", "3")
        await viewer.until(lambda: shown in viewer.text, shown)
