"""What moves between the app and its screens: typed messages, command ids and their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.message import Message

from natstui.model.live.state import State
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command
from natstui.tui.frame.action_keys import Target
from natstui.tui.frame.requests import next_command_id as next_command_id
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
class Announced(ToApp):
    """A screen asks the engine for something whose answer reaches the user wherever he is then."""

    command: Command
    title: str | None
    """Of the toast with the answer; None: the screen shows the answer itself."""
    refused: Callable[[str], None] | None = None
    """Gets the reason why it cannot be done; without it, a toast does."""


@dataclass
class LeaveReplay(ToApp):
    """The user wants back from a replay to what the app was opened on."""


@dataclass
class Asked(ToApp):
    """A screen asks the engine for something."""

    command: Command


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


def answer_to(state: State, command_id: int) -> Answered | None:
    """Return the answer to a command, None while it has not come."""
    return next((one for one in reversed(state.answers) if one.command_id == command_id), None)
