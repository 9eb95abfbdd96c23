"""The kept result of the last run, which is reused without Spark while nothing has changed."""

from __future__ import annotations

import argparse
import hashlib
import inspect
import json
import os
import sys
from pathlib import Path
from typing import Any

from natstui.analysis.defaults import Thresholds
from natstui.analysis.folders import WRITTEN, files_of, is_url, unescape_glob
from natstui.files import write_complete

_FILE = "result.json"
_CODE = Path(__file__).parents[1]
_ROOMS = ("analysis", "model")
_MODULES = tuple(f"natstui.{room}" for room in _ROOMS)
_CHANGES_NOTHING = frozenset({"sessions", "out", "master", "memory", "scratch", "ui",
                              "pipe", "log", "remote", "packages", "jars"})  # fmt: skip
"""Options that do not change the answers."""


def state_of(options: argparse.Namespace, sessions: list[str]) -> str | None:
    """Return a hash of the sessions, the options and the code of the answers.

    `sessions` are folders as globs. None if files cannot be read here: URLs, and code in a zip.
    """
    if not _CODE.is_dir() or is_url(options.out) or any(map(is_url, sessions)):
        return None
    digest = hashlib.sha256()
    for session in sessions:
        folder = unescape_glob(session)
        looks = [(name, os.stat(f"{folder}/{name}")) for name in files_of(folder)]
        files = [(name, look.st_size, look.st_mtime_ns) for name, look in looks]
        digest.update(repr((folder, files)).encode())
    relevant_options = {
        name: value for name, value in vars(options).items() if name not in _CHANGES_NOTHING
    }
    digest.update(repr(sorted(relevant_options.items())).encode())
    for room in _ROOMS:
        for module in sorted((_CODE / room).rglob("*.py")):
            digest.update(module.read_bytes())
    return digest.hexdigest()


def answers_fingerprint(marks: dict[str, str], thresholds: Thresholds) -> str:
    """Return a hash of the sessions, the thresholds and the code of the answers.

    `marks` are the fingerprints of the sessions' segments, by session.
    """
    parts = [*(f"{name} {mark}" for name, mark in sorted(marks.items())), repr(thresholds)]
    modules = {name: module for name, module in sys.modules.items() if name.startswith(_MODULES)}
    parts += [inspect.getsource(modules[name]) for name in sorted(modules)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def kept_result(out: str, state: str) -> dict[str, Any] | None:
    """Return the kept result of this state; None if there is none, or its tables are missing."""
    try:
        record = json.loads(Path(out, _FILE).read_bytes())
        result: dict[str, Any] = record["result"]
        if record["state"] != state:
            return None
        are_written = all(map(_is_written, (Path(out, "gold", name) for name in result["tables"])))
        return {**result, "read_sessions_count": 0} if are_written else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        # Of no use, whatever the reason: the tables are made again.
        return None


def _is_written(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in WRITTEN)


def forget_result(out: str) -> None:
    """Delete the kept result, before tables change; raises OSError."""
    if not is_url(out):
        Path(out, _FILE).unlink(missing_ok=True)


def keep_result(out: str, state: str, result: dict[str, Any]) -> None:
    """Write a result for the next run; raises OSError."""
    record = {"state": state, "result": result}
    write_complete(Path(out, _FILE), json.dumps(record, ensure_ascii=False).encode())
