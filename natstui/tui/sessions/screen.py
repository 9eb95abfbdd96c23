"""Every recording; enter replays one, and keys analyse, rename, note, pack and delete it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.records.messages import Answered
from natstui.model.records.recording import (
    ChangeSession,
    ListSessions,
    SessionAction,
    SessionSummary,
    what_goes,
)
from natstui.tui.frame.columns import ColumnSpec, Listed, Order
from natstui.tui.frame.live import Question, ScreenPart, ask
from natstui.tui.frame.messages import Replay, Typed
from natstui.tui.frame.requests import run_task, show_reply
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import RowSelected
from natstui.units import bytes_text, count_text, duration_text, local_text

_LOOKS = {"recording": "bad", "complete": "ok", "cut off": "warn", "damaged": "bad"}


class SessionView(Listed[SessionSummary]):
    """Recordings, by row."""

    def __init__(self, sessions: Sequence[SessionSummary]) -> None:
        texts = [f"{session.id} {session.name} {session.server}" for session in sessions]
        super().__init__(sessions, [(session.folder, session.id) for session in sessions], texts)

    def has_problem(self, row: int) -> bool:
        """Return whether something is missing in it."""
        session = self.things[row]
        return bool(
            session.problem or session.gaps_count or session.status in ("cut off", "damaged")
        )


def _begun(view: SessionView, row: int) -> Cell:
    """When it began, local time."""
    session = view.things[row]
    start_text = local_text(session.started_at_us, "%Y-%m-%d %H:%M:%S")
    return Cell(start_text if session.started_at_us else clean_line(session.id), "dim")


def _name(view: SessionView, row: int) -> Cell:
    """Its name, given by people; else its folder."""
    session = view.things[row]
    return Cell(clean_line(session.name or session.id), "strong")


def _server(view: SessionView, row: int) -> Cell:
    """The server recorded; or why it cannot be read."""
    session = view.things[row]
    return (
        Cell(clean_line(session.problem), "bad")
        if session.problem
        else Cell(clean_line(session.server))
    )


def _span(view: SessionView, row: int) -> Cell:
    """From the first to the last record."""
    session = view.things[row]
    return Cell(duration_text((session.ended_at_us - session.started_at_us) / 1e6))


def _size(view: SessionView, row: int) -> Cell:
    """Bytes on disk."""
    return Cell(bytes_text(view.things[row].size_bytes))


def _streams(view: SessionView, row: int) -> Cell:
    """Streams known near the end."""
    return Cell(count_text(view.things[row].streams_count))


def _consumers(view: SessionView, row: int) -> Cell:
    """Consumers known near the end."""
    return Cell(count_text(view.things[row].consumers_count))


def _benchmarks(view: SessionView, row: int) -> Cell:
    """Benchmarks that ran meanwhile."""
    return Cell(count_text(view.things[row].benchmarks_count))


def _gaps(view: SessionView, row: int) -> Cell:
    """Times something could not be recorded, or was deleted to keep within a limit."""
    count = view.things[row].gaps_count
    return Cell(count_text(count), "warn" if count else "dim")


def _status(view: SessionView, row: int) -> Cell:
    """Still recorded, complete, cut off because its recorder was killed, or damaged."""
    status = view.things[row].status
    return Cell(status, _LOOKS.get(status, "bad"))


def _notes(view: SessionView, row: int) -> Cell:
    """What people wrote about the whole of it."""
    return Cell(clean_line(" · ".join(view.things[row].notes)), "dim")


_by = SessionView.by
_words: Callable[..., ColumnSpec[SessionView]] = partial(ColumnSpec, align="left", descends=False)
_number: Callable[..., ColumnSpec[SessionView]] = ColumnSpec

SESSION_COLUMNS: tuple[ColumnSpec[SessionView], ...] = (
    _words("begun", "BEGUN", 19, 0, _begun, _by(lambda session: session.started_at_us)),
    _words("name", "NAME", 14, 1, _name, _by(lambda session: session.name), flex=3),
    _words("server", "SERVER", 8, 5, _server, _by(lambda session: session.server), flex=1),
    _number(
        "span",
        "SPAN",
        7,
        2,
        _span,
        _by(lambda session: session.ended_at_us - session.started_at_us),
    ),
    _number("size", "SIZE", 9, 3, _size, _by(lambda session: session.size_bytes)),
    _number("streams", "STREAMS", 7, 6, _streams, _by(lambda session: session.streams_count)),
    _number("consumers", "CONS", 6, 7, _consumers, _by(lambda session: session.consumers_count)),
    _number(
        "benchmarks", "BENCH", 5, 9, _benchmarks, _by(lambda session: session.benchmarks_count)
    ),
    _number("gaps", "GAPS", 5, 8, _gaps, _by(lambda session: session.gaps_count)),
    _words("notes", "NOTES", 12, 10, _notes, _by(lambda session: session.notes), flex=2),
    _words("status", "STATUS", 9, 4, _status, _by(lambda session: session.status)),
)


_decoder = decoder_of(tuple[SessionSummary, ...])


_TITLE = "recordings"

PACKS = {
    "as it is": "with all recorded names and texts",
    "redacted": "with pseudonyms instead of names, and without texts",
}
"""How a recording can be packed, by the option to pick."""


def title(session: SessionSummary) -> str:
    """Return the name of a recording, else its folder."""
    return clean_line(session.name or session.id)


def word_to_type(session: SessionSummary) -> str:
    """Return the text to type before it is deleted: its name, if it has one."""
    typable = (
        session.name.isascii()
        and session.name.isprintable()
        and session.name == session.name.strip()
    )
    return session.name if session.name and typable else "delete"


def delete_text(session: SessionSummary) -> str:
    """Return the question before it is deleted."""
    question = f"Delete {what_goes(session)}? This cannot be undone."
    return f"{question} To confirm, type {word_to_type(session)}"


def asked_text(action: SessionAction, session: SessionSummary) -> tuple[str, str]:
    """Return the title of an action's prompt, and its start text."""
    if action == "rename":
        return f"New name of {title(session)}:", session.name
    if action == "note":
        return f"Note about the whole recording {title(session)}:", ""
    name = "redacted" if action == "pack redacted" else session.id
    return f"Pack {title(session)} into this new file:", f"~/{name}.natstui"


