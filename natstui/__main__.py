"""Entry point of `natstui` and `python -m natstui`."""

from __future__ import annotations

import os
import sys

from natstui import __version__
from natstui.output import OUTPUT_FAILED_EXIT_CODE, keep_stdout_whole, write_all

_NEEDS_PARSING = {"--help", "--engine", "--reset-terminal", "--version"}
_COMPLETION = "_NATSTUI_COMPLETE"
"""Environment variable that the shell sets when it requests completions."""
_WITHOUT_VALUE = {"--ascii", "--read-only"}


def _names_a_command(arguments: list[str]) -> bool:
    """Return whether the arguments contain a command name, which is not the value of a flag."""
    remaining = iter(arguments)
    for word in remaining:
        if not word.startswith("-"):
            return True
        if word not in _WITHOUT_VALUE and "=" not in word:
            next(remaining, None)
    return False


def _prepare() -> None:
    """Set the environment that child processes inherit, and protect stdout from torn writes."""
    keep_stdout_whole()
    # Whatever the shell allows, nobody else shall write into files and folders of ours.
    os.umask(os.umask(0o077) | 0o002)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path[0] == root and root not in sys.path[1:]:
        # A checkout that is not installed: our own processes do not search the current folder.
        python_path = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{root}{os.pathsep}{python_path}" if python_path else root


def main() -> None:
    """Run the command line; `--version` and the viewer start without importing it."""
    _prepare()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        try:
            write_all(1, f"natstui {__version__}\n".encode())
        except OSError as error:
            sys.stderr.write(f"natstui: the output cannot be written: {error.strerror}\n")
            sys.exit(OUTPUT_FAILED_EXIT_CODE)
    elif (
        _names_a_command(arguments) or _NEEDS_PARSING & set(arguments) or _COMPLETION in os.environ
    ):
        from natstui.cli.root import run

        run()
    else:
        from natstui.cli.open_viewer import run_fast

        run_fast(arguments)


if __name__ == "__main__":
    main()
