"""`natstui stream|consumer find|report`: reads all rows once, and prints the matching ones."""

from __future__ import annotations

import asyncio
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import click
from msgspec import Struct

from natstui.clean import clean_line
from natstui.cli.complete import stream_of_consumer_argument
from natstui.cli.health.reading import read_server_state
from natstui.cli.listing import raise_if_incomplete
from natstui.cli.manage.names import parse_name
from natstui.cli.options import connection_options, json_flag
from natstui.cli.sections import command
from natstui.cli.terminal_line import print_stderr
from natstui.cli.text_table import stdout_width
from natstui.cli.watch.assets import (
    asset_table,
    asset_values,
    consumer_rows,
    stream_rows,
)
from natstui.cli.watch.lines import json_line
from natstui.config import Connection
from natstui.errors import RequestFailed, UsageError
from natstui.model.assets.subjects import is_valid_subject, overlap
from natstui.model.columns.column import Column, json_fields
from natstui.model.columns.consumers import CONSUMER_COLUMNS, ConsumerRow
from natstui.model.columns.streams import STREAM_COLUMNS, StreamRow
from natstui.model.live.state import State
from natstui.units import counted, parse_bytes, parse_count, parse_duration_ns, parse_moment

_CONDITION_PATTERN = re.compile(
    r"\s*([a-z0-9_]+)\s*(<=|>=|==|!=|=~|!~|=|<|>)\s*(.*?)\s*", re.DOTALL
)
_COMPARISON_BY_OPERATOR: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_BOOL_BY_NAME = {
    "true": True,
    "false": False,
    "yes": True,
    "no": False,
}


class Condition(Struct, frozen=True):
    """A condition on a row: field, comparison and the value to compare with."""

    field: str
    comparison: str
    operand: object
    text: str
    """The value as it was written: `no` is also the name of a stream."""

    def is_met(self, row: Mapping[str, object]) -> bool:
        """Return whether a row, by field, meets the condition.

        An unknown value is neither less nor greater than another value; a list equals each of its
        items.
        """
        value = row[self.field]
        if self.comparison in _COMPARISON_BY_OPERATOR:
            are_numbers = isinstance(value, int | float) and isinstance(self.operand, int | float)
            return are_numbers and _COMPARISON_BY_OPERATOR[self.comparison](value, self.operand)
        if self.comparison in ("=~", "!~"):
            return _matches_pattern(value, str(self.operand)) == (self.comparison == "=~")
        values = value if isinstance(value, tuple) else (value,)
        is_equal = self.operand in values or self.text in values
        return is_equal == (self.comparison == "==")


def _matches_pattern(value: object, pattern: str) -> bool:
    values = value if isinstance(value, tuple) else (value,)
    return any(fnmatchcase(str(value), pattern) for value in values if value is not None)


def parse_condition(
    text: str, field_names: Sequence[str], now: datetime | None = None
) -> Condition:
    """Return the condition of a text such as `stored_msgs > 10k`.

    The value is in the unit that the name of the field ends with. `field_names` are the existing
    fields; times such as `2d ago` are relative to `now` (None: the current time). Raises
    UsageError for an invalid condition or an unknown field.
    """
    match = _CONDITION_PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a condition: write it as 'stored_msgs > 10k'")
    name, comparison, operand = match.groups()
    if name not in field_names:
        raise UsageError(
            f"{text!r}: there is no field {name!r}; there are {', '.join(field_names)}"
        )
    comparison = "==" if comparison == "=" else comparison
    is_quoted = operand[:1] in "\"'" and operand[-1:] == operand[:1]
    operand = operand[1:-1] if is_quoted else operand
    if comparison in ("=~", "!~"):
        return Condition(name, comparison, operand, operand)
    is_null = (
        operand.lower() in ("null", "none")
        and comparison not in _COMPARISON_BY_OPERATOR
        and not is_quoted
        and (name, operand) != ("ack_policy", "none")
    )
    try:
        value = None if is_null else _parse_operand(name, operand, comparison, now)
        return Condition(name, comparison, value, operand)
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from error


def _parse_operand(name: str, text: str, comparison: str, now: datetime | None) -> object:
    is_number = comparison in _COMPARISON_BY_OPERATOR
    if not is_number and text.lower() in _BOOL_BY_NAME:
        return _BOOL_BY_NAME[text.lower()]
    if name.endswith("at_us"):
        return round(parse_moment(text, now).timestamp() * 1_000_000)
    for suffix, parse in _PARSER_BY_FIELD_SUFFIX:
        if name.endswith(suffix):
            return parse(text)
    if is_number or name.endswith(_NUMBER_FIELD_SUFFIXES):
        return float(text.rstrip("%")) if not text.isdigit() else int(text)
    return text


def _parse_rate_per_s(text: str) -> float:
    return float(text) if re.fullmatch(r"\d+\.\d+", text) else parse_count(text)


def _parse_seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"[\d.]+", text) else parse_duration_ns(text) / 1e9


