"""What a terminal sends → Textual's events, whatever bytes come: nothing of it ends the viewer.

Textual (8.2) decodes strictly, and its parser fails on numbers that are no character or no size;
either ends its input thread, and with it the app, as "panic without an exception".
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.events import MouseMove, Resize
from textual.message import Message
from textual.messages import InBandWindowResize


class TerminalInput:
    """Decodes and parses; what is no UTF-8 becomes U+FFFD, and what is no key is dropped."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._parser = XTermParser()

    def events(self, data: bytes) -> list[Message]:
        """Return the events of the bytes that came; empty bytes mean that time went by.

        Of mouse moves in a row only the last is kept: a terminal can send them faster than any
        app can look at them.
        """
        kept: list[Message] = []
        for event in self._all(data):
            if isinstance(event, Resize | InBandWindowResize):
                # How large the terminal is says the system; this one can be typed, at any size.
                self._parser.mouse_pixels = False
            elif kept and isinstance(event, MouseMove) and isinstance(kept[-1], MouseMove):
                kept[-1] = event
            else:
                kept.append(event)
        return kept

    def _all(self, data: bytes) -> Iterator[Message]:
        # One character at a time: what cannot be parsed takes nothing behind it along.
        for character in self._decode(data):
            yield from self._parsed(character)
        yield from self._parsed("")

    def _parsed(self, character: str) -> list[Message]:
        """Return the events that one more character, or the time gone by, makes complete."""
        try:
            return list(self._parser.feed(character) if character else self._parser.tick())
        except (ValueError, ArithmeticError, ParseError):
            # Its generator has ended with the error.
            self._parser = XTermParser()
            return []
