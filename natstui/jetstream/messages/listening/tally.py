"""Messages and bytes of every subject, in a tree of tokens, in bounded memory.

Subjects that are used once are counted as one; of those that found no room it is known about how
many they were.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable

from natstui.jetstream.connection.wire_parser import Piece
from natstui.model.assets.subjects import is_internal

MOST_PLACES_COUNT = 100_000
"""Tokens and subjects that are told apart,"""
MOST_TEXT_BYTES = 32 * 1024 * 1024
"""as long as all their texts together are not longer than this."""
_MOST_LEVELS = 16
ROOT = 0
"""The place above all tokens; its own counts are those of subjects that were not told apart."""
_BITS_COUNT = 12
_PLACES_COUNT = 1 << _BITS_COUNT
_BIAS_RATIO = 0.7213 / (1 + 1.079 / _PLACES_COUNT)
_HASH_BITS_COUNT = 61
"""Of Python's hashes of bytes, which are salted anew in each process."""
_ONE_OFF = {"$JS.ACK": 4, "$JS.FC": 4, "$JS.SNAPSHOT": 4}
"""Subjects that differ for each message, and how many tokens of them say something."""


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


class Distinct:
    """Counts different byte strings: HyperLogLog, which remembers the rarest hash of each kind."""

    def __init__(self) -> None:
        self._places = bytearray(_PLACES_COUNT)

    def add(self, thing: bytes) -> None:
        """Count a thing, unless it was counted before."""
        mixed = hash(thing) & ((1 << _HASH_BITS_COUNT) - 1)
        place, rest = mixed & (_PLACES_COUNT - 1), mixed >> _BITS_COUNT
        rank = _HASH_BITS_COUNT - _BITS_COUNT - rest.bit_length() + 1
        if rank > self._places[place]:
            self._places[place] = rank

    def count(self) -> int:
        """Return about how many there were."""
        empty = self._places.count(0)
        if empty == _PLACES_COUNT:
            return 0
        about = _BIAS_RATIO * _PLACES_COUNT**2 / sum(2.0**-rank for rank in self._places)
        if about <= 2.5 * _PLACES_COUNT and empty:
            about = _PLACES_COUNT * math.log(_PLACES_COUNT / empty)
        return max(1, round(about))


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
