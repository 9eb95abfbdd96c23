"""`config.example.toml`: every setting with its default and meaning, generated from the
settings.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from textwrap import dedent
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from natstui.config.settings import NAMED_TABLES, Profile, Settings

_HEADER = """\
# Every setting of natstui with its default.
#
# `natstui config --path` says where this file is read from. A setting behind a "# " is not set:
# the line shows how it is written. The environment wins over this file (interval_s of [monitor]
# is NATSTUI_MONITOR_INTERVAL_S there), and flags win over the environment. `natstui config` shows
# the effective values and where each came from.
# Secrets may be references: env://NAME, file://PATH, data:;base64,..., op://... and nsc://...
"""
_UNIT_BY_SUFFIX = {
    "_per_s": "per second",
    "_s": "seconds",
    "_bytes": "bytes",
    "_percent": "percent",
}


def example_text() -> str:
    """Return the text of the example; it is valid TOML, and loading it changes no setting."""
    text_parts, meanings = [_HEADER], read_meanings(Settings)
    for name, field in Settings.model_fields.items():
        lines = _named_table_lines(name) if name in NAMED_TABLES else _part_lines(name, field)
        text_parts.append("\n".join([f"# {meanings[name]}", *lines]) + "\n")
    return "\n".join(text_parts)


def read_meanings(part: type[BaseModel]) -> dict[str, str]:
    """Return field → docstring for a class of settings, the fields of its base classes first.

    pydantic could read the source, too, but would do so at every start of natstui.
    """
    meanings: dict[str, str] = {}
    for base_class in reversed(part.__mro__):
        if base_class.__module__ != Settings.__module__:
            continue
        (definition,) = ast.parse(dedent(inspect.getsource(base_class))).body
        assert isinstance(definition, ast.ClassDef)
        field = ""
        for statement in definition.body:
            match statement:
                case ast.AnnAssign(target=ast.Name(id=field)):
                    pass
                case ast.Expr(value=ast.Constant(value=str(text))) if field:
                    meanings[field] = " ".join(text.split())
                    field = ""
    return meanings


def _part_lines(name: str, field: FieldInfo) -> Iterator[str]:
    yield f"[{name}]"
    part = field.annotation
    if isinstance(part, type) and issubclass(part, BaseModel):
        meanings = read_meanings(part)
        for key, setting in part.model_fields.items():
            yield from _setting_lines(key, meanings[key], setting)


_PROFILE_KEYS = (
    *("label", "context", "server", "creds", "colour", "read_only", "production"),
    *("monitoring", "system"),
)


def _named_table_lines(name: str) -> Iterator[str]:
    """Yield the lines of an example of `[name.NAME]`, a table that the user names.

    They are commented out, because there is no such table by default.
    """
    example, part = NAMED_TABLES[name]
    meanings = read_meanings(part)
    yield f"# [{name}.{example}]"
    for key, setting in part.model_fields.items():
        if part is not Profile or key in _PROFILE_KEYS:
            *comment_lines, line = _setting_lines(key, meanings[key], setting)
            yield from comment_lines
            yield line if line.startswith("# ") else f"# {line}"


def _setting_lines(key: str, meaning: str, setting: FieldInfo) -> Iterator[str]:
    unit = next((text for suffix, text in _UNIT_BY_SUFFIX.items() if key.endswith(suffix)), None)
    yield f"# {meaning}" + (f" ({unit})" if unit else "")
    default = setting.get_default(call_default_factory=True)
    if default is None or default in ({}, []):
        yield f"# {key} = {toml_value((setting.examples or [''])[0])}"
    else:
        yield f"{key} = {toml_value(default)}"


def toml_value(value: Any) -> str:
    """Return a value in the syntax of TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return (
            "{ " + ", ".join(f"{key} = {toml_value(item)}" for key, item in value.items()) + " }"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
