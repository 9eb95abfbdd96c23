"""The confirmation screen of an action: targets, effect, and the name to type."""

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

from natstui.model.assets.fields import Field
from natstui.model.records.actions import CATALOGUE
from natstui.model.records.confirmation import Confirmation, ServerIdentity
from natstui.model.records.managing import (
    Change,
)
from natstui.tui.frame.action_keys import (
    ActionSpec,
    Target,
    name_of,
    parse_arguments,
    targets_text,
    text_to_type,
)
from natstui.tui.frame.confirmation import SENDING_TEXT, FormServer, confirmation_in
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.fields import FieldRow
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.text import safe, safe_lines


class ActionScreen(LiveScreen):
    """The confirmation of an action on streams or consumers: its effect, and the name to type; a
    key executes the action.
    """

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
        self,
        spec: ActionSpec,
        targets: Sequence[Target],
        is_production: bool,
        seq: int | None = None,
    ) -> None:
        super().__init__()
        self.spec, self.targets = spec, list(targets)
        self.required_text = text_to_type(spec, targets, is_production)
        self.texts = {"seq": str(seq)} if seq is not None else {}
        self.typed_text = ""
        self._is_sending = False
        self._uncounted_targets = set[Target]()
        """The targets whose losses are not counted yet."""
        self._lines: dict[Target, str] = {}
        self._confirmations: dict[Target, Confirmation] = {}
        """Target → its counted losses for the current arguments; nothing else is removed."""
        self._server_identity: ServerIdentity | None = None
        """The server on which the effect was read; nothing is changed on another one."""
        self._changed_targets = set[Target]()
        """The targets already changed when others failed; a repetition leaves them out."""

    def asset(self) -> Target | None:
        """Return the only target; None if there are several."""
        return self.targets[0] if len(self.targets) == 1 else None

    def key_label(self, binding: Binding) -> str:
        """Return the label of a key: Close instead of Cancel while the action is being sent."""
        if binding.id == "action.cancel" and self._is_sending:
            return "Close"
        return super().key_label(binding)

    def body(self) -> Iterable[Widget]:
        """Yield caption, targets, arguments, the name to type, and the effect."""
        rows = [FieldRow(field, self.texts.get(field.path, "")) for field in self.spec.fields]
        if self.required_text is not None:
            confirmation_field = Field(
                "", f"Type {self.required_text}", "text", "", "To confirm it."
            )
            rows.append(FieldRow(confirmation_field, ""))
        yield Static(id="caption", markup=False)
        with VerticalScroll(can_focus=False):
            yield Static(safe_lines(targets_text(self.targets)), id="targets", markup=False)
            yield from rows
            yield Static(id="effect", markup=False)

    def on_mount(self) -> None:
        """Show the effect, and focus the first field."""
        self.caption.update(safe(f"{self.spec.word}: {self.spec.help}"))
        rows = self.query(FieldRow)
        if rows:
            rows.first().editor.focus()
        self._request_losses()
        if CATALOGUE[self.spec.action].removes == "never":
            run_task(self, self._read_server)

    async def _read_server(self) -> None:
        """Read the identity of the server for an action that removes nothing.

        Other actions get the identity when they count what they delete.
        """
        form_server = FormServer(self)
        await form_server.read()
        self._server_identity = form_server.identity

    @on(FieldRow.Edited)
    def _store_text(self, message: FieldRow.Edited) -> None:
        if message.path:
            self.texts[message.path] = message.text
            self._request_losses()
        else:
            self.typed_text = message.text

    @on(Input.Submitted)
    def _send_on_enter(self) -> None:
        self.action_send()

    def _request_losses(self) -> None:
        """Request what the action would delete of each target, or show an error of an argument."""
        try:
            body = parse_arguments(self.spec, self.texts)
        except ValueError as error:
            self.effect.update(safe(str(error), "error"))
            return
        self._lines, self._confirmations = {}, {}
        self.effect.update(safe(self._ready_text()))
        if CATALOGUE[self.spec.action].removes == "never":
            return
        self.effect.update(safe("counting the messages that this removes …"))
        self._uncounted_targets = set(self.targets)
        run_task(self, self._count_all_losses, body, replaces="count")

    async def _count_all_losses(self, body: Mapping[str, object]) -> None:
        await asyncio.gather(*(self._count_losses(target, body) for target in self.targets))

    async def _count_losses(self, target: Target, body: Mapping[str, object]) -> None:
        """Request, store and show what the action would delete of one target."""
        action, stream, consumer = self.spec.action, target.stream, target.consumer
        change = Change(
            0,
            action,
            stream,
            consumer,
            json.dumps(body),
            created_at_us=target.created_at_us,
            previewed_last_seq=target.message_seq,
            previewed_last_at_us=target.message_stored_at_us,
            dry_run=True,
        )
        reply = await self.engine.request(change)
        if reply.body_json is None:
            self._lines[target] = reply.text
        else:
            confirmation = confirmation_in(reply)
            self._confirmations[target] = confirmation
            self._server_identity = self._server_identity or confirmation.place
            self._lines[target] = "; ".join(confirmation.lines) or "nothing is removed"
        self._uncounted_targets.discard(target)
        loss_lines = [f"{name_of(target)}: {line}." for target, line in self._lines.items()]
        uncounted_count = len(self._uncounted_targets)
        loss_lines.append(
            f"counting {uncounted_count} more …" if uncounted_count else self._ready_text()
        )
        self.effect.update(safe_lines("\n".join(loss_lines), "warn"))

    def _ready_text(self) -> str:
        if self.required_text is None:
            return f"{key_of(self, 'action.send')} does it."
        return f"This cannot be undone. Type {self.required_text} and press enter to confirm."

    def action_send(self) -> None:
        """Execute the action on every target, once the typed name and the arguments are valid."""
        try:
            body = parse_arguments(self.spec, self.texts)
        except ValueError as error:
            self.effect.update(safe(str(error), "error"))
            return
        if self.required_text is not None and self.typed_text != self.required_text:
            self.effect.update(safe(f"Type {self.required_text} to confirm.", "error"))
            return
        if self._is_sending:
            return
        if self._uncounted_targets:
            self.effect.update(
                safe("still counting the messages that this removes: try again in a moment")
            )
            return
        self._is_sending = True
        self.refresh_bindings()
        self.effect.update(safe(SENDING_TEXT))
        run_task(self, self._send_all, body)

    async def _send_all(self, body: Mapping[str, object]) -> None:
        """Change every target; close after success, else show the errors."""
        targets = [target for target in self.targets if target not in self._changed_targets]
        reasons = await asyncio.gather(*(self._send(target, body) for target in targets))
        self._is_sending = False
        self.refresh_bindings()
        if failure_reasons := list(filter(None, reasons)):
            done_names = [
                name_of(target) for target in self.targets if target in self._changed_targets
            ]
            done_lines = [f"Done: {', '.join(done_names)}. Not done:"] if done_names else []
            self.effect.update(safe_lines("\n".join([*done_lines, *failure_reasons]), "error"))
        else:
            self.dismiss()

    async def _send(self, target: Target, body: Mapping[str, object]) -> str:
        """Change one target; return the error, empty on success."""
        confirmation = self._confirmations.get(target)
        if confirmation is None and CATALOGUE[self.spec.action].removes != "never":
            reason = self._lines.get(target, "it is not counted what this removes")
            return f"{name_of(target)}: nothing was changed: {reason}"
        change = Change(
            0,
            self.spec.action,
            target.stream,
            target.consumer,
            json.dumps(body),
            confirmed=name_of(target) if self.required_text is not None else None,
            created_at_us=confirmation.created_at_us if confirmation else target.created_at_us,
            previewed_msgs=confirmation.most_msgs if confirmation else None,
            previewed_last_seq=confirmation.last_seq if confirmation else None,
            previewed_last_at_us=confirmation.last_at_us if confirmation else None,
            place=self._server_identity,
        )
        reply = await self.engine.change(change)
        if reply.status != "done":
            return reply.text
        self._changed_targets.add(target)
        self.app.notify(reply.text, markup=False)
        return ""
