"""The type of an entry of the catalogue: a kind of finding. Of natstui it imports only `keys`."""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct

from natstui.model.keys import insert_keys

Severity = Literal["critical", "warning", "info"]
EntityKind = Literal["account", "stream", "consumer", "monitoring", "server", "client"]
Level = Literal["ok", "idle", "warn", "bad", "unknown"]

LEVEL_BY_SEVERITY: dict[Severity, Level] = {"critical": "bad", "warning": "warn", "info": "idle"}
_LEVEL_NUMBER_BY_SEVERITY: dict[Severity, int] = {"critical": 3000, "warning": 2000, "info": 1000}


class StreamLimit(NamedTuple):
    """The names of a limit of a stream in advice."""

    option: str
    """The option of `nats stream edit`, with a value."""
    label: str
    """The label for people, the same in all findings."""
    path: str
    """The path of the field in the form of a stream."""


STREAM_LIMIT_BY_NUMBER_NAME: dict[str, StreamLimit] = {
    "max_msgs": StreamLimit("--max-msgs NUMBER", "max messages", "max_msgs"),
    "max_bytes": StreamLimit("--max-bytes SIZE", "max bytes", "max_bytes"),
    "max_age_s": StreamLimit("--max-age DURATION", "max age", "max_age"),
    "max_consumers": StreamLimit("--max-consumers NUMBER", "max consumers", "max_consumers"),
}
"""Name of the number of a finding that shows the reached limit → the names of the limit."""
ANY_LIMIT_OPTION = "--max-bytes SIZE` (or --max-msgs, --max-age)"
"""Placeholder in advice for the option of the reached limit."""
ANY_LIMIT_LABEL = "the limit"
"""Placeholder in advice for the label of the reached limit."""
ANY_LIMIT_PATH = "max_bytes"
"""Placeholder in an advised form for the field of the reached limit."""


def with_limit(advice: str, limit: StreamLimit) -> str:
    """Return the advice, with the option and label of a limit in place of its placeholders."""
    advice_with_option = advice.replace(ANY_LIMIT_OPTION, f"{limit.option}`")
    return advice_with_option.replace(ANY_LIMIT_LABEL, limit.label)


class Kind(Struct, frozen=True, eq=False):
    """A kind of finding: its code, its texts and advice, and the times until report and end."""

    code: str
    """`NT-`, a letter for the kind of entity, and a number, lowest for the worst of a severity."""
    entity: EntityKind
    severity: Severity
    word: str
    """The label in the STATUS column."""
    sentence: str
    """The meaning of the label."""
    check_template: str
    """The first check to do, with ids of actions for their keys."""
    act_template: str
    """What to do, with the command or the id of the action that does it."""
    peer: str = ""
    """The equivalent check of another tool."""
    enter_s: float = 0.0
    """Time that the condition must hold before it is reported."""
    leave_s: float = 0.0
    """Time that the condition must be absent before the finding ends."""
    thresholds: tuple[str, ...] = ()
    """Names of the thresholds that decide the condition."""
    window_s: float = 0.0
    """Time of watching that the condition needs, if longer than `enter_s`."""
    recurrence_s: float = 0.0
    """If the condition comes again within this time after the end of its finding, the new finding
    ends only when it is absent for as long: what comes and goes is not reported each time."""

    @property
    def check(self) -> str:
        """Return the first check to do, with the default keys."""
        return insert_keys(self.check_template)

    @property
    def act(self) -> str:
        """Return what to do, with the default key or the command that does it."""
        return insert_keys(self.act_template)

    @property
    def needs_s(self) -> float:
        """Return the minimum time of watching before a report, in seconds."""
        return max(self.enter_s, self.window_s)

    @property
    def level(self) -> Level:
        """Return the level that decides the style on screens."""
        return LEVEL_BY_SEVERITY[self.severity]

    @property
    def severity_level(self) -> int:
        """Return the number for sorting by severity; the worst kind has the highest."""
        return _LEVEL_NUMBER_BY_SEVERITY[self.severity] - int(self.code[-2:])
