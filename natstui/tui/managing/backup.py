"""A backup or a restore on the screen: what, where, how far, how it ended; it can be stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import getters
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.records.messages import Answered
from natstui.model.records.stores import (
    BackUp,
    BackupSeen,
    FileMoved,
    LookAtBackup,
    RestoreBackup,
    StopMoving,
)
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Announced, Asked, answer_to, next_command_id
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.sections import Section, SectionText, line
from natstui.tui.kit.text import safe
from natstui.units import bytes_text, counted

_seen = decoder_of(BackupSeen)
_WHILE_RUNNING = (
    ("stay", "watch it"),
    ("leave", "it goes on, and a message says how it ended"),
    ("stop", "end it; nothing of it stays"),
)


class _MovingScreen(LiveScreen):
    """Runs one command that goes on for a while."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop", "Stop", id="backup.stop"),
        Binding("f", "folder", "Folder", id="backup.folder"),
    ]
    VERB: ClassVar[str] = ""

    caption = getters.query_one("#caption", Static)
    text = getters.query_one(SectionText)

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.folder = folder
        self.moving_id = -1
        """The command that runs, or ran last."""
        self.ended: Answered | None = None
        self.told: Sequence[Section] = ()

    @property
    def goes_on(self) -> bool:
        """Tell whether it goes on."""
        return self.moving_id >= 0 and self.ended is None

    def body(self) -> Iterable[Widget]:
        """A caption line and the text."""
        yield Static(id="caption", markup=False)
        yield VerticalScroll(SectionText())

    def on_mount(self) -> None:
        """Ask for the folder, unless it is known."""
        if self.folder:
            self.begin()
        else:
            # What lies on a screen that is not drawn yet gets no keys.
            self.call_after_refresh(self.action_folder)

    def begin(self) -> None:
        """Begin with the folder that was typed."""

    def asks(self) -> tuple[str, str]:
        """Return the question for the folder, and what is offered."""
        return "", ""

    def refresh_state(self) -> None:
        """Show how far it is, or how it ended."""
        if self.moving_id < 0:
            return
        if self.ended is None:
            self.ended = answer_to(self.state, self.moving_id)
            self.refresh_bindings()
        lines = [line("folder", self.folder)]
        if self.ended is None:
            moved = self.state.moved
            own = moved if moved and moved.command_id == self.moving_id else None
            lines.append(line("so far", _moved_text(self.VERB, own), "accent"))
        else:
            look = "ok" if self.ended.status == "done" else "bad"
            lines.append(line("ended", self.ended.text, look))
        self.text.show([Section(self.VERB.upper(), tuple(lines)), *self.told])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what there is nothing for."""
        if action in ("stop", "folder"):
            return True if self.goes_on is (action == "stop") else None
        return super().check_action(action, parameters)

    def action_stop(self) -> None:
        """End it; nothing of it stays."""
        if self.goes_on:
            self.app.post_message(Asked(StopMoving(next_command_id(), self.moving_id)))

    def action_folder(self) -> None:
        """Ask for the folder, and begin."""

        def go(text: str | None) -> None:
            if text and text.strip():
                self.folder, self.ended, self.moving_id = text.strip(), None, -1
                self.begin()
            elif self.moving_id < 0 and not self.told:
                self.leave()

        question, offered = self.asks()
        self.app.push_screen(Prompt(clean_line(question), self.folder or offered), go)

    def action_back(self) -> None:
        """Leave; ask first what shall become of what runs."""

        def answered(word: str | None) -> None:
            if word == "stop":
                self.action_stop()
            elif word == "leave":
                self.leave()

        if self.goes_on:
            self.app.push_screen(Pick(f"The {self.VERB} goes on", _WHILE_RUNNING), answered)
        else:
            super().action_back()


def _moved_text(verb: str, moved: FileMoved | None) -> str:
    if moved is None:
        return "beginning …"
    what = f"{moved.what}: " if moved.what else ""
    if verb == "restore":
        return f"{what}{bytes_text(moved.moved_bytes)} of {bytes_text(moved.whole_bytes)} sent"
    # What is written is compressed: the size on the server is no measure of its end.
    whole = bytes_text(moved.whole_bytes)
    return f"{what}{bytes_text(moved.moved_bytes)} written; on the server it takes {whole}"


class BackupScreen(_MovingScreen):
    """Writes a stream, or every stream, into a folder that must not exist."""

    VERB = "backup"

    def __init__(self, stream: str, folder: str) -> None:
        """An empty name is every stream."""
        super().__init__(folder)
        self.stream = stream

    def asks(self) -> tuple[str, str]:
        """Return the question for the folder, and what is offered."""
        offered = f"{self.stream}-backup" if self.stream else "account-backup"
        return f"Back up {self._what()} into which new folder, where the engine runs?", offered

    def _what(self) -> str:
        streams = self.state.streams
        if not self.stream:
            return f"every stream ({len(streams)})"
        rows = streams.roster.rows_of_stream.get(self.stream)
        if not rows:
            return self.stream
        columns, row = streams.columns, rows[-1]
        size = bytes_text(columns.stored_bytes[row])
        return f"{self.stream} ({columns.stored_msgs[row]:,} messages, {size})"

    def begin(self) -> None:
        """Write it."""
        self.moving_id = next_command_id()
        self.caption.update(safe(f"backup of {self._what()} with its consumers"))
        command = BackUp(self.moving_id, self.stream, self.folder)
        self.app.post_message(Announced(command, f"backup of {self.stream or 'every stream'}"))
        self.refresh_bindings()
        self.refresh_state()


class RestoreScreen(_MovingScreen):
    """Says what a folder has, asks, and makes streams of it; never over one that exists."""

    VERB = "restore"

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self._looking_id = -1

    def asks(self) -> tuple[str, str]:
        """Return the question for the folder, and what is offered."""
        return "Restore which folder, where the engine runs?", ""

    def begin(self) -> None:
        """Look at the folder first."""
        self._looking_id = next_command_id()
        self.caption.update(safe(f"restore of {self.folder}  ·  reading it …"))
        self.told = ()
        self.text.show([])
        self.app.post_message(Asked(LookAtBackup(self._looking_id, self.folder)))

    def refresh_state(self) -> None:
        """Take what was found, and ask."""
        answer = answer_to(self.state, self._looking_id)
        if answer is not None:
            self._looking_id = -1
            if answer.body_json is None:
                self._refuse(answer.text)
            else:
                self._ask(_seen.decode(answer.body_json))
        super().refresh_state()

    def _ask(self, seen: BackupSeen) -> None:
        rows = tuple(line(one.stream, one.text) for one in seen.rows)
        self.folder, self.told = seen.path, [Section("IN THE BACKUP", rows)]
        self.caption.update(safe(f"restore of {counted(len(rows), 'stream')}"))
        self.text.show(self.told)
        if not seen.present:
            self._confirm(seen, "")
        elif len(seen.rows) > 1:
            there = ", ".join(seen.present)
            self._refuse(f"on the server already: {there}; nothing is restored over it")
        else:
            self._ask_name(seen)

    def _refuse(self, reason: str) -> None:
        lines = (line("folder", self.folder), line("refused", reason, "bad"))
        self.caption.update(safe("nothing is restored"))
        self.text.show([Section(self.VERB.upper(), lines), *self.told])

    def _ask_name(self, seen: BackupSeen) -> None:
        stream = seen.rows[0].stream

        def refusal(text: str) -> str:
            return f"{text.strip()} exists already" if text.strip() in ("", stream) else ""

        def go(text: str | None) -> None:
            if text is not None:
                self._confirm(seen, text.strip())

        question = f"{stream} exists, and nothing is restored over it. Under which other name?"
        prompt = Prompt(clean_line(question), f"{stream}-restored", refusal=refusal)
        self.app.push_screen(prompt, go)

    def _confirm(self, seen: BackupSeen, to_stream: str) -> None:
        name = to_stream or seen.name
        question = f"Make {counted(len(seen.rows), 'stream')} of this backup?"
        started = self.state.started
        if started is not None and started.production:
            words = clean_line(f"This is production. {question} Type {name} to do it")
            self.app.push_screen(
                Prompt(words, word=name),
                lambda text: self._restore(to_stream, text) if text is not None else None,
            )
            return
        does = "; ".join(f"{to_stream or one.stream}: {one.text}" for one in seen.rows[:3])
        words_of = (("restore", clean_line(does)), ("leave", "nothing is made"))
        self.app.push_screen(
            Pick(question, words_of),
            lambda word: self._restore(to_stream, None) if word == "restore" else None,
        )

    def _restore(self, to_stream: str, confirmed: str | None) -> None:
        self.moving_id = next_command_id()
        command = RestoreBackup(self.moving_id, self.folder, to_stream, confirmed)
        self.app.post_message(Announced(command, f"restore of {clean_line(self.folder)}"))
        self.refresh_bindings()
        self.refresh_state()
