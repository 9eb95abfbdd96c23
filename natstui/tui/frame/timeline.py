"""The timeline of a replay above the footer: its position, and marks (letters at the times of
recorded events); a click seeks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from textual import events
from textual.content import Content

from natstui.clean import clean_line
from natstui.model.live.state import State
from natstui.model.records.recording import Mark, MarkKind, ReplayMarks, ReplayPosition, SeekTo
from natstui.tui.frame.head.status_text import fit_parts
from natstui.tui.frame.requests import SystemEngine
from natstui.tui.kit.fixed_text import FixedText
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe
from natstui.units import counted, duration_text, local_text

_LETTER_AND_STYLE_BY_MARK_KIND: dict[MarkKind, tuple[str, str]] = {
    "gap": ("░", "bad"),
    "unavailable": ("x", "bad"),
    "link": ("l", "warn"),
    "advisory": ("!", "warn"),
    "configuration": ("c", "accent"),
    "benchmark": ("b", "accent"),
    "note": ("n", "ok"),
    "action": ("u", "ok"),
}
"""Letter and style of each kind of mark; of several marks in one cell, the first kind is shown."""


class ReplayKey(NamedTuple):
    """A key of a replay: its action, footer label, and text in the hint."""

    name: str
    key: str
    key_text: str
    action: str
    label: str
    hint: str
    """Neighbouring keys with the same text are shown together."""
    is_in_footer: bool = False


REPLAY_KEYS = (
    ReplayKey("play", "space", "space", "'play'", "Play/pause", "play", True),
    ReplayKey("step_back", "left_square_bracket", "[", "'step', -1", "Step back", "step"),
    ReplayKey("step", "right_square_bracket", "]", "'step', 1", "Step", "step"),
    ReplayKey(
        "event_before", "left_curly_bracket", "{", "'event', False", "Event before", "event"
    ),
    ReplayKey("event_next", "right_curly_bracket", "}", "'event', True", "Next event", "event"),
    ReplayKey("slower", "comma", ",", "'speed', -1", "Slower", "speed"),
    ReplayKey("faster", "full_stop", ".", "'speed', 1", "Faster", "speed"),
    ReplayKey("seek", "S", "S", "'seek'", "Seek", "seek", True),
    ReplayKey("mark", "a", "a", "'mark_a'", "Mark A", "mark", True),
    ReplayKey("compare", "equals_sign", "=", "'compare'", "Compare", "compare", True),
)


def _build_key_hint() -> str:
    """Return the keys of a replay as one line: `space play [ ] step …`."""
    groups = groupby(REPLAY_KEYS, key=lambda replay_key: replay_key.hint)
    return "  ".join(f"{' '.join(key.key_text for key in keys)} {hint}" for hint, keys in groups)


REPLAY_KEYS_HINT = _build_key_hint()
_RANK_BY_MARK_KIND = {kind: rank for rank, kind in enumerate(_LETTER_AND_STYLE_BY_MARK_KIND)}
_MARK_SHOWN_FOR_US = 60_000_000


def position_parts(
    replay: ReplayPosition, marks: ReplayMarks | None, mark_a_at_us: int | None
) -> list[Cell]:
    """Return the first line: playing or paused, clock, progress, the last recorded event, and the
    keys.
    """
    speed_text = f"{replay.speed_ratio:g}×"
    playing_cell = Cell(f"▶ playing {speed_text}", "ok")
    paused_cell = Cell(f"▌▌ paused {speed_text}", "warn")
    elapsed_s = (replay.at_us - replay.start_at_us) / 1e6
    duration_s = (replay.end_at_us - replay.start_at_us) / 1e6
    parts = [
        playing_cell if replay.playing else paused_cell,
        Cell(local_text(replay.at_us, "%Y-%m-%d %H:%M:%S", 1), "strong"),
        Cell(f"{duration_text(elapsed_s)} of {duration_text(duration_s)}"),
    ]
    if replay.recording:
        parts.append(Cell("● still recording", "bad"))
    if replay.left_out_lines_count:
        parts.append(Cell(f"{counted(replay.left_out_lines_count, 'line')} left out", "bad"))
    if mark_a_at_us is not None:
        parts.append(Cell(f"A {local_text(mark_a_at_us)}", "accent"))
    mark = newest_mark(marks.marks if marks else (), replay.at_us)
    if mark is not None:
        letter, style_name = _LETTER_AND_STYLE_BY_MARK_KIND[mark.kind]
        age_text = duration_text((replay.at_us - mark.at_us) / 1e6)
        parts.append(Cell(f"{letter} {clean_line(mark.text)} ({age_text} ago)", style_name))
    return [*parts, Cell(REPLAY_KEYS_HINT, "dim")]


def newest_mark(marks: Sequence[Mark], at_us: int) -> Mark | None:
    """Return the last mark (recorded event) in the minute up to `at_us`; None without a mark."""
    index = bisect_right(marks, at_us, key=lambda mark: mark.at_us) - 1
    if index < 0 or at_us - marks[index].at_us > _MARK_SHOWN_FOR_US:
        return None
    return marks[index]


def bar_parts(
    replay: ReplayPosition, marks: ReplayMarks | None, mark_a_at_us: int | None, width: int
) -> list[Cell]:
    """Return the second line, `width` cells wide: start, a bar with the marks (letters of recorded
    events), end.
    """
    start, end = local_text(replay.start_at_us), local_text(replay.end_at_us)
    length = bar_length(width)
    cells = [Cell("─", "dim")] * length
    rank = [len(_RANK_BY_MARK_KIND)] * length
    current_cell = bar_cell_of(replay.at_us, replay, length)
    for cell in range(current_cell):
        cells[cell] = Cell("━", "accent")
    for mark in marks.marks if marks else ():
        cell = bar_cell_of(mark.at_us, replay, length)
        if _RANK_BY_MARK_KIND[mark.kind] < rank[cell]:
            rank[cell] = _RANK_BY_MARK_KIND[mark.kind]
            cells[cell] = Cell(*_LETTER_AND_STYLE_BY_MARK_KIND[mark.kind])
    if mark_a_at_us is not None:
        cells[bar_cell_of(mark_a_at_us, replay, length)] = Cell("A", "strong")
    cells[current_cell] = Cell("█", "strong")
    return [Cell(f"{start} ", "dim"), *cells, Cell(f" {end}", "dim")]


def bar_length(width: int) -> int:
    """Return the length in cells of the bar between start and end time, on a line of `width`
    cells.
    """
    return max(1, width - 18)


def bar_cell_of(at_us: int, replay: ReplayPosition, length: int) -> int:
    """Return the cell of a moment on a bar of `length` cells."""
    span_us = max(1, replay.end_at_us - replay.start_at_us)
    return max(0, min(length - 1, (at_us - replay.start_at_us) * length // span_us))


def moment_us_of(cell: int, replay: ReplayPosition, length: int) -> int:
    """Return the moment of a cell on a bar of `length` cells, as Unix time in µs."""
    span_us = replay.end_at_us - replay.start_at_us
    share = max(0.0, min(1.0, cell / max(1, length - 1)))
    return replay.start_at_us + round(span_us * share)


_CLOCK_CELLS = 10
"""Width of the padding and the clock at the left of the bar."""


class Timeline(FixedText):
    """Two lines of a replay: the position as text, then a bar with start, marks and end."""

    DEFAULT_CSS = """
    Timeline { height: 2; padding: 0 1; background: $panel; color: $foreground; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._state = State()
        self._mark_a_at_us: int | None = None

    def show(self, state: State, mark_a_at_us: int | None) -> None:
        """Show the position of a replay; hide the timeline while the state is live."""
        self._state, self._mark_a_at_us = state, mark_a_at_us
        self.display = state.replay is not None
        self._draw()

    def on_resize(self) -> None:
        """Draw the bar for the new width."""
        self._draw()

    def _draw(self) -> None:
        replay, marks = self._state.replay, self._state.replay_marks
        if replay is None:
            return
        width = max(20, self.size.width)
        position_line = fit_parts(position_parts(replay, marks, self._mark_a_at_us), width)
        bar = [
            safe(cell.text, cell.style_name)
            for cell in bar_parts(replay, marks, self._mark_a_at_us, width)
        ]
        self.update(Content("\n").join([position_line, Content("").join(bar)]))

    def on_click(self, event: events.Click) -> None:
        """Seek to the moment under the mouse."""
        replay = self._state.replay
        if replay is not None and event.y == 1:
            length = bar_length(self.size.width)
            at_us = moment_us_of(event.x - _CLOCK_CELLS, replay, length)
            SystemEngine(self.app, None).send(SeekTo(0, at_us))
