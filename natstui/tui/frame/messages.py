"""What moves between the app and its screens: typed messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.message import Message

from natstui.model.live.state import State
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.systems import SystemState


@dataclass
class StateChanged(Message):
    """There is a newer state. It is a whole, so a slow screen may skip to the newest."""

    state: State
    late_us: int
    """How long before the moment shown its newest poll came."""
    a_at_us: int | None = None
    """The moment marked to be compared with."""
    paused: bool = False
    """The user stopped polling: what a screen asks for itself rests too."""
    guide: str = ""
    """What the guide says; empty where nobody wants one."""
    systems: Sequence[SystemState] = ()
    """Each of several systems; none where there is one."""
    acting: str = ""
    """The name of the one that `state` is of."""
    covers_another: bool = False
    """It is a replay that was opened from a live server, or from another recording."""

    def can_replace(self, message: Message) -> bool:
        """Supersede an older state that still waits in the queue."""
        return isinstance(message, StateChanged)


class ToApp(Message):
    """A screen wants something of the app: each kind of it below.

    It is posted to the app itself: what a part of a screen posts, while the screen handles another
    message, bubbles no further than that screen.
    """

    system: str | None = None
    """Which of several it is asked of: the app sets it, where the screen in view has not."""


@dataclass
class CameIntoView(ToApp):
    """A screen came into view and wants the newest state."""


@dataclass
class Replay(ToApp):
    """The user wants to see a recording."""

    folder: str


@dataclass
class LeaveReplay(ToApp):
    """The user wants back from a replay to what the app was opened on."""


@dataclass
class Typed(ToApp):
    """The user entered a command line, without its colon."""

    line: str


@dataclass
class RunScenario(ToApp):
    """The user wants a benchmark: the name of a ready scenario, or the text of a file."""

    scenario: str


@dataclass
class Open(ToApp):
    """The user wants to see something: `stream`, `bucket`, `consumer`, `consumers` or `raw`."""

    what: str
    stream: str
    consumer: str | None = None


@dataclass
class Manage(ToApp):
    """The user wants to make, change or remove something, or to see the journal."""

    what: str
    """`add-stream`, `edit-consumer`, `journal` … or an action of the model, as `purge_stream`.

    Behind a space: the sequence of a message (`messages 17`, `delete_message 17`), or the field
    where a form begins (`edit-stream max_bytes`).
    """
    targets: tuple[Target, ...] = ()


@dataclass
class Export(ToApp):
    """The user wants the streams or consumers in view as files."""

    streams: tuple[str, ...]
    consumers: tuple[tuple[str, str], ...]
