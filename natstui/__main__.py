"""Entry point of `natstui` and `python -m natstui`."""

from __future__ import annotations

import sys

from natstui import __version__

_NEEDS_PARSING = {"--help", "--engine", "--reset-terminal", "--version"}


def main() -> None:
    """Run the command line; `--version` and the viewer do without parsing flags here."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"natstui {__version__}\n")
    elif arguments and (not arguments[0].startswith("-") or _NEEDS_PARSING & set(arguments)):
        from natstui.cli.root import run

        run()
    else:
        from natstui.cli.open_viewer import run_fast

        run_fast(arguments)


if __name__ == "__main__":
    main()
