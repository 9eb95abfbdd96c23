"""`natstui stream find|report` and `consumer find|report`: one look at all, and those wanted."""

from __future__ import annotations

import asyncio
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import click

from natstui.clean import clean_line
from natstui.cli.complete import on_stream
from natstui.cli.health.look import look_at
from natstui.cli.listing import print_away
from natstui.cli.manage.names import given_name
from natstui.cli.options import as_json as json_flag
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.cli.text_table import stdout_width
from natstui.cli.watch.assets import (
    asset_values,
    consumer_rows,
    consumer_table,
    stream_rows,
    stream_table,
)
from natstui.cli.watch.lines import json_line
from natstui.config import Connection
from natstui.errors import RequestFailed, UsageError
from natstui.model.assets.subjects import is_subject, overlap
from natstui.model.columns.column import Column, json_fields
from natstui.model.columns.consumers import CONSUMER_COLUMNS, ConsumerRow
from natstui.model.columns.streams import STREAM_COLUMNS, StreamRow
from natstui.model.live.state import State
from natstui.units import parse_bytes, parse_count, parse_duration_ns, parse_moment

_CONDITION = re.compile(r"\s*([a-z0-9_]+)\s*(<=|>=|==|!=|=~|!~|=|<|>)\s*(.*?)\s*", re.DOTALL)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_WORDS = {"null": None, "none": None, "true": True, "false": False, "yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a row."""

    field: str
    comparison: str
    wanted: object

    def holds(self, row: Mapping[str, object]) -> bool:
        """Tell whether a row meets it; what is unknown is neither less nor more than anything."""
        value = row[self.field]
        if self.comparison in _ORDER:
            numbers = isinstance(value, int | float) and isinstance(self.wanted, int | float)
            return numbers and _ORDER[self.comparison](value, self.wanted)
        if self.comparison in ("=~", "!~"):
            return _is_like(value, str(self.wanted)) == (self.comparison == "=~")
        among = isinstance(value, tuple) and self.wanted is not None
        same = self.wanted in value if isinstance(value, tuple) and among else value == self.wanted
        return same == (self.comparison == "==")


def _is_like(value: object, pattern: str) -> bool:
    every = value if isinstance(value, tuple) else (value,)
    return any(fnmatchcase(str(value), pattern) for value in every if value is not None)


def parse_condition(text: str, known: Sequence[str], now: datetime | None = None) -> Condition:
    """Return a condition from its words; raises UsageError. `known` are the fields there are."""
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a condition: write it as 'stored_msgs > 10k'")
    name, comparison, wanted = match.groups()
    if name not in known:
        raise UsageError(f"{text!r}: there is no field {name!r}; there are {', '.join(known)}")
    comparison = "==" if comparison == "=" else comparison
    wanted = wanted[1:-1] if wanted[:1] in "\"'" and wanted[-1:] == wanted[:1] else wanted
    if comparison in ("=~", "!~"):
        return Condition(name, comparison, wanted)
    try:
        return Condition(name, comparison, _value(name, wanted, comparison in _ORDER, now))
    except ValueError as error:
        raise UsageError(f"{text!r}: {error}") from error


def _value(name: str, text: str, is_number: bool, now: datetime | None) -> object:
    if not is_number and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if name.endswith("at_us"):
        return round(parse_moment(text, now).timestamp() * 1_000_000)
    for end, parse in _UNITS:
        if name.endswith(end):
            return parse(text)
    if is_number or name.endswith(_NUMBERS):
        return float(text.rstrip("%")) if not text.isdigit() else int(text)
    return text


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"[\d.]+", text) else parse_duration_ns(text) / 1e9


_UNITS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("_bytes", parse_bytes),
    ("bytes_per_s", parse_bytes),
    ("_per_s", parse_count),
    ("_ns", parse_duration_ns),
    ("_s", _seconds),
    ("_msgs", parse_count),
    ("_count", parse_count),
    ("_seq", parse_count),
)
_NUMBERS = ("_percent", "schema", "max_msgs_per_subject")


Found = TypeVar("Found", bound=StreamRow | ConsumerRow)
Wanted = Callable[[Any], bool]

_INTERVAL_S, _FOR_S = 0.3, 0.5

_where = click.option(
    "--where", "conditions", metavar="CONDITION", multiple=True,
    help="Condition on a field of watch --json, as 'stored_msgs > 10k'. Repeat: all must hold.",
)  # fmt: skip
_invert = click.option(
    "--invert", is_flag=True, help="Find those that do not meet the conditions."
)
_created = click.option("--created", metavar="TIME", help="Created longer ago than this: 2d.")
_idle = click.option("--idle", metavar="TIME", help="Inactive for longer than this: 1h.")
_names_only = click.option("--names", is_flag=True, help="Print only names, one per line.")


def _seen(connection: Connection) -> State:
    """Look at the server for a moment; raises RequestFailed when not everything was seen."""
    watched = asyncio.run(look_at(connection, _INTERVAL_S, _FOR_S, None))
    if watched.problem is not None:
        raise RequestFailed(f"not everything could be read: {watched.problem}")
    return watched.state


def _print_streams_away(state: State) -> None:
    """Print to stderr the streams of which nothing can be said."""
    refused = {stream: why for (stream, consumer), why in state.offline.items() if not consumer}
    print_away(state.rowless_streams(), refused)


