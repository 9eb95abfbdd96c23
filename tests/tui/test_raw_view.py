"""A megabyte of payload opens at once, and is searched, wrapped and copied."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from natstui.tui.kit.raw.lines import find_spans, split_rows
from natstui.tui.kit.raw.view import RawView


class RawApp(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[int, int]] = []
        self.copied: list[str] = []

    def compose(self) -> ComposeResult:
        yield RawView()

    @property
    def view(self) -> RawView:
        return self.query_one(RawView)

    def on_raw_view_searched(self, message: RawView.Searched) -> None:
        self.told.append((message.number, message.count))

    def on_raw_view_copy_requested(self, message: RawView.CopyRequested) -> None:
        self.copied.append(message.text)

    def lines(self) -> list[str]:
        return [strip.text for strip in self.screen._compositor.render_strips()]


@given(st.lists(st.text(max_size=80), max_size=5), st.integers(2, 30))
def test_wrapped_rows_hold_every_character_and_fit(lines: list[str], width: int) -> None:
    rows = split_rows(lines, width)
    for number, line in enumerate(lines):
        parts = [row for row in rows if row.line == number]
        assert "".join(line[row.start : row.end] for row in parts) == line
        for row in parts:
            assert cell_len(line[row.start : row.end]) <= width or row.end - row.start == 1


def test_json_and_yaml_are_told_apart_into_keys_and_values() -> None:
    line = '  "name": "a\\"b", "n": -1.5, "x": null'
    kinds = [(line[s.start : s.end], s.kind) for s in find_spans(line, "json")]
    assert ('"name"', "key") in kinds
    assert ('"a\\"b"', "string") in kinds
    assert ("-1.5", "number") in kinds
    assert ("null", "word") in kinds
    line = "- max_age: 3600"
    kinds = [(line[s.start : s.end], s.kind) for s in find_spans(line, "yaml")]
    assert kinds == [("- ", "mark"), ("max_age", "key"), ("3600", "number")]


@pytest.mark.parametrize("count", [300, pytest.param(24_000, marks=pytest.mark.long)])
async def test_a_long_text_up_to_a_megabyte_is_shown_searched_and_copied(count: int) -> None:
    text = json.dumps([{"order": n, "state": "paid"} for n in range(count)], indent=1)
    assert len(text) < 1024 * 1024
    begins = f'"order": {count // 10 - 1}'
    app = RawApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.show(text, "json")
        await pilot.pause()
        assert app.lines()[0].split() == ["1", "["]
        assert app.view.search(begins) == 11
        await pilot.pause()
        assert any(begins in line for line in app.lines())
        await pilot.press("n", "N", "N")
        assert app.told[-1] == (11, 11)
        assert any(f"{begins}9" in line for line in app.lines())
        await pilot.press("g", "c")
        assert app.copied == [text]


async def test_one_endless_line_is_wrapped_and_a_longer_text_is_cut_and_says_so() -> None:
    app = RawApp()
    async with app.run_test(size=(60, 20)) as pilot:
        app.view.show("x" * 2_000_000)
        await pilot.pause()
        assert all(len(line) <= 60 for line in app.lines())
        await pilot.press("G")
        await pilot.pause()
        assert "951,424 more characters" in "".join(app.lines())
