"""Fields of dataclasses by name, from which rows are made."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def values(thing: DataclassInstance) -> dict[str, object]:
    """Return field → value."""
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


def values_at(columns: DataclassInstance, row: int) -> dict[str, object]:
    """Return column → its value in one row."""
    return {field.name: getattr(columns, field.name)[row] for field in fields(columns)}


def unknown(configuration: type[DataclassInstance]) -> dict[str, object]:
    """Return field → None."""
    return {field.name: None for field in fields(configuration)}
