"""One revision of a key in full, or what it changed of the one before."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.model.records.stores import KeyRow
from natstui.tui.frame.live import LiveScreen
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.raw.payload import LOOKS, Look, Reading, reading
from natstui.tui.kit.raw.view import RawView
from natstui.tui.kit.text import safe
from natstui.tui.stores.cells import value_of
from natstui.units import bytes_text, local_text

_AROUND_LINES = 3


def read_value(row: KeyRow, look: Look) -> Reading:
    """Return a value as text; empty where the revision deleted it."""
    return reading(value_of(row), look)


def revision_caption(row: KeyRow, place: str, shown: str) -> str:
    """Return the line above a value."""
    when = local_text(row.created_at_us, "%Y-%m-%d %H:%M:%S", 3)
    what = bytes_text(row.value_bytes) if row.operation == "PUT" else row.operation
    parts = [clean_line(row.key), f"revision {row.revision_seq} ({place})", when, what, shown]
    given = len(value_of(row))
    if given < row.value_bytes:
        parts.append(f"only the first {bytes_text(given)}: natstui kv get shows all")
    return "  ·  ".join(clean_line(part) for part in parts if part)


def difference_text(before: KeyRow | None, row: KeyRow) -> str:
    """Return what a revision changed, line by line; `-` is gone, `+` is new."""
    if before is None:
        return "The previous revision is not stored.\n\n" + read_value(row, "auto").text
    old, new = _lines(before), _lines(row)
    if old == new:
        return f"The same as revision {before.revision_seq}."
    found = difflib.unified_diff(
        old, new, f"revision {before.revision_seq}", f"revision {row.revision_seq}", lineterm="",
        n=_AROUND_LINES,
    )  # fmt: skip
    return "\n".join(found)


def _lines(row: KeyRow) -> list[str]:
    if row.operation != "PUT":
        return [f"({row.operation}: no value)"]
    return read_value(row, "auto").text.split("\n")


class RevisionScreen(LiveScreen):
    """The value as JSON, text or bytes; search and copy."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "difference", "Difference", id="revision.as_difference"),
        Binding("v", "look", "As JSON/text/hex", id="revision.look"),
        Binding("slash", "search", "Search", key_display="/", id="revision.search"),
        Binding("right_square_bracket", "step(1)", "Next", key_display="]", id="revision.next"),
        Binding(
            "left_square_bracket", "step(-1)", "Before", key_display="[", id="revision.before"
        ),
    ]

    caption = getters.query_one("#caption", Static)
    raw = getters.query_one(RawView)

    def __init__(self, rows: Sequence[KeyRow], place: int, *, as_difference: bool = False) -> None:
        """`rows` are the revisions, the oldest first; `place` is the one to show."""
        super().__init__()
        self._rows, self._place, self._as_difference = rows, place, as_difference
        self._looks = itertools.cycle(LOOKS)
        self._look = next(self._looks)

    def body(self) -> Iterable[Widget]:
        """Caption and text."""
        yield Static(id="caption", markup=False)
        yield RawView()

    def on_mount(self) -> None:
        """Show it."""
        self.raw.focus()
        self._draw()

    def _draw(self) -> None:
        row = self._rows[self._place]
        before = self._rows[self._place - 1] if self._place else None
        if self._as_difference:
            self.raw.show(difference_text(before, row))
            shown = f"since revision {before.revision_seq}" if before else ""
        else:
            read = read_value(row, self._look)
            self.raw.show(read.text, "json" if read.look == "json" else "text")
            shown = f"as {read.look}" + (f", unpacked from {read.packing}" if read.packing else "")
        place = f"{self._place + 1} of {len(self._rows)}"
        self.caption.update(safe(revision_caption(row, place, shown)))

    def action_difference(self) -> None:
        """Show what it changed of the one before, or its value again."""
        self._as_difference = not self._as_difference
        self._draw()

    def action_look(self) -> None:
        """Show the value in another way."""
        self._as_difference, self._look = False, next(self._looks)
        self._draw()

    def action_step(self, step: int) -> None:
        """Show the next revision, or the one before."""
        self._place = min(max(self._place + step, 0), len(self._rows) - 1)
        self._draw()

    def action_search(self) -> None:
        """Search in the text shown."""

        def find(text: str | None) -> None:
            if text:
                self.notify(f"{self.raw.search(text)} matches", timeout=2)

        self.app.push_screen(Prompt("Search for"), find)

    @on(RawView.CopyAsked)
    def _copy(self, message: RawView.CopyAsked) -> None:
        self.app.copy_to_clipboard(message.text)
        self.notify("copied", timeout=2)