def _print_consumers_away(state: State, stream: str | None) -> None:
    """Print to stderr the consumers, of one stream if it is named, that cannot be shown."""
    away = {name for name in state.rowless_consumers() if stream in (None, name[0])}
    refused = {" ".join(name): why for name, why in state.offline.items() if name in away}
    print_away({" ".join(name) for name in away}, refused)


def _conditions(columns: Iterable[Column[Any]], words: dict[str, Any]) -> list[Condition]:
    known = [field.name for field in json_fields(columns)]
    texts = list(words["conditions"])
    if words["created"]:
        texts.append(f"created_at_us < {words['created']} ago")
    return [parse_condition(text, known) for text in texts]


def _matching(rows: Iterable[Found], wanted: Sequence[Wanted], *, invert: bool) -> list[Found]:
    return [row for row in rows if all(one(row) for one in wanted) != invert]


def _all_hold(conditions: Sequence[Condition]) -> Wanted:
    def hold(row: Found) -> bool:
        values = asset_values(row) if conditions else {}
        return all(condition.holds(values) for condition in conditions)

    return hold


def _idle_since(text: str | None) -> list[Wanted]:
    """Return what tells whether a row was last active before a time, or never."""
    if text is None:
        return []
    limit = parse_condition(f"at_us < {text} ago", ("at_us",))
    return [
        lambda row: row.last_active_at_us is None or limit.holds({"at_us": row.last_active_at_us})
    ]


@command("find")
@_where
@click.option("--subject", metavar="SUBJECT", help="Streams that store this subject.")
@click.option("--empty", is_flag=True, help="Without a message.")
@click.option("--mirrored", is_flag=True, help="Mirrors.")
@click.option("--sourced", is_flag=True, help="Those with sources.")
@_idle
@_created
@_invert
@_names_only
@json_flag
@connection_options
def find_streams(connection: Connection, **words: Any) -> None:
    """Find the streams that meet every condition."""
    subject = words["subject"]
    if subject is not None and not is_subject(subject):
        raise UsageError(f"--subject: {subject!r} is not a valid subject")
    wanted: list[Wanted] = [_all_hold(_conditions(STREAM_COLUMNS, words))]
    wanted += [lambda row: not row.stored_msgs] if words["empty"] else []
    wanted += [lambda row: bool(row.config and row.config.mirror)] if words["mirrored"] else []
    wanted += [lambda row: bool(row.config and row.config.sources)] if words["sourced"] else []
    if subject is not None:
        wanted.append(lambda row: any(overlap(subject, stored) for stored in row.subjects))
    wanted += _idle_since(words["idle"])
    state = _seen(connection)
    _print_streams_away(state)
    found = _matching(stream_rows(state), wanted, invert=words["invert"])
    _print(found, [row.name for row in found], stream_table, words)


@command("report")
@json_flag
@connection_options
def report_streams(connection: Connection, as_json: bool, **_words: Any) -> None:
    """Print once how much every stream stores. Prints rates, too."""
    state = _seen(connection)
    _print_streams_away(state)
    rows = sorted(stream_rows(state), key=lambda row: -row.stored_bytes)
    _print(rows, [], stream_table, {"as_json": as_json, "names": False})


@command("find")
@click.argument("stream", required=False)
@_where
@click.option("--pull", is_flag=True, help="Only pull consumers.")
@click.option("--push", is_flag=True, help="Only push consumers.")
@click.option("--bound", is_flag=True, help="Only push consumers with a subscriber.")
@click.option("--pinned", is_flag=True, help="With a pinned client.")
@_idle
@_created
@_invert
@_names_only
@json_flag
@connection_options
def find_consumers(connection: Connection, stream: str | None, **words: Any) -> None:
    """Find consumers that meet every condition. Searches STREAM, or all streams."""
    name = None if stream is None else given_name(stream)
    wanted: list[Wanted] = [_all_hold(_conditions(CONSUMER_COLUMNS, words))]
    wanted += [lambda row: row.pulls is True] if words["pull"] else []
    wanted += [lambda row: row.pulls is False] if words["push"] else []
    wanted += [lambda row: row.push_bound is True] if words["bound"] else []
    wanted += [lambda row: row.pinned_client is not None] if words["pinned"] else []
    wanted += _idle_since(words["idle"])
    state = _seen(connection)
    _print_consumers_away(state, name)
    every = [row for row in consumer_rows(state) if name in (None, row.stream)]
    found = _matching(every, wanted, invert=words["invert"])
    _print(found, [f"{row.stream} {row.name}" for row in found], consumer_table, words)


@command("report")
@on_stream
@json_flag
@connection_options
def report_consumers(connection: Connection, stream: str, as_json: bool, **_words: Any) -> None:
    """Print once how far every consumer is. STREAM is the stream of the consumers."""
    name = given_name(stream)
    state = _seen(connection)
    if name not in state.streams.columns.name:
        raise UsageError(f"there is no stream {name}")
    _print_consumers_away(state, name)
    rows = [row for row in consumer_rows(state) if row.stream == name]
    _print(rows, [], consumer_table, {"as_json": as_json, "names": False})


def _print(
    rows: Sequence[Found],
    names: Sequence[str],
    table: Callable[[Sequence[Found], int | None], list[str]],
    words: dict[str, Any],
) -> None:
    if words["as_json"]:
        for row in rows:
            click.echo(json_line(row))
    elif words["names"]:
        for name in names:
            click.echo(clean_line(name))
    else:
        for line in table(rows, stdout_width()):
            click.echo(line)
