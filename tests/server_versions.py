"""The nats-server that the tests run on, and which tests need another one, or a program."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from functools import cache

import pytest

from natstui.errors import MissingExtra
from natstui.jetstream.testbed.broker import server_binary
from natstui.model.servers.versions import Version, version_of

LEFT_OUT = pytest.StashKey[Counter[str]]()
"""Of a run: why tests do not run on this server, and how many of them."""


@cache
def version_under_test() -> Version | None:
    """Return the version of the nats-server that the tests start; None when there is none."""
    try:
        words = [server_binary(), "--version"]
    except MissingExtra:
        return None
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = re.search(r"v?\d+\.\d+\.\d+", printed)
    version = version_of(found[0]) if found else None
    assert version is not None, f"{words} printed no version: {printed!r}"
    return version


def _named(text: str) -> Version:
    """Return the version that a marker names, as `2.11` or `2.12.10`."""
    major, minor, patch = [*map(int, text.split(".")), 0, 0][:3]
    return major, minor, patch


def _lacking_programs(item: pytest.Item) -> list[str]:
    """Return which programs a test needs that are not on the PATH."""
    names = [name for marker in item.iter_markers("needs_program") for name in marker.args]
    return [f"{item.location[0]} needs {name}" for name in names if shutil.which(name) is None]


def _reasons(item: pytest.Item) -> list[str]:
    """Return why a test cannot run on the tested server; nothing when it can."""
    markers = list(item.iter_markers("needs_server"))
    version = version_under_test() if markers else None
    if version is None:
        return []
    needed = [one.args[0] for one in markers if one.args and version < _named(one.args[0])]
    ends = [one.kwargs["before"] for one in markers if "before" in one.kwargs]
    return [f"needs server {text}" for text in needed] + [
        f"needs a server before {text}" for text in ends if version >= _named(text)
    ]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what needs another server or a program, and count it for the summary."""
    reasons = {
        item: found for item in items if (found := _lacking_programs(item) or _reasons(item))
    }
    if not reasons:
        return
    config.hook.pytest_deselected(items=list(reasons))
    config.stash[LEFT_OUT] = Counter(found[0] for found in reasons.values())
    items[:] = [item for item in items if item not in reasons]
