"""Doing something to streams or consumers: what, to which, and the name typed when it is final."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Static

from natstui.model.config_field import Field
from natstui.model.manage import Change, PreviewPurge
from natstui.tui.asking import answer_to, next_command_id
from natstui.tui.live import LiveScreen
from natstui.tui.messages import Asked
from natstui.tui.present.actions import (
    ActionSpec,
    Target,
    arguments,
    name_of,
    targets_text,
    word_to_type,
)
from natstui.tui.text import safe, safe_lines
from natstui.tui.widgets.field_row import FieldRow


class ActionScreen(LiveScreen):
    """Nothing is sent before ctrl+s or enter, and nothing final without its name."""

    TYPING = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f2", "send", "Do it", id="action.send", priority=True),
        Binding("escape", "back", "Cancel", id="action.cancel"),
        Binding("down", "app.focus_next", "Next", show=False, id="action.down"),
        Binding("up", "app.focus_previous", "Previous", show=False, id="action.up"),
    ]
    DEFAULT_CSS = """
    ActionScreen #targets { padding: 0 1; height: auto; margin-bottom: 1; }
    ActionScreen #effect { padding: 0 1; height: auto; margin: 1 0; }
    """

    caption = getters.query_one("#caption", Static)
    effect = getters.query_one("#effect", Static)

    def __init__(
        self, spec: ActionSpec, targets: Sequence[Target], production: bool, seq: int | None = None
    ) -> None:
        super().__init__()
        self.spec, self.targets = spec, list(targets)
        self.word = word_to_type(spec, targets, production)
        self.texts = {"seq": str(seq)} if seq is not None else {}
        self.typed = ""
        self._waiting: dict[int, Target] = {}
        self._failed: list[str] = []
        self._preview_id = -1

    def body(self) -> Iterable[Widget]:
        """What, to which, the arguments, the effect, and the name."""
        rows = [FieldRow(field, self.texts.get(field.path, "")) for field in self.spec.fields]
        if self.word is not None:
            confirm = Field("", f"Type {self.word}", "text", "", "To confirm it.")
            rows.append(FieldRow(confirm, ""))
        yield Static(id="caption", markup=False)
        with VerticalScroll(can_focus=False):
            yield Static(safe_lines(targets_text(self.targets)), id="targets", markup=False)
            yield from rows
            yield Static(id="effect", markup=False)

    def on_mount(self) -> None:
        """Say what it does, and give the keys to the first line."""
        self.caption.update(safe(f"{self.spec.word}: {self.spec.help}"))
        rows = self.query(FieldRow)
        if rows:
            rows.first().editor.focus()
        self._look_ahead()

    @on(FieldRow.Edited)
    def _edited(self, message: FieldRow.Edited) -> None:
        if message.path:
            self.texts[message.path] = message.text
            self._look_ahead()
        else:
            self.typed = message.text

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_send()

    def _look_ahead(self) -> None:
        """Ask how many messages a purge would remove; say what is wrong with the arguments."""
        try:
            body = arguments(self.spec, self.texts)
        except ValueError as error:
            self.effect.update(safe(str(error), "$text-error"))
            return
        self.effect.update(safe(self._ready_text()))
        if self.spec.action == "purge_stream" and len(self.targets) == 1:
            self._preview_id = next_command_id()
            asked = PreviewPurge(self._preview_id, self.targets[0][0], json.dumps(body))
            self.post_message(Asked(asked))

    def _ready_text(self) -> str:
        if self.word is None:
            return "ctrl+s does it."
        return f"This cannot be undone. Type {self.word} and press enter to do it."

    def action_send(self) -> None:
        """Do it to every target."""
        try:
            body = arguments(self.spec, self.texts)
        except ValueError as error:
            self.effect.update(safe(str(error), "$text-error"))
            return
        if self.word is not None and self.typed != self.word:
            self.effect.update(safe(f"Type {self.word} to do it.", "$text-error"))
            return
        if self._waiting:
            return
        self._failed = []
        for stream, consumer in self.targets:
            number = next_command_id()
            self._waiting[number] = (stream, consumer)
            name = name_of((stream, consumer)) if self.word is not None else None
            body_json = json.dumps(body)
            change = Change(number, self.spec.action, stream, consumer, body_json, None, name)
            self.post_message(Asked(change))
        self.effect.update(safe("sending …"))

    def refresh_state(self) -> None:
        """Take answers when they come."""
        preview = answer_to(self.state, self._preview_id)
        if preview is not None:
            self._preview_id = -1
            style = "$text-warning" if preview.status == "done" else "$text-error"
            self.effect.update(safe(f"{preview.text}. {self._ready_text()}", style))
        for number in list(self._waiting):
            answer = answer_to(self.state, number)
            if answer is None:
                continue
            del self._waiting[number]
            if answer.status == "done":
                self.app.notify(answer.text, markup=False)
            else:
                self._failed.append(answer.text)
            if not self._waiting:
                self._end()

    def _end(self) -> None:
        if self._failed:
            self.effect.update(safe_lines("\n".join(self._failed), "$text-error"))
        else:
            self.dismiss()
