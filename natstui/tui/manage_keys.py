"""The keys that make and change things, the same on tables and details."""

from __future__ import annotations

from textual.binding import Binding, BindingType

from natstui.tui.allowed import allowed, read_only
from natstui.tui.live import LiveScreen
from natstui.tui.messages import Manage
from natstui.tui.pick import Pick
from natstui.tui.present.actions import CONSUMER_ACTIONS, STREAM_ACTIONS, ActionSpec, Target

STREAM_KEYS: list[BindingType] = [
    Binding("a", "manage('add-stream')", "Add", id="stream.add"),
    Binding("e", "manage('edit-stream')", "Edit", id="stream.edit"),
    Binding("m", "manage('messages')", "Messages", id="stream.messages"),
    Binding("x", "actions('stream')", "Actions", id="stream.actions"),
    Binding("A", "manage('clone-stream')", "Clone", show=False, id="stream.clone"),
    Binding("P", "manage('purge_stream')", "Purge", show=False, id="stream.purge"),
    Binding("ctrl+d", "manage('delete_stream')", "Delete", show=False, id="stream.delete"),
    Binding("u", "manage('undo')", "Undo", show=False, id="undo"),
]

CONSUMER_KEYS: list[BindingType] = [
    Binding("a", "manage('add-consumer')", "Add", id="consumer.add"),
    Binding("e", "manage('edit-consumer')", "Edit", id="consumer.edit"),
    Binding("m", "manage('messages')", "Messages", id="consumer.messages"),
    Binding("x", "actions('consumer')", "Actions", id="consumer.actions"),
    Binding("A", "manage('clone-consumer')", "Clone", show=False, id="consumer.clone"),
    Binding("ctrl+d", "manage('delete_consumer')", "Delete", show=False, id="consumer.delete"),
    Binding("u", "manage('undo')", "Undo", show=False, id="undo"),
]

_ONLY_ONE = {
    "edit-stream", "edit-consumer", "clone-stream", "clone-consumer", "add-consumer", "messages",
}  # fmt: skip


class Manages(LiveScreen):
    """A screen with something under the cursor, or several marked."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what the user may not do: read-only, or without the permission."""
        if action == "manage" and parameters and not allowed(self.state, str(parameters[0])):
            return None
        return super().check_action(action, parameters)

    def targets(self) -> list[Target]:
        """Return what is marked, else what is under the cursor."""
        return []

    def action_manage(self, what: str) -> None:
        """Open the screen that does it."""
        found = self.targets()
        if not found and what not in ("add-stream", "undo", "journal"):
            self.notify("there is nothing under the cursor", severity="warning", timeout=2)
            return
        wanted = found[:1] if what in _ONLY_ONE else found
        self.post_message(Manage(what, tuple(wanted)))

    def action_actions(self, kind: str) -> None:
        """List everything that can be done, and do one of it."""
        specs = STREAM_ACTIONS if kind == "stream" else CONSUMER_ACTIONS
        words = [(spec.word, self._help_of(spec)) for spec in specs]
        targets = self.targets()
        if not targets:
            self.notify("there is nothing under the cursor", severity="warning", timeout=2)
            return
        stream, consumer = targets[0]
        one = f"{stream} › {consumer}" if consumer else stream
        title = f"What to do with {one if len(targets) == 1 else f'{len(targets)} {kind}s'}"

        def do(word: str | None) -> None:
            spec: ActionSpec | None = next((one for one in specs if one.word == word), None)
            if spec is None:
                return
            if allowed(self.state, spec.action):
                self.action_manage(spec.action)
            else:
                self.notify(f"{spec.word}: {self._help_of(spec)}", severity="warning")

        self.app.push_screen(Pick(title, words), do)

    def _help_of(self, spec: ActionSpec) -> str:
        if allowed(self.state, spec.action):
            return spec.help
        return "read-only" if read_only(self.state) else "you have no permission for it"
