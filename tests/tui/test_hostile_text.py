"""Server text never steers the terminal or the app, whichever widget shows it.

Looked at are the very bytes that go to the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Any

import pytest
from textual.app import ComposeResult
from textual.driver import Driver
from textual.drivers.headless_driver import HeadlessDriver
from textual.widgets import Label, Static

from natstui.tui.app.guarded import GuardedApp
from natstui.tui.kit.chart.chart import Chart, ChartData, Series
from natstui.tui.kit.raw.view import RawView
from natstui.tui.kit.table.big_table import BigTable, Cell, ColumnLayout
from natstui.tui.kit.text import safe, safe_lines

PAYLOADS = {
    "click markup": "[@click=app.quit]QUIT[/]",
    "link markup": "[link=https://evil.example]L[/link]",
    "malformed tags": "x[/] [/nope] {\"b\":[/c]} [type=x, v={'a[0]'}]",
    "style markup": "[bold red on blue]R[/] $name \\[x",
    "window title": "\x1b]2;PWNED\x1b\\",
    "clipboard": "\x1b]52;c;UFdORUQ=\x07",
    "endless OSC": "\x1b]0;PWNED",
    "erase and move": "\x1b[2J\x1b[1;1HPWNED\x1b[31m",
    "device string": "\x1bPq#0\x1b\\ \x1b_APC\x1b\\",
    "C1 CSI and OSC": "\x9b2J\x9d0;PWNED\x9c\x90x\x9c",
    "bell, back, form": "a\x07b\x08c\x0cd\x0be\x7ff",
    "NUL": "a\x00b",
    "line ends": "a\r\nb\nc\rd\x85e\u2028f\u2029g",
    "tab": "a\tb",
    "bidi": "\u202eevil\u202c \u2066x\u2069 \u200f",
    "right to left": "שלום عالم",
    "zero width": "a\u200bb\u200cc\u2060d\ufeffe\u00adf",
    "joined emoji": "👨‍👩‍👧 🇩🇪 👍🏽 ❤️",
    "wide": "注文ストリーム" * 20,
    "combining": "e\u0301" * 30 + "z̷̢̛" * 10,
    "lone surrogate": "a\ud83db\udc00",
    "tags and variation": "a\U000e0041b\ufe0fc",
    "very long": "x" * 10_000,
    "empty": "",
}

ALLOWED = re.compile(
    r"\x1b\[[0-9;]*m"  # colours
    r"|\x1b\[\d+;\d+H"  # where a changed part begins
    r"|\x1b\[\?2026[hl]"  # one frame at a time
    r"|\x1b\]22;[a-z-]*\x07"  # the shape of the mouse pointer
)
DANGEROUS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\u00ad\ufe00-\ufe0f"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)


class RecordingDriver(HeadlessDriver):
    """Keeps what is written to the terminal."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.written: list[str] = []

    def write(self, data: str) -> None:
        self.written.append(data)

    @property
    def is_headless(self) -> bool:
        return False


class HostileRows:
    """Every name, cell and key is the payload."""

    order = range(3)

    def __init__(self, text: str) -> None:
        self.text = text

    def __len__(self) -> int:
        return 3

    def key(self, row: int) -> Hashable:
        return (self.text, row)

    def cells(self, row: int) -> Sequence[Cell]:
        return (Cell(self.text, "strong"), Cell(self.text), Cell(self.text, "warn"))


class HostileApp(GuardedApp):
    """Shows one text with everything we have, and with Textual's own widgets used wrongly."""

    CSS = "BigTable { height: 5; } Chart { height: 9; } RawView { height: 5; }"

    def __init__(self, text: str, *, ascii_only: bool = False) -> None:
        super().__init__(ascii_only=ascii_only)
        self.text = text
        self.recording: RecordingDriver | None = None

    def _build_driver(
        self, headless: bool, inline: bool, mouse: bool, size: tuple[int, int] | None
    ) -> Driver:
        self.recording = RecordingDriver(self, size=size)
        return self.recording

    def _on_mount(self) -> None:
        """No signal handlers in a test."""

    def compose(self) -> ComposeResult:
        yield BigTable((ColumnLayout(self.text, self.text, 20), *COLUMNS), empty=self.text)
        yield Chart()
        yield RawView()
        yield Static(safe(self.text), id="safe")
        yield Static(safe_lines(self.text))
        yield Label(self.text, markup=False)

    def on_mount(self) -> None:
        series = Series(self.text, [1.0, 2.0, 3.0])
        data = ChartData(self.text, "msgs", [-2.0, -1.0, 0.0], (series, series), 2)
        self.query_one(Chart).show(data)
        self.query_one(BigTable).show(HostileRows(self.text))
        self.query_one(RawView).show(self.text, "json")
        self.query_one("#safe").border_title = safe(self.text).markup
        self.title = self.text
        self.notify(self.text, title=self.text, markup=True)


COLUMNS = (ColumnLayout("b", "b", 8, "right"), ColumnLayout("c", "c", 12, flex=1))


def untamed(written: str) -> list[str]:
    """Return what was written besides plain text, colours and places."""
    rest = ALLOWED.sub("", written)
    return [rest[max(0, m.start() - 9) : m.end() + 30] for m in DANGEROUS.finditer(rest)]


LIKE_OTHERS = {
    "link markup", "style markup", "window title", "endless OSC", "erase and move",
    "device string", "bell, back, form", "NUL", "tab", "bidi", "right to left", "zero width",
    "combining", "tags and variation", "malformed tags", "joined emoji", "very long", "empty",
}  # fmt: skip
"""Others go the same way; the rules of each character: tests/tui/test_text.py."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in LIKE_OTHERS else ())
        for name in PAYLOADS
    ],
)
async def test_nothing_but_text_and_colours_reaches_the_terminal_and_no_line_is_too_wide(
    name: str,
) -> None:
    app = HostileApp(PAYLOADS[name])
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        await pilot.pause(0.2)
        table = app.query_one(BigTable)
        width = table.scrollable_content_region.width
        for y in range(table.size.height):
            assert table.render_line(y).cell_length == width
            assert sum(segment.cell_length for segment in table.render_line(y)) == width
        await pilot.press("j", "space", "tab", "n")
        await pilot.click(BigTable, offset=(5, 1))
        await pilot.click("#safe", offset=(3, 0))
        app.query_one(RawView).search(PAYLOADS[name][:5])
        await pilot.pause(0.2)
        assert app.is_running
        assert app.recording is not None
        written = "".join(app.recording.written)
        assert "\x1b[" in written
        assert untamed(written) == []


@pytest.mark.parametrize("name", ["wide", "clipboard"])
async def test_ascii_mode_writes_ascii_whatever_the_server_says(name: str) -> None:
    app = HostileApp(PAYLOADS[name], ascii_only=True)
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        await pilot.pause(1)
        assert app.recording is not None
        written = "".join(app.recording.written)
        assert written.isascii()


async def test_the_clipboard_gets_harmless_text() -> None:
    app = HostileApp("")
    async with app.run_test(size=(80, 24)) as pilot:
        app.copy_to_clipboard("rm\x1b[201~\n\x00")
        await pilot.pause()
        assert app.clipboard == "rm␛[201~\n␀"
