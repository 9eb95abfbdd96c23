"""What one row of the catalogue says of a kind of finding. Imports nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning", "info"]
EntityKind = Literal["account", "stream", "consumer", "monitoring", "server", "client"]
Level = Literal["ok", "idle", "warn", "bad", "unknown"]

LEVELS: dict[Severity, Level] = {"critical": "bad", "warning": "warn", "info": "idle"}
_RANKS: dict[Severity, int] = {"critical": 3000, "warning": 2000, "info": 1000}


LIST_ACTIONS_KEY = "`.`"
"""How advice names the key of its actions: by default that of the list of findings."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One kind of finding: what it is called, when it holds, and what to do about it."""

    code: str
    """`NT-`, a letter for what it is about, a number: of a severity the lowest is the worst."""
    entity: EntityKind
    severity: Severity
    word: str
    """For the STATUS column."""
    sentence: str
    """What the word means."""
    check: str
    """What to look at first."""
    act: str
    """What to do, with the key or the command that does it."""
    peer: str = ""
    """The check of another tool that it corresponds to."""
    enter_s: float = 0.0
    """How long the condition holds before it is told."""
    leave_s: float = 0.0
    """How long the condition is absent before it is over."""
    thresholds: tuple[str, ...] = ()
    """Names of the thresholds that decide."""
    window_s: float = 0.0
    """How long one must watch before it can be told, where that is longer than `enter_s`."""

    @property
    def needs_s(self) -> float:
        """How long one must watch at least before it can be told."""
        return max(self.enter_s, self.window_s)

    @property
    def level(self) -> Level:
        """How it looks."""
        return LEVELS[self.severity]

    @property
    def severity_level(self) -> int:
        """Return where it sorts: the worst has the highest."""
        return _RANKS[self.severity] - int(self.code[-2:])
