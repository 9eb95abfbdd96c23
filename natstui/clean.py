"""Text from the server, cleaned: no control, escape, bidi or invisible character is left.

Names, descriptions, headers and payloads are hostile until they are cleaned here. Every visible
character stays; a character that controls a terminal is replaced by a visible one of its width.
"""

from __future__ import annotations

import json
import re

_INVISIBLE_CHARACTERS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff"
)
_UNSAFE_PATTERN = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_INVISIBLE_CHARACTERS}]")


def _visible_replacement(match: re.Match[str]) -> str:
    """Return the visible replacement of one unsafe character."""
    code_point = ord(match[0])
    if code_point < 0x20:
        return chr(0x2400 + code_point)
    if code_point == 0x7F:
        return "\u2421"
    return "\ufffd" if code_point < 0xA0 or 0xD800 <= code_point < 0xE000 else "·"


def clean_line(text: str) -> str:
    """Return `text` as one line, with a visible character for each control character."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE_PATTERN.sub(_visible_replacement, text)


def clean_text(text: str) -> str:
    """Return `text` with visible control characters; line feeds stay, tabs become four spaces."""
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    return "\n".join(map(clean_line, text.split("\n")))


_UNSAFE_IN_JSON_PATTERN = re.compile(f"[\x7f-\x9f{_INVISIBLE_CHARACTERS}]")
_UNSAFE_OR_BACKSLASH_PATTERN = re.compile(
    f"[\x00-\x1f\x7f-\x9f\ud800-\udfff{_INVISIBLE_CHARACTERS}\\\\]"
)


def _escape_match(match: re.Match[str]) -> str:
    # JSON does not escape DEL (0x7f).
    return "\\u007f" if match[0] == "\x7f" else json.dumps(match[0])[1:-1]


def clean_json(text: str) -> str:
    """Return the same JSON with the characters escaped that could control a terminal."""
    return (
        text
        if text.isascii() and "\x7f" not in text
        else _UNSAFE_IN_JSON_PATTERN.sub(_escape_match, text)
    )


def escape_line(text: str) -> str:
    r"""Return `text` as one line, with control characters and backslashes escaped as in JSON:
    `\n`, `\u001b`, `\\`.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return _UNSAFE_OR_BACKSLASH_PATTERN.sub(_escape_match, text)
