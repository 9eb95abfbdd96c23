"""The screen of the recordings: replay, analyse, rename, note, pack and delete."""

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
    deleted_session_text,
)
from natstui.tui.frame.columns import ColumnSpec, ItemsView, SortAndFilter
from natstui.tui.frame.live import CommandPrompt, ScreenPart, prompt_command
from natstui.tui.frame.messages import EnteredCommand, Replay
from natstui.tui.frame.requests import run_task, show_reply
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.pick import PickDialog
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.table.view import RowSelected
from natstui.units import bytes_text, count_text, duration_text, local_text

_STYLE_BY_STATUS = {"recording": "bad", "complete": "ok", "cut off": "warn", "damaged": "bad"}


class SessionView(ItemsView[SessionSummary]):
    """A view of the recordings in the library."""

    def __init__(self, sessions: Sequence[SessionSummary]) -> None:
        texts = [f"{session.id} {session.name} {session.server}" for session in sessions]
        super().__init__(sessions, [(session.folder, session.id) for session in sessions], texts)

    def has_problem(self, row: int) -> bool:
        """Return whether the recording is damaged, was cut off or has gaps."""
        session = self.items[row]
        return bool(
            session.problem or session.gaps_count or session.status in ("cut off", "damaged")
        )


def _start_time(view: SessionView, row: int) -> Cell:
    """Local time at which the recording started."""
    session = view.items[row]
    start_text = local_text(session.started_at_us, "%Y-%m-%d %H:%M:%S")
    return Cell(start_text if session.started_at_us else clean_line(session.id), "dim")


def _name(view: SessionView, row: int) -> Cell:
    """Name of the session, else that of its folder."""
    session = view.items[row]
    return Cell(clean_line(session.name or session.id), "strong")


def _recorded_server(view: SessionView, row: int) -> Cell:
    """Recorded server, or the reason why the session cannot be read."""
    session = view.items[row]
    return (
        Cell(clean_line(session.problem), "bad")
        if session.problem
        else Cell(clean_line(session.server))
    )


def _duration(view: SessionView, row: int) -> Cell:
    """Time from the first to the last record."""
    session = view.items[row]
    return Cell(duration_text((session.ended_at_us - session.started_at_us) / 1e6))


def _size(view: SessionView, row: int) -> Cell:
    """Bytes on disk."""
    return Cell(bytes_text(view.items[row].size_bytes))


def _streams_count(view: SessionView, row: int) -> Cell:
    """Number of streams near the end of the session."""
    return Cell(count_text(view.items[row].streams_count))


def _consumers_count(view: SessionView, row: int) -> Cell:
    """Number of consumers near the end of the session."""
    return Cell(count_text(view.items[row].consumers_count))


def _benchmarks_count(view: SessionView, row: int) -> Cell:
    """Number of benchmarks that ran during the session."""
    return Cell(count_text(view.items[row].benchmarks_count))


def _gaps_count(view: SessionView, row: int) -> Cell:
    """Number of gaps: records that could not be written, or were deleted because of a limit."""
    count = view.items[row].gaps_count
    return Cell(count_text(count), "warn" if count else "dim")


def _status(view: SessionView, row: int) -> Cell:
    """Still recorded, complete, cut off because its recorder was killed, or damaged."""
    status = view.items[row].status
    return Cell(status, _STYLE_BY_STATUS.get(status, "bad"))


def _notes(view: SessionView, row: int) -> Cell:
    """Notes about the complete recording."""
    return Cell(clean_line(" · ".join(view.items[row].notes)), "dim")


_sort_by = SessionView.sort_by
_text_column: Callable[..., ColumnSpec[SessionView]] = partial(
    ColumnSpec, align="left", descends=False
)
_number_column: Callable[..., ColumnSpec[SessionView]] = ColumnSpec

SESSION_COLUMNS: tuple[ColumnSpec[SessionView], ...] = (
    _text_column(
        "begun", "BEGUN", 19, 0, _start_time, _sort_by(lambda session: session.started_at_us)
    ),
    _text_column("name", "NAME", 14, 1, _name, _sort_by(lambda session: session.name), flex=3),
    _text_column(
        "server",
        "SERVER",
        8,
        5,
        _recorded_server,
        _sort_by(lambda session: session.server),
        flex=1,
    ),
    _number_column(
        "span",
        "SPAN",
        7,
        2,
        _duration,
        _sort_by(lambda session: session.ended_at_us - session.started_at_us),
    ),
    _number_column("size", "SIZE", 9, 3, _size, _sort_by(lambda session: session.size_bytes)),
    _number_column(
        "streams", "STREAMS", 7, 6, _streams_count, _sort_by(lambda session: session.streams_count)
    ),
    _number_column(
        "consumers",
        "CONS",
        6,
        7,
        _consumers_count,
        _sort_by(lambda session: session.consumers_count),
    ),
    _number_column(
        "benchmarks",
        "BENCH",
        5,
        9,
        _benchmarks_count,
        _sort_by(lambda session: session.benchmarks_count),
    ),
    _number_column(
        "gaps", "GAPS", 5, 8, _gaps_count, _sort_by(lambda session: session.gaps_count)
    ),
    _text_column(
        "notes", "NOTES", 12, 10, _notes, _sort_by(lambda session: session.notes), flex=2
    ),
    _text_column("status", "STATUS", 9, 4, _status, _sort_by(lambda session: session.status)),
)


_decoder = decoder_of(tuple[SessionSummary, ...])


_TITLE = "recordings"

PACK_OPTIONS = {
    "as it is": "with all recorded names and texts",
    "redacted": "with pseudonyms instead of names, and without texts",
}
"""The options to pack a recording, with their explanations."""


