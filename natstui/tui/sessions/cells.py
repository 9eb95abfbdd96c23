"""The table of recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from natstui.clean import clean_line
from natstui.model.records.recording import SessionSummary
from natstui.tui.frame.columns import ColumnSpec, Listed
from natstui.tui.kit.table.rows import Cell
from natstui.units import bytes_text, count_text, duration_text, local_text

_LOOKS = {"recording": "bad", "complete": "ok", "cut off": "warn"}


class SessionView(Listed[SessionSummary]):
    """Recordings, by row."""

    def __init__(self, found: Sequence[SessionSummary]) -> None:
        texts = [f"{it.id} {it.name} {it.server}" for it in found]
        super().__init__(found, [(it.folder, it.id) for it in found], texts)

    def problem(self, row: int) -> bool:
        """Return whether something is missing in it."""
        it = self.things[row]
        return bool(it.problem or it.gaps_count or it.status == "cut off")


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
    """Still recorded, complete, or cut off because its recorder was killed."""
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
