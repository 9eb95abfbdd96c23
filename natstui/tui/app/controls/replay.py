"""The keys of a replay: they exist only while a recording is shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType

from natstui.errors import UsageError
from natstui.model.live.state import State
from natstui.model.records.recording import (
    ChangeSpeed,
    PauseReplay,
    Play,
    ReplayPosition,
    SeekMark,
    SeekTo,
    Step,
)
from natstui.tui.app.controls.part import AppPart
from natstui.tui.app.engines import Engines
from natstui.tui.app.screens import close_upper_screens, describe_running_work, open_mode
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.timeline import REPLAY_KEYS, ReplayKey
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.pick import PickDialog
from natstui.units import parse_duration_ns


def _binding(replay_key: ReplayKey) -> Binding:
    """Return the binding of a replay key, with priority over the keys of the screen."""
    part_action = f"part('replay', {replay_key.action})"
    return Binding(
        replay_key.key,
        part_action,
        replay_key.label,
        key_display=replay_key.key_text,
        show=replay_key.is_in_footer,
        priority=True,
        id=f"replay.{replay_key.name}",
    )


class ReplayControls(AppPart):
    """Moves through a recording, and compares two of its moments."""

    BINDINGS: ClassVar[list[BindingType]] = [_binding(replay_key) for replay_key in REPLAY_KEYS]

    def __init__(self, app: App[int], engines: Engines) -> None:
        self._app = app
        self._engines = engines
        self.marked_state: State | None = None
        """The marked state A, to compare others with."""

    def is_offered(self, action: str, *, is_typing: bool) -> bool:
        """Return whether a key is offered: in a replay, unless letters are text in the focused
        widget.
        """
        focused_widget = self._app.focused
        is_editor = focused_widget is not None and focused_widget.check_consume_key("a", "a")
        return (
            self._engines.is_replaying
            and not is_editor
            and isinstance(self._app.screen, LiveScreen)
        )

    @property
    def position(self) -> ReplayPosition:
        """Return the position in the recording; raises UsageError without a replay."""
        position = self._engines.state.replay
        if position is None:
            raise UsageError("this is a live server: :sessions lists recordings to replay")
        return position

    def open_recording(self, folder: str) -> None:
        """Replay the recording in a folder, starting on the overview."""
        self._engines.replay_session(folder, self._prepare_overview)

    async def _prepare_overview(self) -> bool:
        """Open the overview; returns False if an open screen has typed text, or if running work
        would end with the shown replay and the user stays in it.
        """
        running_work_texts = self.describe_running_work()
        if running_work_texts and not await self._confirm_end(running_work_texts):
            return False
        if not await close_upper_screens(self._app):
            return False
        self.marked_state = None
        # What was in view, as the result of a load, may be nothing that was recorded.
        await open_mode(self._app, "overview")
        return True

    def describe_running_work(self) -> list[str]:
        """Return descriptions of the running work that would end with a replay that was opened in
        this app.
        """
        if not self._engines.has_opened_replay:
            return []
        follower = self._engines.shown_follower
        commands = follower.link.pending_commands
        return describe_running_work(follower.state, commands, includes_recording=False)

    def close_opened_replay(self, on_closed: Callable[[], object] = lambda: None) -> None:
        """Close a replay that was opened in this app, after a prompt if running work would end;
        then `on_closed` is called. Without such a replay, nothing is done.
        """
        if running_work_texts := self.describe_running_work():
            run_task(self._app, self._close_after_prompt, running_work_texts, on_closed)
        else:
            self._close_opened_replay(on_closed)

    async def _close_after_prompt(
        self, running_work_texts: list[str], on_closed: Callable[[], object]
    ) -> None:
        if await self._confirm_end(running_work_texts):
            self._close_opened_replay(on_closed)

    async def _confirm_end(self, running_work_texts: list[str]) -> bool:
        """Prompt whether the replay should end although work is running; return the decision."""
        title = " and ".join(dict.fromkeys(running_work_texts))
        options = (("stay", "stay in this replay"), ("leave", "running work ends now"))
        return await self._app.push_screen_wait(PickDialog(title, options)) == "leave"

    def _close_opened_replay(self, on_closed: Callable[[], object]) -> None:
        # The replay may have ended while the prompt was open.
        if self._engines.has_opened_replay:
            self.marked_state = None
            self._engines.leave_replay()
            on_closed()

    def seek(self, text: str) -> None:
        """Seek to a typed time such as `+30s`; raises UsageError if the time is not valid."""
        self._engines.send(SeekTo(0, moment_us(text, self.position)))

    def action_play(self) -> None:
        """Play or pause the recording."""
        self._engines.send(PauseReplay(0) if self.position.playing else Play(0))

    def action_step(self, polls_count: int) -> None:
        """Move the replay by `polls_count` polls, backwards if negative."""
        self._engines.send(Step(0, polls_count))

    def action_event(self, is_forward: bool) -> None:
        """Seek to the next mark on the timeline (an advisory, a note, a gap, …), or to the
        previous one unless `is_forward`.
        """
        self._engines.send(SeekMark(0, is_forward))

    def action_speed(self, speeds_count: int) -> None:
        """Change the speed by `speeds_count` steps, slower if negative."""
        self._engines.send(ChangeSpeed(0, speeds_count))

    def action_seek(self) -> None:
        """Prompt for a time, and seek to it."""
        if isinstance(self._app.screen, LiveScreen):
            self._app.screen.command_line.open(":", "seek ")

    def action_mark_a(self) -> None:
        """Mark the current state as A, to compare others with it."""
        self.marked_state = self._engines.state
        self._engines.show_state_soon()

    def action_compare(self) -> None:
        """Show the differences between the marked state A and the current state."""
        from natstui.tui.sessions.compare import CompareScreen

        if self.marked_state is None:
            key = key_of(self._app.screen, "replay.mark")
            text = f"mark the first moment with {key}, then go to the second one"
            self._app.notify(text, severity="warning")
            return
        if isinstance(self._app.screen, CompareScreen):
            self._app.screen.dismiss()
        self._app.push_screen(CompareScreen(self.marked_state))


_TIME_OF_DAY_PATTERN = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d(?:\.\d{1,6})?))?")
_TIME_FORMAT_HELP = "write a time as 14:30, 14:30:05, 2026-11-20T14:30:05, or a step as +30s, -5m"


def moment_us(text: str, replay: ReplayPosition, zone: tzinfo | None = None) -> int:
    """Return the moment of a typed text in Unix µs; raises UsageError for a text that is no time.

    A text without a time zone is a time in `zone`, by default the local one. A time of day is
    the one nearest to the current moment that is within the recording.
    """
    text = text.strip()
    if text[:1] in ("+", "-"):
        return _relative_moment_us(text, replay)
    try:
        if match := _TIME_OF_DAY_PATTERN.fullmatch(text):
            return _time_of_day_us(match, replay, zone)
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else _with_zone(moment, zone)
    except (ValueError, OverflowError) as error:
        # Also what a calendar holds and a time zone moves out of it.
        raise UsageError(f"{text!r} is no time: {_TIME_FORMAT_HELP}") from error
    return round(moment.timestamp() * 1e6)


def _relative_moment_us(text: str, replay: ReplayPosition) -> int:
    try:
        distance_us = parse_duration_ns(text[1:].strip()) // 1000
    except ValueError as error:
        raise UsageError(f"{text!r} is no distance: {_TIME_FORMAT_HELP}") from error
    return replay.at_us + (distance_us if text[0] == "+" else -distance_us)


def _time_of_day_us(match: re.Match[str], replay: ReplayPosition, zone: tzinfo | None) -> int:
    hour, minute, second = int(match[1]), int(match[2]), float(match[3] or 0)
    if hour > 23 or minute > 59 or second >= 60:
        raise UsageError(f"{match[0]!r} is not a time of day: {_TIME_FORMAT_HELP}")
    current_time = datetime.fromtimestamp(replay.at_us / 1e6, UTC).astimezone(zone)
    midnight = datetime(current_time.year, current_time.month, current_time.day)
    time_since_midnight = timedelta(hours=hour, minutes=minute, seconds=second)
    moments_us = [
        round(
            _with_zone(
                midnight + timedelta(days=day_offset) + time_since_midnight, zone
            ).timestamp()
            * 1e6
        )
        for day_offset in (0, -1, 1)
    ]
    candidates_us = [
        at_us for at_us in moments_us if replay.start_at_us <= at_us <= replay.end_at_us
    ]
    return min(candidates_us or moments_us[:1], key=lambda at_us: abs(at_us - replay.at_us))


def _with_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    return moment.replace(tzinfo=zone) if zone is not None else moment.astimezone()
