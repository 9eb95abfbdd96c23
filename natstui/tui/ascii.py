"""For terminals without Unicode: every character that is not ASCII becomes ASCII, cell by cell."""

from __future__ import annotations

import unicodedata

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_BY_NAME = {
    "●": "o", "○": ".", "◉": "O", "▲": "^", "▼": "v", "△": "^", "▽": "v", "◆": "*", "◇": "o",
    "✖": "x", "✗": "x", "✘": "x", "✓": "*", "✔": "*", "•": "*", "·": ".", "∙": ".", "…": "~",
    "–": "-", "—": "-", "−": "-", "→": ">", "←": "<", "↑": "^", "↓": "v", "▶": ">", "◀": "<",
    "▸": ">", "◂": "<", "▾": "v", "▴": "^", "›": ">", "‹": "<", "»": ">", "«": "<", "⏸": "=",
    "▌": "|", "▐": "|", "▎": "|", "▏": "|", "▕": "|", "▀": "'", "▔": "-", "×": "x", "µ": "u",
    "■": "#", "□": "o", "▪": "#", "▫": "o", "␛": "?", "⭘": "o", "“": '"', "”": '"', "‘": "'",
    "’": "'", "≥": ">", "≤": "<", "°": "o", "±": "+", "∞": "~",
}  # fmt: skip
_LEVELS = "_.-=+*%#"


class _Ascii(dict[int, str]):
    """A translation table that works out each character when it is first met."""

    def __missing__(self, code: int) -> str:
        """Work out one character and keep it."""
        self[code] = ascii_of(chr(code)) if code > 0x7E else chr(code)
        return self[code]


def ascii_of(character: str) -> str:
    """Return ASCII that takes as many cells as `character`, and looks like it where it can."""
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
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return plain if plain.isprintable() and len(plain) == width else "?" * width


def _box(character: str) -> str:
    """Return the line or the corner a box character is made of."""
    name = unicodedata.name(character)
    if "HORIZONTAL" in name and "VERTICAL" not in name and "DOWN" not in name and "UP" not in name:
        return "-"
    vertical = ("HORIZONTAL", "LEFT", "RIGHT", "DIAGONAL")
    return "|" if not any(word in name for word in vertical) else "+"


_TABLE = _Ascii()


class AsciiFilter(LineFilter):
    """Leaves only ASCII in a line, each character in as many cells as before."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the line in ASCII."""
        return [
            segment
            if segment.text.isascii()
            else Segment(segment.text.translate(_TABLE), segment.style)
            for segment in segments
        ]


ASCII = AsciiFilter()
"""The one instance: lines remember what it made of them."""
