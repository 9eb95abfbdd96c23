"""The form of a stream or consumer: fields at the left, what will happen at the right."""

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
from textual.widgets import Static

from natstui.decoding import decoder_of
from natstui.errors import UsageError
from natstui.model.assets.fields import Config, text_at
from natstui.model.assets.rules import NamesInUse
from natstui.model.records.managing import ReadNamesInUse
from natstui.model.records.messages import Answered
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.form.entries import Entries
from natstui.tui.frame.form.fields import FormFields
from natstui.tui.frame.form.sending import Sending
from natstui.tui.frame.form.text import (
    FormKeys,
    Subject,
    caption_text,
    config_of_file,
    conflict_text,
    preview,
)
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.frame.selection import SelectionScreen, Sought
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt


class PlanView(ScreenPart):
    """Shows the preview without the fields, and the fields again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+o", "part('plan', 'switch')", "Preview", id="form.preview", priority=True),
        Binding("ctrl+y", "part('plan', 'copy')", "Copy command", id="form.copy", priority=True),
    ]

    def __init__(self, screen: Screen[None], entries: Entries) -> None:
        self._screen, self._entries = screen, entries
        self._typed_in: Widget | None = None
        """What had the keys before the preview was shown alone."""

    @property
    def is_alone(self) -> bool:
        """Whether the preview hides the fields."""
        return self._screen.has_class("-preview")

    def show(self, *, alone: bool) -> None:
        """Show the preview without the fields, or the fields with the keys where they were."""
        if alone and self._screen.focused is not None:
            self._typed_in = self._screen.focused
            self._screen.set_focus(None)
        self._screen.set_class(alone, "-preview")
        # At once, not by the class: what is hidden cannot take the keys back.
        self._screen.query_one(FormFields).display = not alone
        if not alone and self._typed_in is not None:
            self._screen.set_focus(self._typed_in)

    def go_back_to(self, editor: Widget | None) -> None:
        """Show the fields, and let the keys go to one of them if there is one."""
        self._typed_in = editor or self._typed_in
        self.show(alone=False)

    def action_switch(self) -> None:
        """Show the preview alone, or the fields again."""
        self.show(alone=not self.is_alone)

    def action_copy(self) -> None:
        """Copy the equivalent nats command."""
        self._screen.app.copy_to_clipboard(self._entries.draft.command)
        self._screen.notify("copied the nats command", timeout=2)


_WHICH_FILE = "JSON, YAML or TOML file to begin with"


class FileToBeginWith(ScreenPart):
    """Asks for a file, again with the reason when it cannot be read."""

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
        self, screen: DOMNode, entries: Entries, begin: Callable[[Config], Awaitable[None]]
    ) -> None:
        """`begin` shows the form with another configuration below what was typed."""
        self._screen, self._entries, self._begin = screen, entries, begin

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer files only for something new."""
        return not self._entries.subject.editing

    def action_load(self) -> None:
        """Begin again from a file."""
        run_task(self._screen, self._load)

    async def _load(self) -> None:
        app, name, reason = self._screen.app, "", ""
        while True:
            typed = await app.push_screen_wait(Prompt(_WHICH_FILE, name, refused=reason))
            if not typed:
                return
            name = typed
            try:
                config = config_of_file(name, self._entries.subject.kind)
            except UsageError as error:
                reason = str(error)
            else:
                await self._begin(config)
                return


