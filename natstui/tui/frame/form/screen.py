"""The form of a stream or consumer: fields at the left, a preview of the change at the right."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from textual import events, getters, on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from natstui.decoding import decoder_of
from natstui.errors import UsageError
from natstui.model.assets.differences import normal
from natstui.model.assets.fields import Config, Field, text_at
from natstui.model.assets.meaning import empty_text
from natstui.model.assets.rules import NamesInUse
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.managing import (
    Change,
    ReadNamesInUse,
)
from natstui.model.records.messages import Answered
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.confirmation import SENDING_TEXT, OpeningPlace, request_confirmed
from natstui.tui.frame.form.text import (
    Entries,
    FormKeys,
    Subject,
    caption_text,
    config_of_file,
    conflict_text,
    form_fields,
    locked,
    preview,
    start_text,
)
from natstui.tui.frame.live import LiveScreen, ScreenPart
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.selection import CreatedRow, SelectionScreen
from natstui.tui.kit.fields import FieldRow, FormSection
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe

_ESTIMATE = Field(
    "",
    "Room for how many messages?",
    "text",
    "Estimate",
    "Messages x size, as 1M x 1KB: shows the storage needed.",
    absent="as 1M x 1KB",
)


_AROUND_LINES = 7
"""Lines of a form screen without fields: status (2), caption, explanation (2), keys; and a spare
one for a caption of two lines.
"""


def _that_fit(counts: dict[str, int], room_lines: int) -> set[str]:
    """Return the sections to open first, from their field counts: the first one, and all
    that fit.
    """
    first = next(iter(counts))
    left_lines = room_lines - len(counts) - counts[first]
    open_sections = {first}
    for title, count in counts.items():
        if title != first and count <= left_lines:
            open_sections.add(title)
            left_lines -= count
    return open_sections


class FormFields(VerticalScroll):
    """Shows the fields of a form, with marks on changed and wrong ones."""

    def __init__(self, entries: Entries, hint: Static) -> None:
        """Create with the entries of a form; `hint` shows the help of the focused field."""
        super().__init__(id="fields", can_focus=False)
        self._entries, self._hint = entries, hint
        self._in_focus = ""

    async def build(self, api_level: int | None) -> None:
        """Create the fields of the current subject again; typed texts are kept."""
        subject = self._entries.subject
        sections: dict[str, list[FieldRow]] = {}
        for field in form_fields(subject):
            row = FieldRow(field, self._entries.text_of(field), locked(subject, field, api_level))
            sections.setdefault(field.section, []).append(row)
        if subject.kind == "stream":
            sections["Estimate"] = [FieldRow(_ESTIMATE, self._entries.estimate)]
        await self.remove_children()
        counts = {title: len(rows) for title, rows in sections.items()}
        open_sections = _that_fit(counts, self.screen.size.height - _AROUND_LINES)
        await self.mount_all(
            FormSection(title, rows, open_at_start=title in open_sections)
            for title, rows in sections.items()
        )

    def editor(self) -> Widget | None:
        """Return the widget to type in: the one that had the focus, else the first one."""
        usable = [row for row in self.query(FieldRow) if not row.disabled]
        before = [row for row in usable if row.field.path and row.field.path == self._in_focus]
        return (before or usable)[0].editor if usable else None

    def mark(self) -> None:
        """Mark the changed and the wrong fields."""
        draft = self._entries.draft
        wrong_paths = {problem.path for problem in draft.problems}
        normal_config = normal(self._entries.subject.kind, draft.config)
        for section in self.query(FormSection):
            for row in section.rows:
                row.show_empty(empty_text(row.field, normal_config))
                row.mark(
                    is_changed=self._entries.is_changed(row.field),
                    is_wrong=row.field.path in wrong_paths,
                )
            section.tell(
                sum(row.has_class("-changed") for row in section.rows),
                sum(row.has_class("-wrong") for row in section.rows),
            )
        self._explain()

    def show_start(self) -> None:
        """Show the start texts in fields without typed text."""
        for section in self.query(FormSection):
            for row in section.rows:
                if row.field.path and row.field.path not in self._entries.texts:
                    with row.prevent(Input.Changed):
                        row.set_text(start_text(self._entries.subject, row.field))

    async def open(self, path: str) -> Widget | None:
        """Open the section of a field and show its help; return its input widget."""
        self._in_focus = path
        self._explain()
        for section in self.query(FormSection):
            for row in section.rows:
                if row.field.path == path:
                    await section.set_open(True)
                    return row.editor
        return None

    @on(FieldRow.Focused)
    def _focused(self, message: FieldRow.Focused) -> None:
        self._in_focus = message.path
        self._explain()

    def _explain(self) -> None:
        """Show the error of the focused field, else its help."""
        subject, draft = self._entries.subject, self._entries.draft
        problems = [p.text for p in draft.problems if p.path == self._in_focus]
        if problems:
            self._hint.update(safe(problems[0], "error"))
            return
        fields = (*form_fields(subject), _ESTIMATE)
        field = next((f for f in fields if f.path == self._in_focus), None)
        if field is not None:
            reason = locked(subject, field, None)
            self._hint.update(safe(reason or field.help, "dim"))


_confirmation = decoder_of(Confirmation)


class Sending(ScreenPart):
    """Sends the draft, once it has no error and its losses are confirmed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "part('sending', 'send')", "Send", id="form.send", priority=True),
    ]

    def __init__(
        self,
        screen: LiveScreen,
        entries: Entries,
        redraft: Callable[[], None],
        show_text: Callable[[str, str], None],
        correct: Callable[[str], Awaitable[None]],
        show_reply: Callable[[Answered], None],
    ) -> None:
        """Create for a form; `redraft` updates the draft, `correct` focuses a field.

        `show_text` shows a sentence, `show_reply` the reply.
        """
        self._screen, self._entries = screen, entries
        self._redraft, self._say, self._correct = redraft, show_text, correct
        self._show_reply = show_reply
        self.opening = OpeningPlace(screen)
        self.removes: tuple[str, ...] = ()
        """What the current draft would delete for good."""
        self._previewed = json.dumps(entries.draft.config)
        """The draft whose losses are known, or are read now."""
        self.is_sending = False
        self.sent_texts: dict[str, str] = {}
        """The typed texts when the form was sent last."""

    @property
    def is_all(self) -> bool:
        """Return whether nothing was typed since the form was sent."""
        return self._entries.texts == self.sent_texts

    async def action_send(self) -> None:
        """Send the draft, or focus the first wrong field."""
        if problems := self._entries.draft.problems:
            await self._correct(problems[0].path)
        elif not self.is_sending:
            # At once: the next key must not load what the reply would drop.
            self.is_sending = True
            run_task(self._screen, self._send)

    def preview_loss(self) -> None:
        """Request the losses of an edit, unless they are known for the same draft."""
        draft = self._entries.draft
        config = json.dumps(draft.config)
        if not self._entries.subject.editing or draft.problems or config == self._previewed:
            return
        self._previewed = config
        run_task(self._screen, self._read_loss, replaces="preview")

    async def _read_loss(self) -> None:
        """Request the losses of the edit, and show them."""
        reply = await self._screen.engine.request(replace(self._change(), dry_run=True))
        confirmation = _confirmation.decode(reply.body_json) if reply.body_json else None
        self.removes = confirmation.lines if confirmation is not None else ()
        self._redraft()

    def take_as_previewed(self) -> None:
        """Assign the known losses to the current draft."""
        self._previewed = json.dumps(self._entries.draft.config)

    async def _send(self) -> None:
        """Send the draft, after a prompt for the name if the engine requires it."""
        self.sent_texts = dict(self._entries.texts)
        self._say(SENDING_TEXT, "")
        self._screen.refresh_bindings()
        reply = await request_confirmed(self._screen, self._change())
        self.is_sending = False
        self._screen.refresh_bindings()
        if reply is None:
            self._say("", "")
        else:
            self._show_reply(reply)

    def _change(self) -> Change:
        subject, config = self._entries.subject, self._entries.draft.config
        name = self._entries.name
        is_consumer = subject.kind == "consumer"
        return Change(
            0,
            f"{'edit' if subject.editing else 'create'}_{subject.kind}",  # type: ignore[arg-type]
            subject.stream if is_consumer else name,
            name or None if is_consumer else None,
            json.dumps(config),
            json.dumps(dict(subject.base)) if subject.editing else None,
            created_at_us=subject.created_at_us,
            place=self.opening.place,
        )


