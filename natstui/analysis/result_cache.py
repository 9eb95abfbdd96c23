"""The result of the last run in a file, reused without Spark while nothing has changed."""

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
from natstui.analysis.folders import (
    COMPLETION_FILE_NAMES,
    is_url,
    session_file_names,
    unescape_glob,
)
from natstui.files import write_atomic_file

_RESULT_FILE_NAME = "result.json"
_PACKAGE_FOLDER = Path(__file__).parents[1]
_PACKAGES = ("analysis", "model")
_MODULE_PREFIXES = tuple(f"natstui.{package}" for package in _PACKAGES)
_IRRELEVANT_OPTIONS = frozenset({"sessions", "out", "master", "memory", "scratch", "ui",
                              "pipe", "log", "remote", "packages", "jars"})  # fmt: skip
"""Options that do not change the gold tables."""


def run_fingerprint(options: argparse.Namespace, sessions: list[str]) -> str | None:
    """Return a hash of the sessions, the options, and the code of analysis and model.

    `sessions` are folders as globs. None if sessions or tables are URLs, or the code is in a zip:
    then the files cannot be read without Spark.
    """
    if not _PACKAGE_FOLDER.is_dir() or is_url(options.out) or any(map(is_url, sessions)):
        return None
    digest = hashlib.sha256()
    for session in sessions:
        folder = unescape_glob(session)
        stats = [(name, os.stat(f"{folder}/{name}")) for name in session_file_names(folder)]
        files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        digest.update(repr((folder, files)).encode())
    relevant_options = {
        name: value for name, value in vars(options).items() if name not in _IRRELEVANT_OPTIONS
    }
    digest.update(repr(sorted(relevant_options.items())).encode())
    for package in _PACKAGES:
        for module in sorted((_PACKAGE_FOLDER / package).rglob("*.py")):
            digest.update(module.read_bytes())
    return digest.hexdigest()


def gold_fingerprint(session_fingerprints: dict[str, str], thresholds: Thresholds) -> str:
    """Return a hash of the sessions, the thresholds, and the loaded code of analysis and model.

    `session_fingerprints` are by session; each changes with the segments of its session.
    """
    parts = [f"{name} {fingerprint}" for name, fingerprint in sorted(session_fingerprints.items())]
    parts.append(repr(thresholds))
    modules = {
        name: module for name, module in sys.modules.items() if name.startswith(_MODULE_PREFIXES)
    }
    parts += [inspect.getsource(modules[name]) for name in sorted(modules)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_cached_result(out: str, fingerprint: str) -> dict[str, Any] | None:
    """Return the result of the last run; None if its fingerprint differs or tables are missing.

    `out` is the folder of the tables.
    """
    try:
        cached_fields = json.loads(Path(out, _RESULT_FILE_NAME).read_bytes())
        result: dict[str, Any] = cached_fields["result"]
        if cached_fields["state"] != fingerprint:
            return None
        are_tables_complete = all(
            map(_is_complete_table, (Path(out, "gold", name) for name in result["tables"]))
        )
        return {**result, "read_sessions_count": 0} if are_tables_complete else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        # Without a usable file the tables are computed again.
        return None


def _is_complete_table(folder: Path) -> bool:
    return any((folder / file_name).exists() for file_name in COMPLETION_FILE_NAMES)


def delete_cached_result(out: str) -> None:
    """Delete the file with the result; called before tables change. Raises OSError."""
    if not is_url(out):
        Path(out, _RESULT_FILE_NAME).unlink(missing_ok=True)


def write_cached_result(out: str, fingerprint: str, result: dict[str, Any]) -> None:
    """Write a result and its fingerprint to a file, for the next run; raises OSError."""
    cached_fields = {"state": fingerprint, "result": result}
    write_atomic_file(
        Path(out, _RESULT_FILE_NAME), json.dumps(cached_fields, ensure_ascii=False).encode()
    )
