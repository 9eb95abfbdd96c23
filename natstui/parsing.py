"""JSON and TOML that a user wrote: read within limits, and refused with one sentence."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MOST_LEVELS = 100
"""Limit of nested tables and lists; walking through them needs a call for each level."""
_TOO_DEEP = f"it is nested more than {MOST_LEVELS} levels deep"
_TOO_LONG = "it has a number with thousands of digits"
_DIGITS = "integer string conversion"
"""Python's text for a number that is too long; the rest of its message names a setting of Python.
"""
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_LONG_KEY = re.compile(
    rf"(?m)(?:^|[{{,])[ \t]*+\[{{0,2}}+[ \t]*+(?>{_PART}\.[ \t]*+){{{MOST_LEVELS}}}"
)
"""A TOML key with more than the allowed levels: tomllib takes hours for one of a megabyte."""


def parse_json(
    text: str | bytes, pairs: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None
) -> Any:
    """Parse JSON; `pairs` creates a dictionary from an object's pairs.

    Raises ValueError with a sentence: json.JSONDecodeError for what is no JSON at all.
    """

    def load() -> Any:
        return json.loads(
            text, object_pairs_hook=pairs, parse_float=_finite, parse_constant=_finite
        )

    return within_levels(load, json.JSONDecodeError)


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"a number in it is {value}, which JSON cannot contain")
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises ValueError with a sentence: tomllib.TOMLDecodeError for what is no TOML at all.
    """
    if _LONG_KEY.search(text):
        raise ValueError(_TOO_DEEP)
    tables: dict[str, Any] = within_levels(lambda: tomllib.loads(text), tomllib.TOMLDecodeError)
    return tables


def within_levels(parse: Callable[[], T], syntax_error: type[Exception]) -> T:
    """Return the parser's result; raises `syntax_error` unchanged, and ValueError above a
    limit.
    """
    try:
        value = parse()
    except syntax_error:
        raise
    except (RecursionError, ValueError) as error:
        raise ValueError(reason(error)) from None
    _check_levels(value)
    return value


def reason(error: Exception) -> str:
    """Return a parser's error as text; limits of Python are described as limits of the text."""
    if isinstance(error, RecursionError):
        return _TOO_DEEP
    return _TOO_LONG if _DIGITS in str(error) else str(error)


def _check_levels(value: object) -> None:
    inner = [value]
    for _level in range(MOST_LEVELS):
        # By identity: of YAML, one may stand in many places, and even in itself.
        inner = list({id(item): item for outer in inner for item in _tables(outer)}.values())
        if not inner:
            return
    raise ValueError(_TOO_DEEP)


def _tables(value: object) -> list[object]:
    """Return the tables and lists in a table or list."""
    if isinstance(value, dict):
        value = list(value.values())
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, (dict, list))]
