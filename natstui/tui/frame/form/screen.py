"""A form for a stream or consumer: fields at the left, what will happen at the right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

import msgspec
from textual import events, getters, on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Static

from natstui.errors import UsageError
from natstui.model.assets.fields import Config, Field, text_at
from natstui.model.assets.names_in_use import NamesInUse
from natstui.model.records.managing import Action, Change, Preview, PreviewChange, ReadNamesInUse
from natstui.model.records.messages import Answered
from natstui.tui.frame.actions import Target
from natstui.tui.frame.form.text import (
    Subject,
    config_of_file,
    conflict_text,
    drafted,
    form_fields,
    locked,
    preview,
    start_text,
    text_at_start,
)
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, answer_to, next_command_id
from natstui.tui.kit.fields import FieldRow, FormSection
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe

_WHICH_FILE = "JSON, YAML or TOML file to begin with"
_preview = msgspec.json.Decoder(Preview)
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
    FormScreen.-preview #preview { display: block; width: 1fr; border-left: none; }
    """

    caption = getters.query_one("#caption", Static)
    hint = getters.query_one("#hint", Static)

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject
        self.texts: dict[str, str] = {}
        self.estimate = ""
        self.in_use = NamesInUse()
        self.notes: tuple[str, ...] = ()
        self.draft = drafted(subject, {}, self.in_use)
        self._focused = ""
        self.loses: tuple[str, ...] = ()
        """What the present draft would remove for good."""
        self._asked_id = self._sent_id = self._weigh_id = -1
        self._weighed = json.dumps(self.draft.config)
        self._send_when_weighed = False
        self._typed_in: Widget | None = None  # before the preview was shown
        self._sent_texts: dict[str, str] = {}

    def asset(self) -> Target | None:
        """Return what is edited, or the stream of a new consumer."""
        it = self.subject
        if not it.editing:
            return Target(it.stream) if it.stream else None
        name = text_at(it.base, "name")
        return Target(it.stream or name, name if it.kind == "consumer" else None, it.created_at_us)

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
        self.app.post_message(Asked(ReadNamesInUse(self._asked_id, stream)))

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
        if usable := [row for row in self.query(FieldRow) if not row.disabled]:
            before = [row for row in usable if row.field.path and row.field.path == self._focused]
            # Not focus(), which waits its turn: the next key must already come here.
            self.set_focus((before or usable)[0].editor)

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
        self.draft = drafted(self.subject, self.texts, self.in_use, self.estimate, self.notes)
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
        self.query_one("#plan", Static).update(preview(self.subject, self.draft, self.loses))
        if self.subject.editing and not self.draft.problems:
            self._weigh()
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
            self.in_use = msgspec.json.decode(answer.body_json, type=NamesInUse)
            self.redraft()
        if answer := answer_to(self.state, self._weigh_id):
            self._weigh_id = -1
            self._take_weight(answer)
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
            self._sent(body.get("after"))
            return
        if answer.body_json:
            current = json.loads(answer.body_json)["current"]
            shown = conflict_text(self.subject, current)
            self._build_on(current)
            self.query_one("#plan", Static).update(shown)
            self._show_preview(True)
        self._caption(answer.text, "$text-error")

    def _sent(self, after: Mapping[str, object] | None) -> None:
        """Close the form, unless more was typed while it was on its way."""
        if self.texts == self._sent_texts or after is None:
            self.dismiss()
            return
        it, name = self.subject, text_at(after, "name")
        self.subject = replace(it, base=after, editing=True, stream=it.stream or name)
        self.notify("what was typed meanwhile is not sent yet", severity="warning")
        self.call_later(self.build)

    def _build_on(self, current: Mapping[str, object]) -> None:
        """Show what the server has now, below what was typed here."""
        self.subject = replace(self.subject, base=current)
        self._weighed = json.dumps(drafted(self.subject, self.texts, self.in_use).config)
        for row in self.query(FieldRow):
            if row.field.path and row.field.path not in self.texts:
                with row.prevent(Input.Changed):
                    row.set_text(start_text(self.subject, row.field))
        self.redraft()

    def action_send(self) -> None:
        """Send it, or go to the first field that is wrong."""
        if self.draft.problems:
            self._go_to(self.draft.problems[0].path)
            return
        if self.subject.editing:
            self._weigh(then_send=True)
        else:
            self._ask_and_send(None)

    def _weigh(self, *, then_send: bool = False) -> None:
        """Ask what the edit removes: it is shown, and asked about before it is sent."""
        config = json.dumps(self.draft.config)
        if not then_send and config == self._weighed:
            return
        if self._send_when_weighed and not then_send:
            self.notify("not sent: you typed meanwhile. ctrl+s sends it", severity="warning")
        self._weighed, self._send_when_weighed = config, then_send
        self._weigh_id = next_command_id()
        subject = self.subject
        consumer = text_at(subject.base, "name") if subject.kind == "consumer" else None
        action: Action = "edit_consumer" if consumer is not None else "edit_stream"
        made = subject.created_at_us
        asked = PreviewChange(self._weigh_id, action, subject.stream, consumer, config, made)
        self.app.post_message(Asked(asked))

    def _take_weight(self, answer: Answered) -> None:
        """Show what the edit removes, and go on with sending it."""
        seen = _preview.decode(answer.body_json) if answer.body_json else None
        self.loses = seen.lines if seen is not None else ()
        self.redraft()
        wanted, self._send_when_weighed = self._send_when_weighed, False
        if wanted and seen is None:
            self._caption(answer.text, "$text-error")
        elif wanted:
            self._ask_and_send(seen)

    def _ask_and_send(self, seen: Preview | None) -> None:
        """Send it, after the name was typed where something goes for good or in production."""
        started = self.state.started
        production = started is not None and started.production
        lines = seen.lines if seen is not None else ()
        if not lines and not production:
            self._send(None)
            return
        why = [f"{line[:1].upper()}{line[1:]}." for line in lines]
        why += ["This is production."] if production else []
        name = text_at(self.draft.config, "name")
        question = f"{' '.join(why)} Type {name} to do it"

        def send(typed: str | None) -> None:
            if typed is not None:
                self._send(typed, seen.most_msgs if seen is not None else None)

        self.app.push_screen(Prompt(question, word=name), send)

    def _send(self, confirmed: str | None, previewed_msgs: int | None = None) -> None:
        subject, config = self.subject, self.draft.config
        name = text_at(config, "name")
        consumer = name or None if subject.kind == "consumer" else None
        stream = subject.stream if subject.kind == "consumer" else name
        self._sent_id = next_command_id()
        self._sent_texts = dict(self.texts)
        change = Change(
            self._sent_id,
            f"{'edit' if subject.editing else 'create'}_{subject.kind}",  # type: ignore[arg-type]
            stream,
            consumer,
            json.dumps(config),
            json.dumps(dict(subject.base)) if subject.editing else None,
            confirmed,
            subject.created_at_us,
            previewed_msgs,
        )
        self._caption("sending …")
        self.app.post_message(Asked(change))

    def _go_to(self, path: str) -> None:
        for section in self.query(FormSection):
            for row in section.rows:
                if row.field.path == path:
                    section.set_open(True)
                    self._typed_in = row.editor
        self._show_preview(False)
        self._focused = path
        self._explain()

    def action_preview(self) -> None:
        """Show the preview alone, or the fields again."""
        self._show_preview(not self.has_class("-preview"))

    def _show_preview(self, alone: bool) -> None:
        """Show the preview without the fields, or the fields with the keys where they were."""
        if alone and self.focused is not None:
            self._typed_in = self.focused
            self.set_focus(None)
        self.set_class(alone, "-preview")
        # At once, not by the class: what is hidden cannot take the keys back.
        self.query_one("#fields").display = not alone
        if not alone and self._typed_in is not None:
            self.set_focus(self._typed_in)

    def on_key(self, event: events.Key) -> None:
        """Say where letters go that nothing takes while the fields are hidden."""
        if event.is_printable and self.has_class("-preview"):
            self.notify("escape goes back to the fields", timeout=2)

    def unsent(self) -> str:
        """Return what was typed and not sent."""
        verb = "edit of" if self.subject.editing else "new"
        words = ("the", verb, self.subject.kind, text_at(self.draft.config, "name"))
        return " ".join(words).strip() if self.texts else ""

    def action_back(self) -> None:
        """Leave the preview first, then the form."""
        if self.has_class("-preview"):
            self._show_preview(False)
        else:
            super().action_back()

    def action_copy(self) -> None:
        """Copy the equivalent nats command."""
        self.app.copy_to_clipboard(self.draft.command)
        self.notify("copied the nats command", timeout=2)


class FileForm(FormScreen):
    """A form for something new that may begin with a file."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+l", "load", "Load file", show=False, id="form.load", priority=True),
    ]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer files only for something new."""
        if action == "load":
            return not self.subject.editing
        return super().check_action(action, parameters)

    def action_load(self) -> None:
        """Begin again from a file."""
        self.app.push_screen(Prompt(_WHICH_FILE), self._load)

    async def _load(self, name: str | None) -> None:
        if not name:
            return
        try:
            config = config_of_file(name)
        except UsageError as error:
            self.app.push_screen(Prompt(_WHICH_FILE, name, refused=str(error)), self._load)
            return
        await self.begin(config)

    async def begin(self, config: Config) -> None:
        """Begin again from another configuration; what was typed stays, on top of it."""
        self.subject = replace(self.subject, base=config)
        await self.build()
