"""Advisories, joined to their consumers, streams and messages.

A pure function of the advisories, in bounded memory: totals are exact, and of the messages the
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
"""Limit of consumers and streams with evidence; above, the oldest is dropped."""
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
"""Records of which evidence consists."""
_NOTHING: Mapping[Name, Trouble] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Evidence:
    """The advisories so far."""

    of: Mapping[Name, Trouble] = field(default_factory=lambda: _NOTHING)

    def after(self, records: Iterable[Told]) -> Evidence:
        """Return the evidence after more records; the same object without any."""
        troubles: dict[Name, Trouble] | None = None
        for record in records:
            troubles = dict(self.of) if troubles is None else troubles
            if isinstance(record, AckSample | AcksCounted):
                _sample(troubles, record, (record.stream, record.consumer))
            elif record.stream is not None and record.type in _TELLING:
                _take(troubles, record, (record.stream, record.consumer or ""))
        if troubles is None:
            return self
        while len(troubles) > MOST_TROUBLED:
            del troubles[min(troubles, key=lambda name: troubles[name].last_at_us)]
        return Evidence(MappingProxyType(troubles))

    def acks(self, name: Name, created_at_us: int, now_at_us: int) -> AckWindow | None:
        """Return the sampled acknowledgements of a consumer; None without any."""
        evidence = self.of.get(name)
        if evidence is None or evidence.acks.last_at_us < created_at_us:
            return None
        window = evidence.acks.until(now_at_us)
        return window if window.times.total_count else None


def evidence_of(record: EvidenceSoFar) -> Evidence:
    """Return the evidence of a keyframe."""
    return Evidence(
        MappingProxyType({(entry.stream, entry.consumer): entry for entry in record.troubles})
    )


def evidence_so_far(evidence: Evidence, at_us: int) -> EvidenceSoFar | None:
    """Return the evidence for a keyframe; None without any."""
    troubles = tuple(evidence.of.values())
    return EvidenceSoFar(at_us, troubles) if troubles else None


_LEADERS = ("stream_leader_elected", "consumer_leader_elected")
_ACTIONS = ("stream_action", "consumer_action")
_ROLLED_BACK = "stream_rolled_back"
_ABANDONED = "stream_batch_abandoned"
_REMOVED_REASON = "Unacknowledged message was deleted"
"""The reason with which a stream terminates deleted messages: by a limit, a purge, a delete."""
_TELLING = frozenset({*_FIELDS, *_LEADERS, *_ACTIONS, _ROLLED_BACK, _ABANDONED})


def _take(
    troubles: dict[Name, Trouble], announcement: Advisory | AdvisoriesCounted, name: Name
) -> None:
    """Add one advisory."""
    if announcement.type in _ACTIONS:
        _act(troubles, announcement, name)
        return
    entry = troubles.get(name) or Trouble(*name)
    if announcement.type in _LEADERS:
        elections = (*entry.elected_at_us[1 - _ELECTIONS_KEPT :], announcement.at_us)
        troubles[name] = replace(entry, elected_at_us=elections)
    elif announcement.type == _ABANDONED:
        batches = entry.abandoned_batches
        reason = _body(announcement).get("reason")
        counted = BatchCounts(
            batches.total_count + 1, announcement.at_us, reason if isinstance(reason, str) else ""
        )
        troubles[name] = replace(entry, abandoned_batches=counted)
    elif announcement.type == _ROLLED_BACK:
        troubles[name] = replace(
            entry, rolled_back_at_us=announcement.at_us, rolled_back_text=_text(announcement)
        )
    else:
        field_name = _FIELDS[message_trouble(announcement) or announcement.type]
        counts: MessageCounts = getattr(entry, field_name)
        if isinstance(announcement, AdvisoriesCounted):
            counts = counts.after(
                announcement.at_us, announcement.messages, announcement.said_count
            )
        else:
            counts = counts.after(announcement.at_us, message_of(announcement), 1)
        changes = {field_name: counts}
        troubles[name] = replace(entry, **changes)  # type: ignore[arg-type]


def _sample(troubles: dict[Name, Trouble], sample: AckSample | AcksCounted, name: Name) -> None:
    """Add sampled acknowledgements."""
    entry = troubles.get(name) or Trouble(*name)
    if isinstance(sample, AckSample):
        repeated_count, left_out_count = int(sample.deliveries_count > 1), 0
        times = from_latencies((sample.ack_ns,))
    else:
        repeated_count, left_out_count = sample.repeated_count, sample.left_out_count
        times = sample.times
    acks = entry.acks.after(sample.at_us, times, repeated_count, left_out_count)
    troubles[name] = replace(entry, acks=acks)


def _text(announcement: Advisory | AdvisoriesCounted) -> str:
    return announcement.text if isinstance(announcement, Advisory) else ""


def _act(
    troubles: dict[Name, Trouble], announcement: Advisory | AdvisoriesCounted, name: Name
) -> None:
    """Handle a creation or deletion: earlier advisories do not belong to a new asset."""
    action = _body(announcement).get("action")
    if action not in ("create", "delete"):
        return
    deleted_names = [
        name_of_entry
        for name_of_entry in troubles
        if name_of_entry == name or (not name[1] and name_of_entry[0] == name[0])
    ]
    for deleted_name in deleted_names:
        del troubles[deleted_name]
    if name[1]:
        stream = name[0], ""
        stream_entry = troubles.get(stream) or Trouble(*stream)
        field_name = "created_at_us" if action == "create" else "deleted_at_us"
        times: tuple[int, ...] = getattr(stream_entry, field_name)
        changes = {field_name: (*times[1 - _ACTIONS_KEPT :], announcement.at_us)}
        troubles[stream] = replace(stream_entry, **changes)  # type: ignore[arg-type]


def message_trouble(announcement: Advisory | AdvisoriesCounted) -> MessageTrouble | None:
    """Return the kind of trouble of one message in an advisory, if it is about one."""
    match announcement.type:
        case "terminated" if _body(announcement).get("reason") == _REMOVED_REASON:
            return "removed"
        case "nak" | "terminated" | "max_deliver" | "removed":
            return announcement.type
        case _:
            return None


def message_of(advisory: Advisory) -> tuple[MessageCount, ...]:
    """Return the message of an advisory; empty if it has none."""
    body = _body(advisory)
    seq, deliveries = body.get("stream_seq"), body.get("deliveries")
    if not isinstance(seq, int) or seq <= 0:
        return ()
    return (MessageCount(seq, 1, 0, deliveries if isinstance(deliveries, int) else 0),)


def _body(announcement: Advisory | AdvisoriesCounted) -> dict[str, object]:
    if not isinstance(announcement, Advisory):
        return {}
    try:
        body = json.loads(announcement.body_json)
    except (ValueError, RecursionError):
        # Recordings may be edited by hand; an event without numbers is still an event.
        return {}
    return body if isinstance(body, dict) else {}
