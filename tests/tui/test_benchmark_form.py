"""The form of a benchmark, walked by keys alone; runs: test_benchmark_screen.py."""

from __future__ import annotations

import json
import re

import pytest

from natstui.bench.plan.scenario import built_in_scenarios, read_scenario
from natstui.model.records.benchmark import (
    BenchmarkPlanned,
    BenchmarkSummed,
    ListBenchmarks,
    StartBenchmark,
)
from natstui.model.records.messages import Answered
from natstui.tui.bench.form import BenchmarkForm
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.kit.fields import FieldRow
from tests.tui.engine_records import engine_records
from tests.tui.viewer import FedViewer, Viewer, fed


def form(viewer: Viewer) -> BenchmarkForm:
    assert isinstance(viewer.app.screen, BenchmarkForm)
    return viewer.app.screen


async def on_form(viewer: Viewer) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, BenchmarkForm), "the form")


def row_of(viewer: Viewer) -> FieldRow:
    assert viewer.app.focused is not None
    row = viewer.app.focused.parent
    assert isinstance(row, FieldRow)
    return row


async def walk_to(viewer: Viewer, path: str) -> None:
    """Press down until a field has the keys, and empty it if something is typed there."""
    for _ in form(viewer).query(FieldRow):
        if row_of(viewer).field.path == path:
            await viewer.press("end", "ctrl+u")
            return
        await viewer.press("down")
    raise AssertionError(f"no way to {path}")


async def go_to_field(viewer: Viewer, path: str) -> None:
    """Give a field the keys, quicker than walking there, and empty it."""
    (row,) = (row for row in form(viewer).query(FieldRow) if row.field.path == path)
    assert row.display
    row.editor.focus()
    await viewer.press("end", "ctrl+u")


@pytest.mark.slow
async def test_a_benchmark_is_filled_in_run_and_filled_in_again_by_keys_at_80_by_24() -> None:
    async with fed(*engine_records(), size=(80, 24)) as viewer:
        await viewer.press("b", "b")
        await on_form(viewer)
        command = "natstui bench pubsub bench --pubs 1 --subs 3 --msgs 100k"
        await viewer.until(lambda: command in viewer.words, "the command")
        # The kind of benchmark decides which fields there are.
        await viewer.press("s")
        assert "Publish " in viewer.text
        assert "of memory" in viewer.words
        await walk_to(viewer, "consumers")
        await viewer.press("2")
        await go_to_field(viewer, "rate")
        await viewer.type("1500")
        await viewer.press("plus")
        assert form(viewer).draft.texts["rate"] == "2000"
        await viewer.press("minus", "minus", "plus", "plus")
        await viewer.until(lambda: "2000/s sent, 2000/s received" in viewer.words, "the preview")
        # Where no rate is typed a minus is a letter: of a subject it may be part.
        await go_to_field(viewer, "subject")
        await viewer.press("a", "minus", "b")
        assert form(viewer).draft.texts["subject"] == "a-b"
        await viewer.press("up")
        assert row_of(viewer).field.path != "subject"
        await go_to_field(viewer, "msgs")
        # An error is told, and takes nothing away.
        await viewer.type("lots")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "'lots' is not a number" in viewer.words, "the mistake")
        assert not viewer.sent(StartBenchmark)
        assert form(viewer).draft.texts["rate"] == "2000"
        await viewer.press("ctrl+u")
        await viewer.type("1000")
        await go_to_field(viewer, "checks")
        await viewer.type("lost == 0; sent == 7")
        assert "--assert 'lost == 0'" in re.sub(r"\s+", " ", viewer.text)
        await viewer.press("ctrl+s")
        await viewer.until(lambda: viewer.sent(StartBenchmark), "the run")
        assert isinstance(viewer.app.screen, BenchmarkScreen)
        (start,) = viewer.sent(StartBenchmark)
        plan = read_scenario(start.scenario, "as written")
        assert plan.assertions == ("lost == 0", "sent == 7")
        assert [
            (role.workers_count, role.total_msgs) for role in plan.roles if role.traits.sends
        ] == [(1, 1000)]
        assert [role.workers_count for role in plan.roles if role.traits.receives] == [2]
        failed = "sent == 7: it is 1000; the result is saved as x"
        await viewer.feed(
            BenchmarkPlanned(2, "x", plan),
            BenchmarkSummed(3, failed, failed=True),
            Answered(3, start.command_id, "failed", failed),
        )
        await viewer.until(lambda: "sent == 7: it is 1000" in viewer.words, "the assertion")
        await viewer.press("r")
        await viewer.until(lambda: len(viewer.sent(StartBenchmark)) == 2, "the same again")
        again = viewer.sent(StartBenchmark)[-1]
        assert (again.scenario, again.overrides) == (start.scenario, start.overrides)
        await viewer.press("b")
        await on_form(viewer)
        assert form(viewer).draft.texts["checks"] == "lost == 0; sent == 7"
        assert form(viewer).draft.texts["consumers"] == "2"


async def read_scenarios(viewer: FedViewer) -> None:
    """Open the list of scenarios, and answer as an engine does."""
    await viewer.press("ctrl+o")
    await viewer.until(lambda: isinstance(viewer.app.screen, ScenariosScreen))
    scenarios = [
        {"name": name, "title": read_scenario(text, name).title, "text": text}
        for name, text in built_in_scenarios().items()
    ]
    number = viewer.sent(ListBenchmarks)[-1].command_id
    body = json.dumps({"scenarios": scenarios, "runs": []})
    await viewer.feed(Answered(2, number, "done", "read", body))
    await viewer.until(lambda: "pattern = " in viewer.text, "the file in view")


@pytest.mark.slow
async def test_a_scenario_that_was_read_fills_the_form_and_the_file_has_what_it_does_not() -> None:
    async with fed(*engine_records(), size=(120, 50)) as viewer:
        await viewer.press("b", "b")
        await on_form(viewer)
        await go_to_field(viewer, "subject")
        await viewer.type("mine")
        await viewer.press("ctrl+o")
        await viewer.until(lambda: isinstance(viewer.app.screen, ScenariosScreen))
        await viewer.press("ctrl+o", "ctrl+s")
        await viewer.until(lambda: "the scenarios are not read" in viewer.said, "neither")
        assert isinstance(viewer.app.screen, ScenariosScreen)
        assert not viewer.sent(StartBenchmark)
        await viewer.press("escape")
        await on_form(viewer)
        assert form(viewer).draft.texts["subject"] == "mine"
        await read_scenarios(viewer)
        assert 'title = "From the form"' in viewer.text
        await viewer.press("end")
        await viewer.until(lambda: "Work queue with a slow consumer" in viewer.words)
        await viewer.press("enter")
        await on_form(viewer)
        texts = form(viewer).draft.texts
        assert (texts["shape"], texts["rate"], texts["duration"]) == ("stream", "500", "10s")
        await viewer.until(lambda: "natstui bench work-queue" in viewer.words, "the command")
        await go_to_field(viewer, "rate")
        await viewer.type("900")
        assert "natstui bench work-queue --rate 900" in viewer.words
        # What the form has no field for stays in the file.
        await read_scenarios(viewer)
        await viewer.until(lambda: 'think = "2ms"' in viewer.text, "the file")
        assert "rate = 900" in viewer.words
        await viewer.press("tab")
        await viewer.type("= nonsense")
        await viewer.press("ctrl+o")
        await viewer.until(lambda: "not taken:" in viewer.words, "the reason")
        assert "= nonsense" in viewer.words
        await viewer.press("escape")
        await on_form(viewer)
        assert form(viewer).draft.texts["rate"] == "900"
