"""Entry point of `natstui` and `python -m natstui`."""

from __future__ import annotations

import os
import sys

from natstui import __version__
from natstui.output import OUTPUT_FAILED_EXIT_CODE, protect_stdout, write_all

_OPTIONS_PARSED_BY_CLI = {"--help", "--engine", "--reset-terminal", "--version"}
"""Options that start the command line, which is slow to import, instead of the viewer."""
_COMPLETION_VARIABLE = "_NATSTUI_COMPLETE"
"""Environment variable that the shell sets when it requests completions."""
_FLAG_OPTIONS = {"--ascii", "--read-only"}


def _has_command_name(arguments: list[str]) -> bool:
    """Return whether the arguments contain a command name; a value of an option does not count."""
    remaining_arguments = iter(arguments)
    for argument in remaining_arguments:
        if not argument.startswith("-"):
            return True
        if argument not in _FLAG_OPTIONS and "=" not in argument:
            next(remaining_arguments, None)
    return False


def _is_short_option(argument: str) -> bool:
    """Return whether an argument is an option such as `-s`: only the command line knows these."""
    return len(argument) > 1 and argument[0] == "-" and argument[1] != "-"


def _prepare_process() -> None:
    """Set the umask and the environment of child processes, and replace stdout by a file that
    writes every text completely.
    """
    protect_stdout()
    # Whatever the umask of the shell is, other users must not write into our files and folders.
    os.umask(os.umask(0o077) | 0o002)
    source_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.path[0] == source_folder and source_folder not in sys.path[1:]:
        # A checkout that is not installed: our own processes do not search the current folder.
        python_path = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = (
            f"{source_folder}{os.pathsep}{python_path}" if python_path else source_folder
        )


def main() -> None:
    """Run the command of this process, or the viewer without a command; `--version` and the viewer
    start without importing the commands.
    """
    _prepare_process()
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        try:
            write_all(1, f"natstui {__version__}\n".encode())
        except OSError as error:
            sys.stderr.write(f"natstui: the output cannot be written: {error.strerror}\n")
            sys.exit(OUTPUT_FAILED_EXIT_CODE)
    elif (
        _has_command_name(arguments)
        or _OPTIONS_PARSED_BY_CLI & set(arguments)
        or any(map(_is_short_option, arguments))
        or _COMPLETION_VARIABLE in os.environ
    ):
        from natstui.cli.root import run

        run()
    else:
        from natstui.cli.open_viewer import run_viewer

        run_viewer(arguments)


if __name__ == "__main__":
    main()
