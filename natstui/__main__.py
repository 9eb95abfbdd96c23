"""Entry point of `natstui` and `python -m natstui`."""

from __future__ import annotations

import sys

from natstui import __version__

_NEEDS_PARSING = {"--help", "--engine", "--reset-terminal", "--version"}
_WITHOUT_VALUE = {"--ascii", "--read-only"}


def _names_a_command(arguments: list[str]) -> bool:
    """Return whether a word stands among the flags that is not the value of one."""
    words = iter(arguments)
    for word in words:
        if not word.startswith("-"):
            return True
        if word not in _WITHOUT_VALUE and "=" not in word:
            next(words, None)
    return False


def main() -> None:
    """Run the command line; `--version` and the viewer do without parsing flags here."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"natstui {__version__}\n")
    elif _names_a_command(arguments) or _NEEDS_PARSING & set(arguments):
        from natstui.cli.root import run

        run()
    else:
        from natstui.cli.open_viewer import run_fast

        run_fast(arguments)


if __name__ == "__main__":
    main()
