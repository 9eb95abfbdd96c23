"""The rows of subjects that a screen shows, out of a tally with up to 100,000 places."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from natstui.jetstream.messages.listening.tally import ROOT, SubjectFilter, SubjectTree, Tally
from natstui.model.records.listening import RATE_OVER_S, RowKind, SubjectRow, SubjectsLook

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

_MOST_ROWS = 400
_MOST_BELOW_ONE = 100


@dataclass(frozen=True, slots=True)
class _Moment:
    at_s: float
    msgs: Int64s
    sizes: Int64s


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures of each place: what came there, or there and below."""

    subjects: Int64s
    msgs: Int64s
    sizes: Int64s
    msgs_per_s: Float64s
    bytes_per_s: Float64s

    def rows_by(self, by: str) -> Int64s | Float64s:
        """Return the figure to sort by."""
        named: dict[str, Int64s | Float64s] = {
            "bytes": self.sizes, "msgs_per_s": self.msgs_per_s, "bytes_per_s": self.bytes_per_s,
        }  # fmt: skip
        return named.get(by, self.msgs)


class Moments:
    """What a tally was some seconds ago, for rates."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._kept: deque[_Moment] = deque()
        self._levels: list[Int64s] = []
        self._levels_of_count = -1
        self._fits = np.zeros(1, np.bool_)
        self._wanted: SubjectFilter | None = None

    def look(self, at_s: float) -> None:
        """Remember the present moment."""
        msgs, sizes = (_copied(one) for one in (self._tally.msgs, self._tally.sizes))
        self._kept.append(_Moment(at_s, msgs, sizes))
        while len(self._kept) > 2 and at_s - self._kept[1].at_s >= RATE_OVER_S:
            self._kept.popleft()

    def own(self) -> tuple[Int64s, Int64s, Float64s, Float64s]:
        """Return messages, bytes and both a second, of each place alone, at the last moment."""
        now, before = self._kept[-1], self._kept[0]
        over_s = now.at_s - before.at_s

        def rate(new: Int64s, old: Int64s) -> Float64s:
            grown: Float64s = new.astype(np.float64)
            grown[: len(old)] -= old
            return grown / over_s if over_s > 0 else np.zeros(len(new))

        return now.msgs, now.sizes, rate(now.msgs, before.msgs), rate(now.sizes, before.sizes)

    @property
    def know_rates(self) -> bool:
        """Return whether there are two moments to compare."""
        return len(self._kept) > 1

    def fitting(self, wanted: SubjectFilter) -> npt.NDArray[np.bool_]:
        """Return for each place whether a subject that ends there is wanted."""
        paths = self._tally.tree.paths
        if wanted is not self._wanted:
            # Those that were not told apart may be of any subject.
            self._wanted, self._fits = wanted, np.ones(1, np.bool_)
        known = len(self._fits)
        if known < len(paths):
            newer = [wanted.fits_text(path) for path in paths[known:]]
            self._fits = np.concatenate([self._fits, np.array(newer, np.bool_)])
        return self._fits

    def rolled_up(self, own: Counts) -> Counts:
        """Return the figures with those of everything below."""
        tree, count = self._tally.tree, len(own.msgs)
        if count != self._levels_of_count:
            levels = _copied(tree.levels)
            deepest = int(levels.max())
            self._levels = [np.flatnonzero(levels == at) for at in range(deepest, 0, -1)]
            self._levels_of_count = count
        above = _copied(tree.above)

        def sums(figures: npt.NDArray[np.int64] | Float64s) -> Float64s:
            found: Float64s = figures.astype(np.float64)
            for places in self._levels:
                found += np.bincount(above[places], weights=found[places], minlength=count)
            return found

        subjects, msgs, sizes = (
            sums(one).astype(np.int64) for one in (own.subjects, own.msgs, own.sizes)
        )
        return Counts(subjects, msgs, sizes, sums(own.msgs_per_s), sums(own.bytes_per_s))


def _copied(figures: object) -> Int64s:
    # Copied at once: an array that is looked at cannot grow.
    return np.frombuffer(figures, np.int64).copy()  # type: ignore[call-overload,no-any-return]


class Picture:
    """What is wanted of a tally at one moment."""

    def __init__(
        self, tally: Tally, moments: Moments, look: SubjectsLook, wanted: SubjectFilter
    ) -> None:
        self._tree: SubjectTree = tally.tree
        self._look, self._knows_rates = look, moments.know_rates
        self._toggled = frozenset(look.toggled)
        fits = moments.fitting(wanted)
        msgs, sizes, msgs_per_s, bytes_per_s = moments.own()
        self.own = Counts(
            ((msgs > 0) & fits).astype(np.int64), msgs * fits, sizes * fits,
            msgs_per_s * fits, bytes_per_s * fits,
        )  # fmt: skip
        # Place 0 stands for subjects that have no place.
        self.own.subjects[ROOT] = 0
        self.wanted_subjects_count = int(self.own.subjects.sum())
        self.unwanted_msgs = int(msgs.sum() - self.own.msgs.sum())
        self._counts = moments.rolled_up(self.own) if look.as_tree else self.own
        self._others_count = tally.others.count()
        self._rows: list[SubjectRow] = []

    def rows(self) -> tuple[SubjectRow, ...]:
        """Return the rows, in order."""
        if self._look.as_tree:
            self._branch(ROOT)
        else:
            places = np.flatnonzero(self._counts.subjects)
            self._list(places, "", 0, _MOST_ROWS)
        if self.own.msgs[ROOT]:
            self._rows.append(self._row(ROOT, "others", 0, self.own, is_open=False))
        return tuple(self._rows)

    def _branch(self, above: int) -> None:
        below = self._tree.below.get(above)
        if below is None:
            return
        places = _copied(below)
        places = places[(places < len(self._counts.msgs))]
        places = places[self._counts.subjects[places] > 0]
        most = _MOST_ROWS if above == ROOT else _MOST_BELOW_ONE
        self._list(places, self._tree.paths[above], int(self._tree.levels[above]), most)

    def _list(self, places: Int64s, above: str, level: int, most: int) -> None:
        """Add the first of some places, and one row for those that are left out."""
        chosen = self._first(places, min(most, max(1, _MOST_ROWS - len(self._rows))))
        for place in map(int, chosen):
            is_open = self._is_open(place)
            has_more = self._look.as_tree and place in self._tree.below
            kind: RowKind = "branch" if has_more else "subject"
            self._rows.append(self._row(place, kind, level, self._counts, is_open=is_open))
            if is_open:
                self._branch(place)
        if len(chosen) < len(places):
            rest = np.setdiff1d(places, chosen, assume_unique=True)
            self._rows.append(self._rest(rest, above, level))

    def _is_open(self, place: int) -> bool:
        if not self._look.as_tree or place not in self._tree.below:
            return False
        if len(self._rows) >= _MOST_ROWS:
            return False
        is_high = self._tree.levels[place] < self._look.open_level
        return is_high is not (self._tree.paths[place] in self._toggled)

    def _first(self, places: Int64s, most: int) -> Int64s:
        """Return the first places in the order that is wanted, at most so many."""
        look, paths = self._look, self._tree.paths
        if look.by == "subject":
            pick = heapq.nlargest if look.reverse else heapq.nsmallest
            named = pick(most, map(int, places), key=paths.__getitem__)
            return np.array(named, np.int64)
        sign = -1 if look.reverse else 1
        figures = sign * self._counts.rows_by(look.by)[places]
        if len(places) > most:
            near = np.argpartition(figures, most)[:most]
            places, figures = places[near], figures[near]
        order = np.lexsort((places, -self._counts.msgs[places], figures))
        return places[order]

    def _row(
        self, place: int, kind: RowKind, level: int, counts: Counts, *, is_open: bool
    ) -> SubjectRow:
        count = self._others_count if kind == "others" else int(counts.subjects[place])
        per_s, bytes_per_s = float(counts.msgs_per_s[place]), float(counts.bytes_per_s[place])
        return SubjectRow(
            self._tree.paths[place], kind, level, is_open, count,
            int(counts.msgs[place]), int(counts.sizes[place]),
            per_s if self._knows_rates else None,
            bytes_per_s if self._knows_rates else None,
        )  # fmt: skip

    def _rest(self, places: Int64s, above: str, level: int) -> SubjectRow:
        counts = self._counts
        per_s, bytes_per_s = (
            float(one[places].sum()) if self._knows_rates else None
            for one in (counts.msgs_per_s, counts.bytes_per_s)
        )
        return SubjectRow(
            above, "rest", level, False, int(counts.subjects[places].sum()),
            int(counts.msgs[places].sum()), int(counts.sizes[places].sum()), per_s, bytes_per_s,
        )  # fmt: skip