def session_title(session: SessionSummary) -> str:
    """Return the name of a recording, else its folder."""
    return clean_line(session.name or session.id)


def text_to_type(session: SessionSummary) -> str:
    """Return the text to type before a recording is deleted: its name if it can be typed, else
    `delete`.
    """
    is_typable = (
        session.name.isascii()
        and session.name.isprintable()
        and session.name == session.name.strip()
    )
    return session.name if session.name and is_typable else "delete"


def delete_text(session: SessionSummary) -> str:
    """Return the text of the prompt before a recording is deleted."""
    sentence = f"Delete {deleted_session_text(session)}? This cannot be undone."
    return f"{sentence} To confirm, type {text_to_type(session)}"


def prompt_texts(action: SessionAction, session: SessionSummary) -> tuple[str, str]:
    """Return the title of an action's prompt, and the text to start with."""
    if action == "rename":
        return f"New name of {session_title(session)}:", session.name
    if action == "note":
        return f"Note about the complete recording {session_title(session)}:", ""
    name = "redacted" if action == "pack redacted" else session.id
    return f"Pack {session_title(session)} into this new file:", f"~/{name}.natstui"


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
        """Create the keys of a screen; `get_session` returns the recording under the cursor, None
        without one.

        `on_change` is called when the list may have changed.
        """
        self._screen, self._get_session, self._on_change = screen, get_session, on_change

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return whether the actions are offered: with a recording under the cursor."""
        return self._screen.has_row

    def action_change(self, action: SessionAction) -> None:
        """Prompt for the text of a change, and request it."""
        if session := self._get_session():
            self._prompt_change(action, session)

    def _prompt_change(self, action: SessionAction, session: SessionSummary) -> None:
        def show(_reply: Answered) -> None:
            self._on_change()

        title, text = prompt_texts(action, session)
        command = partial(_build_change, action, session)
        prompt_command(
            self._screen,
            CommandPrompt(title, command, _TITLE, text=text, show=show, changes_host=True),
        )

    def action_pack(self) -> None:
        """Prompt how to pack a recording into one file, and pack it."""
        if session := self._get_session():
            run_task(self._screen, self._prompt_and_pack, session)

    async def _prompt_and_pack(self, session: SessionSummary) -> None:
        self._screen.engine.check_host_change()
        pick = PickDialog(f"Pack {session_title(session)}", list(PACK_OPTIONS.items()))
        packing_kind = await self._screen.app.push_screen_wait(pick)
        if packing_kind is not None:
            self._prompt_change("pack redacted" if packing_kind == "redacted" else "pack", session)

    def action_delete(self) -> None:
        """Delete a recording, after a prompt for its name."""
        if session := self._get_session():
            run_task(self._screen, self._prompt_and_delete, session)

    async def _prompt_and_delete(self, session: SessionSummary) -> None:
        self._screen.engine.check_host_change()
        prompt = Prompt(delete_text(session), text_to_type=text_to_type(session))
        typed_name = await self._screen.app.push_screen_wait(prompt)
        if typed_name is not None and (command := _build_change("delete", session, typed_name)):
            show_reply(self._screen.app, await self._screen.engine.change(command, _TITLE), _TITLE)
            self._on_change()


def _build_change(
    action: SessionAction, session: SessionSummary, text: str
) -> ChangeSession | None:
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
    DEFAULT_ORDER = SortAndFilter("begun", reverse=True)
    ROW_ACTIONS: ClassVar[frozenset[str]] = frozenset({"analyse"})

    def __init__(self) -> None:
        super().__init__()
        self._sessions: tuple[SessionSummary, ...] | None = None
        """The recordings; None before the first reply."""
        self._error_text = ""
        """The error of the last read; empty after a success."""
        self.changing = RecordingChanges(self, self._get_session, self.action_ask)

    def on_mount(self) -> None:
        """Request the list of recordings."""
        self.action_ask()

    def action_ask(self) -> None:
        """Request the list of recordings again."""
        run_task(self, self._read_recordings, replaces="list")

    async def _read_recordings(self) -> None:
        reply = await self.engine.request(ListSessions(0))
        if reply.body_json is None:
            self._error_text = clean_line(reply.text)
        else:
            self._error_text, self._sessions = "", _decoder.decode(reply.body_json)
        self.refresh_state()

    def view(self) -> SessionView:
        """Return a view of the recordings of the last reply."""
        return SessionView(self._sessions or ())

    def empty_text(self, total: int) -> str:
        """Return the text that explains an empty table."""
        if self._sessions is None:
            return self._error_text or "searching recordings …"
        if total:
            return super().empty_text(total)
        key = key_of(self, "record")
        return f"no recordings: {key} records what you see" if key else "no recordings"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption, with the effect of enter on a recording."""
        text = "  ·  ".join(filter(None, (super().caption_text(shown, total), self._error_text)))
        return f"{text}  ·  enter replays one" if shown else text

    def action_analyse(self) -> None:
        """Open the analysis of the recording under the cursor."""
        if session := self._get_session():
            self.app.post_message(EnteredCommand(f"analyze {session.id}"))

    @on(RowSelected)
    def _replay(self) -> None:
        if isinstance(key := self.table.cursor_key, tuple):
            self.app.post_message(Replay(str(key[0])))

    def _get_session(self) -> SessionSummary | None:
        """Return the recording under the cursor; in an empty list show a toast and return None."""
        key = self.table.cursor_key
        folder = key[0] if isinstance(key, tuple) else None
        session = next(
            (session for session in self._sessions or () if session.folder == folder), None
        )
        if session is None:
            self.notify("there is no recording under the cursor", severity="warning", timeout=2)
        return session
