"""Messages between the app and its screens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from textual.message import Message

from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.systems import SystemState


@dataclass
class StateChanged(Message):
    """The newest complete state for a screen; it replaces older states in the screen's queue."""

    acting: SystemState
    """The system on which keys of the screen in view act, with the newest complete state of it or
    of a replay.
    """
    mark_a_at_us: int | None = None
    """Time of the state marked as A, in µs; None if no state is marked."""
    paused: bool = False
    """Whether the user paused polling: screens then pause their own requests too."""
    guide: str = ""
    """Text of the guide; empty without a guide."""
    systems: Mapping[str, SystemState] = field(default_factory=dict)
    """The states of several systems by name; empty with a single one, or a recording."""
    can_leave_replay: bool = False
    """Whether a replay is shown that was opened in this viewer and can be left."""

    def can_replace(self, message: Message) -> bool:
        """Return True if `message`, which waits in the queue, is an older state: this one replaces
        it.
        """
        return isinstance(message, StateChanged)


class AppRequest(Message):
    """A request of a screen to the app, posted to the app itself.

    A message that a screen part posts while the screen handles another message would not bubble
    beyond the screen.
    """

    system: str | None = None
    """The name of the system of the request; None until the app sets the acting system."""


@dataclass
class ScreenShown(AppRequest):
    """A screen came into view and requests the newest state."""


@dataclass
class Replay(AppRequest):
    """The user opens a recording."""

    folder: str


@dataclass
class LeaveReplay(AppRequest):
    """The user leaves a replay and returns to the systems that the app was opened on."""


@dataclass
class EnteredCommand(AppRequest):
    """The user entered a command line, without its colon."""

    line: str


@dataclass
class RunScenario(AppRequest):
    """The user starts a benchmark: `scenario` is the name of a built-in one or a TOML text."""

    scenario: str


@dataclass
class Open(AppRequest):
    """The user opens a `stream`, `bucket`, `consumer`, list of `consumers` or `raw` response."""

    screen_command: str
    stream: str
    consumer: str | None = None


@dataclass
class Manage(AppRequest):
    """The user opens a form, a confirmation, the journal or a screen that reads messages."""

    screen_command: str
    """`add-stream`, `edit-consumer`, `journal` … or an action of the model, as `purge_stream`.

    After a space: the sequence of a message (`messages 17`, `delete_message 17`), or the first
    field of a form (`edit-stream max_bytes`).
    """
    targets: tuple[Target, ...] = ()


@dataclass
class Export(AppRequest):
    """The user exports these streams or consumers, marked or in view, as files."""

    streams: tuple[str, ...]
    consumers: tuple[tuple[str, str], ...]
