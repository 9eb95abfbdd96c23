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
from natstui.tui.frame.live import Question, ask
from natstui.tui.frame.messages import Replay, Typed
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.screen_part import ScreenPart
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

    def __init__(self, found: Sequence[SessionSummary]) -> None:
        texts = [f"{it.id} {it.name} {it.server}" for it in found]
        super().__init__(found, [(it.folder, it.id) for it in found], texts)

    def problem(self, row: int) -> bool:
        """Return whether something is missing in it."""
        it = self.things[row]
        return bool(it.problem or it.gaps_count or it.status in ("cut off", "damaged"))


def _begun(view: SessionView, row: int) -> Cell:
    """When it began, local time."""
    it = view.things[row]
    begun = local_text(it.started_at_us, "%Y-%m-%d %H:%M:%S")
    return Cell(begun if it.started_at_us else clean_line(it.id), "dim")


def _name(view: SessionView, row: int) -> Cell:
    """Its name, given by people; else its folder."""
    it = view.things[row]
    return Cell(clean_line(it.name or it.id), "strong")


def _server(view: SessionView, row: int) -> Cell:
    """The server recorded; or why it cannot be read."""
    it = view.things[row]
    return Cell(clean_line(it.problem), "bad") if it.problem else Cell(clean_line(it.server))


def _span(view: SessionView, row: int) -> Cell:
    """From the first to the last record."""
    it = view.things[row]
    return Cell(duration_text((it.ended_at_us - it.started_at_us) / 1e6))


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


def _all(get: Callable[[SessionSummary], object]) -> Callable[[SessionView], list[object]]:
    return lambda view: [get(thing) for thing in view.things]


_words: Callable[..., ColumnSpec[SessionView]] = partial(ColumnSpec, align="left", descends=False)
_number: Callable[..., ColumnSpec[SessionView]] = ColumnSpec

SESSION_COLUMNS: tuple[ColumnSpec[SessionView], ...] = (
    _words("begun", "BEGUN", 19, 0, _begun, _all(lambda it: it.started_at_us)),
    _words("name", "NAME", 14, 1, _name, _all(lambda it: it.name), flex=3),
    _words("server", "SERVER", 8, 5, _server, _all(lambda it: it.server), flex=1),
    _number("span", "SPAN", 7, 2, _span, _all(lambda it: it.ended_at_us - it.started_at_us)),
    _number("size", "SIZE", 9, 3, _size, _all(lambda it: it.size_bytes)),
    _number("streams", "STREAMS", 7, 6, _streams, _all(lambda it: it.streams_count)),
    _number("consumers", "CONS", 6, 7, _consumers, _all(lambda it: it.consumers_count)),
    _number("benchmarks", "BENCH", 5, 9, _benchmarks, _all(lambda it: it.benchmarks_count)),
    _number("gaps", "GAPS", 5, 8, _gaps, _all(lambda it: it.gaps_count)),
    _words("notes", "NOTES", 12, 10, _notes, _all(lambda it: it.notes), flex=2),
    _words("status", "STATUS", 9, 4, _status, _all(lambda it: it.status)),
)


_decoder = decoder_of(tuple[SessionSummary, ...])


_TITLE = "recordings"

PACKS = {
    "as it is": "with all recorded names and texts",
    "redacted": "with pseudonyms instead of names, and without texts",
}
"""How a recording can be packed, by the word to pick."""


def title(it: SessionSummary) -> str:
    """Return what people call it: its name, else its folder."""
    return clean_line(it.name or it.id)


def word_to_type(it: SessionSummary) -> str:
    """Return what has to be typed before it is deleted: its name, if it has one."""
    typable = it.name.isascii() and it.name.isprintable() and it.name == it.name.strip()
    return it.name if it.name and typable else "delete"


def delete_text(it: SessionSummary) -> str:
    """Return the question before it is deleted."""
    return f"Delete {what_goes(it)}? This cannot be undone. To confirm, type {word_to_type(it)}"


def asked_text(action: SessionAction, it: SessionSummary) -> tuple[str, str]:
    """Return the question for an action, and what stands in its line at first."""
    if action == "rename":
        return f"New name of {title(it)}:", it.name
    if action == "note":
        return f"Note about the whole recording {title(it)}:", ""
    name = "redacted" if action == "pack redacted" else it.id
    return f"Pack {title(it)} into this new file:", f"~/{name}.natstui"