_PARSER_BY_FIELD_SUFFIX: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("_bytes", parse_bytes),
    ("bytes_per_s", parse_bytes),
    ("_per_s", _parse_rate_per_s),
    ("_ns", parse_duration_ns),
    ("_s", _parse_seconds),
    ("_msgs", parse_count),
    ("_count", parse_count),
    ("_seq", parse_count),
)
_NUMBER_FIELD_SUFFIXES = ("_percent", "schema", "max_msgs_per_subject")


AssetRow = TypeVar("AssetRow", StreamRow, ConsumerRow)
RowFilter = Callable[[Any], bool]

_POLL_INTERVAL_S, _WATCH_S = 0.3, 0.5

_where_option = click.option(
    "--where", "conditions", metavar="CONDITION", multiple=True,
    help="Condition on a field of watch --json, as 'stored_msgs > 10k'. Repeat: all must be met.",
)  # fmt: skip
_invert_option = click.option(
    "--invert", is_flag=True, help="Find the rows that do not meet the conditions."
)
_created_option = click.option(
    "--created", metavar="TIME", help="Created longer ago than this: 2d."
)
_idle_option = click.option(
    "--idle", metavar="TIME", help="Inactive, or unused since created, for longer than this: 1h."
)
_names_option = click.option("--names", is_flag=True, help="Print only names, one per line.")


def _read_state(connection: Connection) -> State:
    """Watch the server for half a second and return its state; raises RequestFailed if it is
    incomplete.
    """
    reading = asyncio.run(read_server_state(connection, _POLL_INTERVAL_S, _WATCH_S, None))
    if reading.problem is not None:
        raise RequestFailed(f"not everything could be read: {reading.problem}")
    return reading.state


def _raise_if_streams_missing(state: State) -> None:
    """Print to stderr the streams without a row; raises RequestFailed if there are any."""
    refusal_reason_by_name = {
        stream: reason for (stream, consumer), reason in state.offline.items() if not consumer
    }
    raise_if_incomplete(state.rowless_streams(), refusal_reason_by_name)


def _raise_if_consumers_missing(state: State, stream: str | None) -> None:
    """Print to stderr the consumers without a row, of one stream if named.

    Raises RequestFailed if there are any.
    """
    names_without_row = {name for name in state.rowless_consumers() if stream in (None, name[0])}
    refusal_reason_by_name = {
        " ".join(name): reason
        for name, reason in state.offline.items()
        if name in names_without_row
    }
    missing_names = {" ".join(name) for name in names_without_row}
    missing_names |= {
        f"the consumers of {name}" for name in state.rowless_streams() if stream in (None, name)
    }
    raise_if_incomplete(missing_names, refusal_reason_by_name)


def _parse_conditions(columns: Iterable[Column[Any]], flags: dict[str, Any]) -> list[Condition]:
    fields = [field.name for field in json_fields(columns)]
    texts = list(flags["conditions"])
    if flags["created"]:
        texts.append(f"created_at_us < {flags['created']} ago")
    return [parse_condition(text, fields) for text in texts]


def _filter_rows(
    rows: Iterable[AssetRow], conditions: Sequence[RowFilter], *, invert: bool
) -> list[AssetRow]:
    return [row for row in rows if all(condition(row) for condition in conditions) != invert]


def _create_filter(conditions: Sequence[Condition]) -> RowFilter:
    def is_met(row: AssetRow) -> bool:
        values = asset_values(row) if conditions else {}
        return all(condition.is_met(values) for condition in conditions)

    return is_met


class _IdleCondition:
    """The condition that a row has been inactive for longer than a duration.

    After a restart a server does not know when a consumer was last active, and a purged stream may
    not have the time of its last message.
    """

    def __init__(self, text: str) -> None:
        self._condition = parse_condition(f"at_us < {text} ago", ("at_us",))

    def is_activity_known(self, row: StreamRow | ConsumerRow) -> bool:
        """Return whether the row never was active, or the time of its last activity is known."""
        values = asset_values(row) if row.last_active_at_us is None else {}
        return not (values.get("delivered_consumer_seq") or values.get("last_seq"))

    def __call__(self, row: StreamRow | ConsumerRow) -> bool:
        """Return whether a row has been inactive for longer than the duration.

        A row without a time of its last activity is inactive since its creation.
        """
        active_at_us = row.last_active_at_us
        if active_at_us is None:
            return self._condition.is_met({"at_us": asset_values(row)["created_at_us"]})
        return self._condition.is_met({"at_us": active_at_us})


def _rows_with_known_activity(
    rows: Iterable[AssetRow], idle_condition: _IdleCondition | None, noun: str
) -> list[AssetRow]:
    """Return the rows whose last activity is known; print the number of other rows to stderr."""
    all_rows = list(rows)
    if idle_condition is None:
        return all_rows
    known_rows = [row for row in all_rows if idle_condition.is_activity_known(row)]
    if unknown_rows_count := len(all_rows) - len(known_rows):
        print_stderr(
            f"left out: {counted(unknown_rows_count, noun)}, of which the server does not know "
            f"when {'it was' if unknown_rows_count == 1 else 'they were'} active last"
        )
    return known_rows


