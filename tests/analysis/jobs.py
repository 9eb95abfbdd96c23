"""The pipeline in processes of its own, as natstui and spark-submit start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

ENVIRONMENT = {**os.environ, "COLUMNS": "140"}


def natstui(
    *words: str, env: dict[str, str] | None = None, first: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `natstui WORDS` to its end; `first` is called in the new process before it."""
    return subprocess.run(
        [sys.executable, "-m", "natstui", *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        env=env or ENVIRONMENT,
        preexec_fn=first,
    )


def begun(
    *words: str, stdout: IO[bytes], stderr: IO[bytes], env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Begin `natstui WORDS`."""
    return subprocess.Popen(
        [sys.executable, "-m", "natstui", *words],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        env=env or ENVIRONMENT,
    )


def started(*words: str) -> subprocess.Popen[bytes]:
    """Start the child process of an analysis."""
    return subprocess.Popen(
        [sys.executable, "-m", "natstui.analysis.job", *words, "--pipe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def told(child: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Read one line of the child."""
    assert child.stdout is not None
    line: dict[str, Any] = json.loads(child.stdout.readline())
    return line


def members(group: int) -> dict[int, str]:
    """Return the living processes of a process group, and the name of the program of each."""
    found = subprocess.run(
        ["ps", "-eo", "pid=,pgid=,stat=,comm="], capture_output=True, check=True
    )
    rows = (line.split(None, 3) for line in found.stdout.decode().splitlines())
    return {int(pid): name for pid, pgid, stat, name in rows
            if int(pgid) == group and stat[0] != "Z"}  # fmt: skip


def left_behind(out: Path) -> list[str]:
    """Return what an unfinished run left in the folder of the tables: it should be nothing."""
    return [
        str(path.relative_to(out))
        for path in out.rglob("*")
        if path.name.startswith((".spark-staging", "_temporary")) or "gold." in path.name
    ]
