"""Processes that may write little, or that permissions bind although the tests run as root."""

from __future__ import annotations

import ctypes
import resource
import sys
from collections.abc import Callable

_DROP_FROM_BOUNDS = 24
_OVERRIDES = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: what lets root pass by the mode of a file."""


def largest_file(size_bytes: int) -> Callable[[], None]:
    """Return what makes every write beyond this size fail, as on a full disk, on any machine."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))

    return limit


def bound_by_permissions() -> None:
    """Drop root's right to pass by permissions; who is not root never had it."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        for capability in _OVERRIDES:
            libc.prctl(_DROP_FROM_BOUNDS, capability, 0, 0, 0)
