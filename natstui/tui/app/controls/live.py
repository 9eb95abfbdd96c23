"""The keys of a live server: how often the engine polls, and whether it records."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from natstui.errors import ActionRefusal
from natstui.model.findings.recorded import make_open_findings
from natstui.model.records.record import PollNow, SetInterval, SetPolling
from natstui.model.records.recording import StartRecording, StopRecording
from natstui.tui.app.controls.part import AppPart
from natstui.tui.app.engines import Engines
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import SystemEngine, show_error

POLL_INTERVALS_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class PollingControls(AppPart):
    """Starts and stops polling, and changes its interval; offered on a live server only."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "part('polling', 'pause')", "Pause", id="pause"),
        Binding(
            "plus,equals_sign", "part('polling', 'faster')", "Faster", show=False, id="faster"
        ),
        Binding("minus", "part('polling', 'slower')", "Slower", show=False, id="slower"),
        Binding("ctrl+r,f5", "part('polling', 'now')", "Refresh", show=False, id="refresh"),
    ]

    def __init__(self, app: App[int], engines: Engines, interval_s: float) -> None:
        self._app = app
        self._engines = engines
        self.is_on = True
        self.interval_s = interval_s

    def is_offered(self, action: str, *, is_typing: bool) -> bool:
        """Return whether an action is offered: not in a replay, and no letter key where text is
        typed.
        """
        return not self._engines.is_replaying and (action == "now" or not is_typing)

    def action_pause(self) -> None:
        """Stop or resume polling."""
        self.is_on = not self.is_on
        self._engines.send_to_all(SetPolling(0, self.is_on))
        self._engines.show_state_soon()
        self._app.notify("polling continues" if self.is_on else "polling is paused", timeout=2)

    def action_now(self) -> None:
        """Request a poll at once."""
        self._engines.send_to_all(PollNow(0))

    def send_polling_settings(self, system: str) -> None:
        """Send the polling interval to the engine of an added system, and a stop if polling is
        paused.
        """
        added_system = self._engines.find_system(system)
        added_system.send(SetInterval(0, self.interval_s))
        if not self.is_on:
            added_system.send(SetPolling(0, False))

    def action_faster(self) -> None:
        """Change to the next shorter polling interval; keep the shortest one."""
        shorter_intervals_s = [
            seconds for seconds in POLL_INTERVALS_S if seconds < self.interval_s
        ]
        self.poll_every(max(shorter_intervals_s, default=self.interval_s))

    def action_slower(self) -> None:
        """Change to the next longer polling interval; keep the longest one."""
        longer_intervals_s = [seconds for seconds in POLL_INTERVALS_S if seconds > self.interval_s]
        self.poll_every(min(longer_intervals_s, default=self.interval_s))

    def poll_every(self, interval_s: float) -> None:
        """Request another polling interval, in seconds, from all engines."""
        self.interval_s = interval_s
        self._engines.send_to_all(SetInterval(0, interval_s))
        self._app.notify(f"polling every {interval_s:g} s", timeout=2)


class RecordingControls(AppPart):
    """Starts and stops recording, and adds notes; offered on a live server only."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("R", "part('recording', 'record')", "Record", id="record"),
        Binding("n", "part('recording', 'note')", "Note", show=False, id="note"),
    ]

    def __init__(self, app: App[int], engines: Engines) -> None:
        self._app = app
        self._engines = engines
        self.user_recorded_systems: set[str] = set()
        """The names of the systems on which the user started a recording, by key or command."""

    def is_offered(self, action: str, *, is_typing: bool) -> bool:
        """Return whether an action is offered: not in a replay, and no letter key where text is
        typed.
        """
        return not self._engines.is_replaying and not is_typing

    def action_record(self) -> None:
        """Start or stop recording."""
        self.start_or_stop("")

    def start_or_stop(self, name: str) -> None:
        """Start a recording named `name`, or stop the running one."""
        state, system = self._engines.state, self._engines.acting_system.name
        command: StartRecording | StopRecording = StopRecording(0)
        if state.recording is not None and state.recording.on:
            self.user_recorded_systems.discard(system)
        else:
            self.user_recorded_systems.add(system)
            findings = make_open_findings(state.findings, state.now_at_us)
            command = StartRecording(0, name, findings)
        SystemEngine(self._app, system).start(command, "recording")

    def action_note(self) -> None:
        """Open the command line with `:note`, if notes may be written."""
        try:
            self._engines.check_host_change()
        except ActionRefusal as error:
            show_error(self._app, error)
            return
        if isinstance(self._app.screen, LiveScreen):
            self._app.screen.command_line.open(":", "note ")
