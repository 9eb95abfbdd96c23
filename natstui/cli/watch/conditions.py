"""`--where 'stored_msgs > 10k'`: conditions over the fields of `natstui watch --json`. Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from natstui.errors import UsageError
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
    return any(fnmatchcase(str(one), pattern) for one in every if one is not None)


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