class RecordingChanges(ScreenPart):
    """Asks what a change needs, then lets the engine do it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "part('changing', 'change', 'rename')", "Rename", id="sessions.rename"),
        Binding("n", "part('changing', 'change', 'note')", "Note", id="sessions.note"),
        Binding("w", "part('changing', 'pack')", "Pack", id="sessions.pack"),
        Binding("ctrl+d", "part('changing', 'delete')", "Delete", id="sessions.delete"),
    ]

    def __init__(
        self,
        screen: TableScreen,
        chosen: Callable[[], SessionSummary | None],
        changed: Callable[[], None],
    ) -> None:
        """`chosen` returns the recording under the cursor, or shows that there is none.

        `changed` is called when the list may be another.
        """
        self._screen, self._chosen, self._changed = screen, chosen, changed

    def may(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Offer them while there is a recording."""
        return self._screen.has_row

    def action_change(self, action: SessionAction) -> None:
        """Ask for the text, then do it."""
        if it := self._chosen():
            self._ask_change(action, it)

    def _ask_change(self, action: SessionAction, it: SessionSummary) -> None:
        def show(_reply: Answered) -> None:
            self._changed()

        question, text = asked_text(action, it)
        command = partial(_change_of, action, it)
        ask(self._screen, Question(question, command, _TITLE, text=text, show=show))

    def action_pack(self) -> None:
        """Make one file of a recording, to send to somebody."""
        if it := self._chosen():
            run_task(self._screen, self._pack, it)

    async def _pack(self, it: SessionSummary) -> None:
        pick = Pick(f"Pack {title(it)}", list(PACKS.items()))
        word = await self._screen.app.push_screen_wait(pick)
        if word is not None:
            self._ask_change("pack redacted" if word == "redacted" else "pack", it)

    def action_delete(self) -> None:
        """Delete a recording, once its name is typed."""
        if it := self._chosen():
            run_task(self._screen, self._delete, it)

    async def _delete(self, it: SessionSummary) -> None:
        prompt = Prompt(delete_text(it), word=word_to_type(it))
        typed = await self._screen.app.push_screen_wait(prompt)
        if typed is not None and (command := _change_of("delete", it, typed)):
            await self._screen.engine.announce(command, _TITLE)
            self._changed()


def _change_of(action: SessionAction, it: SessionSummary, text: str) -> ChangeSession | None:
    return ChangeSession(0, action, it.folder, text) if text.strip() else None


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
        """None until the first list came."""
        self.changing = RecordingChanges(self, self._chosen, self.action_ask)

    def on_mount(self) -> None:
        """Ask for the list."""
        self.action_ask()

    def action_ask(self) -> None:
        """Read what there is now."""
        run_task(self, self._list, replaces="list")

    async def _list(self) -> None:
        reply = await self.engine.request(ListSessions(0))
        self._found = _decoder.decode(reply.body_json or "[]")
        self.refresh_state()

    def view(self) -> SessionView:
        """Return the recordings, as far as they are known."""
        return SessionView(self._found or ())

    def empty_text(self, total: int) -> str:
        """Return that the list is still made, or that there is nothing in it."""
        if self._found is None:
            return "looking for recordings …"
        if total:
            return super().empty_text(total)
        key = key_of(self, "record")
        return f"no recordings: {key} records what you see" if key else "no recordings"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table, with what enter does to a recording."""
        text = super().caption_text(shown, total)
        return f"{text}  ·  enter replays one" if shown else text

    def action_analyse(self) -> None:
        """Show what the recording under the cursor tells."""
        if it := self._chosen():
            self.app.post_message(Typed(f"analyze {it.id}"))

    @on(RowSelected)
    def _replay(self) -> None:
        if isinstance(key := self.table.cursor_key, tuple):
            self.app.post_message(Replay(str(key[0])))

    def _chosen(self) -> SessionSummary | None:
        """Return the recording under the cursor."""
        key = self.table.cursor_key
        folder = key[0] if isinstance(key, tuple) else None
        found = next((one for one in self._found or () if one.folder == folder), None)
        if found is None:
            self.notify("there is no recording under the cursor", severity="warning", timeout=2)
        return found
