"""The lines of `natstui watch`: one JSON object per row, with their schema, or text."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterable
from typing import get_args

import msgspec
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.text_table import wrap_hanging
from natstui.cli.watch.assets import (
    ASSET_COLUMNS,
    asset_table,
    asset_values,
)
from natstui.cli.watch.events import (
    AdvisoryRow,
    RemovedRow,
    RestoredRow,
    SystemRow,
    UnavailableRow,
    event_sentence,
)
from natstui.cli.watch.server import AccountRow, ServerRow, account_sentence, server_sentence
from natstui.model.columns.column import json_fields
from natstui.model.columns.consumers import CONSUMER_COLUMNS, ConsumerRow
from natstui.model.columns.streams import STREAM_COLUMNS, StreamRow
from natstui.model.live.snapshot import Peer, Upstream
from natstui.units import local_text

SCHEMA_VERSION = 1
"""Incremented when a field is renamed, removed, or changes its meaning; not when one is added."""

Row = (
    ServerRow
    | AccountRow
    | StreamRow
    | ConsumerRow
    | RemovedRow
    | UnavailableRow
    | RestoredRow
    | AdvisoryRow
)
_SYSTEM_HELP = "Context or profile of this object if several are watched, otherwise absent."


def json_line(row: Row | SystemRow) -> str:
    """Return a row as one line of JSON in printable ASCII, so that no name can control a
    terminal.
    """
    values = asset_values(row) if isinstance(row, StreamRow | ConsumerRow) else row
    line = msgspec.json.encode(values)
    if line.isascii() and b"\x7f" not in line:
        return line.decode("ascii")
    # Only Python's encoder escapes what is not ASCII, and it is slow.
    return json.dumps(to_builtins(values), separators=(",", ":")).replace("\x7f", "\\u007f")


def schema_text() -> str:
    """Return the JSON Schema of all kinds of lines as indented JSON, with the meaning of each
    field.
    """
    rows = (*get_args(Row), SystemRow)
    json_types = [_json_struct(cls) if cls in ASSET_COLUMNS else cls for cls in rows]
    _, component_schemas = msgspec.json.schema_components(
        json_types, ref_template="#/$defs/{name}"
    )
    for cls in (*rows, Peer, Upstream):
        properties = component_schemas[cls.__name__]["properties"]
        for name, meaning in _field_meanings(cls).items():
            properties[name]["description"] = meaning
    for cls in json_types:
        properties = component_schemas[cls.__name__]["properties"]
        properties.setdefault("system", {"type": "string", "description": _SYSTEM_HELP})
    schema_document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Lines of `natstui watch --json`, schema {SCHEMA_VERSION}",
        "oneOf": [{"$ref": f"#/$defs/{cls.__name__}"} for cls in json_types],
        "$defs": component_schemas,
    }
    return json.dumps(schema_document, indent=2)


def _json_struct(row: type) -> type:
    """Return a type with the JSON fields of a stream or consumer, for the schema; `row` is the
    class of the row.
    """
    fields = [(field.name, field.type) for field in json_fields(ASSET_COLUMNS[row])]
    return msgspec.defstruct(row.__name__, fields, namespace={"__doc__": row.__doc__})


def _field_meanings(cls: type) -> dict[str, str]:
    """Return the meaning of each field of a row: the help of its column, or the docstring of the
    field.
    """
    if cls in ASSET_COLUMNS:
        return {field.name: field.help for field in json_fields(ASSET_COLUMNS[cls]) if field.help}
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    meanings: dict[str, str] = {}
    for field, next_statement in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(next_statement, ast.Expr):
            meanings[ast.unparse(field.target)] = str(ast.literal_eval(next_statement.value))
    return meanings


def text_lines(rows: Iterable[Row], width_cells: int | None) -> list[str]:
    """Return the rows of a poll as lines: server, account, events, then two tables.

    `width_cells` is as of `text_table.table`.
    """
    streams: list[StreamRow] = []
    consumers: list[ConsumerRow] = []
    lines: list[str] = []
    for row in rows:
        match row:
            case StreamRow():
                streams.append(row)
                continue
            case ConsumerRow():
                consumers.append(row)
                continue
            case ServerRow():
                sentence = server_sentence(row)
            case AccountRow():
                sentence = account_sentence(row)
            case _:
                sentence = event_sentence(row)
        time_text = local_text(row.at_us)
        sentence_text = wrap_hanging(
            f"{time_text} {clean_line(sentence)}", width_cells, len(time_text) + 1
        )
        lines += sentence_text.splitlines()
    if streams:
        lines += ["", *asset_table(STREAM_COLUMNS, streams, width_cells)]
    if consumers:
        lines += ["", *asset_table(CONSUMER_COLUMNS, consumers, width_cells)]
    return lines
