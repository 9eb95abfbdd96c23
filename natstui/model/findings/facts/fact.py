"""The table of facts, the named numbers that rules compare with thresholds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, TypeVar

from msgspec import Struct

from natstui.units import seconds_text

FactUnit = Literal[
    "s", "msgs", "msgs/s", "msgs/min", "share", "deliveries", "pulls", "polls", "count"
]
FactRequirement = Literal[
    "one poll",
    "two polls",
    "three polls",
    "advisories",
    "ack samples",
    "its stream",
    "subject counts",
]
"""The data that a fact needs to have a value."""
Owner = TypeVar("Owner")
Value = TypeVar("Value")


class Fact(Struct, frozen=True):
    """A named number about a stream or consumer that rules compare with thresholds."""

    name: str
    """Ends with its unit."""
    unit: FactUnit
    window_s: float | None
    """The time before now that the fact reads; None for the newest poll, or all polls."""
    needs: FactRequirement
    meaning: str


CONSUMER_FACTS: dict[str, Fact] = {}
"""Every fact about a consumer, by its name."""
STREAM_FACTS: dict[str, Fact] = {}
"""Every fact about a stream, by its name."""


def consumer_fact(
    unit: FactUnit, *, window_s: float | None = None, needs: FactRequirement = "one poll"
) -> Callable[[Callable[[Owner], Value]], cached_property[Value]]:
    """Return a decorator: the method becomes a fact about a consumer, computed once."""
    return lambda compute: _register_fact(CONSUMER_FACTS, compute, unit, window_s, needs)


def stream_fact(
    unit: FactUnit, *, window_s: float | None = None, needs: FactRequirement = "one poll"
) -> Callable[[Callable[[Owner], Value]], cached_property[Value]]:
    """Return a decorator: the method becomes a fact about a stream, computed once."""
    return lambda compute: _register_fact(STREAM_FACTS, compute, unit, window_s, needs)


def _register_fact(
    table: dict[str, Fact],
    compute: Callable[[Owner], Value],
    unit: FactUnit,
    window_s: float | None,
    needs: FactRequirement,
) -> cached_property[Value]:
    name, meaning = compute.__name__, (compute.__doc__ or "").strip().splitlines()[0]
    table[name] = Fact(name, unit, window_s, needs, meaning)
    return cached_property(compute)


def fact_values(facts: object, names: tuple[str, ...]) -> dict[str, float]:
    """Return name → value of each fact in `names` whose value is known."""
    values = ((name, getattr(facts, name)) for name in names)
    return {name: value for name, value in values if value is not None}


def fact_text(fact: Fact, value: float) -> str:
    """Return the value of a fact with its unit, for people: `3 msgs`, `12.5 %`, `4 s`, `3d4h`."""
    if fact.unit == "share":
        return f"{100 * value:.0f} %"
    if fact.unit == "s":
        return seconds_text(round(value, 1))
    number = f"{value:,.1f}".rstrip("0").rstrip(".")
    return number if fact.unit == "count" else f"{number} {fact.unit}"
