"""What whoever opens the viewer is told on stderr, before there is a screen."""

from __future__ import annotations

import subprocess

import pytest

from natstui.children import module_command
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


@pytest.mark.parametrize(
    ("words", "told"),
    [
        # It opened both contexts on this one server, and sent it their passwords.
        (("-s", "nats://127.0.0.1:1", "--context", "a,b"), "--server names one system"),
        (("-snats://127.0.0.1:1", "--profile", "a,b"), "--server names one system"),
        # It took the command for the value of the flag.
        (
            ("-snats://127.0.0.1:1", "overview"),
            "nothing listens at 127.0.0.1:1",
        ),
    ],
)
def test_the_short_flag_of_a_server_is_that_flag(words: tuple[str, ...], told: str) -> None:
    done = subprocess.run(
        [*module_command("natstui"), *words], check=False, capture_output=True, text=True
    )
    assert done.returncode in (2, 3) and told in done.stderr, done.stderr
