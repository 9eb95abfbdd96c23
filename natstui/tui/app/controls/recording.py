"""The keys of recording a live server."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from natstui.model.findings.recorded import known_so_far
from natstui.model.records.recording import StartRecording, StopRecording
from natstui.tui.app.controls.part import Part
from natstui.tui.app.engines import Engines
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import SystemEngine


class Recording(Part):
    """Recording on or off, and notes; offered on a live server only."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "part('recording', 'record')", "Record", id="record"),
        Binding("n", "part('recording', 'note')", "Note", show=False, id="note"),
    ]

    def __init__(self, app: App[int], engines: Engines) -> None:
        self._app = app
        self._engines = engines
        self.asked_for = False
        """Whether somebody began it here, by its key or its command."""

    def may(self, action: str, *, typing: bool) -> bool:
        """Offer nothing in a replay, and no letter where one types."""
        return not self._engines.replaying and not typing

    def action_record(self) -> None:
        """Start or stop recording."""
        self.start_or_stop("")

    def start_or_stop(self, name: str) -> None:
        """Start recording under a name, or stop it."""
        recording = self._engines.state.recording
        self.asked_for = recording is None or not recording.on
        command: StartRecording | StopRecording = StopRecording(0)
        if self.asked_for:
            state = self._engines.state
            findings = known_so_far(state.findings, state.now_at_us)
            command = StartRecording(0, name, findings)
        SystemEngine(self._app, None).start(command, "recording")

    def action_note(self) -> None:
        """Write a note at this moment."""
        if isinstance(self._app.screen, LiveScreen):
            self._app.screen.command_line.open(":", "note ")
