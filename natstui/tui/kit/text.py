"""Cleans all text from servers before it is drawn, and filters every drawn line.

On terminals without Unicode, a filter replaces other characters by ASCII, cell by cell.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Literal

from rich.cells import cell_len, chop_cells
from rich.color import Color as Ink
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.content import Content
from textual.filter import LineFilter

from natstui.clean import clean_line, clean_text
from natstui.tui.kit.styles import style_of
from natstui.tui.kit.table.rows import Cell

Align = Literal["left", "right"]

# Some terminals combine flags and skin tones, and then the rest of the row is misaligned.
_LETTER_BY_FLAG_CODE = {
    0x1F1E6 + index: letter for index, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}
_REPLACEMENT_BY_CHARACTER_CODE = _LETTER_BY_FLAG_CODE | dict.fromkeys(range(0x1F3FB, 0x1F400), "·")


def safe(text: str, style_name: str = "") -> Content:
    """Return text as one line without control characters; never parsed as markup."""
    return Content.styled(clean_line(text), style_of(style_name))


def safe_cell(cell: Cell) -> Content:
    """Return a cell's text as one line without control characters, with the cell's styles."""
    text, end = clean_line(cell.text), cell.second_style_start
    if not end:
        return safe(text, cell.style_name)
    return Content.assemble(
        safe(text[:end], cell.style_name), safe(text[end:], cell.second_style_name)
    )


def safe_lines(text: str, style_name: str = "") -> Content:
    """Return text without control characters except line feeds; never parsed as markup."""
    return Content.styled(clean_text(text), style_of(style_name))


def safe_copy(text: str) -> str:
    """Return text for the clipboard or a toast without control characters except line feeds."""
    return clean_text(text)


def fit(text: str, width: int, align: Align = "left") -> str:
    """Return `text` cleaned and exactly `width` cells wide: padded, or cut with an ellipsis."""
    if text.isascii() and text.isprintable():
        if len(text) > width:
            return text[: width - 1] + "…" if width > 0 else ""
        return text.rjust(width) if align == "right" else text.ljust(width)
    return _fit_wide(text, width, align)


@lru_cache(4096)
def _fit_wide(text: str, width: int, align: Align) -> str:
    """Fit text that is not printable ASCII, by the cells of its characters."""
    text = clean_line(text).translate(_REPLACEMENT_BY_CHARACTER_CODE)
    cells = cell_len(text)
    if cells > width:
        text = chop_cells(text, width - 1)[0] + "…" if width > 1 else "…"[:width]
        cells = cell_len(text)
    padding = " " * (width - cells)
    return padding + text if align == "right" else text + padding


class HarmlessFilter(LineFilter):
    """Removes control characters and hyperlinks from every line that a widget draws."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the cleaned segments; the same list if they are clean, as nearly always."""
        for text, style, _ in segments:
            if clean_line(text) is not text or (style is not None and style.link):
                return [_clean_segment(segment) for segment in segments]
        return segments


def _clean_segment(segment: Segment) -> Segment:
    """Return a segment with cleaned text and without a hyperlink."""
    style = segment.style
    if style is not None and style.link:
        style = style.update_link(None)
    return Segment(clean_line(segment.text), style)


HARMLESS_FILTER = HarmlessFilter()
"""The shared instance: Textual caches lines by filter."""


_ASCII_BY_CHARACTER = {
    "●": "o", "○": ".", "◉": "O", "▲": "^", "▼": "v", "△": "^", "▽": "v", "◆": "*", "◇": "o",
    "✖": "x", "✗": "x", "✘": "x", "✓": "*", "✔": "*", "•": "*", "·": ".", "∙": ".", "…": "~",
    "–": "-", "—": "-", "−": "-", "→": ">", "←": "<", "↑": "^", "↓": "v", "▶": ">", "◀": "<",
    "▸": ">", "◂": "<", "▾": "v", "▴": "^", "›": ">", "‹": "<", "»": ">", "«": "<", "⏸": "=",
    "▌": "|", "▐": "|", "▎": "|", "▏": "|", "▕": "|", "▀": "'", "▔": "-", "×": "x", "µ": "u",
    "■": "#", "□": "o", "▪": "#", "▫": "o", "␛": "?", "⭘": "o", "“": '"', "”": '"', "‘": "'",
    "’": "'", "≥": ">", "≤": "<", "°": "o", "±": "+", "∞": "~",
    "↗": "/", "◌": ".", "⇄": "=", "μ": "u", "⏎": "<",
}  # fmt: skip
_ASCII_BY_BLOCK_HEIGHT = "_.-=+*%#"


