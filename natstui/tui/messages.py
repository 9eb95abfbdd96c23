"""What moves between the app and its screens."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from natstui.model.record import Command
from natstui.model.recording import ChangeSession
from natstui.model.state import State


@dataclass
class StateChanged(Message):
    """There is a newer state. It is a whole, so a slow screen may skip to the newest."""

    state: State
    late_us: int
    """How long before the moment shown its newest record came; 0 within the polls' rhythm."""
    a_at_us: int | None = None
    """The moment marked to be compared with."""

    def can_replace(self, message: Message) -> bool:
        """Supersede an older state that still waits in the queue."""
        return isinstance(message, StateChanged)


@dataclass
class CameIntoView(Message):
    """A screen came into view and wants the newest state."""


@dataclass
class Replay(Message):
    """The user wants to see a recording."""

    folder: str


@dataclass
class Tend(Message):
    """The user wants something done to a recording, and to be told what came of it."""

    command: ChangeSession


@dataclass
class LeaveReplay(Message):
    """The user wants back from a replay to what the app was opened on."""


@dataclass
class Asked(Message):
    """A screen asks the engine for something."""

    command: Command


@dataclass
class Typed(Message):
    """The user entered a command line, without its colon."""

    line: str


@dataclass
class RunScenario(Message):
    """The user wants a benchmark: the name of a ready scenario, or the text of a file."""

    scenario: str


@dataclass
class Open(Message):
    """The user wants to see something: `stream`, `consumer`, `consumers` or `raw`."""

    what: str
    stream: str
    consumer: str | None = None


@dataclass
class Manage(Message):
    """The user wants to make, change or remove something, or to see the journal."""

    what: str
    """`add-stream`, `edit-consumer`, `journal` … or an action of the model, as `purge_stream`."""
    targets: tuple[tuple[str, str | None], ...] = ()


@dataclass
class Export(Message):
    """Somebody wants the streams or consumers in view as files."""

    streams: tuple[str, ...]
    consumers: tuple[tuple[str, str], ...]
