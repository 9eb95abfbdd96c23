"""The benchmark form: its fields, a live preview, and the equivalent command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.bench.setup.document import (
    ScenarioDocument,
    parse_document,
    texts_of,
    to_toml,
    with_texts,
)
from natstui.tui.bench.setup.fields import BENCHMARK_FIELDS, find_errors, is_shown, next_round_rate
from natstui.tui.bench.setup.preview import command_text, drawing_lines, preview_lines
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import RunScenario
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.text import safe, safe_lines

START_DOCUMENT = {
    "title": "From the form",
    "role": [
        {"name": "subscribers", "pattern": "subscribe", "workers": 3},
        {"name": "publishers", "pattern": "publish", "msgs": "100k"},
    ],
}
"""The scenario with which the form starts."""


@dataclass
class BenchmarkDraft:
    """The values typed into the form; kept after the form is closed for a run."""

    document: ScenarioDocument = field(default_factory=lambda: dict(START_DOCUMENT))
    texts: dict[str, str] = field(default_factory=lambda: texts_of(START_DOCUMENT))
    ready_scenario: tuple[str, ScenarioDocument] | None = None
    """Name and document of the ready scenario that filled the form; None without one."""

    def fill(self, scenario_name: str, scenario_text: str) -> None:
        """Replace all typed values by those of a scenario; raises ValueError if it is not valid.

        `scenario_name` is that of an unchanged ready scenario; else it is empty.
        """
        document = parse_document(scenario_text)
        try:
            texts = texts_of(document)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it is not a valid scenario: {error}") from error
        self.document, self.texts = document, texts
        self.ready_scenario = (scenario_name, document) if scenario_name else None


class BenchmarkForm(LiveScreen):
    """The form of a benchmark, with a preview below or, on a wide screen, beside the fields."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "run", "Run", id="bench.form.run", priority=True),
        Binding("ctrl+o", "file", "Scenarios, TOML", id="bench.form.file", priority=True),
        Binding("escape", "back", "Back", id="bench.form.back"),
        Binding("down", "app.focus_next", "Next", show=False, id="form.down", priority=True),
        Binding("up", "app.focus_previous", "Back", show=False, id="form.up", priority=True),
        Binding(
            "plus,equals_sign", "slide(1)", "Faster", key_display="+", id="bench.form.faster",
            priority=True,
        ),
        Binding("minus", "slide(-1)", "Slower", key_display="-", id="bench.form.slower",
                priority=True),
    ]  # fmt: skip
    DEFAULT_CSS = """
    BenchmarkForm #form { height: 1fr; layout: vertical; }
    BenchmarkForm #fields { height: 1fr; scrollbar-size: 1 1; }
    BenchmarkForm #preview { height: auto; max-height: 10; padding: 0 1; }
    BenchmarkForm #hint { height: auto; max-height: 2; padding: 0 1; color: $text-muted; }
    BenchmarkForm.-wide #form { layout: horizontal; }
    BenchmarkForm.-wide #fields { width: 3fr; }
    BenchmarkForm.-wide #preview {
        width: 2fr; height: 1fr; max-height: 100%;
    }
    """
    draft: ClassVar[BenchmarkDraft] = BenchmarkDraft()

    caption = getters.query_one("#caption", Static)
    preview = getters.query_one("#preview", Static)
    hint = getters.query_one("#hint", Static)

    def __init__(self) -> None:
        super().__init__()
        self._focused_field_path = "shape"
        """The path of the focused field."""

    def body(self) -> Iterable[Widget]:
        """Yield the caption, the fields, the preview, and the help of the focused field."""
        yield Static(id="caption")
        with Horizontal(id="form"):
            with VerticalScroll(id="fields", can_focus=False):
                for field in BENCHMARK_FIELDS:
                    yield FieldRow(field, self.draft.texts[field.path])
            yield Static(id="preview", markup=False)
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        """Show the preview of the draft, and focus the first field."""
        for row in self.query(FieldRow):
            row.show_placeholder(row.field.absent_text)
        self._rebuild_preview()
        self.set_focus(self._find_field_row("shape").editor)

    def on_resize(self) -> None:
        """Draw the preview for the new width."""
        self.call_after_refresh(self._rebuild_preview)

    def _find_field_row(self, path: str) -> FieldRow:
        return next(row for row in self.query(FieldRow) if row.field.path == path)

    @on(FieldRow.Edited)
    def _store_text(self, message: FieldRow.Edited) -> None:
        self.draft.texts[message.path] = message.text
        self._rebuild_preview()

    @on(FieldRow.Focused)
    def _show_help(self, message: FieldRow.Focused) -> None:
        self._focused_field_path = message.path
        help_text = self._find_field_row(message.path).field.help
        self.hint.update(safe(help_text))
        self.refresh_bindings()

    def _rebuild_preview(self) -> None:
        """Show the fields of the chosen pattern, the first error, and the preview."""
        texts = self.draft.texts
        errors = find_errors(texts)
        document_texts = texts_of(self.draft.document)
        for row in self.query(FieldRow):
            path = row.field.path
            # Not by a CSS class: the next key may reach the row before styles are applied.
            row.display = is_shown(path, texts["shape"])
            row.mark(is_changed=texts[path] != document_texts[path], is_wrong=path in errors)
        self._show_caption(next(iter(errors.values()), ""))
        if not errors:
            command = command_text(self.draft.document, texts, self.draft.ready_scenario)
            # On a narrow screen the fields need the lines.
            width = 0 if self.has_class("-narrow") else self.preview.content_size.width
            drawing = safe_lines("\n".join(drawing_lines(texts, width)), "accent")
            preview_text = safe_lines("\n".join(["", *preview_lines(texts), command]))
            self.preview.update(Content.assemble(drawing, preview_text))

    def _show_caption(self, text: str) -> None:
        if text:
            self.caption.update(safe(text, "error"))
            return
        scenario_name = (
            self.draft.ready_scenario[0] if self.draft.ready_scenario else "a benchmark"
        )
        run_key, file_key = key_of(self, "bench.form.run"), key_of(self, "bench.form.file")
        extra_role_count = len(self.draft.document.get("role", [])) - 2
        extra_text = (
            f"; the file has {extra_role_count} more roles" if extra_role_count > 0 else ""
        )
        self.caption.update(
            safe(
                f"{scenario_name}: {run_key} runs it, "
                f"{file_key} a scenario or its file{extra_text}"
            )
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: + and - only in the rate field, running only on a
        live server.
        """
        if action == "slide":
            return self._focused_field_path == "rate"
        if action == "run" and self.state.replay is not None:
            return False
        return super().check_action(action, parameters)

    def action_slide(self, direction: int) -> None:
        """Change the typed rate to the next round number above (1) or below (-1) it."""
        row = self._find_field_row("rate")
        row.set_text(next_round_rate(row.text, direction))

    def action_run(self) -> None:
        """Run the benchmark; after an error, show it and focus its field."""
        errors = find_errors(self.draft.texts)
        if errors:
            path, sentence = next(iter(errors.items()))
            self._show_caption(sentence)
            self.set_focus(self._find_field_row(path).editor)
            return
        self.app.post_message(RunScenario(self._scenario_text()))

    def _scenario_text(self) -> str:
        return to_toml(with_texts(self.draft.document, self.draft.texts))

    def action_file(self) -> None:
        """Open the ready scenarios; the scenario of the form is the first entry."""
        form_scenario_text = "" if find_errors(self.draft.texts) else self._scenario_text()
        self.app.push_screen(ScenariosScreen(form_scenario_text, self.fill_form))

    def fill_form(self, scenario_name: str, scenario_text: str) -> str:
        """Fill the form with a scenario; return the text of the error, empty on success."""
        try:
            self.draft.fill(scenario_name, scenario_text)
        except ValueError as error:
            return str(error)
        for row in self.query(FieldRow):
            row.set_text(self.draft.texts[row.field.path])
        self._rebuild_preview()
        return ""
