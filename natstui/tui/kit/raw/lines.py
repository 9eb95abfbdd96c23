"""Splits long text into screen rows, and finds the parts of a line to colour."""

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


def split_rows(lines: list[str], width: int) -> list[Row]:
    """Return the screen rows of all lines, each at most `width` cells wide."""
    rows: list[Row] = []
    for number, line in enumerate(lines):
        if len(line) <= width and line.isascii():
            rows.append(Row(number, 0, len(line)))
        else:
            rows.extend(Row(number, start, end) for start, end in _cut_line(line, max(2, width)))
    return rows


def _cut_line(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each part of a line, at most `width` cells wide."""
    start = 0
    is_ascii = line.isascii()
    while start < len(line) or start == 0:
        end = min(len(line), start + width)
        while not is_ascii and end > start + 1:
            excess_cells = cell_len(line[start:end]) - width
            if excess_cells <= 0:
                break
            end -= (excess_cells + 1) // 2
        yield start, end
        start = max(end, 1)


Language = Literal["json", "yaml", "text"]

_TOKEN_PATTERN_BY_LANGUAGE: dict[Language, re.Pattern[str] | None] = {
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
_MAX_COLOURED_LINE_CHARACTERS = 4096


class Span(NamedTuple):
    """A part of a line and its kind: key, string, number, word (such as true), mark (punctuation),
    or found (a match of the search).
    """

    start: int
    end: int
    kind: str


def find_spans(line: str, language: Language) -> list[Span]:
    """Return the parts of a line to colour; empty for a line above 4,096 characters."""
    pattern = _TOKEN_PATTERN_BY_LANGUAGE[language]
    if pattern is None or len(line) > _MAX_COLOURED_LINE_CHARACTERS:
        return []
    return [
        Span(*match.span(kind), kind)
        for match in pattern.finditer(line)
        for kind, text in match.groupdict().items()
        if text
    ]


def find_matches(line: str, search_text: str) -> list[Span]:
    """Return the matches of `search_text` in a line; case matters only if it has upper case."""
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
