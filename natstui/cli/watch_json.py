"""A row → one line of JSON, and what the lines mean, for `natstui watch --schema`."""

from __future__ import annotations

import ast
import inspect
import json
from typing import get_args

import msgspec

from natstui.cli.watch_rows import SCHEMA, Row
from natstui.model.snapshot import Peer, Upstream


def json_line(row: Row) -> str:
    """Return a row as one line of ASCII: no terminal obeys what a name says."""
    return json.dumps(msgspec.to_builtins(row)).replace("\x7f", "\\u007f")


def schema_text() -> str:
    """Return the JSON Schema of every kind of line, each field with its meaning."""
    kinds = get_args(Row)
    _, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for cls in (*kinds, Peer, Upstream):
        properties = components[cls.__name__]["properties"]
        for name, meaning in _meanings(cls).items():
            properties[name]["description"] = meaning
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
