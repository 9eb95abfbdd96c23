"""Confirmation of an action on streams or consumers: effect, targets, and the name to type."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Input, Static

from natstui.decoding import decoder_of
from natstui.model.assets.fields import Field
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.confirmation import Confirmation, Place
from natstui.model.records.managing import (
    Change,
)
from natstui.tui.frame.action_keys import (
    ActionSpec,
    Target,
    arguments,
    name_of,
    targets_text,
    word_to_type,
)
from natstui.tui.frame.confirmation import SENDING_TEXT, OpeningPlace
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.text import safe, safe_lines

_confirmation = decoder_of(Confirmation)


class ActionScreen(LiveScreen):
    """The confirmation of an action; nothing is sent before ctrl+s or enter."""

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
        self._is_sending = False
        self._uncounted = set[Target]()
        """Of which it is not known yet what is removed."""
        self._lines: dict[Target, str] = {}
        self._seen: dict[Target, Confirmation] = {}
        """What was counted for the arguments on the screen: nothing else is removed."""
        self._place: Place | None = None
        """Where the effect was read first: nothing is changed elsewhere."""
        self._changed = set[Target]()
        """The targets that were changed before others failed: they are not changed twice."""

    def asset(self) -> Target | None:
        """Return the target, if it is a single one."""
        return self.targets[0] if len(self.targets) == 1 else None

    def key_label(self, binding: Binding) -> str:
        """Return the current label of a key: what was sent cannot be cancelled."""
        if binding.id == "action.cancel" and self._is_sending:
            return "Close"
        return super().key_label(binding)

    def body(self) -> Iterable[Widget]:
        """Yield action, targets, arguments, effect, and the name to type."""
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
        """Show the effect, and focus the first line."""
        self.caption.update(safe(f"{self.spec.word}: {self.spec.help}"))
        rows = self.query(FieldRow)
        if rows:
            rows.first().editor.focus()
        self._preview()
        if CATALOGUE[self.spec.action].removes == "never":
            run_task(self, self._read_place)

    async def _read_place(self) -> None:
        """Request the place of an action that removes nothing: no effect is read of it."""
        opening = OpeningPlace(self)
        await opening.read()
        self._place = opening.place

    @on(FieldRow.Edited)
    def _edited(self, message: FieldRow.Edited) -> None:
        if message.path:
            self.texts[message.path] = message.text
            self._preview()
        else:
            self.typed = message.text

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_send()

    def _preview(self) -> None:
        """Request the losses of each target; show errors of the arguments."""
        try:
            body = arguments(self.spec, self.texts)
        except ValueError as error:
            self.effect.update(safe(str(error), "error"))
            return
        self._lines, self._seen = {}, {}
        self.effect.update(safe(self._ready_text()))
        if CATALOGUE[self.spec.action].removes == "never":
            return
        self.effect.update(safe("counting the messages that this removes …"))
        self._uncounted = set(self.targets)
        run_task(self, self._count_all, body, replaces="count")

    async def _count_all(self, body: Mapping[str, object]) -> None:
        await asyncio.gather(*(self._count(target, body) for target in self.targets))

    async def _count(self, target: Target, body: Mapping[str, object]) -> None:
        """Request, store and show the losses of one target."""
        action, stream, consumer = self.spec.action, target.stream, target.consumer
        change = Change(
            0,
            action,
            stream,
            consumer,
            json.dumps(body),
            created_at_us=target.created_at_us,
            previewed_last_seq=target.seen_seq,
            previewed_last_at_us=target.seen_at_us,
            dry_run=True,
        )
        reply = await self.engine.request(change)
        if reply.body_json is None:
            self._lines[target] = reply.text
        else:
            confirmation = _confirmation.decode(reply.body_json)
            self._seen[target] = confirmation
            self._place = self._place or confirmation.place
            self._lines[target] = "; ".join(confirmation.lines) or "nothing is removed"
        self._uncounted.discard(target)
        loss_lines = [f"{name_of(target)}: {line}." for target, line in self._lines.items()]
        pending_count = len(self._uncounted)
        loss_lines.append(
            f"counting {pending_count} more …" if pending_count else self._ready_text()
        )
        self.effect.update(safe_lines("\n".join(loss_lines), "warn"))

    def _ready_text(self) -> str:
        if self.word is None:
            return f"{key_of(self, 'action.send')} does it."
        return f"This cannot be undone. Type {self.word} and press enter to confirm."

    def action_send(self) -> None:
        """Execute the action on every target."""
        try:
            body = arguments(self.spec, self.texts)
        except ValueError as error:
            self.effect.update(safe(str(error), "error"))
            return
        if self.word is not None and self.typed != self.word:
            self.effect.update(safe(f"Type {self.word} to confirm.", "error"))
            return
        if self._is_sending:
            return
        if self._uncounted:
            self.effect.update(
                safe("still counting the messages that this removes: try again in a moment")
            )
            return
        self._is_sending = True
        self.refresh_bindings()
        self.effect.update(safe(SENDING_TEXT))
        run_task(self, self._send_all, body)

    async def _send_all(self, body: Mapping[str, object]) -> None:
        """Change every target; close after success, else show the failures."""
        targets = [target for target in self.targets if target not in self._changed]
        reasons = await asyncio.gather(*(self._send(target, body) for target in targets))
        self._is_sending = False
        self.refresh_bindings()
        if failures := list(filter(None, reasons)):
            done = [name_of(target) for target in self.targets if target in self._changed]
            done_lines = [f"Done: {', '.join(done)}. Not done:"] if done else []
            self.effect.update(safe_lines("\n".join([*done_lines, *failures]), "error"))
        else:
            self.dismiss()

    async def _send(self, target: Target, body: Mapping[str, object]) -> str:
        """Change one target; return the error, empty on success."""
        confirmation = self._seen.get(target)
        if confirmation is None and CATALOGUE[self.spec.action].removes != "never":
            reason = self._lines.get(target, "it is not counted what this removes")
            return f"{name_of(target)}: nothing was changed: {reason}"
        change = Change(
            0,
            self.spec.action,
            target.stream,
            target.consumer,
            json.dumps(body),
            confirmed=name_of(target) if self.word is not None else None,
            created_at_us=confirmation.created_at_us if confirmation else target.created_at_us,
            previewed_msgs=confirmation.most_msgs if confirmation else None,
            previewed_last_seq=confirmation.last_seq if confirmation else None,
            previewed_last_at_us=confirmation.last_at_us if confirmation else None,
            place=self._place,
        )
        reply = await self.engine.change(change)
        if reply.status != "done":
            return reply.text
        self._changed.add(target)
        self.app.notify(reply.text, markup=False)
        return ""
