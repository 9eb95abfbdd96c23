"""The differences between two moments of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from natstui.clean import clean_line
from natstui.model.live.compare import Difference, differences
from natstui.model.live.state import State, shown_at_us
from natstui.tui.frame.columns import ColumnSpec, Listed, Order
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, local_text

_LOOKS = {"asset": "bad", "configuration": "accent", "lag": "warn", "counter": ""}


class CompareView(Listed[Difference]):
    """Differences, by row."""

    def __init__(self, differences: list[Difference]) -> None:
        keys = [
            (difference.stream, difference.consumer or "", difference.what, difference.field)
            for difference in differences
        ]
        super().__init__(differences, keys, [" ".join(key) for key in keys])

    def has_problem(self, row: int) -> bool:
        """Return whether something was created, deleted or reconfigured."""
        return self.things[row].what in ("asset", "configuration")


def _value(difference: Difference, text: str | None) -> str:
    if text is None:
        return UNKNOWN
    return clean_line(text) if difference.change_count is None else f"{int(text):,}"


def _counted(difference: Difference, text: str | None) -> int | None:
    return None if difference.change_count is None or text is None else int(text)


def _where_text(difference: Difference) -> str:
    return clean_line(
        f"{difference.stream} › {difference.consumer}"
        if difference.consumer
        else difference.stream
    )


def _where(view: CompareView, row: int) -> Cell:
    """Stream, and consumer."""
    return Cell(_where_text(view.things[row]), "strong")


def _what(view: CompareView, row: int) -> Cell:
    """What kind of change: it exists or not, its configuration, its lag, a counter."""
    difference = view.things[row]
    return Cell(difference.what, _LOOKS[difference.what])


def _field(view: CompareView, row: int) -> Cell:
    """Which field."""
    return Cell(clean_line(view.things[row].field))


def _before(view: CompareView, row: int) -> Cell:
    """Its value at the moment marked A."""
    return Cell(_value(view.things[row], view.things[row].before_text), "dim")


def _after(view: CompareView, row: int) -> Cell:
    """Its value at the moment shown."""
    return Cell(_value(view.things[row], view.things[row].after_text))


def _change(view: CompareView, row: int) -> Cell:
    """How much a number changed."""
    difference = view.things[row]
    count = difference.change_count
    look = "warn" if difference.what == "lag" and (count or 0) > 0 else ""
    return Cell("" if count is None else f"{count:+,}", look)


_by = CompareView.by
_words: Callable[..., ColumnSpec[CompareView]] = partial(ColumnSpec, align="left", descends=False)
_number: Callable[..., ColumnSpec[CompareView]] = ColumnSpec

COMPARE_COLUMNS: tuple[ColumnSpec[CompareView], ...] = (
    _words("where", "WHERE", 24, 0, _where, _by(_where_text), flex=6),
    _words("what", "WHAT", 13, 4, _what, _by(lambda difference: difference.what)),
    _words("field", "FIELD", 12, 1, _field, _by(lambda difference: difference.field), flex=1),
    _number(
        "before",
        "A",
        12,
        3,
        _before,
        _by(lambda difference: _counted(difference, difference.before_text)),
        flex=1,
    ),
    _number(
        "after",
        "NOW",
        12,
        2,
        _after,
        _by(lambda difference: _counted(difference, difference.after_text)),
        flex=1,
    ),
    _number("change", "CHANGE", 11, 2, _change, _by(lambda difference: difference.change_count)),
)


class CompareScreen(TableScreen):
    """Moment A at the left, the current moment at the right; it follows the replay."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = COMPARE_COLUMNS
    NOUN = "changes"
    START = Order("where")

    def __init__(self, marked_a: State) -> None:
        super().__init__()
        self._a = marked_a

    def view(self) -> CompareView:
        """Return the differences from A to the current moment."""
        return CompareView(differences(self._a, self.state))

    def empty_hint(self) -> str:
        """Return which moments are compared."""
        return "both moments are alike"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the moments, and the number of differences."""
        moments = f"A {local_text(shown_at_us(self._a))} → {local_text(shown_at_us(self.state))}"
        return f"{moments}  ·  {super().caption_text(shown, total)}"
