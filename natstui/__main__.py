"""Entry point of `natstui` and `python -m natstui`."""

from __future__ import annotations

import sys

from natstui import __version__


def main() -> None:
    """Run the command line; answer `--version` without importing anything else."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"natstui {__version__}\n")
        return
    from natstui.cli.root import run

    run()


if __name__ == "__main__":
    main()
