"""What is asked before something is done to a recording."""

from __future__ import annotations

from natstui.clean import clean_line
from natstui.model.recording import SessionAction
from natstui.model.session_summary import SessionSummary
from natstui.units import bytes_text

PACKS = {
    "as it is": "every name and text that was recorded",
    "redacted": "pseudonyms instead of names, and no text",
}
"""How a recording can be packed, by the word to pick."""


def title(it: SessionSummary) -> str:
    """Return what people call it: its name, else its folder."""
    return clean_line(it.name or it.id)


def word_to_type(it: SessionSummary) -> str:
    """Return what has to be typed before it is deleted: its name, if it has one."""
    typable = it.name.isascii() and it.name.isprintable() and it.name == it.name.strip()
    return it.name if it.name and typable else "delete"


def delete_text(it: SessionSummary) -> str:
    """Return the question before it is deleted."""
    what = f"{clean_line(it.id)} ({bytes_text(it.size_bytes)})"
    return f"Delete {what}? This cannot be undone. To do it, type {word_to_type(it)}"


def asked_text(action: SessionAction, it: SessionSummary) -> tuple[str, str]:
    """Return the question for an action, and what stands in its line at first."""
    if action == "rename":
        return f"New name of {title(it)}:", it.name
    if action == "note":
        return f"Note about the whole recording {title(it)}:", ""
    name = "redacted" if action == "pack redacted" else it.id
    return f"Pack {title(it)} into this new file:", f"~/{name}.natstui"
