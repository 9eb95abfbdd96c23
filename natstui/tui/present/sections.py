"""Text in sections of label and value: what the detail and server screens consist of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from natstui.clean import clean_line
from natstui.model.snapshot import Peer
from natstui.units import duration_text


@dataclass(frozen=True, slots=True)
class Line:
    """One label and its value; `look` as in table cells."""

    label: str
    text: str
    look: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A title over lines."""

    title: str
    lines: tuple[Line, ...]


def line(label: str, text: str, look: str = "") -> Line:
    """Return a line whose text is harmless."""
    return Line(label, clean_line(text), look)


def every_value(config_json: str) -> tuple[Line, ...]:
    """Return every configured value of a stream or consumer, as the server names it."""
    try:
        config = json.loads(config_json)
    except ValueError:
        # Not what a server writes; recordings come from anywhere.
        return (line("", config_json, "bad"),)
    return tuple(_values("", config)) if isinstance(config, Mapping) else ()


def _values(prefix: str, values: Mapping[str, object]) -> Iterable[Line]:
    for name, value in values.items():
        label = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from _values(f"{label}.", value)
        else:
            yield line(clean_line(label), value_text(name, value))


_NANOSECONDS = (
    "max_age",
    "duplicate_window",
    "ack_wait",
    "inactive_threshold",
    "idle_heartbeat",
    "max_expires",
    "priority_timeout",
    "subject_delete_marker_ttl",
)


def value_text(name: str, value: object) -> str:
    """Return one configured value for people: durations as such, -1 as unlimited."""
    if value == -1:
        return "unlimited"
    if name in _NANOSECONDS and isinstance(value, int):
        return duration_text(value / 1e9) if value else "none"
    if name == "backoff" and isinstance(value, list):
        return ", ".join(duration_text(step / 1e9) for step in value if isinstance(step, int))
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def cluster_section(leader: str | None, peers: tuple[Peer, ...]) -> Section:
    """Return the leader and each replica, as the leader sees it."""
    lines = [line("leader", leader) if leader else line("leader", "none elected", "bad")]
    for peer in peers:
        state = "offline" if peer.offline else "current" if peer.current else "behind"
        seen = "never seen" if peer.active_ns is None else duration_text(peer.active_ns / 1e9)
        text = f"{state}, lag {peer.lag_msgs}, seen {seen} ago"
        look = "" if peer.current and not peer.offline else "bad"
        lines.append(
            line(
                f"replica {clean_line(peer.name)}",
                text.replace("seen never seen ago", "never seen"),
                look,
            )
        )
    return Section("CLUSTER", tuple(lines))
