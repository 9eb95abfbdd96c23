"""How much is wrong, counted as findings come and go: of a big server there may be 50,000."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from natstui.values import dataclass

if TYPE_CHECKING:
    from natstui.model.findings.finding import Entity, Finding, Watched


@dataclass(frozen=True, slots=True)
class Counts:
    """How many findings are open."""

    every: Mapping[str, int]
    """Severity → open findings."""
    below: Mapping[str, tuple[int, int]]
    """Stream → critical findings and warnings of its consumers; none where all is well."""
    apart: frozenset[Entity]
    """What is neither a stream nor a consumer, and to what something happened."""


class Counting:
    """The counts while findings change."""

    def __init__(
        self, before: Counts | None, watched: Mapping[Entity, tuple[Watched, ...]]
    ) -> None:
        """`before` are the counts of what is watched; None: they are counted."""
        self._every = dict(before.every) if before else {}
        self._below = dict(before.below) if before else {}
        self._apart = set(before.apart) if before else set()
        if before is None:
            for entity, some in watched.items():
                self.change(entity, (), some)

    @property
    def apart(self) -> frozenset[Entity]:
        """What is neither a stream nor a consumer, and to what something happened."""
        return frozenset(self._apart)

    def change(self, entity: Entity, before: Iterable[Watched], after: Iterable[Watched]) -> None:
        """Count what is known of an entity now in the place of what was known before."""
        if not entity.stream and after:
            self._apart.add(entity)
        elif not after:
            self._apart.discard(entity)
        for one in before:
            if one.raised:
                self.add(one.finding, -1)
        for one in after:
            if one.raised:
                self.add(one.finding, 1)

    def add(self, finding: Finding, count: int) -> None:
        """Count one open finding more, or one less."""
        severity, entity = finding.kind.severity, finding.entity
        self._every[severity] = self._every.get(severity, 0) + count
        if not entity.consumer or severity == "info":
            return
        critical, warnings = self._below.get(entity.stream, (0, 0))
        if severity == "critical":
            critical += count
        else:
            warnings += count
        if critical or warnings:
            self._below[entity.stream] = (critical, warnings)
        else:
            self._below.pop(entity.stream, None)

    def happened(self, entity: Entity) -> None:
        """Note that something happened to an entity, which is looked for at each judgement."""
        self._apart.add(entity)

    def counts(self) -> Counts:
        """Return how much is open now."""
        return Counts(self._every, self._below, frozenset(self._apart))
