"""Messages and bytes of every subject, in a tree of tokens, in bounded memory."""

from __future__ import annotations

from array import array
from collections.abc import Callable

from natstui.jetstream.connection.wire_parser import Piece
from natstui.jetstream.messages.listening.distinct import Distinct
from natstui.jetstream.messages.listening.internal import Internal

MOST_PLACES_COUNT = 100_000
"""Tokens and subjects that are told apart,"""
MOST_TEXT_BYTES = 32 * 1024 * 1024
"""as long as all their texts together are not longer than this."""
_MOST_LEVELS = 16
ROOT = 0
"""The place above all tokens; its own counts are those of subjects that were not told apart."""


class SubjectTree:
    """A place for every token below another; a subject is the place of its last token."""

    def __init__(self) -> None:
        self.paths = [""]
        self.above, self.levels = array("q", [ROOT]), array("q", [0])
        self.below: dict[int, array[int]] = {}
        self._places: dict[tuple[int, str], int] = {}
        self._text_bytes = 0

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def is_full(self) -> bool:
        """Return whether nothing more is told apart."""
        return len(self.paths) >= MOST_PLACES_COUNT or self._text_bytes >= MOST_TEXT_BYTES

    def place_of(self, subject: str) -> int | None:
        """Return the place of a subject; it is made where there is none and there is room."""
        place = ROOT
        for token in subject.split(".", _MOST_LEVELS - 1):
            known = self._places.get((place, token))
            if known is None and self.is_full:
                return None
            place = self._make(place, token) if known is None else known
        return place

    def _make(self, above: int, token: str) -> int:
        place = len(self.paths)
        path = f"{self.paths[above]}.{token}" if above != ROOT else token
        self.paths.append(path)
        self.above.append(above)
        self.levels.append(self.levels[above] + 1)
        self.below.setdefault(above, array("q")).append(place)
        self._places[above, token] = place
        self._text_bytes += len(path)
        return place


class Tally:
    """What came: counts for each place of the tree, of the messages that ended there."""

    def __init__(self, internal: Internal) -> None:
        self.tree = SubjectTree()
        self.msgs, self.sizes = array("q", [0]), array("q", [0])
        self.others = Distinct()
        self._internal = internal
        self._known: dict[bytes, int] = {}

    def add(self, run: list[Piece]) -> None:
        """Count messages."""
        known, msgs, sizes = self._known.get, self.msgs, self.sizes
        for subject, _reply, _start, _header_bytes, size_bytes in run:
            place = known(subject)
            if place is None:
                place = self._place(subject)
            msgs[place] += 1
            sizes[place] += size_bytes

    def _place(self, subject: bytes) -> int:
        """Return where messages of a subject are counted that has no place of its own yet."""
        is_one_off = subject.startswith(self._internal.one_off_begins)
        text = text_of(subject)
        place = self.tree.place_of(self._internal.folded(text) if is_one_off else text)
        if place is None:
            self.others.add(subject)
            return ROOT
        missing = len(self.tree) - len(self.msgs)
        self.msgs.extend([0] * missing)
        self.sizes.extend([0] * missing)
        if not is_one_off:
            self._known[subject] = place
        return place


def text_of(subject: bytes) -> str:
    """Return a subject as text; bytes that are none stay apart from each other."""
    return subject.decode("utf-8", "backslashreplace")


class SubjectFilter:
    """Which subjects somebody wants to see, remembered for each that was looked at."""

    def __init__(
        self, internal: Internal, matches: Callable[[str], bool] | None, *, with_internal: bool
    ) -> None:
        self._internal, self._matches = internal, matches
        self._with_internal = with_internal
        self.is_everything = matches is None and with_internal
        self._known: dict[bytes, bool] = {}

    def fits(self, subject: bytes) -> bool:
        """Return whether a message of a subject is wanted."""
        known = self._known.get(subject)
        if known is None:
            text = text_of(subject)
            known = self.fits_text(self._internal.folded(text))
            if len(self._known) >= MOST_PLACES_COUNT:
                self._known.clear()
            self._known[subject] = known
        return known

    def fits_text(self, subject: str) -> bool:
        """Return whether a subject is wanted."""
        if not self._with_internal and subject in self._internal:
            return False
        return self._matches is None or self._matches(subject)
