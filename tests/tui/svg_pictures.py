"""SVG pictures of the app, in a form in which a live one and a replayed one can be the same.

A picture is `App.export_screenshot`. Of it, the unique id is dropped, because it is a hash of the
whole; a class is replaced by its CSS, because its number counts the styles of the whole; and rows
are told apart by the place they are drawn at, so that those below the body can be left out: the
footer offers other keys in a replay, and the timeline is drawn above it.
"""

from __future__ import annotations

import re
from collections import defaultdict

from textual.app import App

_LINE_HEIGHT = 24.4
_ID = re.compile(r"terminal-\d+-?")
_STYLE = re.compile(r"\.(r\d+) \{ ([^}]*) \}")
_TEXT = re.compile(r'<text class="(r\d+)" x="([^"]+)" [^>]*clip-path="url\(#line-(\d+)\)">(.*?)<')
_RECT = re.compile(r'<rect fill="([^"]+)" x="([^"]+)" y="([^"]+)" width="([^"]+)"')
_RECORDING = re.compile(r"● REC \S+ \S+\s+")
# A seek judges only the moment it comes to: what has to hold for a while is counted later there.
_COUNTS = re.compile(r"[✖▲] \d+ (critical|warnings?)(\s+|$)")

_PLACE = " at "

Picture = list[list[str]]
"""What is drawn in each row."""


def rows_of(app: App[int]) -> dict[int, list[str]]:
    """Return what is drawn in each row: its grounds, then its texts."""
    svg = _ID.sub("", app.export_screenshot(title="natstui", simplify=True))
    css = dict(_STYLE.findall(svg))
    rows: dict[int, list[str]] = defaultdict(list)
    for fill, x, y, width in _RECT.findall(svg):
        rows[round((float(y) - 1.5) / _LINE_HEIGHT)].append(f"{fill} from {x}, {width} wide")
    for name, x, row, text in _TEXT.findall(svg):
        rows[int(row)].append(f"{text}{_PLACE}{x} in {css[name]}")
    return rows


def picture(app: App[int], rows_count: int) -> Picture:
    """Return the first rows of the screen; of the very first, text without the recorder's
    mark and the counts of findings.
    """
    rows = rows_of(app)
    first = "".join(f" {part.partition(_PLACE)[0]}" for part in rows[0] if _PLACE in part)
    assert rows[rows_count - 1], "nothing is drawn above the footer: the SVG is another one"
    words = _COUNTS.sub("", _RECORDING.sub("", first.replace("&#160;", " "))).split()
    return [words, *(rows[row] for row in range(1, rows_count))]
