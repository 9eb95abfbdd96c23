"""Sentences and progress on stderr, beside the output."""

from __future__ import annotations

import sys
import time
from typing import Self

import click

from natstui.clean import clean_line


def print_stderr(text: str) -> None:
    """Print a sentence to stderr after `natstui:`, on one line and without control characters."""
    click.echo(clean_line(f"natstui: {text}"), err=True)


class TerminalLine:
    """A context manager: a line on stderr that is cleared at the end; shows nothing without a
    terminal.
    """

    def __init__(self, interval_s: float = 0.0) -> None:
        """Create an empty line; `interval_s` is the minimum time between two texts."""
        self._is_shown = sys.stderr.isatty()
        self._interval_s = interval_s
        self._shown_text = ""
        self._last_shown_mono_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str, *, immediately: bool = False) -> None:
        """Replace the line by a text.

        Ignores a text within `interval_s` after the last one, unless `immediately` is true.
        """
        now_mono_s = time.monotonic()
        is_too_early = now_mono_s - self._last_shown_mono_s < self._interval_s and not immediately
        if not self._is_shown or is_too_early or text == self._shown_text:
            return
        self._shown_text, self._last_shown_mono_s = text, now_mono_s
        self._write(f"\r\x1b[K{clean_line(text)}")

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._shown_text:
            self._shown_text = ""
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        try:
            click.echo(text, err=True, nl=False)
        except OSError:
            # The terminal was closed: what this line is about cleans up when its signal comes.
            self._is_shown = False
