"""Long text split into the rows of a screen, and the coloured parts of one line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from rich.cells import cell_len


class Row(NamedTuple):
    """A part of a line that fits into one row of the screen."""

    line: int
    start: int
    end: int


def rows_of(lines: list[str], width: int) -> list[Row]:
    """Return the screen rows of all lines, each at most `width` cells."""
    rows: list[Row] = []
    for number, line in enumerate(lines):
        if len(line) <= width and line.isascii():
            rows.append(Row(number, 0, len(line)))
        else:
            rows.extend(Row(number, start, end) for start, end in _cuts(line, max(2, width)))
    return rows


def _cuts(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a line, each at most `width` cells wide."""
    start = 0
    single = line.isascii()
    while start < len(line) or start == 0:
        end = min(len(line), start + width)
        while not single and end > start + 1:
            excess = cell_len(line[start:end]) - width
            if excess <= 0:
                break
            end -= (excess + 1) // 2
        yield start, end
        start = max(end, 1)


Language = Literal["json", "yaml", "text"]

_PATTERNS: dict[Language, re.Pattern[str] | None] = {
    "json": re.compile(
        r'(?P<key>"(?:[^"\\]|\\.)*"(?=\s*:))|(?P<string>"(?:[^"\\]|\\.)*"?)'
        r"|(?P<number>-?\b\d[\d.eE+-]*)|(?P<word>\b(?:true|false|null)\b)|(?P<mark>[\[\]{}:,])"
    ),
    "yaml": re.compile(
        r"^(?P<mark>[\s-]*(?=\S))?(?P<key>(?:\"[^\"]*\"|'[^']*'|[^\s:#'\"][^:#]*)(?=:(?:\s|$)))?"
        r"|(?P<string>\"(?:[^\"\\]|\\.)*\"|'[^']*')|(?P<word>(?<=[:-] )(?:true|false|null|~)$)"
        r"|(?P<number>(?<=[:-] )-?\d[\d.eE+-]*$)"
    ),
    "text": None,
}
_COLOURED_CHARACTERS = 4096


class Span(NamedTuple):
    """A part of a line and its kind: key, string, number, word or mark."""

    start: int
    end: int
    kind: str


def spans_of(line: str, language: Language) -> list[Span]:
    """Return the coloured parts of one line; none for a line too long to be read anyway."""
    pattern = _PATTERNS[language]
    if pattern is None or len(line) > _COLOURED_CHARACTERS:
        return []
    return [
        Span(*match.span(kind), kind)
        for match in pattern.finditer(line)
        for kind, text in match.groupdict().items()
        if text
    ]


def matches_of(line: str, search_text: str) -> list[Span]:
    """Return the matches of `search_text`; upper case letters in it make case matter."""
    if not search_text:
        return []
    if search_text == search_text.lower():
        line = line.lower()
    matches: list[Span] = []
    position = line.find(search_text)
    while position >= 0:
        matches.append(Span(position, position + len(search_text), "found"))
        position = line.find(search_text, position + len(search_text))
    return matches
