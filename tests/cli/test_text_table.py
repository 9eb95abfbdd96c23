"""Plain text for a terminal and for a pipe."""

from __future__ import annotations

import click
import pytest

from natstui.cli.text_table import TextColumn, colour_severities, print_rows, table, wrap_hanging


def test_a_long_line_goes_on_below_its_value_and_a_pipe_gets_it_whole() -> None:
    text = "title\n\n  messages   sent 10, lost 0\n"
    assert wrap_hanging(text, 24, 13) == ("title\n\n  messages   sent 10, lost\n             0\n")
    assert wrap_hanging(text, None, 13) == text


def test_words_stand_to_the_left_and_numbers_to_the_right(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_rows(("NAME", "SUBJECTS", "SIZE"), [("S", "a.>", "7"), ("LONG", "b", "12345")], 2)
    assert capsys.readouterr().out.splitlines() == [
        "NAME  SUBJECTS   SIZE",
        "S     a.>           7",
        "LONG  b         12345",
    ]


def test_a_terminal_gets_a_box_bold_titles_and_colours_and_a_pipe_none_of_them() -> None:
    columns = (
        TextColumn("NAME", numeric=False),
        TextColumn("STATUS", colour_by_text={"stuck": "red"}),
    )
    rows = [("a", "stuck"), ("b", "ok")]
    assert table(columns, rows, None) == ["NAME  STATUS", "a      stuck", "b         ok"]
    assert table(columns, rows, 80) == [
        "╭──────┬────────╮",
        "│ \x1b[1mNAME\x1b[0m │ \x1b[1mSTATUS\x1b[0m │",
        "├──────┼────────┤",
        "│ a    │  \x1b[31mstuck\x1b[0m │",
        "│ b    │     ok │",
        "╰──────┴────────╯",
    ]


def test_a_box_fits_the_terminal_when_columns_are_dropped_and_cut() -> None:
    columns = (
        TextColumn("NAME", numeric=False, may_be_cut=True),
        TextColumn("STORED"),
        TextColumn("COST", priority=1),
    )
    lines = table(columns, [("a-rather-long-name-of-a-stream", "1234567", "77777")], 30)
    assert [len(click.unstyle(line)) for line in lines] == [30] * 5
    assert "a-rather-long-n…" in lines[3] and "1234567" in lines[3] and "COST" not in lines[1]


def test_lines_that_begin_with_a_severity_begin_in_its_colour() -> None:
    text = colour_severities("CRITICAL  NT-C09 x\n  CRITICAL\nWARNING y")
    assert text == ("\x1b[31mCRITICAL\x1b[0m  NT-C09 x\n  CRITICAL\n\x1b[33mWARNING\x1b[0m y")
