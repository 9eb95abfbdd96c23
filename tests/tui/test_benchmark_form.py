"""The form of a benchmark, walked by keys alone."""

from __future__ import annotations

import re

import pytest

from natstui.tui.bench.form import BenchmarkForm
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.kit.fields import FieldRow
from tests.accounts import Account
from tests.tui.test_benchmark_screen import START_S
from tests.tui.viewer import Viewer, frozen, viewing

pytestmark = pytest.mark.server


def form(viewer: Viewer) -> BenchmarkForm:
    assert isinstance(viewer.app.screen, BenchmarkForm)
    return viewer.app.screen


async def on_form(viewer: Viewer) -> None:
    await viewer.until(lambda: isinstance(viewer.app.screen, BenchmarkForm), "the form")


async def go_to_field(viewer: Viewer, path: str) -> None:
    """Press down until a field has the keys, and empty it if something is typed there."""
    rows = [one for one in form(viewer).query(FieldRow) if one.display]
    for _ in rows:
        focused = viewer.app.focused
        assert focused is not None
        row = focused.parent
        assert isinstance(row, FieldRow)
        if row.field.path == path:
            await viewer.press("end", "ctrl+u")
            return
        await viewer.press("down")
    raise AssertionError(f"no way to {path}")


async def test_a_benchmark_is_filled_in_run_and_filled_in_again_by_keys_at_80_by_24(
    account: Account,
) -> None:
    async with viewing(account.url, size=(80, 24)) as viewer:
        await viewer.press("b", "b")
        await on_form(viewer)
        assert "natstui bench pubsub bench --pubs 1 --subs 3 --msgs 100k" in viewer.words
        # The kind of benchmark decides which fields there are.
        await viewer.press("s")
        assert "Publish " in viewer.text
        assert "of memory" in viewer.words
        await go_to_field(viewer, "consumers")
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
        for _ in range(3):
            await viewer.press("up")
        await go_to_field(viewer, "msgs")
        # An error is told, and takes nothing away.
        await viewer.type("lots")
        await viewer.press("ctrl+s")
        await viewer.until(lambda: "'lots' is not a number" in viewer.words, "the mistake")
        assert form(viewer).draft.texts["rate"] == "2000"
        await viewer.press("ctrl+u")
        await viewer.type("1000")
        await go_to_field(viewer, "checks")
        await viewer.type("lost == 0; sent == 7")
        assert "--assert 'lost == 0'" in re.sub(r"\s+", " ", viewer.text)
        await viewer.press("ctrl+s")
        await viewer.until(lambda: isinstance(viewer.app.screen, BenchmarkScreen), "the run")
        await viewer.until(
            lambda: "sent == 7: it is 1000" in viewer.words, "the assertion", START_S
        )
        await viewer.press("b")
        await on_form(viewer)
        assert form(viewer).draft.texts["checks"] == "lost == 0; sent == 7"
        assert form(viewer).draft.texts["consumers"] == "2"


async def test_scenarios_that_are_not_read_neither_fill_the_form_nor_run(
    account: Account,
) -> None:
    async with viewing(account.url, size=(120, 50)) as viewer:
        await viewer.press("b", "b")
        await on_form(viewer)
        await go_to_field(viewer, "subject")
        await viewer.type("mine")
        with frozen(viewer):
            await viewer.press("ctrl+o")
            await viewer.until(lambda: isinstance(viewer.app.screen, ScenariosScreen))
            await viewer.press("ctrl+o", "ctrl+s")
            await viewer.until(lambda: "the scenarios are not read" in viewer.said, "neither")
            assert isinstance(viewer.app.screen, ScenariosScreen)
            await viewer.press("escape")
            await on_form(viewer)
            assert form(viewer).draft.texts["subject"] == "mine"


async def test_a_scenario_fills_the_form_and_the_file_has_what_it_does_not(
    account: Account,
) -> None:
    async with viewing(account.url, size=(120, 50)) as viewer:
        await viewer.press("b", "b", "ctrl+o")
        await viewer.until(lambda: isinstance(viewer.app.screen, ScenariosScreen))
        await viewer.until(lambda: "pattern = " in viewer.text, "the file of the form")
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
        await viewer.press("ctrl+o")
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


async def test_a_second_run_is_refused_and_the_first_one_goes_on(account: Account) -> None:
    async with viewing(account.url, size=(120, 50)) as viewer:
        await viewer.until(lambda: "● connected" in viewer.words, "the server")

        def is_running() -> bool:
            run = viewer.app.parts.engines.state.benchmark
            return run is not None and run.is_running

        await viewer.type_command("bench work-queue")
        await viewer.until(is_running, "it runs", START_S)
        await viewer.type_command("bench work-queue")
        await viewer.until(lambda: "a benchmark runs already" in " ".join(viewer.toasts))
        await viewer.settle()
        assert is_running()
        assert isinstance(viewer.app.screen, BenchmarkScreen)
        viewer.app.screen.steering.action_stop()
        await viewer.until(lambda: not is_running(), "it was stopped", START_S)
