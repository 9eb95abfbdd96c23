"""A view of JSON, YAML or any text up to 1 Mi characters; only visible rows are coloured."""

from __future__ import annotations

from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from natstui.clean import clean_text
from natstui.tui.kit.raw.lines import Language, Row, find_matches, find_spans, split_rows

_MAX_CHARACTERS = 1024 * 1024


class RawView(ScrollView, can_focus=True):
    """A text with line numbers, colours, search and copy; long lines are wrapped."""

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "row(-1)", "Up", show=False, id="raw.up"),
        Binding("down,j", "row(1)", "Down", show=False, id="raw.down"),
        Binding("home,g", "scroll_home", "Top", show=False, id="raw.top"),
        Binding("end,G", "scroll_end", "End", show=False, id="raw.end"),
        Binding("n", "found(1)", "Next match", show=False, id="raw.next"),
        Binding("N", "found(-1)", "Previous match", show=False, id="raw.previous"),
        Binding("c", "copy", "Copy", id="raw.copy"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "raw-view--line",
        "raw-view--key",
        "raw-view--string",
        "raw-view--number",
        "raw-view--word",
        "raw-view--mark",
        "raw-view--found",
        "raw-view--here",
    }
    DEFAULT_CSS = """
    RawView {
        height: 1fr;
        background: $background;
        color: $foreground;
        overflow-x: hidden;
        overflow-y: scroll;
        scrollbar-size: 0 1;
        & > .raw-view--line { color: $text-muted; }
        & > .raw-view--key { color: $text-primary; }
        & > .raw-view--string { color: $text-success; }
        & > .raw-view--number { color: $text-warning; }
        & > .raw-view--word { color: $text-accent; }
        & > .raw-view--mark { color: $text-muted; }
        & > .raw-view--found { background: $warning 30%; color: $foreground; }
        & > .raw-view--here { background: $primary 50%; color: $foreground; text-style: bold; }
    }
    """

    class CopyRequested(Message):
        """The user copies the entire text to the clipboard."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Searched(Message):
        """The view has searched, or moved to another match: the number of the current match from 1
        (0 without any), and the count of matches.
        """

        def __init__(self, search_text: str, number: int, count: int) -> None:
            super().__init__()
            self.search_text = search_text
            self.number = number
            self.count = count

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._text = ""
        self._lines: list[str] = []
        self._language: Language = "text"
        self._rows: list[Row] = []
        self._wrapped_width = -1
        self._search_text = ""
        self._match_positions: list[tuple[int, int]] = []
        self._match_index = 0

    def show(self, text: str, language: Language = "text") -> None:
        """Show a text from its beginning, cut after 1 Mi characters with a note."""
        self._text = text
        shown_text = clean_text(text[:_MAX_CHARACTERS])
        self._lines = shown_text.split("\n")
        if len(text) > _MAX_CHARACTERS:
            self._lines.append(f"… {len(text) - _MAX_CHARACTERS:,} more characters")
        self._language = language
        self._wrapped_width = -1
        self._wrap_lines()
        self.scroll_to(y=0, animate=False, force=True)
        self.search("")

    def search(self, search_text: str) -> int:
        """Mark all matches, scroll to the first from the top line on, and return their count."""
        self._search_text = search_text
        self._match_positions = [
            (number, span.start)
            for number, line in enumerate(self._lines)
            for span in find_matches(line, search_text)
        ]
        top = round(self.scroll_y)
        line = self._rows[top].line if top < len(self._rows) else 0
        self._match_index = next(
            (index for index, match in enumerate(self._match_positions) if match[0] >= line), 0
        )
        self._show_match()
        return len(self._match_positions)

    def action_found(self, step: int) -> None:
        """Scroll to the next or the previous match; after the last one follows the first."""
        if self._match_positions:
            self._match_index = (self._match_index + step) % len(self._match_positions)
            self._show_match()

    def action_row(self, step: int) -> None:
        """Scroll by one row."""
        self.scroll_to(y=self.scroll_y + step, animate=False, force=True)

    def action_copy(self) -> None:
        """Post a request to copy the text."""
        self.post_message(self.CopyRequested(self._text))

    def on_resize(self) -> None:
        """Wrap the lines for the new width, with the same line at the top."""
        top = round(self.scroll_y)
        line = self._rows[top].line if top < len(self._rows) else 0
        self._wrap_lines()
        if top:
            self._scroll_to_line(line, 0)

    @property
    def _line_number_cells(self) -> int:
        return len(str(len(self._lines))) + 1

    def _wrap_lines(self) -> None:
        """Wrap all lines for the current width."""
        width = self.scrollable_content_region.width - self._line_number_cells
        if width > 0 and width != self._wrapped_width:
            self._wrapped_width = width
            self._rows = split_rows(self._lines, width)
            self.virtual_size = Size(width + self._line_number_cells, len(self._rows))
            self.refresh()

    def _show_match(self) -> None:
        """Scroll to the current match and post its number."""
        if self._match_positions:
            self._scroll_to_line(*self._match_positions[self._match_index])
        self.refresh()
        number = self._match_index + 1 if self._match_positions else 0
        self.post_message(self.Searched(self._search_text, number, len(self._match_positions)))

    def _scroll_to_line(self, line: int, character: int) -> None:
        """Scroll a position of the text into the upper third, if it is not in view."""
        row_index = next(
            (
                index
                for index, row in enumerate(self._rows)
                if row.line == line and character < row.end
            ),
            next((index for index, row in enumerate(self._rows) if row.line == line), 0),
        )
        top, height = round(self.scroll_y), self.size.height
        if not top <= row_index < top + height:
            self.scroll_to(y=row_index - height // 3, animate=False, force=True)

    def render_line(self, y: int) -> Strip:
        """Return the strip of a row: at its first row the line's number, then coloured text."""
        width = self.scrollable_content_region.width
        row_index = y + round(self.scroll_y)
        base_style = self.rich_style
        if row_index >= len(self._rows):
            return Strip([Segment(" " * width, base_style)], width)
        row = self._rows[row_index]
        number = str(row.line + 1) if row.start == 0 else ""
        segments = [Segment(f"{number:>{self._line_number_cells - 1}} ", self._style("line"))]
        segments += self._colour_row(row)
        return Strip(segments).crop_extend(0, width, base_style)

    def _colour_row(self, row: Row) -> list[Segment]:
        """Return the text of a row as coloured segments; matches replace other colours."""
        line = self._lines[row.line]
        kind_by_character: list[str] = [""] * (row.end - row.start)
        current_match = self._match_positions[self._match_index] if self._match_positions else None
        for start, end, kind in [
            *find_spans(line, self._language),
            *find_matches(line, self._search_text),
        ]:
            if kind == "found" and current_match == (row.line, start):
                kind = "here"
            part_start, part_end = max(start, row.start), min(end, row.end)
            if part_start < part_end:
                kind_by_character[part_start - row.start : part_end - row.start] = [kind] * (
                    part_end - part_start
                )
        return self._merge_segments(line[row.start : row.end], kind_by_character)

    def _merge_segments(self, text: str, kind_by_character: list[str]) -> list[Segment]:
        """Return neighbouring characters of the same kind as one segment."""
        segments: list[Segment] = []
        start = 0
        for index in range(1, len(text) + 1):
            if index == len(text) or kind_by_character[index] != kind_by_character[start]:
                segments.append(Segment(text[start:index], self._style(kind_by_character[start])))
                start = index
        return segments

    def _style(self, kind: str) -> Style:
        """Return the style of a kind of text."""
        if not kind:
            return self.rich_style
        style = self.get_component_rich_style(f"raw-view--{kind}")
        return style if kind in ("found", "here") else self.rich_style + Style(color=style.color)
