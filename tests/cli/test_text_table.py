"""Plain text for a terminal and for a pipe."""

from __future__ import annotations

import pytest

from natstui.cli.text_table import hanging, print_rows


def test_a_long_line_goes_on_below_its_value_and_a_pipe_gets_it_whole() -> None:
    text = "title\n\n  messages   sent 10, lost 0\n"
    assert hanging(text, 24, 13) == ("title\n\n  messages   sent 10, lost\n             0\n")
    assert hanging(text, None, 13) == text


def test_words_stand_to_the_left_and_numbers_to_the_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows(("NAME", "SUBJECTS", "SIZE"), [("S", "a.>", "7"), ("LONG", "b", "12345")], 2)
    assert capsys.readouterr().out.splitlines() == [
        "NAME  SUBJECTS   SIZE",
        "S     a.>           7",
        "LONG  b         12345",
    ]
