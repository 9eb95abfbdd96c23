"""Saved benchmark runs: list, details and comparison."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import SelectionList, Static
from textual.widgets.selection_list import Selection

from natstui.model.records.benchmark import CompareRuns, ListBenchmarks
from natstui.tui.bench.text import wrap_summary
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.lists import MultipleChoiceList
from natstui.tui.kit.text import safe, safe_lines
from natstui.units import counted


class RunsScreen(LiveScreen):
    """The saved runs, newest first; space marks a run, and a key compares the marked runs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("equals_sign", "compare", "Compare marked", key_display="=", id="runs.compare")
    ]

    caption = getters.query_one("#caption", Static)
    runs = getters.query_one(SelectionList)
    result = getters.query_one("#comparison", Static)

    def __init__(self) -> None:
        super().__init__()
        self._shown_text = ""

    def body(self) -> Iterable[Widget]:
        """Yield the list of runs, and the details or comparison beside it."""
        yield Static("reading the saved runs …", id="caption")
        with Horizontal(id="runs"):
            yield MultipleChoiceList[str]()
            yield VerticalScroll(Static(id="comparison", markup=False))

    def on_mount(self) -> None:
        """Request the names of the saved runs from the engine."""
        run_task(self, self._read_run_names)

    async def _read_run_names(self) -> None:
        reply = await self.engine.request(ListBenchmarks(0))
        if reply.body_json is None:
            self.caption.update(safe(reply.text, "error"))
            return
        body = json.loads(reply.body_json)
        names, runs_count = body["runs"], body["runs_count"]
        self.runs.add_options([Selection(safe(name), name) for name in names])
        key = key_of(self, "screen.benchmark")
        count_text = counted(runs_count, "saved run")
        if len(names) < runs_count:
            count_text = f"the newest {len(names)} of {count_text}"
        text = f"{count_text}  ·  space marks, = compares"
        self.caption.update(safe(text if names else f"no saved runs: {key} leads to benchmarks"))
        self.runs.focus()
        self.runs.highlighted = 0 if names else None

    async def _show_comparison(self, names: tuple[str, ...]) -> None:
        reply = await self.engine.request(CompareRuns(0, names))
        self._show_text(json.loads(reply.body_json) if reply.body_json else reply.text)

    def _show_text(self, text: str) -> None:
        """Show the details or the comparison of runs; a long line continues below its value."""
        self._shown_text = text
        width = self.result.content_size.width or self.size.width
        self.result.update(safe_lines(wrap_summary(text.strip("\n"), width)))

    def on_resize(self) -> None:
        """Wrap the shown text for the new width."""
        self.call_after_refresh(lambda: self._show_text(self._shown_text))

    @on(SelectionList.SelectionHighlighted)
    def _show_highlighted(self, message: SelectionList.SelectionHighlighted[str]) -> None:
        if not self.runs.selected:
            self._start_comparing((message.selection.value,))

    @on(SelectionList.SelectedChanged)
    def _refresh_keys(self) -> None:
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether comparing is offered: once a run is marked."""
        if action == "compare":
            return self.is_mounted and bool(self.runs.selected)
        return super().check_action(action, parameters)

    def action_compare(self) -> None:
        """Compare the oldest marked run with each of the others."""
        self._start_comparing(tuple(sorted(self.runs.selected)))

    def _start_comparing(self, names: tuple[str, ...]) -> None:
        run_task(self, self._show_comparison, names, replaces="compare")
