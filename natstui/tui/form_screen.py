"""A form for a stream or consumer: fields at the left, what will happen at the right."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import msgspec
from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.config_field import Field, text_at
from natstui.model.manage import Change, ReadSurroundings
from natstui.model.surroundings import Surroundings
from natstui.model.tail import Answered
from natstui.tui.asking import answer_to, next_command_id
from natstui.tui.live import LiveScreen
from natstui.tui.messages import Asked
from natstui.tui.present.form import (
    Subject,
    drafted,
    form_fields,
    locked,
    start_text,
    text_at_start,
)
from natstui.tui.present.form_preview import conflict_text, preview
from natstui.tui.prompt import Prompt
from natstui.tui.text import safe
from natstui.tui.widgets.field_row import FieldRow
from natstui.tui.widgets.form_section import FormSection

_ESTIMATE = Field(
    "", "How much room for", "text", "Estimate", "Messages x size, as 1M x 1KB: the room it takes."
)


class FormScreen(LiveScreen):
    """Create or edit; nothing is sent before ctrl+s."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "send", "Send", id="form.send", priority=True),
        Binding("escape", "back", "Cancel", id="form.cancel"),
        Binding("ctrl+o", "preview", "Preview", id="form.preview", priority=True),
        Binding("ctrl+y", "copy", "Copy command", id="form.copy", priority=True),
        Binding("down", "app.focus_next", "Next", show=False, id="form.down", priority=True),
        Binding("up", "app.focus_previous", "Back", show=False, id="form.up", priority=True),
    ]
    DEFAULT_CSS = """
    FormScreen #caption { height: auto; max-height: 5; }
    FormScreen #form { height: 1fr; }
    FormScreen #fields { width: 3fr; scrollbar-size: 1 1; }
    FormScreen #preview { width: 2fr; border-left: solid $panel; padding: 0 1; }
    FormScreen #hint { height: 2; padding: 0 1; background: $surface; }
    FormScreen.-narrow #preview { display: none; }
    FormScreen.-preview #fields { display: none; }
    FormScreen.-preview #preview { display: block; width: 1fr; border-left: none; }
    """

    caption = getters.query_one("#caption", Static)
    hint = getters.query_one("#hint", Static)

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject
        self.texts: dict[str, str] = {}
        self.estimate = ""
        self.around = Surroundings()
        self.notes: tuple[str, ...] = ()
        self.draft = drafted(subject, {}, self.around)
        self._focused = ""
        self._asked_id = self._sent_id = -1

    def body(self) -> Iterable[Widget]:
        """Caption, fields beside the preview, and the explanation of the field in focus."""
        yield Static(id="caption", markup=False)
        with Horizontal(id="form"):
            yield VerticalScroll(id="fields", can_focus=False)
            yield VerticalScroll(Static(id="plan", markup=False), id="preview", can_focus=False)
        yield Static(id="hint", markup=False)

    async def on_mount(self) -> None:
        """Ask what the server already has; show the fields meanwhile."""
        await self.build()
        self._asked_id = next_command_id()
        stream = self.subject.stream or None
        self.post_message(Asked(ReadSurroundings(self._asked_id, stream)))

    async def build(self) -> None:
        """Make the fields anew for the present subject, the texts kept."""
        level = self.state.link.api_level if self.state.link else None
        sections: dict[str, list[FieldRow]] = {}
        for field in form_fields(self.subject):
            text = self.texts.get(field.path, start_text(self.subject, field))
            row = FieldRow(field, text, locked(self.subject, field, level))
            sections.setdefault(field.section, []).append(row)
        if self.subject.kind == "stream":
            sections["Estimate"] = [FieldRow(_ESTIMATE, self.estimate)]
        fields = self.query_one("#fields")
        await fields.remove_children()
        first = next(iter(sections))
        await fields.mount_all(
            FormSection(title, rows, open_at_start=title == first)
            for title, rows in sections.items()
        )
        self.redraft()
        usable = next((row for row in self.query(FieldRow) if not row.disabled), None)
        if usable is not None:
            usable.editor.focus()

    @on(FieldRow.Edited)
    def _edited(self, message: FieldRow.Edited) -> None:
        if message.path == "":
            self.estimate = message.text
        elif message.text == text_at_start(self.subject, message.path):
            self.texts.pop(message.path, None)
        else:
            self.texts[message.path] = message.text
        self.redraft()

    def redraft(self) -> None:
        """Find out what the texts mean now, and show it."""
        self.draft = drafted(self.subject, self.texts, self.around, self.estimate, self.notes)
        wrong = {problem.path for problem in self.draft.problems}
        for section in self.query(FormSection):
            for row in section.rows:
                path = row.field.path
                start = start_text(self.subject, row.field) if path else ""
                text = self.texts.get(path, start)
                row.mark(changed=text != start, wrong=path in wrong)
            section.tell(
                sum(row.has_class("-changed") for row in section.rows),
                sum(row.has_class("-wrong") for row in section.rows),
            )
        self.query_one("#plan", Static).update(preview(self.subject, self.draft))
        self._caption("")
        self._explain()

    @on(FieldRow.Focused)
    def _explain(self, message: FieldRow.Focused | None = None) -> None:
        """Show what is wrong with the field in focus, else what it means."""
        if message is not None:
            self._focused = message.path
        problems = [p.text for p in self.draft.problems if p.path == self._focused]
        if problems:
            self.hint.update(safe(problems[0], "$text-error"))
            return
        fields = (*form_fields(self.subject), _ESTIMATE)
        field = next((f for f in fields if f.path == self._focused), None)
        if field is not None:
            why = locked(self.subject, field, None)
            self.hint.update(safe(why or field.help, "$text-muted"))

    def _caption(self, text: str, style: str = "") -> None:
        subject = self.subject
        verb = "Edit" if subject.editing else "New"
        name = text_at(self.draft.config, "name")
        place = f" on {subject.stream}" if subject.kind == "consumer" else ""
        parts = [f"{verb} {subject.kind} {name}{place}".strip()]
        count = len(self.draft.problems)
        parts += [text] if text else [f"{count} to correct" if count else "ready: ctrl+s sends it"]
        warned = len(self.draft.warnings)
        if warned and not text and self.has_class("-narrow"):
            parts.append(f"{warned} {'warning' if warned == 1 else 'warnings'}: ctrl+o")
        style = style or ("$text-error" if count else "$text-warning" if warned else "")
        self.caption.update(safe("  ·  ".join(parts), style))

    def refresh_state(self) -> None:
        """Take answers when they come."""
        if (answer := answer_to(self.state, self._asked_id)) and answer.body_json:
            self._asked_id = -1
            self.around = msgspec.json.decode(answer.body_json, type=Surroundings)
            self.redraft()
        if answer := answer_to(self.state, self._sent_id):
            self._sent_id = -1
            self._take_answer(answer)

    def _take_answer(self, answer: Answered) -> None:
        if answer.status == "done":
            body = json.loads(answer.body_json or "{}")
            for item in body.get("not_taken") or ():
                text = f"{item['label']}: asked {item['before']}, it is {item['after'] or 'unset'}"
                self.app.notify(text, severity="warning", timeout=10, markup=False)
            self.app.notify(answer.text, markup=False)
            self.dismiss()
            return
        self._caption(answer.text, "$text-error")
        if answer.body_json:
            current = json.loads(answer.body_json)["current"]
            shown = conflict_text(self.subject, current)
            self.query_one("#plan", Static).update(shown)
            self.set_class(True, "-preview")
            self.subject = replace(self.subject, base=current)
            self.draft = drafted(self.subject, self.texts, self.around, self.estimate)

    def action_send(self) -> None:
        """Send it, or go to the first field that is wrong."""
        if self.draft.problems:
            self._go_to(self.draft.problems[0].path)
            return
        started = self.state.started
        name = text_at(self.draft.config, "name")
        sealing = self.draft.config.get("sealed") is True and not self.subject.base.get("sealed")
        if sealing or (started is not None and started.production):
            why = "A sealed stream stays sealed." if sealing else "This is production."
            question = f"{why} Type {name} to do it"
            self.app.push_screen(Prompt(question), lambda typed: self._send(typed, asked=True))
        else:
            self._send(None)

    def _send(self, confirmed: str | None, *, asked: bool = False) -> None:
        if asked and confirmed is None:
            return
        subject, config = self.subject, self.draft.config
        name = text_at(config, "name")
        consumer = name or None if subject.kind == "consumer" else None
        stream = subject.stream if subject.kind == "consumer" else name
        self._sent_id = next_command_id()
        change = Change(
            self._sent_id,
            f"{'edit' if subject.editing else 'create'}_{subject.kind}",  # type: ignore[arg-type]
            stream,
            consumer,
            json.dumps(config),
            json.dumps(dict(subject.base)) if subject.editing else None,
            confirmed,
        )
        self._caption("sending …")
        self.post_message(Asked(change))

    def _go_to(self, path: str) -> None:
        for section in self.query(FormSection):
            for row in section.rows:
                if row.field.path == path:
                    section.set_open(True)
                    self.call_after_refresh(row.editor.focus)
        self.set_class(False, "-preview")
        self._focused = path
        self._explain()

    def action_preview(self) -> None:
        """Show the preview alone, or the fields again."""
        self.toggle_class("-preview")

    def action_back(self) -> None:
        """Leave the preview first, then the form: what was typed is kept from a key too many."""
        if self.has_class("-preview"):
            self.set_class(False, "-preview")
        else:
            super().action_back()

    def action_copy(self) -> None:
        """Copy the equivalent nats command."""
        self.app.copy_to_clipboard(self.draft.command)
        self.notify("copied the nats command", timeout=2)
