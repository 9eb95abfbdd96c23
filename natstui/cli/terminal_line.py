"""A line of the terminal that shows how far something is, and is rewritten."""

from __future__ import annotations

import sys
import time
from typing import Self

import click

from natstui.clean import clean_line


class TerminalLine:
    """A line at stderr that is cleared at the end; nothing where stderr is no terminal."""

    def __init__(self, every_s: float = 0.0) -> None:
        """`every_s` is how long a text stays at least."""
        self._is_shown = sys.stderr.isatty()
        self._every_s = every_s
        self._text = ""
        self._shown_mono_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str, *, at_once: bool = False) -> None:
        """Show another text; `at_once` shows it also where the one before is still new."""
        now_mono_s = time.monotonic()
        is_new = now_mono_s - self._shown_mono_s < self._every_s and not at_once
        if not self._is_shown or is_new or text == self._text:
            return
        self._text, self._shown_mono_s = text, now_mono_s
        click.echo(f"\r\x1b[K{clean_line(text)}", err=True, nl=False)

    def clear(self) -> None:
        """Clear the line."""
        if self._text:
            self._text = ""
            click.echo("\r\x1b[K", err=True, nl=False)