class RecordingChanges(ScreenPart):
    """Prompts for the texts of a change, and requests it from the engine."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "part('changing', 'change', 'rename')", "Rename", id="sessions.rename"),
        Binding("n", "part('changing', 'change', 'note')", "Note", id="sessions.note"),
        Binding("w", "part('changing', 'pack')", "Pack", id="sessions.pack"),
        Binding("ctrl+d", "part('changing', 'delete')", "Delete", id="sessions.delete"),
    ]

    def __init__(
        self,
        screen: TableScreen,
        get_session: Callable[[], SessionSummary | None],
        on_change: Callable[[], None],
    ) -> None:
        """Create for a screen; `get_session` returns the recording under the cursor, or shows
        there is none.

        `on_change` is called when the list may have changed.
        """
        self._screen, self._chosen, self._changed = screen, get_session, on_change

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether the actions are offered: with a recording."""
        return self._screen.has_row

    def action_change(self, action: SessionAction) -> None:
        """Prompt for the text of a change, and request it."""
        if session := self._chosen():
            self._ask_change(action, session)

    def _ask_change(self, action: SessionAction, session: SessionSummary) -> None:
        def show(_reply: Answered) -> None:
            self._changed()

        title, text = asked_text(action, session)
        command = partial(_change_of, action, session)
        ask(
            self._screen,
            Question(title, command, _TITLE, text=text, show=show, changes_host=True),
        )

    def action_pack(self) -> None:
        """Pack a recording into one file, to send to somebody."""
        if session := self._chosen():
            run_task(self._screen, self._pack, session)

    async def _pack(self, session: SessionSummary) -> None:
        self._screen.engine.check_host_change()
        pick = Pick(f"Pack {title(session)}", list(PACKS.items()))
        packing = await self._screen.app.push_screen_wait(pick)
        if packing is not None:
            self._ask_change("pack redacted" if packing == "redacted" else "pack", session)

    def action_delete(self) -> None:
        """Delete a recording, after a prompt for its name."""
        if session := self._chosen():
            run_task(self._screen, self._delete, session)

    async def _delete(self, session: SessionSummary) -> None:
        self._screen.engine.check_host_change()
        prompt = Prompt(delete_text(session), word_to_type=word_to_type(session))
        typed_name = await self._screen.app.push_screen_wait(prompt)
        if typed_name is not None and (command := _change_of("delete", session, typed_name)):
            show_reply(self._screen.app, await self._screen.engine.change(command, _TITLE), _TITLE)
            self._changed()


def _change_of(action: SessionAction, session: SessionSummary, text: str) -> ChangeSession | None:
    return ChangeSession(0, action, session.folder, text) if text.strip() else None


class SessionsScreen(TableScreen):
    """The library of recordings, the newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="sessions.refresh"),
        Binding("A", "analyse", "Analyse", id="sessions.analyse"),
        *RecordingChanges.BINDINGS,
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = SESSION_COLUMNS
    NOUN = "sessions"
    START = Order("begun", reverse=True)
    OF_A_ROW: ClassVar[frozenset[str]] = frozenset({"analyse"})

    def __init__(self) -> None:
        super().__init__()
        self._found: tuple[SessionSummary, ...] | None = None
        """None before the first list."""
        self._problem = ""
        """Why the list could not be read again."""
        self.changing = RecordingChanges(self, self._chosen, self.action_ask)

    def on_mount(self) -> None:
        """Request the list."""
        self.action_ask()

    def action_ask(self) -> None:
        """Request the list again."""
        run_task(self, self._list, replaces="list")

    async def _list(self) -> None:
        reply = await self.engine.request(ListSessions(0))
        if reply.body_json is None:
            self._problem = clean_line(reply.text)
        else:
            self._problem, self._found = "", _decoder.decode(reply.body_json)
        self.refresh_state()

    def view(self) -> SessionView:
        """Return the recordings that are known so far."""
        return SessionView(self._found or ())

    def empty_text(self, total: int) -> str:
        """Return that the list is still loading, empty, or could not be read."""
        if self._found is None:
            return self._problem or "looking for recordings …"
        if total:
            return super().empty_text(total)
        key = key_of(self, "record")
        return f"no recordings: {key} records what you see" if key else "no recordings"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption, with the effect of enter on a recording."""
        text = "  ·  ".join(filter(None, (super().caption_text(shown, total), self._problem)))
        return f"{text}  ·  enter replays one" if shown else text

    def action_analyse(self) -> None:
        """Open the analysis of the recording under the cursor."""
        if session := self._chosen():
            self.app.post_message(Typed(f"analyze {session.id}"))

    @on(RowSelected)
    def _replay(self) -> None:
        if isinstance(key := self.table.cursor_key, tuple):
            self.app.post_message(Replay(str(key[0])))

    def _chosen(self) -> SessionSummary | None:
        """Return the recording under the cursor."""
        key = self.table.cursor_key
        folder = key[0] if isinstance(key, tuple) else None
        session = next(
            (session for session in self._found or () if session.folder == folder), None
        )
        if session is None:
            self.notify("there is no recording under the cursor", severity="warning", timeout=2)
        return session
