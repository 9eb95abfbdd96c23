"""Checks a terminal before Textual is imported, and resets one afterwards."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Mapping

from natstui.errors import UsageError

RESET_SEQUENCES = "".join(
    [
        "\x1b[?2026l",  # no synchronized output
        "\x1b[?1049l",  # back to the normal screen
        "\x1b[<u",  # no extended keys
        *(f"\x1b[?{mode}l" for mode in (1000, 1002, 1003, 1004, 1006, 1015, 1016, 2004, 2048)),
        "\x1b[?7h",  # long lines wrap
        "\x1b[?25h",  # the cursor is seen
        "\x1b[0m",
    ]
)
"""Disables all modes that the viewer enables: screen, mouse, focus, paste and keys."""


def is_in_browser(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether a browser draws the output of the viewer, as with `natstui serve`."""
    return bool(environ.get("TEXTUAL_DRIVER"))


def require_terminal(environ: Mapping[str, str] = os.environ) -> None:
    """Raise UsageError if there is no terminal to draw on and to read keys from."""
    if is_in_browser(environ):
        return
    problem = ""
    if not sys.stdin.isatty():
        problem = "standard input is not a terminal"
    elif not sys.stderr.isatty():
        problem = "standard error, on which the screen is drawn, is not a terminal"
    elif environ.get("TERM", "") in ("", "dumb"):
        problem = f"TERM is {environ.get('TERM', '')!r}"
    if problem:
        raise UsageError(f"cannot draw screens: {problem}; run `natstui watch` for plain output")


def needs_ascii(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal can show only ASCII: the Linux console, or without UTF-8."""
    if is_in_browser(environ):
        return False
    encoding = (sys.__stderr__.encoding or "") if sys.__stderr__ is not None else ""
    return environ.get("TERM") == "linux" or encoding.lower().replace("-", "") != "utf8"


def reset_terminal() -> None:
    """Reset the terminal after a killed viewer: its modes, screen, echo and line input."""
    sys.stderr.write(RESET_SEQUENCES)
    sys.stderr.flush()
    if sys.stdin.isatty():
        terminal_attributes = termios.tcgetattr(sys.stdin.fileno())
        terminal_attributes[0] |= termios.ICRNL | termios.IXON | termios.BRKINT
        terminal_attributes[1] |= termios.OPOST | termios.ONLCR
        terminal_attributes[3] |= termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, terminal_attributes)
