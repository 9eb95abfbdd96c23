"""A `natstui serve` of its own for a test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.processes import NatstuiProcess, assert_nothing_is_left

ENDS_WITHIN_S = 60


@contextmanager
def served(url: str, folder: Path, *words: str) -> Iterator[str]:
    """Serve the screens of a server; yield the address, and see that all processes end."""
    private = folder / "private"
    private.mkdir()
    environment = {
        "TMPDIR": str(private), "NATSTUI_CONNECTION_SERVER": url,
        **{f"XDG_{name}_HOME": str(folder / name) for name in ("STATE", "CONFIG", "DATA")},
    }  # fmt: skip
    process = NatstuiProcess("serve", *words, environment=environment)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=ENDS_WITHIN_S)
    assert process.returncode == 0, told
    assert told.startswith("natstui: open this address; changes are "), told
    assert told.count("\n") == 1, told
    assert_nothing_is_left(private)
