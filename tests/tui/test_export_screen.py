"""E writes what is in view: over a whole recording, or as it is now."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import nats
import pytest

from natstui.session.read.recording import Recording
from natstui.session.share.tables import rows
from tests.accounts import Account
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.test_forms import toasts
from tests.tui.viewer import Viewer, replaying, viewing

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("export screen")]

LAST_S = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scenario = Scenario(streams=2, consumers=4)
    records = [*scenario.beginning(), *scenario.records(0, LAST_S)]
    return made(tmp_path_factory.mktemp("sessions"), records)


async def traffic(server: Account, msgs: int) -> None:
    """Make a stream with messages and a consumer."""
    nc = await nats.connect(server.url)
    js = nc.jetstream()
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    for number in range(msgs):
        await js.publish(f"orders.{number}", b"x" * number)
    await js.add_consumer("ORDERS", durable_name="billing")
    await nc.close()


async def export_to(viewer: Viewer, target: Path, *format_keys: str) -> None:
    """Press E, pick a format and write where to."""
    await viewer.press("E")
    await viewer.until(lambda: "spreadsheets" in viewer.text, "the formats")
    await viewer.press(*format_keys, "enter")
    await viewer.until(lambda: "new folder" in viewer.words, "the folder")
    viewer.app.screen.query_one("Input").value = str(target)  # type: ignore[attr-defined]
    await viewer.press("enter")
    # Not on the screen: the line that was typed is there as well.
    await viewer.until(lambda: target.name in toasts(viewer), "where it lies")


async def test_the_rows_a_filter_leaves_are_exported_over_the_whole_recording(
    folder: Path, tmp_path: Path
) -> None:
    recording = Recording(folder)
    name = Scenario(streams=2, consumers=4).names[1]
    async with replaying(folder, size=(160, 40)) as viewer:
        await viewer.type_command("seek +20s")
        await viewer.press("2")
        await viewer.until(lambda: len(viewer.rows()) == 4, "every consumer")
        await viewer.press("slash", *name[-6:], "enter")
        await viewer.until(lambda: len(viewer.rows()) == 1, "one consumer")
        await export_to(viewer, tmp_path / "out")
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


@pytest.mark.server
async def test_live_rows_are_exported_as_they_are_now_and_a_full_folder_is_refused(
    account: Account, tmp_path: Path
) -> None:
    await traffic(account, 7)
    async with viewing(account.url, size=(160, 40)) as viewer:
        await viewer.until(lambda: "ORDERS" in viewer.rows(), "the stream")
        await viewer.press("E")
        await viewer.until(lambda: "Export 1 stream as it is now" in viewer.words, "the formats")
        await viewer.press("escape")
        await export_to(viewer, tmp_path / "now", "down")
        text = (tmp_path / "now" / "stream_sample.jsonl").read_text()
        row = json.loads(text.splitlines()[0])
        assert (row["name"], row["stored_msgs"], row["last_seq"]) == ("ORDERS", 7, 7)
        await viewer.press("E")
        await viewer.until(lambda: "spreadsheets" in viewer.text)
        await viewer.press("enter")
        await viewer.until(lambda: "new folder" in viewer.words)
        viewer.app.screen.query_one("Input").value = str(tmp_path / "now")  # type: ignore[attr-defined]
        await viewer.press("enter")
        await viewer.until(lambda: "is not empty" in viewer.said, "refused")
        await viewer.press("escape", "escape", "3")
        await viewer.type_command("export")
        await viewer.until(
            lambda: "only streams and consumers can be exported here" in viewer.said, "told"
        )


async def test_the_consumer_in_view_is_exported_and_elsewhere_it_is_told_what_can_be(
    folder: Path, tmp_path: Path
) -> None:
    owner, name = (
        getattr(Scenario(streams=2, consumers=4), them)[1] for them in ("owners", "names")
    )
    async with replaying(folder, size=(120, 40)) as viewer:
        await viewer.type_command("seek +20s")
        await viewer.press("b")
        await viewer.until(lambda: "no benchmark has run" in viewer.words)
        await viewer.press("E")
        await viewer.until(lambda: "nothing to export here" in viewer.said)
        assert "natstui export SESSION --to FOLDER" in toasts(viewer)
        await viewer.type_command(f"consumer {owner} {name}")
        await viewer.until(lambda: f"{owner}  ›  {name}" in viewer.text)
        await export_to(viewer, tmp_path / "one")
    with (tmp_path / "one" / "consumer_sample.csv").open(newline="") as file:
        assert {(row["stream"], row["name"]) for row in csv.DictReader(file)} == {(owner, name)}
