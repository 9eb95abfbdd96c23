"""The type of a cause, and the diagnosis of an entity by causes in order of precedence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.facts.fact import fact_values
from natstui.model.findings.finding import Symptom
from natstui.values import replace

Topic = Literal[
    "contact", "delivery", "redelivery", "storing", "limit", "origin", "consumers", "clients"
]
"""The topic that a cause explains. Of several causes of a topic, the first is reported."""
FactsT = TypeVar("FactsT")


class Cause(NamedTuple, Generic[FactsT]):
    """A cause of a finding: its kind, its condition, and the facts (named values) behind it."""

    kind: Kind
    find_symptom: Callable[[FactsT, bool], Symptom | None]
    """Return the evidence, None if the condition does not hold.

    The second argument is whether a finding of this kind is open.
    """
    fact_names: tuple[str, ...] = ()
    """Names of the deciding facts, which are shown and recorded with the finding."""
    topics: tuple[Topic, ...] = ()
    required_flags: int = 0
    """The cause is checked only for entities with at least one of these flags; 0: for all."""


class CauseRank(NamedTuple):
    """The index of a cause in the order of precedence, 0 first, and its topics."""

    precedence_index: int
    topics: frozenset[Topic]


RankByKind = Mapping[Kind, CauseRank]
"""The order of precedence of the causes of one kind of entity."""


def rank_causes(causes: Sequence[Cause[FactsT]]) -> RankByKind:
    """Return the rank of each cause; the first in the list has precedence."""
    return {
        cause.kind: CauseRank(index, frozenset(cause.topics)) for index, cause in enumerate(causes)
    }


def diagnose(
    causes: Sequence[Cause[FactsT]], facts: FactsT, entity_flags: int, open_kinds: frozenset[Kind]
) -> list[tuple[Kind, Symptom]]:
    """Return the kind and evidence of each cause that holds, in order of precedence.

    `entity_flags` are the bits that `Cause.required_flags` is compared with, as `HAS_PENDING`;
    `open_kinds` are the kinds of the entity's open findings.
    """
    symptoms = []
    for kind, find_symptom, fact_names, _, required_flags in causes:
        if required_flags and not required_flags & entity_flags:
            continue
        symptom = find_symptom(facts, kind in open_kinds)
        if symptom is not None:
            numbers = {**fact_values(facts, fact_names), **symptom.numbers}
            symptoms.append((kind, replace(symptom, numbers=numbers) if numbers else symptom))
    return symptoms
