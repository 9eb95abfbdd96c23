"""The findings while they are worked on: conditions become findings, and findings end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from natstui.model.findings.catalogue.every import successor_of
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.causes.cause import Order, Rank, Topic
from natstui.model.findings.finding import (
    RESOLVED_KEPT,
    Counting,
    Entity,
    Finding,
    Findings,
    Seat,
    Seen,
    Watched,
)
from natstui.model.live.state import State
from natstui.model.records.silences import Silence

_US = 1_000_000
_NONE: frozenset[Kind] = frozenset()
_UNRANKED = Rank(-1, frozenset())


class Board:
    """What is known of every entity, changed one entity after the other."""

    def __init__(self, previous: Findings, state: State) -> None:
        self._previous = previous
        self._state = state
        before = previous.watched
        # Of tens of thousands, one by one would take as long as all the rest.
        self._watched = before.copy() if isinstance(before, MappingProxyType) else dict(before)
        self._counting = Counting(previous.counts, before)
        self._resolved: list[Finding] = []

    def knows(self, entity: Entity) -> bool:
        """Return whether anything is known of an entity."""
        return entity in self._watched

    @property
    def entities(self) -> Collection[Entity]:
        """Everything of which something is known."""
        return self._watched.keys()

    @property
    def others(self) -> list[Entity]:
        """What is known and has no row: the account, monitoring, names of what is away."""
        return [entity for entity in self._counting.apart if not entity.has_row]

    def open_finding(self, entity: Entity, kind: Kind) -> Finding | None:
        """Return what is open of one kind for an entity."""
        watched = self._watched.get(entity, ())
        return next((w.finding for w in watched if w.raised and w.finding.kind is kind), None)

    def known(self, entity: Entity) -> frozenset[Kind]:
        """Return the kinds that are open for an entity."""
        watched = self._watched.get(entity)
        if watched is None:
            return _NONE
        return frozenset(one.finding.kind for one in watched if one.raised)

    def settle(
        self,
        entity: Entity,
        found: list[tuple[Kind, Seen]],
        mono_us: int,
        at_us: int,
        order: Order | None = None,
    ) -> None:
        """Set what holds for an entity at the moment when it was sampled.

        With an order of precedence, of several causes of one topic only the first is reported, and
        what is open closes when two polls in a row do not show it.
        """
        before = self._watched.get(entity, ())
        if not before and not found:
            return
        left = {one.finding.kind: one for one in before}
        after = [
            _seen(entity, kind, seen, left.pop(kind, None), mono_us, at_us) for kind, seen in found
        ]
        for one in left.values():
            kept = self._missed(one, mono_us, at_us, two_polls=order is not None)
            if kept is not None:
                after.append(kept)
        if order is not None and len(after) > 1:
            after = self._first_of_topics(after, before, order, at_us)
        self._keep(entity, before, tuple(after))

    def _first_of_topics(
        self, after: list[Watched], before: tuple[Watched, ...], order: Order, at_us: int
    ) -> list[Watched]:
        """Return what is reported of several causes: the first of each topic.

        One that is about to be reported keeps later ones from being reported, and ends none.
        """
        was_open = {one.finding.kind for one in before if one.raised}
        reported: set[Topic] = set()
        coming: set[Topic] = set()
        kept = []
        # What has no rank of its own happened, and hides nothing.
        for one in sorted(after, key=lambda one: order.get(one.finding.kind, _UNRANKED).order):
            kind, topics = one.finding.kind, order.get(one.finding.kind, _UNRANKED).topics
            hidden = topics & reported or (topics & coming and kind not in was_open)
            if not hidden:
                (reported if one.raised else coming).update(topics)
                kept.append(one)
                continue
            if kind in was_open:
                self._resolved.append(replace(one.finding, until_us=at_us))
            if one.missed_mono_us is None:
                kept.append(replace(one, raised=False))
        return kept

    def _keep(
        self, entity: Entity, before: tuple[Watched, ...], after: tuple[Watched, ...]
    ) -> None:
        """Have one thing known of an entity in the place of another."""
        self._counting.change(entity, before, after)
        if after:
            self._watched[entity] = after
        else:
            self._watched.pop(entity, None)

    def _missed(
        self, one: Watched, mono_us: int, at_us: int, *, two_polls: bool
    ) -> Watched | None:
        """Return what is left of a condition that does not hold now."""
        if not one.raised:
            return None
        is_first = one.missed_mono_us is None
        since_mono_us = mono_us if one.missed_mono_us is None else one.missed_mono_us
        until_us = at_us if is_first else one.missed_us
        is_seen_twice = not two_polls or mono_us > since_mono_us
        if is_seen_twice and mono_us - since_mono_us >= one.finding.kind.leave_s * _US:
            self._resolved.append(replace(one.finding, until_us=until_us))
            return None
        return replace(one, missed_mono_us=since_mono_us, missed_us=until_us)

    def tell(self, entity: Entity, kind: Kind, seen: Seen) -> None:
        """Raise something that happened at this moment."""
        finding = Finding(
            kind, entity, self._state.now_at_us, seen.text, seen.sequences, seen.numbers
        )
        one = Watched(finding, self._state.now_mono_us, raised=True)
        before = self._watched.get(entity, ())
        self._keep(entity, before, (*before, one))
        self._counting.happened(entity)

    def end(self, entity: Entity) -> None:
        """End all that is known of an entity that is gone."""
        at_us, before = self._state.now_at_us, self._watched.get(entity, ())
        self._keep(entity, before, ())
        for one in before:
            if one.raised:
                self._resolved.append(replace(one.finding, until_us=at_us))

    def told_of(self, kinds: tuple[Kind, ...], after_s: float = 0.0) -> list[Entity]:
        """Return the entities to which one of the kinds happened, at least so long ago."""
        latest_us = self._state.now_at_us - after_s * _US
        happened = [(each, self._watched[each][0].finding) for each in self._counting.apart]
        return [
            each
            for each, finding in happened
            if finding.kind in kinds and finding.since_us <= latest_us
        ]

    def findings(self, seat: Seat) -> Findings:
        """Return the findings as they are now."""
        resolved = self._previous.resolved
        if self._resolved:
            resolved = (*resolved, *self._resolved)[-RESOLVED_KEPT:]
        return Findings(
            MappingProxyType(self._watched),
            resolved,
            tuple(self._resolved),
            seat=seat,
            silences=in_force(self._previous, self._state),
            counts=self._counting.counts(),
        )


def in_force(previous: Findings, state: State) -> Mapping[tuple[Entity, str], Silence]:
    """Return what is silenced now; the same object while it is the same."""
    if not (previous.silences or state.silences):
        return previous.silences
    now = {
        (
            Entity(silence.stream, silence.consumer, silence.created_at_us, silence.part),
            code,
        ): silence
        for silence in state.silences
        for code in (successor_of(silence.code),)
        if silence.until_us > state.now_at_us
    }
    return previous.silences if now == previous.silences else now


def _seen(
    entity: Entity, kind: Kind, seen: Seen, known: Watched | None, mono_us: int, at_us: int
) -> Watched:
    """Return a condition that holds, raised when it has held for long enough."""
    raised = known is not None and known.raised
    first_mono_us = mono_us if known is None else known.first_mono_us
    since_us = at_us if known is None else known.finding.since_us
    if seen.since_us is not None and not raised:
        since_us = min(seen.since_us, at_us)
    hold_s = kind.enter_s if seen.hold_s is None else seen.hold_s
    held_us = max(mono_us - first_mono_us, at_us - since_us)
    if known is not None and not raised and seen.since_us is not None:
        # A rule that tells since when knows better than the first look at it.
        held_us = at_us - since_us
    if seen.hold_s is not None:
        # It must be seen for so long, whatever it says of the time before.
        held_us = mono_us - first_mono_us
    finding = Finding(kind, entity, since_us, seen.text, seen.sequences, seen.numbers)
    return Watched(finding, first_mono_us, raised or held_us >= hold_s * _US)
