"""Processes that may write little, or that permissions bind although the tests run as root."""

from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_DROP_FROM_BOUNDS = 24
_OVERRIDES = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: what lets root pass by the mode of a file."""


def largest_file(size_bytes: int) -> Callable[[], None]:
    """Return what makes every write beyond this size fail, as on a full disk, on any machine."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))

    return limit


@contextmanager
def full_disk(folder: Path) -> Iterator[tuple[Callable[[], None], str]]:
    """Make a folder a disk with room for few files, for those who may mount one.

    For all others the size of each file is limited. Tells what a process has to call first, and
    what it says of a write that fails.
    """
    mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=100", "none", str(folder)]
    if (
        sys.platform != "linux"
        or subprocess.run(mount, capture_output=True, check=False).returncode
    ):
        yield largest_file(96 * 1024), "a file grew larger than this process may write"
        return
    try:
        yield lambda: None, "the disk is full"
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def bound_by_permissions() -> None:
    """Drop root's right to pass by permissions; who is not root never had it."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for capability in _OVERRIDES:
            libc.prctl(_DROP_FROM_BOUNDS, capability, 0, 0, 0)
