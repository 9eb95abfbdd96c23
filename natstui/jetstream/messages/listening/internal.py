"""Subjects that only servers and clients use among themselves, and those that are used once."""

from __future__ import annotations

from collections.abc import Iterable

from natstui.model.assets.subjects import is_internal

_ONE_OFF = {"$JS.ACK": 4, "$JS.FC": 4, "$JS.SNAPSHOT": 4}
"""Subjects that differ for each message, and how many tokens of them say something."""


class Internal:
    """What counts as internal, for a client with its own beginning of inboxes."""

    def __init__(self, inbox_prefix: str, asked: Iterable[str]) -> None:
        """What is asked for by its name, as `_INBOX.x.>`, is told apart to the last token."""
        inbox = inbox_prefix.strip(".")
        asked = tuple(asked)
        self._inboxes = tuple(
            f"{fromkey}." for fromkey in dict.fromkeys(("_INBOX", inbox, "_R_", "_GR_"))
            if not _names(asked, fromkey)
        )  # fmt: skip
        self._one_off = {
            f"{one}.": count for one, count in _ONE_OFF.items() if not _names(asked, one)
        }
        self._own_inboxes = f"{inbox}."
        # Almost every subject is none of these, and is recognised by this alone.
        self.one_off_begins = tuple(
            one.encode() for one in (*self._inboxes, *self._one_off)
        )  # fmt: skip

    def __contains__(self, subject: str) -> bool:
        """Return whether a subject is internal."""
        return is_internal(subject) or subject.startswith(self._own_inboxes)

    def folded(self, subject: str) -> str:
        """Return the one subject that stands for all that are used once like this one."""
        for begin in self._inboxes:
            if subject.startswith(begin):
                return f"{begin}>"
        for begin, count in self._one_off.items():
            if subject.startswith(begin):
                tokens = subject.split(".")
                return ".".join([*tokens[:count], ">"]) if len(tokens) > count else subject
        return subject


def _names(asked: tuple[str, ...], begin: str) -> bool:
    return any(one == begin or one.startswith(f"{begin}.") for one in asked)
