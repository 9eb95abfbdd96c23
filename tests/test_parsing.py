"""JSON and TOML that a user wrote, nested and long beyond all measure: one sentence each."""

from __future__ import annotations

import json
import tomllib

import pytest

from natstui.parsing import MAX_NESTED_LEVELS, parse_json, parse_toml, parse_within_limits

TOO_DEEP = "it is nested more than 100 levels deep"
DEEP = 100_000
TOML = {
    "tables of one header": f"[{'.'.join(['a'] * DEEP)}]",
    "tables of a list": f"[[{'.'.join(['a'] * DEEP)}]]",
    "a dotted key": f"{'.'.join(['a'] * DEEP)} = 1",
    "a dotted key in quotes": f"{'.'.join([chr(34) + 'a b' + chr(34)] * DEEP)} = 1",
    "a dotted key of an inline table": f"x = {{ {'. '.join(['a'] * DEEP)} = 1 }}",
    "tables one by one": "\n".join(f"[{'.'.join(['a'] * level)}]" for level in range(1, 300)),
    "lists": f"x = {'[' * DEEP}{']' * DEEP}",
    "a few hundred lists": f"x = {'[' * 300}{']' * 300}",
    "inline tables": f"x = {'{a=' * DEEP}1{'}' * DEEP}",
}


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_toml_that_is_nested_too_deep_is_refused_at_once(text: str) -> None:
    with pytest.raises(ValueError, match=TOO_DEEP):
        parse_toml(text)


@pytest.mark.parametrize("levels_count", [101, 400, DEEP])
def test_json_that_is_nested_too_deep_is_refused(levels_count: int) -> None:
    for begin, end in ("[]", ('{"a":', "}")):
        with pytest.raises(ValueError, match=TOO_DEEP):
            parse_json(begin * levels_count + "1" + end * levels_count)


def test_what_is_nested_as_deep_as_allowed_is_read() -> None:
    text = "[" * MAX_NESTED_LEVELS + "]" * MAX_NESTED_LEVELS
    assert parse_json(text) == json.loads(text)
    keys = ".".join(["a"] * MAX_NESTED_LEVELS)
    assert parse_toml(f"{keys} = 1") == tomllib.loads(f"{keys} = 1")
    long = f'x = ["{"a." * 1000}"]\ny = """\n{"a." * 50}a\n"""\n'
    assert parse_toml(long) == tomllib.loads(long)


def test_a_number_with_thousands_of_digits_is_refused_in_plain_words() -> None:
    for parse, text in ((parse_json, "[%s]"), (parse_toml, "x = %s")):
        with pytest.raises(ValueError, match="it has a number with thousands of digits"):
            parse(text % ("9" * 5000))


def test_what_is_neither_is_told_from_what_is_too_much() -> None:
    with pytest.raises(json.JSONDecodeError):
        parse_json("[")
    with pytest.raises(tomllib.TOMLDecodeError):
        parse_toml("x =")


def test_what_stands_in_many_places_is_counted_once_and_what_is_in_itself_is_refused() -> None:
    value: list[object] = [1]
    for _ in range(90):
        value = [value, value]
    assert parse_within_limits(lambda: value, ValueError) is value
    value.append(value)
    with pytest.raises(ValueError, match=TOO_DEEP):
        parse_within_limits(lambda: value, ValueError)
