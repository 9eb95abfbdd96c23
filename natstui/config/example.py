"""`config.example.toml`: every setting with its default and meaning, written from the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from natstui.config.settings import NAMED, Profile, Settings

_HEAD = """\
# Every setting of natstui with its default.
#
# `natstui config --path` says where this file is read from. A setting behind a "# " is not set:
# the line shows how it is written. The environment wins over this file (interval_s of [monitor]
# is NATSTUI_MONITOR_INTERVAL_S there), and flags win over the environment. `natstui config` shows
# the effective values and where each came from.
# Secrets may be references: env://NAME, file://PATH, data:;base64,..., op://... and nsc://...
"""
_UNITS = {"_per_s": "per second", "_s": "seconds", "_bytes": "bytes", "_percent": "percent"}


def example_text() -> str:
    """Return the whole example; it is valid TOML and changes nothing when it is used."""
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        lines = _named_lines(name) if name in NAMED else _part_lines(name, field)
        parts.append("\n".join([f"# {_sentence(field)}", *lines]) + "\n")
    return "\n".join(parts)


def _part_lines(name: str, field: FieldInfo) -> Iterator[str]:
    yield f"[{name}]"
    part = field.annotation
    if isinstance(part, type) and issubclass(part, BaseModel):
        for key, setting in part.model_fields.items():
            yield from _setting_lines(key, setting)


_OF_PROFILE = (
    *("label", "context", "server", "creds", "colour", "read_only", "production"),
    *("monitoring", "system"),
)


def _named_lines(name: str) -> Iterator[str]:
    """Show one of the tables that have names, commented out: there is none by default."""
    example, part = NAMED[name]
    yield f"# [{name}.{example}]"
    for key, setting in part.model_fields.items():
        if part is not Profile or key in _OF_PROFILE:
            *words, line = _setting_lines(key, setting)
            yield from words
            yield line if line.startswith("# ") else f"# {line}"


def _setting_lines(key: str, setting: FieldInfo) -> Iterator[str]:
    unit = next((text for suffix, text in _UNITS.items() if key.endswith(suffix)), None)
    yield f"# {_sentence(setting)}" + (f" ({unit})" if unit else "")
    default = setting.get_default(call_default_factory=True)
    if default is None or default in ({}, []):
        yield f"# {key} = {toml_value((setting.examples or [''])[0])}"
    else:
        yield f"{key} = {toml_value(default)}"


def _sentence(field: FieldInfo) -> str:
    return " ".join((field.description or "").split())


def toml_value(value: Any) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_value(of)}" for key, of in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, int | float):
        return repr(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
