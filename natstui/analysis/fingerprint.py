"""A fingerprint of the answers: while it is the same, they need not be computed again."""

from __future__ import annotations

import hashlib
import inspect
import sys

from natstui.analysis.defaults import Thresholds

_CODE = ("natstui.analysis", "natstui.model")


def answers_fingerprint(marks: dict[str, str], thresholds: Thresholds) -> str:
    """Return a text that changes with the sessions, the thresholds and the code of the answers.

    `marks` are the fingerprints of the sessions' segments, by session.
    """
    parts = [*(f"{name} {mark}" for name, mark in sorted(marks.items())), repr(thresholds)]
    modules = {name: module for name, module in sys.modules.items() if name.startswith(_CODE)}
    parts += [inspect.getsource(modules[name]) for name in sorted(modules)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
