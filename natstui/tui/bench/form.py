"""The form of a benchmark: what it does, live, and the command that does the same."""

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
from natstui.tui.bench.setup.document import Document, parsed, texts_of, with_texts, written
from natstui.tui.bench.setup.fields import FIELDS, is_shown, mistakes, slid
from natstui.tui.bench.setup.preview import command_text, drawing_lines, preview_lines
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import RunScenario
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.text import safe, safe_lines

FIRST = {
    "title": "From the form",
    "role": [
        {"name": "subscribers", "pattern": "subscribe", "workers": 3},
        {"name": "publishers", "pattern": "publish", "msgs": "100k"},
    ],
}
"""What the form shows before anybody filled it."""


@dataclass
class Draft:
    """What was filled in: it outlives the form, which closes when a benchmark is run."""

    document: Document = field(default_factory=lambda: dict(FIRST))
    texts: dict[str, str] = field(default_factory=lambda: texts_of(FIRST))
    base: tuple[str, Document] | None = None
    """The ready scenario that filled it."""

    def fill(self, name: str, text: str) -> None:
        """Begin with a file; raise ValueError where it is none. What was typed goes."""
        document = parsed(text)
        try:
            texts = texts_of(document)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"it is not a valid scenario: {error}") from error
        self.document, self.texts = document, texts
        self.base = (name, document) if name else None


class BenchmarkForm(LiveScreen):
    """A field a line; what it will do stands below, or beside on a wide screen."""

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
    draft: ClassVar[Draft] = Draft()

    caption = getters.query_one("#caption", Static)
    preview = getters.query_one("#preview", Static)
    hint = getters.query_one("#hint", Static)

    def __init__(self) -> None:
        super().__init__()
        self._at = "shape"
        """The field that has the keys."""

    def body(self) -> Iterable[Widget]:
        """Caption, fields, what they mean, and the explanation of the one in focus."""
        yield Static(id="caption")
        with Horizontal(id="form"):
            with VerticalScroll(id="fields", can_focus=False):
                for one in FIELDS:
                    yield FieldRow(one, self.draft.texts[one.path])
            yield Static(id="preview", markup=False)
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        """Show what the draft means, with the keys at its first field."""
        for row in self.query(FieldRow):
            row.show_empty(row.field.absent)
        self._redraft()
        self.set_focus(self._row("shape").editor)

    def on_resize(self) -> None:
        """Draw for the new width."""
        self.call_after_refresh(self._redraft)

    def _row(self, path: str) -> FieldRow:
        return next(row for row in self.query(FieldRow) if row.field.path == path)

    @on(FieldRow.Edited)
    def _edited(self, message: FieldRow.Edited) -> None:
        self.draft.texts[message.path] = message.text
        self._redraft()

    @on(FieldRow.Focused)
    def _focused(self, message: FieldRow.Focused) -> None:
        self._at = message.path
        help_text = self._row(message.path).field.help
        self.hint.update(safe(help_text))
        self.refresh_bindings()

    def _redraft(self) -> None:
        """Show the fields that the pattern has, what is wrong, and what it will do."""
        texts = self.draft.texts
        wrong = mistakes(texts)
        before = texts_of(self.draft.document)
        for row in self.query(FieldRow):
            path = row.field.path
            # Not by a class: the next key may go there before styles are read.
            row.display = is_shown(path, texts["shape"])
            row.mark(changed=texts[path] != before[path], wrong=path in wrong)
        self._say(next(iter(wrong.values()), ""))
        if not wrong:
            command = command_text(self.draft.document, texts, self.draft.base)
            # Of few lines the fields need more.
            width = 0 if self.has_class("-narrow") else self.preview.content_size.width
            drawing = safe_lines("\n".join(drawing_lines(texts, width)), "accent")
            told = safe_lines("\n".join(["", *preview_lines(texts), command]))
            self.preview.update(Content.assemble(drawing, told))

    def _say(self, text: str) -> None:
        if text:
            self.caption.update(safe(text, "error"))
            return
        base = self.draft.base[0] if self.draft.base else "a benchmark"
        run, file = key_of(self, "bench.form.run"), key_of(self, "bench.form.file")
        more = len(self.draft.document.get("role", [])) - 2
        others = f"; the file has {more} more roles" if more > 0 else ""
        self.caption.update(safe(f"{base}: {run} runs it, {file} a scenario or its file{others}"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Let + and - be letters wherever no rate is typed."""
        if action == "slide":
            return self._at == "rate"
        if action == "run" and self.state.replay is not None:
            return False
        return super().check_action(action, parameters)

    def action_slide(self, direction: int) -> None:
        """Go to the next round rate."""
        row = self._row("rate")
        row.set_text(slid(row.text, direction))

    def action_run(self) -> None:
        """Run it, or go to the first field that is wrong; what was typed stays either way."""
        wrong = mistakes(self.draft.texts)
        if wrong:
            path, sentence = next(iter(wrong.items()))
            self._say(sentence)
            self.set_focus(self._row(path).editor)
            return
        self.app.post_message(RunScenario(self._file()))

    def _file(self) -> str:
        return written(with_texts(self.draft.document, self.draft.texts))

    def action_file(self) -> None:
        """Show the text of the form among the ready scenarios; one taken fills the form."""
        own = "" if mistakes(self.draft.texts) else self._file()
        self.app.push_screen(ScenariosScreen(own, self.take))

    def take(self, name: str, text: str) -> str:
        """Fill the form with a file; return why not, empty when it is filled."""
        try:
            self.draft.fill(name, text)
        except ValueError as error:
            return str(error)
        for row in self.query(FieldRow):
            row.set_text(self.draft.texts[row.field.path])
        self._redraft()
        return ""
