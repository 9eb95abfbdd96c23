"""The process of the demo's shop, seen from the command that starts it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from natstui.errors import BrokerFailed, UsageError
from natstui.jetstream.broker import server_binary

_STOP_S = 10.0


@dataclass(frozen=True, slots=True)
class Shop:
    """A shop that is open."""

    url: str
    """Where clients connect."""


@contextmanager
def running_shop(store: Path | None) -> Iterator[Shop]:
    """Run broker and traffic in a process of their own; stop it and tidy up at the end.

    That process ends with its stdin, so it also goes when this one is killed. Raises MissingExtra
    without nats-server, UsageError for a store that cannot be written, BrokerFailed else.
    """
    server_binary()
    kept = [] if store is None else [str(_writable(store))]
    scratch = tempfile.mkdtemp(prefix="natstui-demo-")
    words = [sys.executable, "-P", "-m", "natstui.jetstream.demo_process", scratch, *kept]
    try:
        with Path(scratch, "demo.log").open("wb") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Everything temporary then lies in one folder, which both processes can remove.
                env={**os.environ, "TMPDIR": scratch},
                # Ctrl-C is for the viewer; this process hears of the end by its stdin.
                start_new_session=True,
            )
        try:
            yield Shop(_url(process, Path(scratch)))
        finally:
            _stop(process)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _writable(store: Path) -> Path:
    """Return the folder of the store, made if need be."""
    try:
        store.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=store):
            return store.resolve()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--store {store}: cannot be written: {reason}") from error


def _url(process: subprocess.Popen[bytes], scratch: Path) -> str:
    """Wait until the shop is open and return its URL; raise BrokerFailed with the reason."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        log = scratch / "demo.log"
        words = log.read_text(errors="replace").splitlines() if log.exists() else []
        raise BrokerFailed(f"the demo ended at its start: {words[-1] if words else 'no reason'}")
    answer = json.loads(line)
    if "error" in answer:
        raise BrokerFailed(answer["error"])
    return str(answer["url"])


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Let the process end in order; kill it when that takes too long."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
