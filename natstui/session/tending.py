"""What a screen does to a recording of the library: the same as `natstui sessions` does."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from natstui.errors import UsageError
from natstui.model.recording import ChangeSession
from natstui.paths import user_path
from natstui.session.library import annotate, delete, rename
from natstui.session.pack import pack


def obey_change(command: ChangeSession) -> str:
    """Do it, and return a sentence; raises SessionError or UsageError with one."""
    folder, text = Path(command.folder), command.text.strip()
    if not text and command.action != "delete":
        raise UsageError(f"{command.action} {folder.name} needs a text")
    match command.action:
        case "rename":
            return f"renamed into {rename(folder, text)}"
        case "note":
            annotate(folder, text)
            return f"noted about {folder.name}"
        case "pack" | "pack redacted":
            redact = command.action == "pack redacted"
            target = user_path(text)
            return f"packed into {pack(folder, target, redact=redact, progress=_unseen)}"
        case "delete":
            delete(folder)
            return f"deleted {folder}"
        case _:
            assert_never(command.action)


def _unseen(_done_count: int, _all_count: int) -> None:
    """Take the progress, which nobody watches."""
