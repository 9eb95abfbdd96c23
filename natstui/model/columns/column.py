"""A column of an entity: its title, help, value, text and level.

Tables on the screen, `natstui watch`, `find --where`, metrics and the documentation use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from msgspec import Struct

from natstui.clean import clean_line
from natstui.units import UNKNOWN
from natstui.values import replace

RowT = TypeVar("RowT")
ValueT = TypeVar("ValueT")
LAST_PRIORITY = 99
"""Priority of a column without one: it is hidden before all others."""


class JsonField(Struct, frozen=True):
    """A value in JSON, in conditions and in metrics."""

    name: str
    """Name of the field, with its unit."""
    type: object
    """Python type of the value in JSON."""
    metric: str = ""
    """Name of its metric, without the entity's prefix; empty: there is no metric."""
    help: str = ""
    """One sentence for people; empty: the help of the column."""


class Column(Struct, Generic[RowT], frozen=True):
    """A column of a table whose rows are all of one kind."""

    key: str
    title: str
    """Title in tables; `key` and `title` are empty if no table shows the column."""
    help: str
    """One sentence for people."""
    value: Callable[[RowT], object]
    """Returns the value by which rows are sorted; None: unknown."""
    text: Callable[[RowT], str]
    """Returns the value for people, on one line without control characters; also if unknown."""
    level: Callable[[RowT], str]
    """Returns the style of the value: ok, warn, bad, or another such as dim; empty for none."""
    used_ratio: Callable[[RowT], float] | None
    """Returns the used share of the row's limit, 0 … 1; None for a column without limits."""
    dims_unknown: bool
    """Whether unknown values are shown dim."""
    numeric: bool
    """Whether the column is aligned to the right, and sorted with the largest value first."""
    json: JsonField | None = None
    """The field in JSON; None: only tables show the column."""
    values: Callable[..., Sequence[object]] | None = None
    """Returns the values of all rows of a view; None if the view has no such column."""
    priority: int = LAST_PRIORITY
    """Columns with the highest number are hidden first where space is short; 0: never hidden."""
    may_be_cut: bool = False
    """Whether a text table may cut long values."""
    screen_only: bool = False
    """Whether text tables omit the column."""


def column(
    key: str,
    title: str,
    help: str,
    value: Callable[[RowT], ValueT],
    format: Callable[[ValueT], str],
    level: Callable[[RowT], str] = lambda _: "",
    used_ratio: Callable[[RowT], float] | None = None,
    *,
    dims_unknown: bool = True,
    dims_zero: bool = False,
    numeric: bool = True,
    text: Callable[[RowT], str] | None = None,
    json: JsonField | None = None,
    values: Callable[..., Sequence[object]] | None = None,
    priority: int = LAST_PRIORITY,
    may_be_cut: bool = False,
    screen_only: bool = False,
) -> Column[RowT]:
    """Return a column whose text is its value formatted by `format`.

    `text` replaces `format` if the text depends on more of the row than the value. With
    `dims_zero` the level is `dim` for 0 and for an unknown value. The other arguments are the
    fields of `Column`.
    """

    def zero_level(row: RowT) -> str:
        return "" if value(row) else "dim"

    def clean_text(row: RowT) -> str:
        return clean_line(format(value(row)) if text is None else text(row))

    return Column(
        key, title, help, value, clean_text, zero_level if dims_zero else level, used_ratio,
        dims_unknown, numeric, json, values, priority, may_be_cut, screen_only,
    )  # fmt: skip


def json_column(json: JsonField, value: Callable[[RowT], object], help: str = "") -> Column[RowT]:
    """Return a column that is only in JSON."""
    return column("", "", help, value, str, json=json)


def json_fields(columns: Iterable[Column[RowT]]) -> list[JsonField]:
    """Return the JSON fields of columns, each with its help."""
    return [
        column.json if column.json.help else replace(column.json, help=column.help)
        for column in columns
        if column.json is not None
    ]


def json_values(columns: Iterable[Column[RowT]], row: RowT) -> dict[str, object]:
    """Return the JSON values of a row, by field name."""
    return {column.json.name: column.value(row) for column in columns if column.json is not None}


def text_or_dash(value: str | None) -> str:
    """Return the text, or a dash if it is unknown or empty."""
    return value or UNKNOWN


def stored_field(snapshot: type, name: str, metric: str = "", help: str = "") -> dict[str, Any]:
    """Return the arguments of `column` for the snapshot's column `name`."""
    value_type, _ = get_args(get_type_hints(snapshot)[name])
    return {
        "value": lambda row: getattr(row.view.columns, name)[row.index],
        "values": attrgetter(f"columns.{name}"),
        "json": JsonField(name, value_type, metric, help),
    }


def config_field(
    configuration: type, name: str, json_name: str = "", help: str = ""
) -> dict[str, Any]:
    """Return the arguments of `column` for the setting `name`; its value is None if unknown."""
    get_setting = attrgetter(name)
    return {
        "value": lambda row: None if (config := row.config) is None else get_setting(config),
        "json": JsonField(
            json_name or name, get_type_hints(configuration)[name] | None, help=help
        ),
    }


def dim_level(_row: object) -> str:
    """Return the level `dim` for any row."""
    return "dim"
