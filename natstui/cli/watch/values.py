"""How the fields and cells of every row of `natstui watch` are made."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING

from natstui.model.live.state import State
from natstui.model.live.table import Key
from natstui.units import duration_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


Freshness = dict[Key, tuple[int, bool]]
"""Identity → when it was sampled, and whether that is stale; in the order of the rows."""


@cache
def _names(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def values(thing: DataclassInstance) -> dict[str, object]:
    """Return field → value."""
    return {name: getattr(thing, name) for name in _names(type(thing))}


def values_at(columns: DataclassInstance, row: int) -> dict[str, object]:
    """Return column → its value in one row."""
    return {name: getattr(columns, name)[row] for name in _names(type(columns))}


def unknown(configuration: type[DataclassInstance]) -> dict[str, object]:
    """Return field → None."""
    return dict.fromkeys(_names(configuration))


def sampled_ago_s(state: State, sampled_mono_us: int) -> float:
    """Return how old a sample is."""
    return (state.now_mono_us - sampled_mono_us) / 1e6


def marked(text: str, stale: bool) -> str:
    """Return a text with a mark when it is stale."""
    return f"{text} (stale)" if stale else text


def ago(now_us: int, at_us: int | None) -> str:
    """Return how long ago a time was."""
    return duration_text(None if at_us is None else max(0, now_us - at_us) / 1e6)
