"""One column of an entity: what it is, its value, its text and how bad that is.

A table on the screen, `natstui watch`, `find --where`, metrics and the documentation read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from natstui.clean import clean_line
from natstui.units import UNKNOWN

R = TypeVar("R")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class JsonField:
    """A value in JSON, in conditions and in metrics."""

    name: str
    """Carries the unit."""
    type: object
    """What JSON has as its value."""
    metric: str = ""
    """Its name in metrics, without that of the entity in front; empty: it is none."""
    help: str = ""
    """One sentence; empty: that of the column, whose cells show the same."""


@dataclass(frozen=True, slots=True)
class Column(Generic[R]):
    """One column over rows of one kind."""

    key: str
    title: str
    """Both are empty where no table shows it."""
    help: str
    """One sentence for people."""
    value: Callable[[R], object]
    """Sorts the rows; None is not known."""
    text: Callable[[R], str]
    """Returns the value for people, on one harmless line; also where it is not known."""
    level: Callable[[R], str]
    """Returns how bad the value is: ok, warn, bad; empty where nothing is to say of it."""
    used_ratio: Callable[[R], float] | None
    """Returns how much of what it may have the row uses; None where there is no limit."""
    dims_unknown: bool
    """A value that is not known is shown dim."""
    numeric: bool
    """Numbers are aligned to the right, and the largest is the first that is looked for."""
    json: JsonField | None = None
    """None: only tables show it."""
    values: Callable[..., Sequence[object]] | None = None
    """Returns the values of every row of a view, where it has them as they are."""


def column(
    key: str,
    title: str,
    help: str,
    value: Callable[[R], V],
    format: Callable[[V], str],
    level: Callable[[R], str] = lambda _: "",
    used_ratio: Callable[[R], float] | None = None,
    *,
    dims_unknown: bool = True,
    numeric: bool = True,
    text: Callable[[R], str] | None = None,
    json: JsonField | None = None,
    values: Callable[..., Sequence[object]] | None = None,
) -> Column[R]:
    """Return a column whose text is its value as `format` has it.

    `text` returns that of a row where the value alone does not make it.
    """

    def clean_text(row: R) -> str:
        return clean_line(format(value(row)) if text is None else text(row))

    return Column(
        key, title, help, value, clean_text, level, used_ratio, dims_unknown, numeric, json, values
    )


def json_column(json: JsonField, value: Callable[[R], object], help: str = "") -> Column[R]:
    """Return a column that no table shows."""
    return column("", "", help, value, str, json=json)


def json_fields(columns: Iterable[Column[R]]) -> list[JsonField]:
    """Return the fields of JSON, each with its help."""
    return [
        column.json if column.json.help else replace(column.json, help=column.help)
        for column in columns
        if column.json is not None
    ]


def json_values(columns: Iterable[Column[R]], row: R) -> dict[str, object]:
    """Return field of JSON → its value in a row."""
    return {column.json.name: column.value(row) for column in columns if column.json is not None}


def plain(value: str | None) -> str:
    """Return a text as it is; a dash where it is not known."""
    return value or UNKNOWN


def stored_field(snapshot: type, name: str, metric: str = "", help: str = "") -> dict[str, Any]:
    """Return the arguments of a column whose value is in a snapshot's column of this name."""
    value_type, _ = get_args(get_type_hints(snapshot)[name])
    return {
        "value": lambda row: getattr(row.view.columns, name)[row.index],
        "values": attrgetter(f"columns.{name}"),
        "json": JsonField(name, value_type, metric, help),
    }


def config_field(
    configuration: type, name: str, json_name: str = "", help: str = ""
) -> dict[str, Any]:
    """Return the arguments of a column whose value is a setting; None where it is not known."""
    get = attrgetter(name)
    return {
        "value": lambda row: None if (config := row.config) is None else get(config),
        "json": JsonField(
            json_name or name, get_type_hints(configuration)[name] | None, help=help
        ),
    }


def dim(_row: object) -> str:
    """Return the level of a value that is seldom looked for."""
    return "dim"


def dim_unless(value: Callable[[R], object]) -> Callable[[R], str]:
    """Return a level that is dim where the value is 0 or not known."""
    return lambda row: "" if value(row) else "dim"