@command("find")
@_where_option
@click.option("--subject", metavar="SUBJECT", help="Streams that store this subject.")
@click.option("--empty", is_flag=True, help="Without a message.")
@click.option("--mirrored", is_flag=True, help="Mirrors.")
@click.option("--sourced", is_flag=True, help="Only streams with sources.")
@_idle_option
@_created_option
@_invert_option
@_names_option
@json_flag
@connection_options
def find_streams(connection: Connection, **flags: Any) -> None:
    """Find the streams that meet every condition."""
    subject = flags["subject"]
    if subject is not None and not is_valid_subject(subject):
        raise UsageError(f"--subject: {subject!r} is not a valid subject")
    conditions: list[RowFilter] = [_create_filter(_parse_conditions(STREAM_COLUMNS, flags))]
    conditions += [lambda row: not row.stored_msgs] if flags["empty"] else []
    conditions += [lambda row: bool(row.config and row.config.mirror)] if flags["mirrored"] else []
    conditions += [lambda row: bool(row.config and row.config.sources)] if flags["sourced"] else []
    if subject is not None:
        conditions.append(
            lambda row: any(overlap(subject, stored_subject) for stored_subject in row.subjects)
        )
    idle_condition = _IdleCondition(flags["idle"]) if flags["idle"] else None
    conditions += [idle_condition] if idle_condition is not None else []
    state = _read_state(connection)
    rows = _rows_with_known_activity(stream_rows(state), idle_condition, "stream")
    matching_rows = _filter_rows(rows, conditions, invert=flags["invert"])
    _print_asset_rows(matching_rows, [row.name for row in matching_rows], STREAM_COLUMNS, flags)
    _raise_if_streams_missing(state)


@command("report")
@json_flag
@connection_options
def report_streams(connection: Connection, as_json: bool, **_flags: Any) -> None:
    """Print once how much every stream stores. Prints rates, too."""
    state = _read_state(connection)
    rows = sorted(stream_rows(state), key=lambda row: -row.stored_bytes)
    _print_asset_rows(rows, [], STREAM_COLUMNS, {"as_json": as_json, "names": False})
    _raise_if_streams_missing(state)


@command("find")
@click.argument("stream", required=False)
@_where_option
@click.option("--pull", is_flag=True, help="Only pull consumers.")
@click.option("--push", is_flag=True, help="Only push consumers.")
@click.option("--bound", is_flag=True, help="Only push consumers with a subscriber.")
@click.option("--pinned", is_flag=True, help="With a pinned client.")
@_idle_option
@_created_option
@_invert_option
@_names_option
@json_flag
@connection_options
def find_consumers(connection: Connection, stream: str | None, **flags: Any) -> None:
    """Find consumers that meet every condition. Searches STREAM, or all streams."""
    name = None if stream is None else parse_name(stream)
    conditions: list[RowFilter] = [_create_filter(_parse_conditions(CONSUMER_COLUMNS, flags))]
    conditions += [lambda row: row.is_pull is True] if flags["pull"] else []
    conditions += [lambda row: row.is_pull is False] if flags["push"] else []
    conditions += [lambda row: row.push_bound is True] if flags["bound"] else []
    conditions += [lambda row: row.pinned_client is not None] if flags["pinned"] else []
    idle_condition = _IdleCondition(flags["idle"]) if flags["idle"] else None
    conditions += [idle_condition] if idle_condition is not None else []
    state = _read_state(connection)
    if name is not None:
        _check_stream_exists(state, name)
    rows = [row for row in consumer_rows(state) if name in (None, row.stream)]
    rows = _rows_with_known_activity(rows, idle_condition, "consumer")
    matching_rows = _filter_rows(rows, conditions, invert=flags["invert"])
    _print_asset_rows(
        matching_rows,
        [f"{row.stream} {row.name}" for row in matching_rows],
        CONSUMER_COLUMNS,
        flags,
    )
    _raise_if_consumers_missing(state, name)


@command("report")
@stream_of_consumer_argument
@json_flag
@connection_options
def report_consumers(connection: Connection, stream: str, as_json: bool, **_flags: Any) -> None:
    """Print once how far every consumer is. STREAM is the stream of the consumers."""
    name = parse_name(stream)
    state = _read_state(connection)
    _check_stream_exists(state, name)
    rows = [row for row in consumer_rows(state) if row.stream == name]
    _print_asset_rows(rows, [], CONSUMER_COLUMNS, {"as_json": as_json, "names": False})
    _raise_if_consumers_missing(state, name)


def _check_stream_exists(state: State, name: str) -> None:
    if name not in state.streams.columns.name and name not in state.rowless_streams():
        raise UsageError(f"there is no stream {name}")


def _print_asset_rows(
    rows: Sequence[AssetRow],
    names: Sequence[str],
    columns: Sequence[Column[AssetRow]],
    flags: dict[str, Any],
) -> None:
    if flags["as_json"]:
        for row in rows:
            click.echo(json_line(row))
    elif flags["names"]:
        for name in names:
            click.echo(clean_line(name))
    else:
        for line in asset_table(columns, rows, stdout_width()):
            click.echo(line)
