"""`natstui watch`, here or as a process, and what it printed."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from tests.cli.test_manage import run_here


class Said(Struct, frozen=True):
    """What one run ended with."""

    code: int | None
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The objects of its lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    def row(self, kind: str, name: str, **others: object) -> dict[str, Any]:
        """The one object of a kind with a name."""
        wanted = {"kind": kind, "name": name, **others}
        (found,) = [row for row in self.rows if all(row.get(k) == v for k, v in wanted.items())]
        return found


def watch(*words: str, **environment: str) -> Said:
    """Run it to its end in this process."""
    done = run_here("watch", *words, environment=environment)
    return Said(done.returncode, done.stdout, done.stderr)


def watch_once(url: str, *words: str, **environment: str) -> Said:
    """Print one set of a server as JSON, in this process."""
    return watch("--once", "--json", "--server", url, *words, **environment)
