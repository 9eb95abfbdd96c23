"""Messages between the app and its screens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from natstui.model.live.state import State
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.systems import SystemState


@dataclass
class StateChanged(Message):
    """There is a newer, complete state, so a slow screen may skip to the newest."""

    state: State
    late_us: int
    """How long before the shown moment its newest poll came."""
    a_at_us: int | None = None
    """The marked moment that the state is compared with."""
    paused: bool = False
    """Whether the user paused polling: screens pause their own requests too."""
    guide: str = ""
    """Text of the guide; empty without a guide."""
    systems: Sequence[SystemState] = ()
    """The states of several systems; empty with a single one."""
    acting: str = ""
    """The name of the acting system, whose state `state` is."""
    covers_another: bool = False
    """Whether a replay was opened from a live server, or from another recording."""

    def can_replace(self, message: Message) -> bool:
        """Replace an older state that still waits in the queue."""
        return isinstance(message, StateChanged)


class ToApp(Message):
    """A request of a screen to the app; the subclasses are the kinds.

    It is posted to the app itself: a message of a screen part, posted while the screen handles
    another message, bubbles no further than that screen.
    """

    system: str | None = None
    """The system of the request, among several; the app sets it if the screen has not."""


@dataclass
class CameIntoView(ToApp):
    """A screen came into view and requests the newest state."""


@dataclass
class Replay(ToApp):
    """The user opens a recording."""

    folder: str


@dataclass
class LeaveReplay(ToApp):
    """The user leaves a replay for what the app was opened on."""


@dataclass
class Typed(ToApp):
    """The user entered a command line, without its colon."""

    line: str


@dataclass
class RunScenario(ToApp):
    """The user starts a benchmark: the name of a ready scenario, or the text of a file."""

    scenario: str


@dataclass
class Open(ToApp):
    """The user opens a `stream`, `bucket`, `consumer`, list of `consumers` or `raw` response."""

    what: str
    stream: str
    consumer: str | None = None


@dataclass
class Manage(ToApp):
    """The user creates, changes or deletes something, or opens the journal."""

    what: str
    """`add-stream`, `edit-consumer`, `journal` … or an action of the model, as `purge_stream`.

    After a space: the sequence of a message (`messages 17`, `delete_message 17`), or the first
    field of a form (`edit-stream max_bytes`).
    """
    targets: tuple[Target, ...] = ()


@dataclass
class Export(ToApp):
    """The user exports the streams or consumers in view as files."""

    streams: tuple[str, ...]
    consumers: tuple[tuple[str, str], ...]
