"""What was typed into a form so far, and what it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from natstui.model.assets.fields import Field, text_at
from natstui.model.assets.rules import NamesInUse
from natstui.tui.frame.form.text import (
    Subject,
    drafted,
    form_fields,
    start_text,
    text_at_start,
)
from natstui.units import parse_moment


class Entries:
    """Keeps what was typed apart from what the form starts with, which may change below it."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.texts: dict[str, str] = {}
        """What was typed, by field; a field that shows its first text again has no entry."""
        self._settled: dict[str, str] = {}
        """The same where it says a time from now, with that time written out."""
        self.estimate = ""
        self.in_use = NamesInUse()
        self.notes: tuple[str, ...] = ()
        self.draft = drafted(subject, {}, self.in_use)
        """What the texts meant when they were last checked."""

    @property
    def name(self) -> str:
        """The name that the stream or consumer will have."""
        return text_at(self.draft.config, "name")

    def text_of(self, field: Field) -> str:
        """Return what a field shows."""
        return self.texts.get(field.path, start_text(self.subject, field))

    def is_changed(self, field: Field) -> bool:
        """Return whether a field shows another text than at first."""
        start = start_text(self.subject, field) if field.path else ""
        return self.texts.get(field.path, start) != start

    def put(self, path: str, text: str) -> None:
        """Keep what was typed into a field; without a path it is the estimate."""
        if path == "":
            self.estimate = text
        elif text == text_at_start(self.subject, path):
            self.texts.pop(path, None)
            self._settled.pop(path, None)
        elif self.texts.get(path) != text:
            self.texts[path] = text
            self._settled[path] = _settled(self.subject, path, text)

    def start_from(self, base: Mapping[str, object]) -> None:
        """Begin with another configuration; what was typed stays, on top of it."""
        self.subject = replace(self.subject, base=base)

    def go_on_from(self, subject: Subject, sent_texts: Mapping[str, str]) -> None:
        """Begin with what the server made of what was sent; what was typed since stays, on top."""
        # What was set back since has no text here, and differs all the same from what was sent.
        texts = {path: text_at_start(self.subject, path) or "" for path in sent_texts}
        texts |= self.texts
        self.subject = subject
        self.texts = {
            path: text
            for path, text in texts.items()
            if text not in (sent_texts.get(path), text_at_start(subject, path))
        }

    def redraft(self) -> None:
        """Find out what the texts mean now."""
        texts = {path: self._settled.get(path, text) for path, text in self.texts.items()}
        self.draft = drafted(self.subject, texts, self.in_use, self.estimate, self.notes)

    def unsent(self) -> str:
        """Return what was typed and not sent, in a few words; empty: none."""
        verb = "edit of" if self.subject.editing else "new"
        return f"the {verb} {self.subject.kind} {self.name}".strip() if self.texts else ""


_FROM_NOW = {
    "time": re.compile(r"\s*(.+\sago|in\s.+|now)\s*"),
    "source": re.compile(r"(?<=\stime=)(\S+ ago)(?![^\s;])"),
}
"""Where a kind of field holds a time from now."""


def _settled(subject: Subject, path: str, text: str) -> str:
    """Return a text in which times from now stand still, or every look at it were a change."""
    kind = next((field.kind for field in form_fields(subject) if field.path == path), "text")
    pattern = _FROM_NOW.get("source" if kind == "sources" else kind)
    if pattern is None:
        return text
    try:
        return pattern.sub(lambda found: parse_moment(found[1]).isoformat(), text)
    except ValueError:
        return text  # the field says what is wrong with it
