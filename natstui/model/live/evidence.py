"""What the server announced of each consumer and stream, joined to them and to their messages.

A pure function of the announcements, in bounded memory: totals are exact, and of the messages the
most frequent ones are counted one by one (`natstui.model.live.message_counts`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from natstui.model.bench.latency import from_latencies
from natstui.model.live.ack_times import AckWindow
from natstui.model.live.message_counts import MessageCount, MessageCounts
from natstui.model.records.evidence import (
    AcksCounted,
    AdvisoriesCounted,
    BatchCounts,
    EvidenceSoFar,
    MessageTrouble,
    Trouble,
)
from natstui.model.records.record import AckSample, Advisory

MOST_TROUBLED = 2_000
"""Consumers and streams of which evidence is kept; above, what is oldest is dropped."""
_ELECTIONS_KEPT = 16
_ACTIONS_KEPT = 64
_FIELDS: dict[str, str] = {
    "nak": "naks",
    "terminated": "terms",
    "max_deliver": "give_ups",
    "removed": "removed",
}

Name = tuple[str, str]
"""Stream and consumer; an empty consumer for the stream itself."""
Told = Advisory | AdvisoriesCounted | AckSample | AcksCounted
"""What evidence is made of."""
_NOTHING: Mapping[Name, Trouble] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was announced so far."""

    of: Mapping[Name, Trouble] = field(default_factory=lambda: _NOTHING)

    def after(self, told: Iterable[Told]) -> Evidence:
        """Return the evidence after announcements; the same object when there are none."""
        troubles: dict[Name, Trouble] | None = None
        for one in told:
            troubles = dict(self.of) if troubles is None else troubles
            if isinstance(one, AckSample | AcksCounted):
                _sample(troubles, one, (one.stream, one.consumer))
            elif one.stream is not None and one.type in _TELLING:
                _take(troubles, one, (one.stream, one.consumer or ""))
        if troubles is None:
            return self
        while len(troubles) > MOST_TROUBLED:
            del troubles[min(troubles, key=lambda name: troubles[name].last_at_us)]
        return Evidence(MappingProxyType(troubles))

    def acks(self, name: Name, created_at_us: int, now_at_us: int) -> AckWindow | None:
        """Return the sampled acknowledgements of a consumer; None without any."""
        trouble = self.of.get(name)
        if trouble is None or trouble.acks.last_at_us < created_at_us:
            return None
        window = trouble.acks.until(now_at_us)
        return window if window.times.total_count else None


def evidence_of(record: EvidenceSoFar) -> Evidence:
    """Return the evidence that a keyframe repeats."""
    return Evidence(
        MappingProxyType(
            {(trouble.stream, trouble.consumer): trouble for trouble in record.troubles}
        )
    )


def evidence_so_far(evidence: Evidence, at_us: int) -> EvidenceSoFar | None:
    """Return what a keyframe repeats; None when nothing was announced."""
    troubles = tuple(evidence.of.values())
    return EvidenceSoFar(at_us, troubles) if troubles else None


_LEADERS = ("stream_leader_elected", "consumer_leader_elected")
_ACTIONS = ("stream_action", "consumer_action")
_ROLLED_BACK = "stream_rolled_back"
_ABANDONED = "stream_batch_abandoned"
_REMOVED_REASON = "Unacknowledged message was deleted"
"""The reason with which a stream terminates what it removes: by a limit, a purge, a delete."""
_TELLING = frozenset({*_FIELDS, *_LEADERS, *_ACTIONS, _ROLLED_BACK, _ABANDONED})


def _take(troubles: dict[Name, Trouble], one: Advisory | AdvisoriesCounted, name: Name) -> None:
    """Add one announcement."""
    if one.type in _ACTIONS:
        _act(troubles, one, name)
        return
    known = troubles.get(name) or Trouble(*name)
    if one.type in _LEADERS:
        elections = (*known.elected_at_us[1 - _ELECTIONS_KEPT :], one.at_us)
        troubles[name] = replace(known, elected_at_us=elections)
    elif one.type == _ABANDONED:
        batches = known.abandoned_batches
        reason = _body(one).get("reason")
        counted = BatchCounts(
            batches.total_count + 1, one.at_us, reason if isinstance(reason, str) else ""
        )
        troubles[name] = replace(known, abandoned_batches=counted)
    elif one.type == _ROLLED_BACK:
        troubles[name] = replace(known, rolled_back_at_us=one.at_us, rolled_back_text=_text(one))
    else:
        which = _FIELDS[message_trouble(one) or one.type]
        counts: MessageCounts = getattr(known, which)
        if isinstance(one, AdvisoriesCounted):
            counts = counts.after(one.at_us, one.messages, one.said_count)
        else:
            counts = counts.after(one.at_us, message_of(one), 1)
        changes = {which: counts}
        troubles[name] = replace(known, **changes)  # type: ignore[arg-type]


def _sample(troubles: dict[Name, Trouble], one: AckSample | AcksCounted, name: Name) -> None:
    """Add sampled acknowledgements."""
    known = troubles.get(name) or Trouble(*name)
    if isinstance(one, AckSample):
        repeated_count, left_out_count = int(one.deliveries_count > 1), 0
        times = from_latencies((one.ack_ns,))
    else:
        repeated_count, left_out_count = one.repeated_count, one.left_out_count
        times = one.times
    acks = known.acks.after(one.at_us, times, repeated_count, left_out_count)
    troubles[name] = replace(known, acks=acks)


def _text(one: Advisory | AdvisoriesCounted) -> str:
    return one.text if isinstance(one, Advisory) else ""


def _act(troubles: dict[Name, Trouble], one: Advisory | AdvisoriesCounted, name: Name) -> None:
    """What was said of one that is deleted, or of the one before, is not said of the next."""
    action = _body(one).get("action")
    if action not in ("create", "delete"):
        return
    gone = [
        trouble
        for trouble in troubles
        if trouble == name or (not name[1] and trouble[0] == name[0])
    ]
    for each in gone:
        del troubles[each]
    if name[1]:
        stream = name[0], ""
        known = troubles.get(stream) or Trouble(*stream)
        which = "created_at_us" if action == "create" else "deleted_at_us"
        times: tuple[int, ...] = getattr(known, which)
        changes = {which: (*times[1 - _ACTIONS_KEPT :], one.at_us)}
        troubles[stream] = replace(known, **changes)  # type: ignore[arg-type]


def message_trouble(one: Advisory | AdvisoriesCounted) -> MessageTrouble | None:
    """Return what an announcement says of one message, if it is about one."""
    match one.type:
        case "terminated" if _body(one).get("reason") == _REMOVED_REASON:
            return "removed"
        case "nak" | "terminated" | "max_deliver" | "removed":
            return one.type
        case _:
            return None


def message_of(one: Advisory) -> tuple[MessageCount, ...]:
    """Return the message that an announcement is about; none where it does not tell."""
    body = _body(one)
    seq, deliveries = body.get("stream_seq"), body.get("deliveries")
    if not isinstance(seq, int) or seq <= 0:
        return ()
    return (MessageCount(seq, 1, 0, deliveries if isinstance(deliveries, int) else 0),)


def _body(one: Advisory | AdvisoriesCounted) -> dict[str, object]:
    if not isinstance(one, Advisory):
        return {}
    try:
        body = json.loads(one.body_json)
    except (ValueError, RecursionError):
        # Recordings may be edited by hand; an event without numbers is still an event.
        return {}
    return body if isinstance(body, dict) else {}
