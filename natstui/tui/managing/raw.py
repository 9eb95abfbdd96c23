"""The INFO of a stream or consumer as the server sent it, as JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.model.records.record import Describe
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.command_line import CommandLine
from natstui.tui.kit.raw.view import RawView
from natstui.tui.kit.text import safe


class RawScreen(LiveScreen):
    """Shows the INFO of a stream or consumer; a key requests it again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "reformat", "JSON/YAML", id="raw.format"),
        Binding("slash", "search", "Search", key_display="/", id="raw.search"),
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="raw.refresh"),
    ]

    caption = getters.query_one("#caption", Static)
    raw = getters.query_one(RawView)

    def __init__(self, stream: str, consumer: str | None) -> None:
        super().__init__()
        self.stream, self.consumer = stream, consumer
        self._body: object = None
        self._shows_yaml = False
        self._status_text = "reading …"

    def asset(self) -> Target | None:
        """Return the stream or consumer on the screen."""
        return Target(self.stream, self.consumer)

    def body(self) -> Iterable[Widget]:
        """Yield the caption and the INFO."""
        yield Static(id="caption", markup=False)
        yield RawView()

    def on_mount(self) -> None:
        """Request the INFO."""
        self._show_status("reading …")
        self.action_ask()

    def _show_status(self, sentence: str, style_name: str = "") -> None:
        self._status_text = sentence
        self.caption.update(safe(f"{self._title()}  ·  {sentence}", style_name))

    def _title(self) -> str:
        return self.stream + (f"  ›  {self.consumer}" if self.consumer else "")

    def action_ask(self) -> None:
        """Request the INFO from the engine, and show it."""
        self.note.accept_replacement()
        run_task(self, self._read, replaces="read")

    async def _read(self) -> None:
        reply = await self.engine.request(Describe(0, self.stream, self.consumer))
        if reply.body_json is None:
            self._show_status(reply.text, "error")
        else:
            self._body = json.loads(reply.body_json)
            self._draw()

    def _draw(self) -> None:
        if self._shows_yaml:
            # Imported here: it is a tenth of the start, for a view that few open.
            import yaml

            text = yaml.safe_dump(self._body, sort_keys=False, allow_unicode=True)
            self._show_status("the server's data as YAML")
            self.raw.show(text, "yaml")
        else:
            self._show_status("the server's data as JSON")
            self.raw.show(json.dumps(self._body, indent=2, ensure_ascii=False), "json")

    def action_reformat(self) -> None:
        """Switch between JSON and YAML."""
        self._shows_yaml = not self._shows_yaml
        if self._body is not None:
            self._draw()

    def action_search(self) -> None:
        """Open the search line; n and N move to the next and previous match."""
        self.command_line.open("/")

    @on(CommandLine.FilterChanged)
    def _search(self, message: CommandLine.FilterChanged) -> None:
        self.raw.search(message.text)

    @on(RawView.Searched)
    def _show_match(self, message: RawView.Searched) -> None:
        match_text = f"match {message.number} of {message.count}" if message.count else "no match"
        status_text = (
            f"{self._status_text}  ·  {match_text}" if message.search_text else self._status_text
        )
        self.caption.update(safe(f"{self._title()}  ·  {status_text}"))

    @on(RawView.CopyRequested)
    def _copy(self, message: RawView.CopyRequested) -> None:
        self.app.copy_to_clipboard(message.text)
        self.notify("copied", timeout=2)
