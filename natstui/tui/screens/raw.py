"""The whole INFO of a stream or consumer as the server writes it, as JSON or YAML."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.record import Describe, Outcome
from natstui.tui.live import LiveScreen
from natstui.tui.messages import Asked
from natstui.tui.text import safe, safe_copy, safe_lines

_command_ids = itertools.count(1_000_000)


class RawScreen(LiveScreen):
    """Asks the engine for the INFO once, and again with ctrl+r."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "reformat", "JSON/YAML", id="raw.format"),
        Binding("c", "copy", "Copy", id="raw.copy"),
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="raw.refresh"),
    ]

    caption = getters.query_one("#caption", Static)
    raw = getters.query_one("#raw", Static)

    def __init__(self, stream: str, consumer: str | None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self._asked_id = 0
        self._body: object = None
        self._as_yaml = False
        self._text = ""

    def body(self) -> Iterable[Widget]:
        """A caption and the text."""
        yield Static(id="caption", markup=False)
        yield VerticalScroll(Static(id="raw", markup=False))

    def on_mount(self) -> None:
        """Ask for the INFO."""
        self.caption.update(safe(self._title() + "  ·  asking …"))
        self.action_ask()

    def _title(self) -> str:
        return self.stream + (f"  ›  {self.consumer}" if self.consumer else "")

    def action_ask(self) -> None:
        """Ask the engine for the INFO."""
        self._asked_id = next(_command_ids)
        self.post_message(Asked(Describe(self._asked_id, self.stream, self.consumer)))

    def refresh_state(self) -> None:
        """Take the answer when it came."""
        for event in reversed(self.state.happenings):
            if isinstance(event, Outcome) and event.command_id == self._asked_id:
                self._asked_id = -1
                if event.body_json is None:
                    self.caption.update(safe(f"{self._title()}  ·  {event.text}", "$text-error"))
                else:
                    self._body = json.loads(event.body_json)
                    self._draw()
                return

    def _draw(self) -> None:
        if self._as_yaml:
            # Imported here: it is a tenth of the start, for a view that few open.
            import yaml

            self._text = yaml.safe_dump(self._body, sort_keys=False, allow_unicode=True)
        else:
            self._text = json.dumps(self._body, indent=2, ensure_ascii=False)
        kind = "YAML" if self._as_yaml else "JSON"
        self.caption.update(safe(f"{self._title()}  ·  {kind} as the server writes it"))
        self.raw.update(safe_lines(self._text))

    def action_reformat(self) -> None:
        """Change between JSON and YAML."""
        self._as_yaml = not self._as_yaml
        if self._body is not None:
            self._draw()

    def action_copy(self) -> None:
        """Copy the whole text to the clipboard."""
        self.app.copy_to_clipboard(safe_copy(self._text))
        self.notify("copied", timeout=2)
