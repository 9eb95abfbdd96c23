"""Text from the server, made harmless: no control, escape, bidi or invisible character survives.

Names, descriptions, headers and payloads are hostile until they went through here. Every visible
character stays; what would steer a terminal becomes a visible stand-in of the same width.
"""

from __future__ import annotations

import re


def _stand_ins() -> dict[int, str]:
    """Map each unsafe code point to its stand-in."""
    table = {code: chr(0x2400 + code) for code in range(0x20)}
    table[0x7F] = "\u2421"
    table.update(dict.fromkeys(range(0x80, 0xA0), "\ufffd"))
    table.update(dict.fromkeys(range(0xD800, 0xE000), "\ufffd"))
    invisible = [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x180E, 0x3164, 0xFEFF, 0xFFA0]
    invisible += [*range(0x17B4, 0x17B6), *range(0x200B, 0x2010), *range(0x2028, 0x202F)]
    invisible += [*range(0x2060, 0x2070), *range(0x180B, 0x180E), *range(0xFE00, 0xFE10)]
    invisible += [*range(0xFFF0, 0xFFFC), *range(0xE0000, 0xE1000)]
    table.update(dict.fromkeys(invisible, "·"))
    return table


_TABLE = _stand_ins()
_UNSAFE = re.compile("[" + re.escape("".join(map(chr, _TABLE))) + "]")


def clean_line(text: str) -> str:
    """Return `text` as one harmless line; the same string when it already is one."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_TABLE) if _UNSAFE.search(text) else text


def clean_text(text: str) -> str:
    """Return `text` harmless, keeping its line feeds; tabs become four spaces."""
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    return "\n".join(map(clean_line, text.split("\n")))
