"""One plain sentence per kind of advisory."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from natstui.units import counted


class Told(msgspec.Struct):
    """What advisories and metrics say, all kinds together."""

    type: str = ""
    timestamp: str = ""
    stream: str | None = None
    consumer: str | None = None
    action: str = ""
    leader: str = ""
    reason: str = ""
    batch: str = ""
    group: str = ""
    pause_until: str = ""
    paused: bool = False
    stream_seq: int = 0
    consumer_seq: int = 0
    deliveries: int = 0
    ack_time: int = 0


_ACTIONS = {"create": "was created", "modify": "was changed", "delete": "was deleted"}


def _because(told: Told) -> str:
    return f" ({told.reason})" if told.reason else ""


def _message(told: Told) -> str:
    return f"message {told.stream_seq} of consumer {told.consumer} on {told.stream}"


def _paused(told: Told) -> str:
    if not told.paused:
        return f"consumer {told.consumer} on {told.stream} goes on"
    return f"consumer {told.consumer} on {told.stream} is paused until {told.pause_until}"


_SENTENCES: dict[str, Callable[[Told], str]] = {
    "stream_action": lambda t: f"stream {t.stream} {_ACTIONS.get(t.action, t.action)}",
    "consumer_action": lambda t: (
        f"consumer {t.consumer} on {t.stream} {_ACTIONS.get(t.action, t.action)}"
    ),
    "stream_leader_elected": lambda t: f"stream {t.stream} is now led by {t.leader}",
    "consumer_leader_elected": lambda t: (
        f"consumer {t.consumer} on {t.stream} is now led by {t.leader}"
    ),
    "stream_quorum_lost": lambda t: (
        f"stream {t.stream} has lost its quorum: it takes no messages until servers return"
    ),
    "consumer_quorum_lost": lambda t: (
        f"consumer {t.consumer} on {t.stream} has lost its quorum: it delivers nothing"
    ),
    "stream_batch_abandoned": lambda t: (
        f"an atomic batch on stream {t.stream} was given up{_because(t)}"
    ),
    "consumer_pause": _paused,
    "consumer_group_pinned": lambda t: (
        f"consumer {t.consumer} on {t.stream} pinned a client for group {t.group}"
    ),
    "consumer_group_unpinned": lambda t: (
        f"consumer {t.consumer} on {t.stream} unpinned its client of group {t.group}{_because(t)}"
    ),
    "nak": lambda t: f"{_message(t)} was refused (nak) at delivery {t.deliveries}",
    "terminated": lambda t: (
        f"{_message(t)} was terminated at delivery {t.deliveries}{_because(t)}"
    ),
    "max_deliver": lambda t: (
        f"{_message(t)} was given up after {counted(t.deliveries, 'delivery')}"
    ),
    "snapshot_create": lambda t: f"a backup of stream {t.stream} began",
    "snapshot_complete": lambda t: f"a backup of stream {t.stream} ended",
    "restore_create": lambda t: f"restoring stream {t.stream} began",
    "restore_complete": lambda t: f"restoring stream {t.stream} ended",
}


def sentence_of(kind: str, told: Told) -> str:
    """Return the sentence; for a kind that is new its words."""
    sentence = _SENTENCES.get(kind)
    return sentence(told) if sentence else f"{kind.replace('_', ' ')} {told.stream or ''}".strip()
