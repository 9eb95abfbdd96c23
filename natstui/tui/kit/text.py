"""The only way from server data to the screen: clean text, and filters over every line drawn.

On terminals without Unicode every other character becomes ASCII, cell by cell."""

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
from natstui.tui.kit.looks import style_of
from natstui.tui.kit.table.rows import Cell

Align = Literal["left", "right"]

# Flags and skin tones join in some terminals only, and then the rest of the row drifts.
_FLAG_LETTERS = {
    0x1F1E6 + index: letter for index, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
}
_DRIFTING = _FLAG_LETTERS | dict.fromkeys(range(0x1F3FB, 0x1F400), "·")


def safe(text: str, look: str = "") -> Content:
    """Return one harmless line for a Static, a title or a toast; never read as markup."""
    return Content.styled(clean_line(text), style_of(look))


def safe_cell(cell: Cell) -> Content:
    """Return a cell's text as one harmless line with its looks."""
    text, end = clean_line(cell.text), cell.tail_from
    if not end:
        return safe(text, cell.look)
    return Content.assemble(safe(text[:end], cell.look), safe(text[end:], cell.tail_look))


def safe_lines(text: str, look: str = "") -> Content:
    """Return harmless text that keeps its line feeds; never read as markup."""
    return Content.styled(clean_text(text), style_of(look))


def safe_copy(text: str) -> str:
    """Return text for the clipboard: harmless when it is pasted into a shell."""
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
    """Fit text that is not plain ASCII, by the cells of its characters."""
    text = clean_line(text).translate(_DRIFTING)
    cells = cell_len(text)
    if cells > width:
        text = chop_cells(text, width - 1)[0] + "…" if width > 1 else "…"[:width]
        cells = cell_len(text)
    padding = " " * (width - cells)
    return padding + text if align == "right" else text + padding


class HarmlessFilter(LineFilter):
    """Removes what could control the terminal from a line, whichever widget drew it."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the same list when it is harmless, as nearly every line is."""
        for text, style, _ in segments:
            if clean_line(text) is not text or (style is not None and style.link):
                return [_harmless(segment) for segment in segments]
        return segments


def _harmless(segment: Segment) -> Segment:
    """Clean one segment's text, and remove its hyperlink."""
    style = segment.style
    if style is not None and style.link:
        style = style.update_link(None)
    return Segment(clean_line(segment.text), style)


HARMLESS = HarmlessFilter()
"""The shared instance: Textual caches lines by filter."""


_BY_NAME = {
    "●": "o", "○": ".", "◉": "O", "▲": "^", "▼": "v", "△": "^", "▽": "v", "◆": "*", "◇": "o",
    "✖": "x", "✗": "x", "✘": "x", "✓": "*", "✔": "*", "•": "*", "·": ".", "∙": ".", "…": "~",
    "–": "-", "—": "-", "−": "-", "→": ">", "←": "<", "↑": "^", "↓": "v", "▶": ">", "◀": "<",
    "▸": ">", "◂": "<", "▾": "v", "▴": "^", "›": ">", "‹": "<", "»": ">", "«": "<", "⏸": "=",
    "▌": "|", "▐": "|", "▎": "|", "▏": "|", "▕": "|", "▀": "'", "▔": "-", "×": "x", "µ": "u",
    "■": "#", "□": "o", "▪": "#", "▫": "o", "␛": "?", "⭘": "o", "“": '"', "”": '"', "‘": "'",
    "’": "'", "≥": ">", "≤": "<", "°": "o", "±": "+", "∞": "~",
    "↗": "/", "◌": ".", "⇄": "=", "μ": "u", "⏎": "<",
}  # fmt: skip
_LEVELS = "_.-=+*%#"


class _Ascii(dict[int, str]):
    """A translation table that computes each character at its first use."""

    def __missing__(self, code: int) -> str:
        """Compute the replacement of a character and store it."""
        self[code] = ascii_of(chr(code)) if code > 0x7E else chr(code)
        return self[code]


def ascii_of(character: str) -> str:
    """Return ASCII with as many cells as `character`, similar to it if possible."""
    if character in _BY_NAME:
        return _BY_NAME[character]
    code = ord(character)
    if 0x2500 <= code < 0x2580:
        return _box(character)
    if 0x2580 <= code < 0x25A0:
        return _LEVELS[code - 0x2581] if 0x2581 <= code <= 0x2588 else "#"
    if 0x2800 <= code < 0x2900:
        return " .::oo##@"[(code - 0x2800).bit_count()]
    width = cell_len(character)
    ascii_text = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return ascii_text if ascii_text.isprintable() and len(ascii_text) == width else "?" * width


def _box(character: str) -> str:
    """Return the ASCII line or corner of a box character."""
    name = unicodedata.name(character)
    if "HORIZONTAL" in name and "VERTICAL" not in name and "DOWN" not in name and "UP" not in name:
        return "-"
    vertical = ("HORIZONTAL", "LEFT", "RIGHT", "DIAGONAL")
    return "|" if not any(word in name for word in vertical) else "+"


_TABLE = _Ascii()


class AsciiFilter(LineFilter):
    """Replaces each character of a line by ASCII with as many cells."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the line in ASCII."""
        return [
            segment
            if segment.text.isascii()
            else Segment(segment.text.translate(_TABLE), segment.style)
            for segment in segments
        ]


ASCII = AsciiFilter()
"""The shared instance: Textual caches lines by filter."""


_BLACK, _GREY, _WHITE = 0, 8, 15
_BRIGHT = {3, 6, 7, 10, 11, 14, 15}


@lru_cache(4096)
def _told_apart(style: Style) -> Style:
    """Return a style in sixteen colours whose text is readable on its background."""
    if style.color is None or style.bgcolor is None:
        return style
    ink, ground = (color.downgrade(ColorSystem.STANDARD) for color in (style.color, style.bgcolor))
    if ground.number is None or ink.number is None:
        return style
    number = ink.number
    if ground.number not in (_BLACK, _WHITE):
        number = _BLACK if ground.number in _BRIGHT else _WHITE
    elif number == ground.number:
        number = _GREY
    return style + Style(color=Ink.from_ansi(number), bgcolor=Ink.from_ansi(ground.number))


class SixteenFilter(LineFilter):
    """Keeps text readable on a terminal of sixteen colours.

    There the nearest colour is used: red text on the grey of the cursor cannot be read, and a dark
    line on a dark background is invisible.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the line in colours that differ."""
        return [
            segment if style is None else Segment(text, _told_apart(style), control)
            for segment in segments
            for text, style, control in (segment,)
        ]


SIXTEEN = SixteenFilter()
"""The shared instance: Textual caches lines by filter."""