class PlanView(ScreenPart):
    """Switches between the fields and the preview alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "part('plan', 'switch')", "Preview", id="form.preview", priority=True),
        Binding("ctrl+y", "part('plan', 'copy')", "Copy command", id="form.copy", priority=True),
    ]

    def __init__(self, screen: Screen[None], entries: Entries) -> None:
        self._screen, self._entries = screen, entries
        self._typed_in: Widget | None = None
        """The widget that had the focus before the preview was shown alone."""

    @property
    def is_alone(self) -> bool:
        """Return whether the preview hides the fields."""
        return self._screen.has_class("-preview")

    def show(self, *, is_alone: bool) -> None:
        """Show the preview without the fields, or the fields with the previous focus."""
        if is_alone and self._screen.focused is not None:
            self._typed_in = self._screen.focused
            self._screen.set_focus(None)
        self._screen.set_class(is_alone, "-preview")
        # At once, not by the class: what is hidden cannot take the keys back.
        self._screen.query_one(FormFields).display = not is_alone
        if not is_alone and self._typed_in is not None:
            self._screen.set_focus(self._typed_in)

    def go_back_to(self, editor: Widget | None) -> None:
        """Show the fields, and focus one of them if given."""
        self._typed_in = editor or self._typed_in
        self.show(is_alone=False)

    def action_switch(self) -> None:
        """Switch between the preview alone and the fields."""
        self.show(is_alone=not self.is_alone)

    def action_copy(self) -> None:
        """Copy the equivalent nats command."""
        self._screen.app.copy_to_clipboard(self._entries.draft.command)
        self._screen.notify("copied the nats command", timeout=2)


_WHICH_FILE = "JSON, YAML or TOML file to start from"


class FileToBeginWith(ScreenPart):
    """Prompts for a configuration file, again with the reason when it cannot be read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "ctrl+l",
            "part('file', 'load')",
            "Load file",
            show=False,
            id="form.load",
            priority=True,
        ),
    ]

    def __init__(
        self,
        screen: DOMNode,
        entries: Entries,
        sending: Sending,
        start_from: Callable[[Config], Awaitable[None]],
    ) -> None:
        """Create for a form; `start_from` replaces its start configuration below typed texts."""
        self._screen, self._entries, self._begin = screen, entries, start_from
        self._sending = sending

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer to load a file only for a new stream or consumer, and not while that is sent."""
        if self._entries.subject.editing:
            return False
        return None if self._sending.is_sending else True

    def action_load(self) -> None:
        """Prompt for a file, and start from its configuration."""
        run_task(self._screen, self._load)

    async def _load(self) -> None:
        app, name, reason = self._screen.app, "", ""
        while True:
            typed_path = await app.push_screen_wait(
                Prompt(_WHICH_FILE, name, refused_reason=reason)
            )
            if not typed_path:
                return
            name = typed_path
            try:
                config = config_of_file(name, self._entries.subject.kind)
            except UsageError as error:
                reason = str(error)
            else:
                await self._begin(config)
                return


class FormScreen(LiveScreen):
    """The form to create or edit a stream or consumer; nothing is sent before ctrl+s."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *Sending.BINDINGS,
        Binding("escape", "back", "Cancel", id="form.cancel"),
        *PlanView.BINDINGS,
        Binding("down", "app.focus_next", "Next", show=False, id="form.down", priority=True),
        Binding("up", "app.focus_previous", "Back", show=False, id="form.up", priority=True),
        *FileToBeginWith.BINDINGS,
    ]
    DEFAULT_CSS = """
    FormScreen #form { height: 1fr; }
    FormScreen #fields { width: 3fr; scrollbar-size: 1 1; }
    FormScreen #preview { width: 2fr; padding: 0 1; }
    FormScreen #hint { height: 2; padding: 0 1; background: $surface; }
    FormScreen.-narrow #preview { display: none; }
    FormScreen.-preview #preview { display: block; width: 1fr; }
    """

    caption = getters.query_one("#caption", Static)
    fields = getters.query_one(FormFields)

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.entries = Entries(subject)
        self.plan = PlanView(self, self.entries)
        self.sending = Sending(
            self, self.entries, self.redraft, self._say, self._correct, self._show_reply
        )
        self.file = FileToBeginWith(self, self.entries, self.sending, self.build)
        self.begins_at = ""
        """The field that has the keys first, when it is not the first one."""

    def key_label(self, binding: Binding) -> str:
        """Return the current label of a key: what was sent cannot be cancelled."""
        if binding.id == "form.cancel" and self.sending.is_sending:
            return "Close"
        return super().key_label(binding)

    def asset(self) -> Target | None:
        """Return the stream or consumer to edit, or the stream of a new consumer."""
        subject = self.entries.subject
        if not subject.editing:
            return Target(subject.stream) if subject.stream else None
        name = text_at(subject.base, "name")
        return Target(
            subject.stream or name,
            name if subject.kind == "consumer" else None,
            subject.created_at_us,
        )

    def body(self) -> Iterable[Widget]:
        """Yield the caption, the fields beside the preview, and the help of the focused field."""
        hint = FixedText(id="hint", markup=False)
        yield Static(id="caption", markup=False)
        with Horizontal(id="form"):
            yield FormFields(self.entries, hint)
            yield VerticalScroll(Static(id="plan", markup=False), id="preview", can_focus=False)
        yield hint

    async def on_mount(self) -> None:
        """Build the fields, and request the existing names from the server."""
        await self.build()
        run_task(self, self.read_names, replaces="names")
        run_task(self, self.sending.opening.read)

    async def read_names(self) -> None:
        """Request the names and limits on the server that the form validates against."""
        reply = await self.engine.request(ReadNamesInUse(0, self.entries.subject.stream or None))
        if reply.body_json:
            self.entries.in_use = decoder_of(NamesInUse).decode(reply.body_json)
            self.redraft()

    async def build(self, base: Config | None = None) -> None:
        """Create the fields again, from another start configuration if given; typed texts are
        kept.
        """
        if base is not None:
            self.entries.start_from(base)
        await self.fields.build(self.state.link.api_level if self.state.link else None)
        self.redraft()
        first_path, self.begins_at = self.begins_at, ""
        editor = await self.fields.open(first_path) if first_path else self.fields.editor()
        if editor is not None:
            # Not focus(), which waits its turn: the next key must already come here.
            self.set_focus(editor)

    @on(FieldRow.Edited)
    def _edited(self, message: FieldRow.Edited) -> None:
        self.put(message.path, message.text)
        self.redraft()

    def put(self, path: str, text: str) -> None:
        """Store the text typed into a field."""
        self.entries.put(path, text)

    def redraft(self) -> None:
        """Compute the draft from the current texts, and show it."""
        self.entries.redraft()
        self.fields.mark()
        preview_text = preview(self.entries.subject, self.entries.draft, self.sending.removes)
        self.query_one("#plan", Static).update(preview_text)
        self.sending.preview_loss()
        # The reply to a preview may come while the form is sent.
        self._say(SENDING_TEXT if self.sending.is_sending else "")

    def _say(self, text: str, style: str = "") -> None:
        """Show a sentence in the caption; for an empty text, whether the form can be sent."""
        narrow = self.has_class("-narrow")
        subject, draft = self.entries.subject, self.entries.draft
        caption = caption_text(subject, draft, self._keys(), text, style, narrow=narrow)
        self.caption.update(caption)

    def _keys(self) -> FormKeys:
        return FormKeys(key_of(self, "form.send"), key_of(self, "form.preview"))

    def _show_reply(self, reply: Answered) -> None:
        if reply.status == "done":
            body = json.loads(reply.body_json or "{}")
            if body.get("not_taken"):
                self.app.notify(reply.text, severity="warning", timeout=10, markup=False)
            else:
                self.app.notify(reply.text, markup=False)
            self._sent(body.get("after"), body.get("created_at_us"))
            return
        if reply.body_json and reply.status == "failed":
            current = json.loads(reply.body_json)["current"]
            conflict = conflict_text(self.entries.subject, current, self._keys())
            self._build_on(current)
            self.query_one("#plan", Static).update(conflict)
            self.plan.show(is_alone=True)
        self._say(reply.text, "error")

    def _sent(self, after: Mapping[str, object] | None, created_at_us: int | None) -> None:
        """Close the form after a success, unless more was typed while the change was sent.

        What is typed then is an edit of what was created: `created_at_us` is None after an edit.
        """
        if self.sending.is_all or after is None:
            self._point_to_made()
            self.dismiss()
            return
        subject, name = self.entries.subject, text_at(after, "name")
        now = replace(
            subject, base=after, editing=True, stream=subject.stream or name,
            created_at_us=created_at_us or subject.created_at_us,
        )  # fmt: skip
        self.entries.go_on_from(now, self.sending.sent_texts)
        self.entries.redraft()
        self.notify("changes typed in the meantime are not sent yet", severity="warning")
        self.call_later(self.build)

    def _point_to_made(self) -> None:
        """Put the cursor of the table below on the created row, as soon as it exists."""
        subject, stack = self.entries.subject, self.app.screen_stack
        below = stack[stack.index(self) - 1]
        if not subject.editing and isinstance(below, SelectionScreen):
            name = self.entries.name
            names = (name,) if subject.kind == "stream" else (subject.stream, name)
            below.sought = CreatedRow(names, below.where.acting.name, below.table.cursor_key)

    def _build_on(self, current: Mapping[str, object]) -> None:
        """Restart from the server's current configuration, keeping typed texts."""
        self.entries.start_from(current)
        self.entries.redraft()
        self.sending.take_as_previewed()
        self.fields.show_start()
        self.redraft()

    async def _correct(self, path: str) -> None:
        """Focus a field that is wrong."""
        self.plan.go_back_to(await self.fields.open(path))

    def on_key(self, event: events.Key) -> None:
        """Show how to return to the fields when letters are typed while they are hidden."""
        if event.is_printable and self.plan.is_alone:
            self.notify("escape goes back to the fields", timeout=2)

    def unsent(self) -> str:
        """Return a summary of typed texts that were not sent."""
        return "" if self.sending.is_sending else self.entries.unsent()

    def action_back(self) -> None:
        """Close the preview first, then the form."""
        if self.plan.is_alone:
            self.plan.show(is_alone=False)
        else:
            super().action_back()
