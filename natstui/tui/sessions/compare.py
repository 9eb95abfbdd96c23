"""The screen of the differences between two moments of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from natstui.clean import clean_line
from natstui.model.live.compare import Difference, differences
from natstui.model.live.state import State, shown_at_us
from natstui.tui.frame.columns import ColumnSpec, ItemsView, SortAndFilter
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, local_text

_STYLE_BY_CHANGE_KIND = {"asset": "bad", "configuration": "accent", "lag": "warn", "counter": ""}


class CompareView(ItemsView[Difference]):
    """A view of the differences between two moments of a recording."""

    def __init__(self, differences: list[Difference]) -> None:
        keys = [
            (difference.stream, difference.consumer or "", difference.what, difference.field)
            for difference in differences
        ]
        super().__init__(differences, keys, [" ".join(key) for key in keys])

    def has_problem(self, row: int) -> bool:
        """Return whether a stream or consumer was created, deleted or reconfigured."""
        return self.items[row].what in ("asset", "configuration")


def _value_text(difference: Difference, text: str | None) -> str:
    if text is None:
        return UNKNOWN
    return clean_line(text) if difference.change_count is None else f"{int(text):,}"


def _parse_count(difference: Difference, text: str | None) -> int | None:
    return None if difference.change_count is None or text is None else int(text)


def _asset_text(difference: Difference) -> str:
    return clean_line(
        f"{difference.stream} › {difference.consumer}"
        if difference.consumer
        else difference.stream
    )


def _changed_asset(view: CompareView, row: int) -> Cell:
    """Stream or consumer that has changed."""
    return Cell(_asset_text(view.items[row]), "strong")


def _change_kind(view: CompareView, row: int) -> Cell:
    """Kind of change: of existence, configuration, lag, or a counter."""
    difference = view.items[row]
    return Cell(difference.what, _STYLE_BY_CHANGE_KIND[difference.what])


def _changed_field(view: CompareView, row: int) -> Cell:
    """Name of the changed field."""
    return Cell(clean_line(view.items[row].field))


def _value_at_a(view: CompareView, row: int) -> Cell:
    """Value of the field at the moment marked A."""
    return Cell(_value_text(view.items[row], view.items[row].before_text), "dim")


def _value_now(view: CompareView, row: int) -> Cell:
    """Value of the field at the moment shown."""
    return Cell(_value_text(view.items[row], view.items[row].after_text))


def _value_difference(view: CompareView, row: int) -> Cell:
    """Difference of the two values, if they are numbers."""
    difference = view.items[row]
    count = difference.change_count
    style_name = "warn" if difference.what == "lag" and (count or 0) > 0 else ""
    return Cell("" if count is None else f"{count:+,}", style_name)


_sort_by = CompareView.sort_by
_text_column: Callable[..., ColumnSpec[CompareView]] = partial(
    ColumnSpec, align="left", descends=False
)
_number_column: Callable[..., ColumnSpec[CompareView]] = ColumnSpec

COMPARE_COLUMNS: tuple[ColumnSpec[CompareView], ...] = (
    _text_column("where", "WHERE", 24, 0, _changed_asset, _sort_by(_asset_text), flex=6),
    _text_column(
        "what", "WHAT", 13, 4, _change_kind, _sort_by(lambda difference: difference.what)
    ),
    _text_column(
        "field",
        "FIELD",
        12,
        1,
        _changed_field,
        _sort_by(lambda difference: difference.field),
        flex=1,
    ),
    _number_column(
        "before",
        "A",
        12,
        3,
        _value_at_a,
        _sort_by(lambda difference: _parse_count(difference, difference.before_text)),
        flex=1,
    ),
    _number_column(
        "after",
        "NOW",
        12,
        2,
        _value_now,
        _sort_by(lambda difference: _parse_count(difference, difference.after_text)),
        flex=1,
    ),
    _number_column(
        "change",
        "CHANGE",
        11,
        2,
        _value_difference,
        _sort_by(lambda difference: difference.change_count),
    ),
)


class CompareScreen(TableScreen):
    """The differences between the marked moment A and the shown moment of a replay."""

    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = COMPARE_COLUMNS
    NOUN = "changes"
    DEFAULT_ORDER = SortAndFilter("where")

    def __init__(self, marked_state: State) -> None:
        super().__init__()
        self._state_at_a = marked_state

    def view(self) -> CompareView:
        """Return the differences from A to the current moment."""
        return CompareView(differences(self._state_at_a, self.state))

    def empty_hint(self) -> str:
        """Return the text for no differences."""
        return "both moments are alike"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: the moments, and the number of differences."""
        moment_a_us, current_moment_us = map(shown_at_us, (self._state_at_a, self.state))
        moments_text = f"A {local_text(moment_a_us)} → {local_text(current_moment_us)}"
        return f"{moments_text}  ·  {super().caption_text(shown, total)}"
