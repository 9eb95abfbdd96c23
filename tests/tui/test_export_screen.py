"""E writes what is in view, over a whole recording; as it is now: test_asked_again.py."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from natstui.model.records.recording import ExportSelection
from natstui.session.read.recording import Recording
from natstui.session.share.tables import rows
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.engine_records import engine_records
from tests.tui.test_forms import toasts
from tests.tui.viewer import Viewer, fed, replaying

pytestmark = pytest.mark.slow

LAST_S = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    scenario = Scenario(streams=2, consumers=4)
    records = [*scenario.beginning(), *scenario.records(0, LAST_S)]
    return made(tmp_path / "sessions", records)


async def export_to(viewer: Viewer, target: Path) -> None:
    """Press E, pick the format and write where to."""
    await viewer.press("E")
    await viewer.until(lambda: "spreadsheets" in viewer.text, "the formats")
    await viewer.press("enter")
    await viewer.until(lambda: "new folder" in viewer.words, "the folder")
    viewer.app.screen.query_one("Input").value = str(target)  # type: ignore[attr-defined]
    await viewer.press("enter")
    # Not on the screen: the line that was typed is there as well.
    await viewer.until(lambda: target.name in toasts(viewer), "where it lies")


async def test_what_is_in_view_is_exported_over_the_whole_recording_and_no_other_screen(
    folder: Path, tmp_path: Path
) -> None:
    recording = Recording(folder)
    scenario = Scenario(streams=2, consumers=4)
    owner, name = scenario.owners[1], scenario.names[1]
    async with replaying(folder, size=(120, 40), first="consumers") as viewer:
        await viewer.type_command("seek +20s")
        await viewer.until(lambda: len(viewer.rows()) == 4, "every consumer")
        await viewer.press("slash")
        await viewer.type(name[-6:])
        await viewer.press("enter")
        await viewer.until(lambda: len(viewer.rows()) == 1, "one consumer")
        await export_to(viewer, tmp_path / "out")
        await viewer.press("b")
        await viewer.until(lambda: "no benchmark has run" in viewer.words)
        await viewer.press("E")
        await viewer.until(lambda: "nothing to export here" in viewer.said)
        assert "natstui export SESSION --to FOLDER" in toasts(viewer)
        await viewer.press("3")
        await viewer.type_command("export")
        await viewer.until(
            lambda: "only streams and consumers can be exported here" in viewer.said, "told"
        )
        await viewer.type_command(f"consumer {owner} {name}")
        await viewer.until(lambda: f"{owner}  ›  {name}" in viewer.text)
        await export_to(viewer, tmp_path / "one")
    with (tmp_path / "out" / "consumer_sample.csv").open(newline="") as file:
        written = list(csv.DictReader(file))
    expected = [
        dict(zip(table.names, values, strict=True))
        for record in recording.records()
        for table, values in rows(record)
        if table.name == "consumer_sample" and name in values
    ]
    assert len(written) == LAST_S
    for column in ("at_us", "delivered_stream_seq", "pending_msgs", "acked_at_us"):
        assert [row[column] for row in written] == [str(row[column]) for row in expected]
    assert "µs since 1970" in (tmp_path / "out" / "columns.csv").read_text()
    assert not (tmp_path / "out" / "stream_sample.csv").exists()
    with (tmp_path / "one" / "consumer_sample.csv").open(newline="") as file:
        assert {(row["stream"], row["name"]) for row in csv.DictReader(file)} == {(owner, name)}


async def test_who_chooses_no_format_exports_nothing() -> None:
    async with fed(*engine_records({"S": ()}), size=(80, 24)) as viewer:
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        screen = viewer.app.screen
        await viewer.press("E")
        await viewer.until(lambda: "Export 1 stream as it is now" in viewer.words, "the formats")
        await viewer.press("escape")
        await viewer.until(lambda: viewer.app.screen is screen, "the list again")
        await viewer.press("E")
        await viewer.until(lambda: "spreadsheets" in viewer.text, "the formats again")
        assert not viewer.sent(ExportSelection)
