"""Keys of recording, and of replaying: these exist only while a recording is shown."""

from __future__ import annotations

from time import monotonic
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.errors import UsageError
from natstui.model.recording import (
    PauseReplay,
    Play,
    ReplayPosition,
    SeekMark,
    SeekTo,
    SetSpeed,
    StartRecording,
    Step,
    StopRecording,
)
from natstui.model.state import State
from natstui.tui.asking import next_command_id
from natstui.tui.exporting import Exporting
from natstui.tui.live import LiveScreen
from natstui.tui.messages import LeaveReplay, Replay
from natstui.tui.present.moment import moment_us

_TOLD_WITHIN_S = 1.0
SPEEDS_RATIO = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
REPLAY_ACTIONS = {"play", "poll", "event", "speed", "seek", "mark_a", "compare"}
LIVE_ACTIONS = {"pause", "faster", "slower", "poll_now", "record", "note"}


def _key(
    name: str, key: str, action: str, text: str, shown: str, *, footer: bool = False
) -> Binding:
    """Return a key that comes before those of the screen; other tables have it otherwise."""
    return Binding(
        key, action, text, key_display=shown, show=footer, priority=True, id=f"replay.{name}"
    )


class Replaying(Exporting):
    """Part of the app: record a live server, and move through a recording."""

    BINDINGS: ClassVar[list[BindingType]] = [
        # Here, because keys of a subclass would take the place of those of a replay.
        Binding("p", "pause", "Pause", id="pause"),
        Binding("plus,equals_sign", "faster", "Faster", show=False, id="faster"),
        Binding("minus", "slower", "Slower", show=False, id="slower"),
        Binding("ctrl+r,f5", "poll_now", "Refresh", show=False, id="refresh"),
        Binding("R", "record", "Record", id="record"),
        Binding("n", "note", "Note", show=False, id="note"),
        _key("play", "space", "play", "Play/pause", "space", footer=True),
        _key("step_back", "left_square_bracket", "poll(-1)", "Step back", "["),
        _key("step", "right_square_bracket", "poll(1)", "Step", "]"),
        _key("event_before", "left_curly_bracket", "event(False)", "Event before", "{"),
        _key("event_next", "right_curly_bracket", "event(True)", "Next event", "}"),
        _key("slower", "comma", "speed(-1)", "Slower", ","),
        _key("faster", "full_stop", "speed(1)", "Faster", "."),
        _key("seek", "S", "seek", "Seek", "S", footer=True),
        _key("mark", "a", "mark_a", "Mark A", "a", footer=True),
        _key("compare", "equals_sign", "compare", "Compare", "=", footer=True),
    ]
    marked_a: State | None = None
    """The moment others are compared with."""
    _speed_asked = (1.0, float("-inf"))
    """The speed asked for last, and when."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer keys of a replay in a replay, and those of a live server on one."""
        if action in REPLAY_ACTIONS:
            typing = self.focused is not None and self.focused.check_consume_key("a", "a")
            return self.replaying and not typing and isinstance(self.screen, LiveScreen)
        if action in LIVE_ACTIONS and self.replaying:
            return False
        return super().check_action(action, parameters)

    @property
    def position(self) -> ReplayPosition:
        """Where the replay is; raises UsageError when none is shown."""
        if self.state.replay is None:
            raise UsageError("this is a live server: :sessions lists recordings to replay")
        return self.state.replay

    def action_record(self) -> None:
        """Start or stop recording."""
        self.record("")

    def record(self, name: str) -> None:
        """Start recording under a name, or stop it."""
        recording = self.state.recording
        command_id = next_command_id()
        self.recording_ids.add(command_id)
        if recording is not None and recording.on:
            self.send(StopRecording(command_id))
        else:
            self.send(StartRecording(command_id, name))

    def action_note(self) -> None:
        """Write a note at this moment."""
        if isinstance(self.screen, LiveScreen):
            self.screen.command_line.open(":", "note ")

    def action_play(self) -> None:
        """Play, or hold this moment."""
        self.send(PauseReplay(0) if self.position.playing else Play(0))

    def action_poll(self, polls_count: int) -> None:
        """Go to the poll so many polls away."""
        self.send(Step(0, polls_count))

    def action_event(self, forward: bool) -> None:
        """Go to the next or the previous mark."""
        self.send(SeekMark(next_command_id(), forward))

    def action_speed(self, steps: int) -> None:
        """Replay slower or faster."""
        asked, at_s = self._speed_asked
        # Keys pressed in a row come before the replay has told of the first.
        speed = asked if monotonic() - at_s < _TOLD_WITHIN_S else self.position.speed_ratio
        if steps > 0:
            chosen = min((s for s in SPEEDS_RATIO if s > speed), default=SPEEDS_RATIO[-1])
        else:
            chosen = max((s for s in SPEEDS_RATIO if s < speed), default=SPEEDS_RATIO[0])
        self._speed_asked = (chosen, monotonic())
        self.send(SetSpeed(0, chosen))

    def action_seek(self) -> None:
        """Ask for a time, and go there."""
        if isinstance(self.screen, LiveScreen):
            self.screen.command_line.open(":", "seek ")

    def seek(self, text: str) -> None:
        """Go to a moment as people write it; raises UsageError."""
        self.send(SeekTo(next_command_id(), moment_us(text, self.position)))

    def action_compare(self) -> None:
        """Show what changed between A and the moment shown."""
        from natstui.tui.screens.compare import CompareScreen

        if self.marked_a is None:
            self.notify("mark the first moment with a, then go to the other", severity="warning")
        elif isinstance(self.screen, CompareScreen):
            self.pop_screen()
            self.push_screen(CompareScreen(self.marked_a))
        else:
            self.push_screen(CompareScreen(self.marked_a))

    @on(Replay)
    async def _replay_chosen(self, message: Replay) -> None:
        while len(self.screen_stack) > 1:
            await self.pop_screen()
        self.marked_a = None
        self._speed_asked = Replaying._speed_asked
        self.run_worker(self.replay_session(message.folder), group="replay", exclusive=True)

    @on(LeaveReplay)
    def leave_replay(self) -> None:
        """Go back to the live server, if the replay was opened from there."""
        if self.shown is not self.home:
            self.marked_a = None
            self.show_home()

    def action_mark_a(self) -> None:
        """Keep this moment, to compare others with it."""
        self.marked_a = self.state
        self.show_soon()
