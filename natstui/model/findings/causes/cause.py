"""What a cause is, and how the causes of one entity are found in order of precedence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Literal, NamedTuple, TypeVar

from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.facts.fact import fact_values
from natstui.model.findings.finding import Seen

Topic = Literal[
    "contact", "delivery", "redelivery", "storing", "limit", "origin", "consumers", "clients"
]
"""What a cause explains. Of several causes of one topic the first in order is reported."""
Found = Seen | None
FactsT = TypeVar("FactsT")


class Cause(NamedTuple, Generic[FactsT]):
    """One cause: when it holds, and on which facts it rests."""

    kind: Kind
    find: Callable[[FactsT, bool], Found]
    """Returns what shows it; its second argument is whether it is open already."""
    facts: tuple[str, ...] = ()
    """The facts that decide: they are reported and recorded with the finding."""
    topics: tuple[Topic, ...] = ()
    needs: int = 0
    """What an entity must have at least one of, as flags; 0 for nothing."""


class Rank(NamedTuple):
    """Where a cause stands among the others of its entity."""

    order: int
    topics: frozenset[Topic]


Order = Mapping[Kind, Rank]
"""The order of precedence of the causes of one kind of entity."""


def order_of(causes: Sequence[Cause[FactsT]]) -> Order:
    """Return the order of precedence of causes: that in which they are listed."""
    return {cause.kind: Rank(place, frozenset(cause.topics)) for place, cause in enumerate(causes)}


def diagnose(
    causes: Sequence[Cause[FactsT]], facts: FactsT, has: int, known: frozenset[Kind]
) -> list[tuple[Kind, Seen]]:
    """Return every cause that holds, with the facts that it rests on; in order of precedence."""
    found = []
    for kind, find, names, _, needs in causes:
        if needs and not needs & has:
            continue
        seen = find(facts, kind in known)
        if seen is not None:
            numbers = {**fact_values(facts, names), **seen.numbers}
            found.append((kind, replace(seen, numbers=numbers) if numbers else seen))
    return found
