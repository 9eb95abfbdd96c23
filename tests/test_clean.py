"""Hostile text becomes harmless."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natstui.clean import clean_json, clean_line, clean_text, escape_line


@given(st.text(st.characters(), max_size=50))
def test_no_control_format_or_surrogate_character_survives(text: str) -> None:
    cleaned = clean_line(text)
    assert len(cleaned) == len(text)
    for character in cleaned:
        category = unicodedata.category(character)
        assert category not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in {"LRE", "RLE", "LRO", "RLO", "PDF"}


def test_ordinary_text_is_the_same_object() -> None:
    text = "ORDERS.new"
    assert clean_line(text) is text


def test_an_escape_sequence_is_shown_and_not_obeyed() -> None:
    assert clean_line("a\x1b]52;c;eA==\x07b\x9b1m\x7f") == "a␛]52;c;eA==␇b\ufffd1m␡"


def test_line_feeds_stay_in_text() -> None:
    assert clean_text("a\r\nb\tc\x00") == "a\nb    c␀"


@given(st.text(st.characters(), max_size=50))
def test_json_stays_the_same_and_steers_no_terminal(text: str) -> None:
    written = json.dumps({text: [text]}, ensure_ascii=False)
    assert json.loads(clean_json(written)) == {text: [text]}
    if not any("\ud800" <= letter <= "\udfff" for letter in text):
        assert clean_line(clean_json(written)) == clean_json(written)


@pytest.mark.slow
@given(st.text(st.characters(), max_size=50))
def test_escaped_text_is_one_harmless_line_and_loses_nothing(text: str) -> None:
    line = escape_line(text)
    assert clean_line(line) == line
    quotes = line.replace('"', '\\"')
    assert json.loads(f'"{quotes}"') == text
