"""The type of a cause, and the diagnosis of an entity by causes in order of precedence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Generic, Literal, NamedTuple, TypeVar

from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.facts.fact import fact_values
from natstui.model.findings.finding import Symptom

Topic = Literal[
    "contact", "delivery", "redelivery", "storing", "limit", "origin", "consumers", "clients"
]
"""The topic that a cause explains. Of several causes of a topic, the first is reported."""
FactsT = TypeVar("FactsT")


class Cause(NamedTuple, Generic[FactsT]):
    """A cause: its condition, and the facts of the condition."""

    kind: Kind
    find: Callable[[FactsT, bool], Symptom | None]
    """Returns the evidence, or None if it does not hold; second argument: whether it is open."""
    facts: tuple[str, ...] = ()
    """Names of the deciding facts, which are reported and recorded with the finding."""
    topics: tuple[Topic, ...] = ()
    needs: int = 0
    """Flags of which an entity must have at least one; 0: none is needed."""


class Rank(NamedTuple):
    """The position and topics of a cause in the order of precedence."""

    order: int
    topics: frozenset[Topic]


Order = Mapping[Kind, Rank]
"""The order of precedence of the causes of one kind of entity."""


def order_of(causes: Sequence[Cause[FactsT]]) -> Order:
    """Return the order of precedence of causes, which is their order in the list."""
    return {cause.kind: Rank(place, frozenset(cause.topics)) for place, cause in enumerate(causes)}


def diagnose(
    causes: Sequence[Cause[FactsT]], facts: FactsT, has: int, open_kinds: frozenset[Kind]
) -> list[tuple[Kind, Symptom]]:
    """Return all causes that hold, each with its facts, in order of precedence."""
    symptoms = []
    for kind, find, names, _, needs in causes:
        if needs and not needs & has:
            continue
        symptom = find(facts, kind in open_kinds)
        if symptom is not None:
            numbers = {**fact_values(facts, names), **symptom.numbers}
            symptoms.append((kind, replace(symptom, numbers=numbers) if numbers else symptom))
    return symptoms
