"""JSON and TOML that a user wrote, parsed within limits; errors are one sentence."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

MAX_NESTED_LEVELS = 100
"""Limit of nested tables and lists; walking through them needs a call for each level."""
_TOO_DEEP_TEXT = f"it is nested more than {MAX_NESTED_LEVELS} levels deep"
_TOO_MANY_DIGITS_TEXT = "it has a number with thousands of digits"
_PYTHON_DIGITS_ERROR = "integer string conversion"
"""Python's text for a number that is too long; the rest of its message names a setting of Python.
"""
_TOML_KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_TOO_DEEP_TOML_KEY_PATTERN = re.compile(
    rf"(?m)(?:^|[{{,])[ \t]*+\[{{0,2}}+[ \t]*+(?>{_TOML_KEY_PART}\.[ \t]*+){{{MAX_NESTED_LEVELS}}}"
)
"""A TOML key with more than the allowed levels: tomllib takes hours for one of a megabyte."""


def parse_json(
    text: str | bytes,
    create_object: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None,
) -> Any:
    """Return the value of a JSON text; `create_object` creates an object from its key-value pairs.

    Raises ValueError with a sentence; it is json.JSONDecodeError if the text is not JSON.
    """

    def load_json() -> Any:
        return json.loads(
            text,
            object_pairs_hook=create_object,
            parse_float=_parse_finite,
            parse_constant=_parse_finite,
        )

    return parse_within_limits(load_json, json.JSONDecodeError)


def _parse_finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"a number in it is {value}, which JSON cannot contain")
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises ValueError with a sentence; it is tomllib.TOMLDecodeError if the text is not TOML.
    """
    if _TOO_DEEP_TOML_KEY_PATTERN.search(text):
        raise ValueError(_TOO_DEEP_TEXT)
    tables: dict[str, Any] = parse_within_limits(
        lambda: tomllib.loads(text), tomllib.TOMLDecodeError
    )
    return tables


def parse_within_limits(parse: Callable[[], T], syntax_error: type[Exception]) -> T:
    """Return the result of `parse`.

    Raises ValueError if the text is nested too deeply or has a number with too many digits; an
    error of type `syntax_error` passes through unchanged.
    """
    try:
        value = parse()
    except syntax_error:
        raise
    except (RecursionError, ValueError) as error:
        raise ValueError(describe_parse_error(error)) from None
    _check_nesting(value)
    return value


def describe_parse_error(error: Exception) -> str:
    """Return a parser's error as text; for Python's limits, a text about nesting or digits."""
    if isinstance(error, RecursionError):
        return _TOO_DEEP_TEXT
    return _TOO_MANY_DIGITS_TEXT if _PYTHON_DIGITS_ERROR in str(error) else str(error)


def _check_nesting(value: object) -> None:
    inner = [value]
    for _level in range(MAX_NESTED_LEVELS):
        # By identity: in YAML, a table may occur in many tables, and even in itself.
        inner = list(
            {id(item): item for outer in inner for item in _nested_tables(outer)}.values()
        )
        if not inner:
            return
    raise ValueError(_TOO_DEEP_TEXT)


def _nested_tables(value: object) -> list[object]:
    """Return the tables and lists in a table or list."""
    if isinstance(value, dict):
        value = list(value.values())
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, (dict, list))]
