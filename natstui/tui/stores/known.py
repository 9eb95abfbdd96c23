"""The keys of a bucket as far as they are known, kept up with what changes.

Of a bucket with very many keys only the names are read at once, and the values of those in view.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from time import monotonic

from natstui.model.records.stores import KeyNames, KeyRow, KeysPage
from natstui.tui.stores.cells import KeyView

SHOWN_ROWS = 5_000
"""So many keys are read with their values at once."""
MOST_NAMES = 200_000
_ANEW_S = 60.0
"""What expires changes no revision: after so long all of them are read again."""
_FRESH_S = 5.0
_MOST_AT_ONCE = 200


class KeyRows:
    """The keys, in the order in which they came; a row is replaced where it is."""

    def __init__(self) -> None:
        self.view = KeyView([], 0, (), by_revision=False)
        self.last: KeysPage | None = None
        self.count = 0
        """How many match."""
        self._things: list[KeyRow] = []
        self._place: dict[str, int] = {}
        self._changed_s: dict[str, float] = {}
        self._whole_s = 0.0
        self._names: KeyNames | None = None

    def __len__(self) -> int:
        return len(self._things)

    @property
    def after_revision(self) -> int:
        """The revision after which changes are asked for; 0: everything is asked for."""
        if self.last is None or monotonic() - self._whole_s > _ANEW_S:
            return 0
        return self.last.last_revision_seq

    @property
    def wants_names(self) -> bool:
        """Whether there are more keys than were read, whose names are not known yet."""
        return self.last is not None and self.count > len(self) and self._names is None

    def unread(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Return those of some keys whose names alone are known."""
        places = ((key, self._place.get(key)) for key in keys)
        found = [key for key, at in places if at is not None and not self._things[at].operation]
        return tuple(found[:_MOST_AT_ONCE])

    def take(self, page: KeysPage, wanted: str) -> None:
        """Add what a page of all keys, or of changes, tells."""
        again = self.last is not None and self.last.created_at_us == page.created_at_us
        changes = page.keys_count is None
        if page.keys_count is not None:
            self._whole_s, self.count = monotonic(), page.keys_count
            self._things, self._place, self._names = [], {}, None
        elif not again:
            self.last = None  # it was recreated: everything is asked for
            return
        self._add(page.rows, anew=not changes)
        if changes:
            self._changed_s |= {row.key: monotonic() for row in page.rows}
            self.count = max(self.count, len(self))
        self.last = page
        if wanted == ">" and self.count <= SHOWN_ROWS and len(self) > page.stored_keys_count:
            self._whole_s = float("-inf")  # some expired

    def take_names(self, names: KeyNames) -> None:
        """Add keys of which only the names are known."""
        if self.last is None or names.created_at_us != self.last.created_at_us:
            return
        self._names = names
        self.count = max(self.count, len(names.names))
        nothing = [
            KeyRow(name, 0, 0, "", "", 0) for name in names.names if name not in self._place
        ]
        self._add(nothing, anew=True)

    def take_values(self, page: KeysPage) -> None:
        """Take the values of keys that are in view; what changed since is newer already."""
        if self.last is not None and page.created_at_us == self.last.created_at_us:
            rows = [row for row in page.rows if row.key in self.unread([row.key])]
            self._add(rows, anew=False)

    def _add(self, rows: Iterable[KeyRow], *, anew: bool) -> None:
        """Put rows in their places; a view of other keys is another view."""
        before = len(self._things)
        for row in rows:
            at = self._place.setdefault(row.key, len(self._things))
            if at == len(self._things):
                self._things.append(row)
            else:
                self._things[at] = row
        if anew or len(self._things) != before:
            self.view = KeyView(self._things, 0, (), by_revision=False)

    def shown(self) -> KeyView:
        """Return the view of this moment."""
        now_s = monotonic()
        self._changed_s = {k: at for k, at in self._changed_s.items() if now_s - at < _FRESH_S}
        self.view.now_us, self.view.fresh = time.time_ns() // 1000, set(self._changed_s)
        return self.view
