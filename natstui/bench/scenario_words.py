"""What a scenario file says wrongly, in the words of the file instead of the decoder's."""

from __future__ import annotations

import re
from difflib import get_close_matches
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from natstui.bench.scenario_file import ScenarioFile, Table

_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$(?P<path>.*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>\w[\w-]*)(?:\[(?P<number>\d+)\])?")


def worded(error: msgspec.ValidationError) -> str:
    """Return one sentence: what is wrong, in which table, and what was meant perhaps."""
    found = _MESSAGE.fullmatch(str(error))
    what, path = (found["what"], found["path"] or "") if found else (str(error), "")
    steps = list(_STEP.finditer(path))
    place = " › ".join(_step_text(step) for step in steps) or "the top of the file"
    unknown = _UNKNOWN.fullmatch(what)
    if unknown is None:
        return f"{place}: {what[:1].lower()}{what[1:]}"
    return f"{place} has no `{unknown[1]}`{_hint(unknown[1], _names(steps))}"


def _step_text(step: re.Match[str]) -> str:
    return step["name"] if step["number"] is None else f"{step['name']} {int(step['number']) + 1}"


def _names(steps: list[re.Match[str]]) -> list[str]:
    """Return the names the table knows that a path leads to."""
    table: Any = ScenarioFile
    for step in steps:
        table = _table_in(get_type_hints(table).get(step["name"].replace("-", "_")))
        if table is None:
            return []
    return _fields(table)


def _fields(table: type[Table]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(table)]


def _table_in(hint: Any) -> type[Table] | None:
    """Return the table a field holds, be it one, a list of them, or one of several kinds."""
    if isinstance(hint, type) and issubclass(hint, Table):
        return hint
    if get_origin(hint) in (list, Union, UnionType):
        return next(filter(None, map(_table_in, get_args(hint))), None)
    return None


def _hint(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, 1)
    if near:
        return f"; did you mean `{near[0]}`?"
    top = _fields(ScenarioFile)
    if name in top and known != top:
        return ": it belongs to the top of the file"
    return f"; it knows {', '.join(known)}" if known else ""
