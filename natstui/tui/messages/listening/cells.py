"""What is listened to in tables and lines: subjects with their counts, and the newest messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from natstui.clean import clean_line
from natstui.model.live.state import State
from natstui.model.records.listening import Heard, Listened, SubjectRow, SubjectsLook
from natstui.tui.frame.columns import ColumnSpec, Listed
from natstui.tui.kit.raw.payload import one_line
from natstui.tui.kit.table.rows import Cell
from natstui.tui.messages.cells import StoredView
from natstui.tui.messages.text import payload_of, time_text
from natstui.units import bytes_text, count_text, counted, duration_text, rate_text

T = TypeVar("T")

_OPEN, _CLOSED, _PLAIN = "▾ ", "▸ ", "  "
_INDENT = "  "
_SIDE_EFFECT = (
    "while natstui listens, requests without a responder time out instead of failing at once"
)


class SubjectView(Listed[SubjectRow]):
    """Rows of subjects as they came: they are in order already."""

    def __init__(self, rows: Sequence[SubjectRow], *, as_tree: bool) -> None:
        super().__init__(rows, [(row.kind == "rest", row.kind, row.path) for row in rows], ())
        self.as_tree = as_tree


def label_of(row: SubjectRow, *, as_tree: bool) -> str:
    """Return what the row of a subject says: its last token where it stands in a tree."""
    count = f"{row.subjects_count:,} more {'subject' if row.subjects_count == 1 else 'subjects'}"
    if row.kind == "others":
        return f"… and about {count} more subjects"
    mark = (_OPEN if row.is_open else _CLOSED) if row.kind == "branch" else _PLAIN
    indent = _INDENT * row.deep_level + mark if as_tree else ""
    if row.kind == "rest":
        return f"{indent}… and {count}"
    if not as_tree:
        return clean_line(row.path)
    token = ".".join(row.path.split(".")[row.deep_level :])
    return f"{indent}{clean_line(token)}"


def _subject(view: SubjectView, row: int) -> Cell:
    """Subject; in the tree a token, whose figures are those of all subjects below it together."""
    one = view.things[row]
    look = {"branch": "strong", "rest": "dim", "others": "dim"}.get(one.kind, "")
    return Cell(label_of(one, as_tree=view.as_tree), look)


def _msgs_per_s(view: SubjectView, row: int) -> Cell:
    """Messages a second, over the last 3 seconds."""
    return _rate_cell(view.things[row].msgs_per_s, rate_text)


def _bytes_per_s(view: SubjectView, row: int) -> Cell:
    """Bytes of headers and payloads a second, over the last 3 seconds."""
    return _rate_cell(view.things[row].bytes_per_s, bytes_text)


def _rate_cell(per_s: float | None, text: Callable[[float | None], str]) -> Cell:
    return Cell(text(per_s), "accent" if per_s else "dim")


def _msgs(view: SubjectView, row: int) -> Cell:
    """Messages that came since the screen began to listen."""
    return Cell(f"{view.things[row].came_msgs:,}")


def _bytes(view: SubjectView, row: int) -> Cell:
    """Bytes of headers and payloads that came since then."""
    return Cell(bytes_text(view.things[row].came_bytes))


def _subjects(view: SubjectView, row: int) -> Cell:
    """Different subjects that the row stands for."""
    count = view.things[row].subjects_count
    return Cell("" if view.things[row].kind == "subject" else count_text(count), "dim")


def _unsorted(view: Listed[T]) -> Sequence[object]:
    """Return nothing to sort by: the engine has brought the rows into order."""
    return range(len(view))


SUBJECT_COLUMNS: tuple[ColumnSpec[SubjectView], ...] = (
    ColumnSpec("subject", "SUBJECT", 24, 0, _subject, _unsorted, align="left", flex=1,
               max_width=200, descends=False),
    ColumnSpec("msgs_per_s", "MSGS/S", 7, 1, _msgs_per_s, _unsorted),
    ColumnSpec("bytes_per_s", "B/S", 8, 2, _bytes_per_s, _unsorted),
    ColumnSpec("msgs", "MSGS", 11, 3, _msgs, _unsorted),
    ColumnSpec("bytes", "BYTES", 8, 4, _bytes, _unsorted),
    ColumnSpec("subjects", "SUBJECTS", 8, 5, _subjects, _unsorted),
)  # fmt: skip
_TITLES = {spec.id: spec.title for spec in SUBJECT_COLUMNS}


class HeardView(StoredView):
    """The newest messages, the newest first; each is named by the how manieth it was."""

    def __init__(self, heard: Sequence[Heard]) -> None:
        newest = heard[::-1]
        Listed.__init__(
            self, [one.message for one in newest], [one.heard_id for one in newest], ()
        )


def _number(view: HeardView, row: int) -> Cell:
    """The how manieth message it was, of all that came."""
    return Cell(f"{view.key(row):,}", "accent")


def _at(view: HeardView, row: int) -> Cell:
    """When it came here, in local time."""
    return Cell(time_text(view.things[row].stored_at_us), "dim")


def _of_subject(view: HeardView, row: int) -> Cell:
    """Subject it was published to."""
    return Cell(clean_line(view.things[row].subject), "strong")


def _size(view: HeardView, row: int) -> Cell:
    """Bytes of the payload; ▪ behind them: it has headers too."""
    message = view.things[row]
    return Cell(bytes_text(message.payload_bytes) + (" ▪" if message.headers else "  "), "dim")


def _payload(view: HeardView, row: int) -> Cell:
    """How the payload begins."""
    return Cell(clean_line(one_line(payload_of(view.things[row]))))


HEARD_COLUMNS: tuple[ColumnSpec[HeardView], ...] = (
    ColumnSpec("number", "#", 9, 3, _number, _unsorted),
    ColumnSpec("came", "CAME", 12, 1, _at, _unsorted, align="left"),
    ColumnSpec("of", "SUBJECT", 20, 0, _of_subject, _unsorted, align="left", flex=1),
    ColumnSpec("size", "SIZE", 10, 4, _size, _unsorted),
    ColumnSpec("payload", "PAYLOAD", 20, 2, _payload, _unsorted, align="left", flex=2,
               max_width=400),
)  # fmt: skip


def whole_text(subjects: tuple[str, ...], listened: Listened) -> str:
    """Return what came altogether."""
    about = "about " if listened.other_subjects_count else ""
    count = listened.subjects_count + listened.other_subjects_count
    return "  ·  ".join(
        [
            f"sub {', '.join(subjects)}",
            f"{rate_text(listened.msgs_per_s)} msgs/s",
            f"{bytes_text(listened.bytes_per_s)}/s",
            f"{listened.came_msgs:,} msgs, {bytes_text(listened.came_bytes)}",
            f"{about}{counted(f'{count:,}', 'subject')}",
            f"in {duration_text(listened.elapsed_s)}",
        ]
    )


def look_text(listened: Listened, *, held: bool) -> str:
    """Return how it is shown, and what is not."""
    look = listened.look
    count = counted(f"{listened.wanted_subjects_count:,}", "subject")
    arrow = "▼" if look.reverse else "▲"
    parts = [
        *(["HELD"] if held else []),
        f"{'tree of ' if look.as_tree else ''}{count} by {_TITLES[look.by]} {arrow}",
        *([f"/{look.pattern}"] if look.pattern else []),
    ]
    if listened.unwanted_msgs:
        what = "others" if look.pattern else "internal"
        parts.append(f"{listened.unwanted_msgs:,} msgs of {what} not shown")
    return "  ·  ".join(parts)


def gap_text(listened: Listened) -> str:
    """Return that some are missing, if some are."""
    if not listened.interruptions_count:
        return ""
    why = f" ({listened.interrupted_by})" if listened.interrupted_by else ""
    lost = counted(listened.interruptions_count, "time")
    return f"the connection was lost {lost}{why}: messages of that time are missing"


def newest_text(listened: Listened) -> str:
    """Return which messages are listed."""
    look = listened.look
    shown = len(listened.heard)
    is_all = not look.pattern and not listened.unwanted_msgs
    of = f" of {listened.came_msgs:,}" if is_all and shown < listened.came_msgs else ""
    if not shown:
        return "messages  ·  none yet"
    return f"messages  ·  the newest {shown:,}{of}, newest first"


def waiting_text(subjects: tuple[str, ...], look: SubjectsLook, listened: Listened | None) -> str:
    """Return why no subject is listed."""
    if listened is not None and listened.unwanted_msgs:
        if look.pattern:
            return f"no subject matches /{look.pattern}; escape clears the filter"
        return "only internal subjects arrived: i shows them"
    return f"nothing arrived on {', '.join(subjects)} yet; {_SIDE_EFFECT}"


def taken_from(state: State, subjects: tuple[str, ...]) -> list[str]:
    """Return the push consumers that would deliver to whoever listens to these subjects.

    A subject with a wildcard wakes none, and a group only its members (measured).
    """
    return [
        f"{consumer_configuration.stream} > {consumer_configuration.name}"
        for consumer_configuration in state.consumer_configurations.values()
        if consumer_configuration.deliver_subject in subjects
        and not consumer_configuration.deliver_group
    ]
