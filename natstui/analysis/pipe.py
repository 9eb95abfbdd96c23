"""What a run tells, and to whom: lines of JSON to the process that started it, or words."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

Tell = Callable[[dict[str, Any]], None]


def open_pipe(log: Path) -> Tell:
    """Keep stdout for our lines, send what Spark prints to the log, end with stdin."""
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    stdin = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    # The JVM would inherit our stdin and read from it.
    os.dup2(null, 0)
    os.close(null)
    threading.Thread(target=_end_with, args=(stdin,), daemon=True).start()
    lock = threading.Lock()

    def tell(line: dict[str, Any]) -> None:
        with lock:
            _write(ours, line)

    return tell


def _write(ours: TextIO, line: dict[str, Any]) -> None:
    try:
        ours.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        ours.flush()
    except BrokenPipeError:
        os.kill(os.getpid(), signal.SIGINT)


def _end_with(stdin: int) -> None:
    while os.read(stdin, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)


def tell_people(line: dict[str, Any]) -> None:
    """Tell a person, or the log of a cluster."""
    if line["kind"] == "progress" or line["kind"] == "failed":
        sys.stderr.write(f"natstui: {line['text']}\n")
    else:
        told = {name: len(table["rows"]) for name, table in line["tables"].items()}
        sys.stdout.write(json.dumps({"out": line["out"], "rows": told}) + "\n")
