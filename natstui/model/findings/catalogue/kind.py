"""What one row of the catalogue says of a kind of finding. Imports nothing of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Severity = Literal["critical", "warning", "info"]
EntityKind = Literal["account", "stream", "consumer", "monitoring", "server", "client"]
Level = Literal["ok", "idle", "warn", "bad", "unknown"]

LEVELS: dict[Severity, Level] = {"critical": "bad", "warning": "warn", "info": "idle"}
_RANKS: dict[Severity, int] = {"critical": 3000, "warning": 2000, "info": 1000}


LIST_ACTIONS_KEY = "`.`"
"""How advice names the key of its actions: by default that of the list of findings."""


class StreamLimit(NamedTuple):
    """A limit of a stream, as advice names it."""

    option: str
    """Of `nats stream edit`, with its value."""
    label: str
    """For people, as other findings call it."""
    path: str
    """Of its field in the form of a stream."""


STREAM_LIMITS: dict[str, StreamLimit] = {
    "max_msgs": StreamLimit("--max-msgs NUMBER", "max messages", "max_msgs"),
    "max_bytes": StreamLimit("--max-bytes SIZE", "max bytes", "max_bytes"),
    "max_age_s": StreamLimit("--max-age DURATION", "max age", "max_age"),
    "max_consumers": StreamLimit("--max-consumers NUMBER", "max consumers", "max_consumers"),
}
"""The limits that remove or refuse something, by the number that says which one is reached."""
ANY_LIMIT_OPTION = "--max-bytes SIZE` (or --max-msgs, --max-age)"
"""Stands in advice for the option of the limit that is reached."""
ANY_LIMIT_LABEL = "the limit"
"""Stands in advice for the label of the limit that is reached."""
ANY_LIMIT_PATH = "max_bytes"
"""Stands in an advised form for the field of the limit that is reached."""


def with_limit(advice: str, limit: StreamLimit) -> str:
    """Return advice that names the limit that is reached where it means any."""
    named = advice.replace(ANY_LIMIT_OPTION, f"{limit.option}`")
    return named.replace(ANY_LIMIT_LABEL, limit.label)


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
