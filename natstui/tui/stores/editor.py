"""A value in the user's own editor, on a file that nobody else can read."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from textual.app import App, SuspendNotSupported

from natstui.errors import UsageError


def editor_command() -> list[str]:
    """Return the user's editor; raises UsageError when the environment names none."""
    for name in ("VISUAL", "EDITOR"):
        if command := os.environ.get(name, "").strip():
            return shlex.split(command)
    raise UsageError("neither VISUAL nor EDITOR names an editor")


def edit_in_terminal(app: App[int], text: str) -> str:
    """Return a text after it was edited; the screen rests meanwhile. Raises UsageError."""
    command = editor_command()
    try:
        with app.suspend():
            return edit(command, text)
    except SuspendNotSupported as error:
        raise UsageError("no editor can run in this terminal") from error


def edit(command: list[str], text: str) -> str:
    """Return a text after a command edited the file that holds it.

    Many editors end every file with a new line: one that was not there before is taken away.
    Raises UsageError when the editor fails.
    """
    with tempfile.TemporaryDirectory(prefix="natstui-") as folder:  # open to this user alone
        file = Path(folder) / ("value.json" if text.lstrip()[:1] in ("{", "[") else "value.txt")
        file.write_bytes(text.encode())
        try:
            code = subprocess.run([*command, str(file)], check=False).returncode
            if code:
                raise UsageError(f"{command[0]} ended with {code}: the text was not changed")
            edited = file.read_bytes().decode()
        except OSError as error:
            raise UsageError(f"{command[0]}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError("the file of the editor is not UTF-8 text") from error
    if edited.endswith("\n") and not text.endswith("\n") and edited.count("\n") > text.count("\n"):
        edited = edited[:-1]
    return edited
