"""The list of ready scenarios: a scenario can be edited, run, or loaded into the form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget
from textual.widgets import OptionList, Static, TextArea
from textual.widgets.option_list import Option

from natstui.model.records.benchmark import ListBenchmarks
from natstui.tui.bench.setup.document import parse_document, texts_of
from natstui.tui.bench.setup.fields import is_shown
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import RunScenario
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.lists import SingleChoiceList
from natstui.tui.kit.text import fit, safe

FORM_ENTRY_ID = "form"
"""The id of the list entry with the scenario of the form."""
_COLUMN_TITLES = ("NAME", "KIND", "FROM → TO", "MUCH", "RATE/S", "TITLE")
_COLUMN_WIDTHS = (18, 8, 9, 5, 10)


def scenario_row(name: str, title: str, text: str) -> str:
    """Return the row of a scenario: kind, numbers of senders and receivers, amount and rate."""
    texts = texts_of(parse_document(text))
    worker_counts = [texts["publishers"]]
    worker_counts += [texts["consumers"]] if is_shown("consumers", texts["shape"]) else []
    msgs_or_duration = texts["msgs"] or texts["duration"]
    return row_text(
        name,
        texts["shape"],
        " → ".join(worker_counts),
        msgs_or_duration,
        texts["rate"] or "max",
        title,
    )


def row_text(*cells: str) -> str:
    """Return cells as a row of the table; the last cell has the rest of the line."""
    columns = [fit(cell, width) for cell, width in zip(cells, _COLUMN_WIDTHS, strict=False)]
    return " ".join([*columns, cells[-1]])


class ScenariosScreen(LiveScreen):
    """A table of the ready scenarios, with an editor of the highlighted one below."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "run", "Run", id="scenario.run", priority=True),
        Binding("ctrl+o", "take", "Into the form", id="scenario.take", priority=True),
        Binding("tab", "app.focus_next", "Edit", id="scenario.edit"),
    ]

    edited_text_by_scenario: ClassVar[dict[str, str]] = {}
    """Scenario name → edited text; kept after this screen is closed for a run."""
    last_shown_name: ClassVar[str] = ""
    """The name of the scenario that was shown last."""

    caption = getters.query_one("#caption", Static)
    options = getters.query_one(OptionList)
    editor = getters.query_one(TextArea)

    def __init__(
        self, form_scenario_text: str = "", fill_form: Callable[[str, str], str] | None = None
    ) -> None:
        """Create the screen; `form_scenario_text` is the scenario in the form, empty without a
        valid one.

        `fill_form` fills the form with the name and text of a scenario; it returns an error, or
        "".
        """
        super().__init__()
        self._form_scenario_text, self._fill_form_with = form_scenario_text, fill_form
        self._text_by_scenario: dict[str, str] = {}
        self._shown_scenario_name = ""

    def body(self) -> Iterable[Widget]:
        """Yield the caption, the table of scenarios, and the editor."""
        yield Static("reading the scenarios …", id="caption")
        with Vertical(id="scenarios"):
            yield Static(id="head", markup=False)
            yield SingleChoiceList()
            yield TextArea(show_line_numbers=False, tab_behavior="focus")

    def on_mount(self) -> None:
        """Request the scenarios from the engine."""
        run_task(self, self._read_scenarios)

    async def _read_scenarios(self) -> None:
        reply = await self.engine.request(ListBenchmarks(0))
        if reply.body_json is None:
            self.caption.update(safe(reply.text, "error"))
        else:
            self._fill_list(json.loads(reply.body_json))

    def _fill_list(self, reply: dict[str, Any]) -> None:
        scenarios = reply["scenarios"]
        if self._form_scenario_text:
            # An edited text of an older form does not belong to this one.
            self.edited_text_by_scenario.pop(FORM_ENTRY_ID, None)
            scenarios = [
                {
                    "name": FORM_ENTRY_ID,
                    "title": "as it is filled in",
                    "text": self._form_scenario_text,
                },
                *scenarios,
            ]
        self._text_by_scenario = {scenario["name"]: scenario["text"] for scenario in scenarios}
        self.query_one("#head", Static).update(safe(row_text(*_COLUMN_TITLES), "dim"))
        for scenario in scenarios:
            row = scenario_row(scenario["name"], scenario["title"], scenario["text"])
            self.options.add_option(Option(safe(row), id=scenario["name"]))
        names = list(self._text_by_scenario)
        last_name = FORM_ENTRY_ID if self._form_scenario_text else ScenariosScreen.last_shown_name
        self.options.highlighted = names.index(last_name) if last_name in names else 0
        self.set_focus(self.options)

    @on(OptionList.OptionHighlighted)
    def _show_text(self, message: OptionList.OptionHighlighted) -> None:
        self._shown_scenario_name = ScenariosScreen.last_shown_name = str(message.option_id)
        self.editor.text = self.edited_text_by_scenario.get(
            self._shown_scenario_name, self._text_by_scenario[self._shown_scenario_name]
        )
        self._show_hint()

    @on(TextArea.Changed)
    def _store_draft(self) -> None:
        """Store an edited text, so that it is kept after the screen is closed."""
        if not self._shown_scenario_name:
            return
        if self.editor.text == self._text_by_scenario[self._shown_scenario_name]:
            self.edited_text_by_scenario.pop(self._shown_scenario_name, None)
        else:
            self.edited_text_by_scenario[self._shown_scenario_name] = self.editor.text
        self._show_hint()

    def _show_hint(self) -> None:
        run_key = key_of(self, "scenario.run")
        fill_key = key_of(self, "scenario.take")
        if self._shown_scenario_name in self.edited_text_by_scenario:
            hint = (
                f"edited: {run_key} runs your text, {fill_key} fills the form, "
                "ctrl+z takes it back"
            )
        else:
            hint = f"enter or {fill_key} fills the form with it, {run_key} runs it as it is"
        self.caption.update(safe(hint))

    @on(OptionList.OptionSelected)
    def _fill_form(self, message: OptionList.OptionSelected) -> None:
        self.action_take()

    def _has_scenario(self) -> bool:
        """Return whether a scenario is shown; otherwise notify that none is read yet."""
        if not self._shown_scenario_name:
            self.notify("the scenarios are not read", severity="warning", timeout=2)
        return bool(self._shown_scenario_name)

    def action_take(self) -> None:
        """Fill the form with the text in the editor, and close this screen."""
        if self._fill_form_with is None or not self._has_scenario():
            return
        name = (
            ""
            if self._shown_scenario_name == FORM_ENTRY_ID
            or self._shown_scenario_name in self.edited_text_by_scenario
            else self._shown_scenario_name
        )
        if error := self._fill_form_with(name, self.editor.text):
            self.caption.update(safe(f"not taken: {error}", "error"))
        else:
            self.edited_text_by_scenario.pop(self._shown_scenario_name, None)
            self.dismiss()

    def action_run(self) -> None:
        """Run the scenario in the editor."""
        if self._has_scenario():
            self.app.post_message(RunScenario(self.editor.text.rstrip("\n") + "\n"))
