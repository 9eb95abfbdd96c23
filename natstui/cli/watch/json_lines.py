"""The lines of `natstui watch --json`: one object per row, and the schema of all of them."""

from __future__ import annotations

import ast
import inspect
import json
from typing import get_args

import msgspec

from natstui.cli.watch.consumers import ConsumerRow
from natstui.cli.watch.happened import (
    AdvisoryRow,
    RemovedRow,
    RestoredRow,
    SystemRow,
    UnavailableRow,
)
from natstui.cli.watch.server import AccountRow, ServerRow
from natstui.cli.watch.streams import StreamRow
from natstui.model.live.snapshot import Peer, Upstream

SCHEMA = 1
"""Grows when a field is renamed, removed, or changes its meaning; not when one is added."""


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


_SYSTEM = "The context or profile that it is of, where several are watched; else absent."


def json_line(row: Row | SystemRow) -> str:
    """Return a row as one line of printable ASCII: no name can control a terminal."""
    line = msgspec.json.encode(row)
    if line.isascii() and b"\x7f" not in line:
        return line.decode("ascii")
    # Only Python's encoder escapes what is not ASCII, and it is slow.
    return json.dumps(msgspec.to_builtins(row), separators=(",", ":")).replace("\x7f", "\\u007f")


def schema_text() -> str:
    """Return the JSON Schema of every kind of line, each field with its meaning."""
    kinds = (*get_args(Row), SystemRow)
    _, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for cls in (*kinds, Peer, Upstream):
        properties = components[cls.__name__]["properties"]
        for name, meaning in _meanings(cls).items():
            properties[name]["description"] = meaning
    for cls in kinds:
        properties = components[cls.__name__]["properties"]
        properties.setdefault("system", {"type": "string", "description": _SYSTEM})
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Lines of `natstui watch --json`, schema {SCHEMA}",
        "oneOf": [{"$ref": f"#/$defs/{cls.__name__}"} for cls in kinds],
        "$defs": components,
    }
    return json.dumps(document, indent=2)


def _meanings(cls: type) -> dict[str, str]:
    """Return field → the docstring under it."""
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    meanings: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            meanings[ast.unparse(field.target)] = str(ast.literal_eval(below.value))
    return meanings
