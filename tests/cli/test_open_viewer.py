"""What whoever opens the viewer is told on stderr, before there is a screen."""

from __future__ import annotations

import pytest

from natstui.cli.open_viewer import _print_stderr


def test_what_an_engine_says_before_the_screen_is_one_harmless_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _print_stderr("waiting for \x1b[2Jhost\nnatstui: all is well")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (
        "",
        "natstui: waiting for ␛[2Jhost␊natstui: all is well\n",
    )