class _AsciiTable(dict[int, str]):
    """A translation table (character code → ASCII) that computes an entry at its first use."""

    def __missing__(self, code: int) -> str:
        """Compute the replacement of a character and store it."""
        self[code] = ascii_of(chr(code)) if code > 0x7E else chr(code)
        return self[code]


def ascii_of(character: str) -> str:
    """Return ASCII with as many cells as `character`, similar to it if possible."""
    if character in _ASCII_BY_CHARACTER:
        return _ASCII_BY_CHARACTER[character]
    code = ord(character)
    if 0x2500 <= code < 0x2580:
        return _ascii_box(character)
    if 0x2580 <= code < 0x25A0:
        return _ASCII_BY_BLOCK_HEIGHT[code - 0x2581] if 0x2581 <= code <= 0x2588 else "#"
    if 0x2800 <= code < 0x2900:
        return " .::oo##@"[(code - 0x2800).bit_count()]
    width = cell_len(character)
    ascii_text = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return ascii_text if ascii_text.isprintable() and len(ascii_text) == width else "?" * width


def _ascii_box(character: str) -> str:
    """Return `-`, `|` or `+` for a character of a box."""
    name = unicodedata.name(character)
    if "HORIZONTAL" in name and "VERTICAL" not in name and "DOWN" not in name and "UP" not in name:
        return "-"
    not_vertical_words = ("HORIZONTAL", "LEFT", "RIGHT", "DIAGONAL")
    return "|" if not any(word in name for word in not_vertical_words) else "+"


_ASCII_TABLE = _AsciiTable()


class AsciiFilter(LineFilter):
    """Replaces each character of a line by ASCII of the same width."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments in ASCII."""
        return [
            segment
            if segment.text.isascii()
            else Segment(segment.text.translate(_ASCII_TABLE), segment.style)
            for segment in segments
        ]


ASCII_FILTER = AsciiFilter()
"""The shared instance: Textual caches lines by filter."""


_BLACK, _GREY, _WHITE = 0, 8, 15
_BRIGHT_COLOR_NUMBERS = {3, 6, 7, 10, 11, 14, 15}


@lru_cache(4096)
def _readable_style(style: Style) -> Style:
    """Return a style in sixteen colours whose text is readable on its background."""
    if style.color is None or style.bgcolor is None:
        return style
    foreground, background = (
        color.downgrade(ColorSystem.STANDARD) for color in (style.color, style.bgcolor)
    )
    if background.number is None or foreground.number is None:
        return style
    number = foreground.number
    if background.number not in (_BLACK, _WHITE):
        number = _BLACK if background.number in _BRIGHT_COLOR_NUMBERS else _WHITE
    elif number == background.number:
        number = _GREY
    return style + Style(color=Ink.from_ansi(number), bgcolor=Ink.from_ansi(background.number))


class SixteenColorsFilter(LineFilter):
    """Keeps text readable on a terminal of sixteen colours.

    Such a terminal uses the nearest colour: red text on the grey of the cursor would be
    unreadable, and a dark line on a dark background invisible.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with text colours that differ from their backgrounds."""
        return [
            segment if style is None else Segment(text, _readable_style(style), control)
            for segment in segments
            for text, style, control in (segment,)
        ]


SIXTEEN_COLORS_FILTER = SixteenColorsFilter()
"""The shared instance: Textual caches lines by filter."""
