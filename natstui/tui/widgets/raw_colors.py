"""What the parts of one line of JSON or YAML are, and where a search finds something. Pure."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

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
    """A part of a line and what it is: key, string, number, word or mark."""

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


def matches_of(line: str, wanted: str) -> list[Span]:
    """Return where `wanted` is found; upper case letters in it make case matter."""
    if not wanted:
        return []
    if wanted == wanted.lower():
        line = line.lower()
    found: list[Span] = []
    at = line.find(wanted)
    while at >= 0:
        found.append(Span(at, at + len(wanted), "found"))
        at = line.find(wanted, at + len(wanted))
    return found