class FormScreen(LiveScreen):
    """Create or edit; nothing is sent before ctrl+s."""

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
    FormScreen #preview { width: 2fr; border-left: solid $panel; padding: 0 1; }
    FormScreen #hint { height: 2; padding: 0 1; background: $surface; }
    FormScreen.-narrow #preview { display: none; }
    FormScreen.-preview #preview { display: block; width: 1fr; border-left: none; }
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
        self.file = FileToBeginWith(self, self.entries, self.build)
        self.begins_at = ""
        """The field that has the keys first, when it is not the first one."""

    def asset(self) -> Target | None:
        """Return what is edited, or the stream of a new consumer."""
        it = self.entries.subject
        if not it.editing:
            return Target(it.stream) if it.stream else None
        name = text_at(it.base, "name")
        return Target(it.stream or name, name if it.kind == "consumer" else None, it.created_at_us)

    def body(self) -> Iterable[Widget]:
        """Caption, fields beside the preview, and the explanation of the field in focus."""
        hint = Static(id="hint", markup=False)
        yield Static(id="caption", markup=False)
        with Horizontal(id="form"):
            yield FormFields(self.entries, hint)
            yield VerticalScroll(Static(id="plan", markup=False), id="preview", can_focus=False)
        yield hint

    async def on_mount(self) -> None:
        """Ask what the server already has; show the fields meanwhile."""
        await self.build()
        run_task(self, self._read_names)

    async def _read_names(self) -> None:
        reply = await self.engine.request(ReadNamesInUse(0, self.entries.subject.stream or None))
        if reply.body_json:
            self.entries.in_use = decoder_of(NamesInUse).decode(reply.body_json)
            self.redraft()

    async def build(self, base: Config | None = None) -> None:
        """Make the fields again, for another base if there is one; keep what was typed."""
        if base is not None:
            self.entries.start_from(base)
        await self.fields.build(self.state.link.api_level if self.state.link else None)
        self.redraft()
        wanted, self.begins_at = self.begins_at, ""
        editor = await self.fields.open(wanted) if wanted else self.fields.editor()
        if editor is not None:
            # Not focus(), which waits its turn: the next key must already come here.
            self.set_focus(editor)

    @on(FieldRow.Edited)
    def _edited(self, message: FieldRow.Edited) -> None:
        self.entries.put(message.path, message.text)
        self.redraft()

    def redraft(self) -> None:
        """Find out what the texts mean now, and show it."""
        self.entries.redraft()
        self.fields.mark()
        shown = preview(self.entries.subject, self.entries.draft, self.sending.removes)
        self.query_one("#plan", Static).update(shown)
        self.sending.preview_loss()
        self._say("")

    def _say(self, text: str, style: str = "") -> None:
        """Say something in the caption; without a text, whether the form can be sent."""
        narrow = self.has_class("-narrow")
        subject, draft = self.entries.subject, self.entries.draft
        shown = caption_text(subject, draft, self._keys(), text, style, narrow=narrow)
        self.caption.update(shown)

    def _keys(self) -> FormKeys:
        return FormKeys(key_of(self, "form.send"), key_of(self, "form.preview"))

    def _show_reply(self, reply: Answered) -> None:
        if reply.status == "done":
            body = json.loads(reply.body_json or "{}")
            for item in body.get("not_taken") or ():
                text = f"{item['label']}: asked {item['before']}, it is {item['after'] or 'unset'}"
                self.app.notify(text, severity="warning", timeout=10, markup=False)
            self.app.notify(reply.text, markup=False)
            self._sent(body.get("after"))
            return
        if reply.body_json and reply.status == "failed":
            current = json.loads(reply.body_json)["current"]
            shown = conflict_text(self.entries.subject, current, self._keys())
            self._build_on(current)
            self.query_one("#plan", Static).update(shown)
            self.plan.show(alone=True)
        self._say(reply.text, "error")

    def _sent(self, after: Mapping[str, object] | None) -> None:
        """Close the form, unless more was typed while the change was sent."""
        if self.sending.is_all or after is None:
            self._point_to_made()
            self.dismiss()
            return
        it, name = self.entries.subject, text_at(after, "name")
        self.entries.subject = replace(it, base=after, editing=True, stream=it.stream or name)
        self.notify("what was typed meanwhile is not sent yet", severity="warning")
        self.call_later(self.build)

    def _point_to_made(self) -> None:
        """Put the cursor of the table below on what was made, as soon as it is there."""
        it, stack = self.entries.subject, self.app.screen_stack
        below = stack[stack.index(self) - 1]
        if not it.editing and isinstance(below, SelectionScreen):
            name = self.entries.name
            names = (name,) if it.kind == "stream" else (it.stream, name)
            below.sought = Sought(names, below.where.acting.name, below.table.cursor_key)

    def _build_on(self, current: Mapping[str, object]) -> None:
        """Show what the server has now, below what was typed here."""
        self.entries.start_from(current)
        self.entries.redraft()
        self.sending.take_as_previewed()
        self.fields.show_start()
        self.redraft()

    async def _correct(self, path: str) -> None:
        """Go to a field that is wrong."""
        self.plan.go_back_to(await self.fields.open(path))

    def on_key(self, event: events.Key) -> None:
        """Say how to get back to the fields when letters are typed while they are hidden."""
        if event.is_printable and self.plan.is_alone:
            self.notify("escape goes back to the fields", timeout=2)

    def unsent(self) -> str:
        """Return what was typed and not sent."""
        return self.entries.unsent()

    def action_back(self) -> None:
        """Leave the preview first, then the form."""
        if self.plan.is_alone:
            self.plan.show(alone=False)
        else:
            super().action_back()
