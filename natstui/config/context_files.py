"""Writing contexts as the NATS CLI keeps them: files and folders for their owner alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from natstui.clean import clean_line
from natstui.config.contexts import (
    MOST_BYTES,
    context_path,
    load_context,
    nats_folder,
    selected_context,
)
from natstui.errors import UsageError
from natstui.files import read_plain, write_complete
from natstui.paths import private_folder

SECRET_FIELDS = ("password", "token", "user_jwt", "user_seed")
_IDENTITIES = (
    ("user", "password"), ("token",), ("creds",), ("nkey",), ("user_jwt", "user_seed"), ("nsc",),
)  # fmt: skip


def read_fields(name: str) -> dict[str, Any]:
    """Return all fields of a context as its file has them; raises UsageError."""
    load_context(name)
    found: dict[str, Any] = json.loads(read_plain(context_path(name), MOST_BYTES))
    return found


def write_context(name: str, changes: Mapping[str, Any], *, new: bool) -> Path:
    """Make a context, or change fields of one; an empty text takes a field away.

    What natstui does not know stays as it is. Another identity replaces the one before. Raises
    UsageError for a name that is taken, or is none, and for values that nothing could use.
    """
    path = context_path(name)
    if new and path.exists():
        raise UsageError(f"there is a context {clean_line(name)!r} already: use edit")
    fields = {} if new else read_fields(name)
    named = [group for group in _IDENTITIES if any(changes.get(field) for field in group)]
    if len(named) > 1:
        words = ", ".join(group[0] for group in named)
        raise UsageError(f"a context has one identity, and these are several: {words}")
    if named:
        fields |= {field: "" for group in _IDENTITIES if group not in named for field in group
                   if fields.get(field)}  # fmt: skip
    fields |= changes
    with _refusals_of(path):
        _write(path, json.dumps({"description": "", "url": "", **fields}, indent=2))
    return path


def select_context(name: str) -> str | None:
    """Let a context be the one of the NATS CLI and of natstui; return the one before."""
    load_context(name)
    before = selected_context()
    folder = nats_folder()
    with _refusals_of(folder):
        # First what may be refused: nothing has changed then.
        _write(folder / "context.txt", name)
        if before is not None and before != name:
            _write(folder / "previous-context.txt", before)
    return before


def remove_context(name: str) -> None:
    """Remove a context; raises UsageError for the one that is selected, as the NATS CLI does."""
    path = context_path(name)
    if not path.is_file():
        load_context(name)
    if selected_context() == name:
        raise UsageError(f"{clean_line(name)!r} is selected: select another one first")
    with _refusals_of(path):
        path.unlink()


@contextmanager
def _refusals_of(path: Path) -> Iterator[None]:
    """Turn what a file system refuses, and what it cannot hold, into UsageError."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    except UnicodeError as error:
        raise UsageError(f"{path} cannot be written: it is not UTF-8") from error


def _write(path: Path, text: str) -> None:
    """Write a file complete or not at all, for its owner alone; a link is written through."""
    private_folder(path.parent)
    # Of a link to itself this is that link, which is refused.
    write_complete(Path(os.path.realpath(path)), text.encode(), mode=0o600)
