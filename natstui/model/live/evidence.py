"""Advisories, joined to their consumers, streams and messages.

A pure function of the advisories, in bounded memory: totals are exact, and of the messages the
most frequent ones are counted one by one (`natstui.model.live.advisory_counts`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

from msgspec import Struct, field

from natstui.model.bench.latency import from_latencies
from natstui.model.live.ack_times import AckWindow
from natstui.model.live.advisory_counts import MessageCount, MessageCounts
from natstui.model.live.known_rows import Roster
from natstui.model.records.evidence import (
    AcksCounted,
    AdvisoriesCounted,
    AdvisoryCounts,
    BatchCounts,
    EvidenceSoFar,
    MessageAdvisoryType,
)
from natstui.model.records.record import AckSample, Advisory
from natstui.values import replace

MAX_ASSETS_WITH_EVIDENCE = 2_000
"""Limit of consumers and streams with evidence; the least recent one is dropped."""
_MAX_ELECTION_TIMES = 16
_MAX_ACTION_TIMES = 64
_FIELD_BY_ADVISORY_TYPE: dict[str, str] = {
    "nak": "naks",
    "terminated": "terms",
    "max_deliver": "give_ups",
    "removed": "removed",
}

StreamAndConsumer = tuple[str, str]
"""Names of stream and consumer; an empty consumer for the stream itself."""
EvidenceRecord = Advisory | AdvisoriesCounted | AckSample | AcksCounted
"""Records that update the evidence."""
_NO_ENTRIES: Mapping[StreamAndConsumer, AdvisoryCounts] = MappingProxyType({})


class AdvisoryEvidence(Struct, frozen=True):
    """The counts of advisories so far, by stream and consumer."""

    entries: Mapping[StreamAndConsumer, AdvisoryCounts] = field(
        default_factory=lambda: _NO_ENTRIES
    )
    created_at_us: Mapping[StreamAndConsumer, int] = field(default_factory=dict)
    """The creation times of consumers with counts at the latest change of the consumers."""

    def after(self, records: Iterable[EvidenceRecord]) -> AdvisoryEvidence:
        """Return the counts after more records; the same object without any."""
        entries: dict[StreamAndConsumer, AdvisoryCounts] | None = None
        for record in records:
            entries = dict(self.entries) if entries is None else entries
            if isinstance(record, AckSample | AcksCounted):
                _add_ack_samples(entries, record, (record.stream, record.consumer))
            elif record.stream is not None and record.type in _COUNTED_ADVISORY_TYPES:
                _add_advisory(entries, record, (record.stream, record.consumer or ""))
        if entries is None:
            return self
        while len(entries) > MAX_ASSETS_WITH_EVIDENCE:
            del entries[min(entries, key=lambda name: entries[name].last_at_us)]
        return AdvisoryEvidence(MappingProxyType(entries), self.created_at_us)

    def without_recreated(self, before: Roster, after: Roster) -> AdvisoryEvidence:
        """Return the counts without those of consumers that were deleted or recreated.

        Such consumers have a row in `before`, the previous poll, and not in `after`, the new one.
        Counts that began after the creation of the new consumer are kept.
        """
        if not self.entries or after is before:
            return self
        created_at_us = {
            name: at_us
            for name, at_us in self.created_at_us.items()
            if name in self.entries and (*name, at_us) in before.row_of
        }
        created_at_us |= _find_created_at_us(
            before, {name for name in self.entries if name[1] and name not in created_at_us}
        )
        replaced_names = {
            name for name, at_us in created_at_us.items() if (*name, at_us) not in after.row_of
        }
        recreated_at_us = _find_created_at_us(after, replaced_names)
        outdated_names = {
            name
            for name in replaced_names
            if 0 < self.entries[name].first_at_us < recreated_at_us.get(name, math.inf)
        }
        entries = self.entries
        if outdated_names:
            entries = MappingProxyType(
                {name: entry for name, entry in entries.items() if name not in outdated_names}
            )
        return AdvisoryEvidence(entries, created_at_us)

    def acks(
        self, name: StreamAndConsumer, created_at_us: int, now_at_us: int
    ) -> AckWindow | None:
        """Return the sampled acknowledgements of a consumer; None without any."""
        advisory_counts = self.entries.get(name)
        if advisory_counts is None or advisory_counts.acks.last_at_us < created_at_us:
            return None
        window = advisory_counts.acks.until(now_at_us)
        return window if window.times.total_count else None


def _find_created_at_us(
    roster: Roster, names: Set[StreamAndConsumer]
) -> dict[StreamAndConsumer, int]:
    """Return the creation times of the consumers `names` that have a row."""
    created_at_us = {}
    for stream in {name[0] for name in names}:
        for row in roster.rows_of_stream.get(stream, ()):
            name = stream, str(roster.keys[row][1])
            if name in names:
                created_at_us[name] = int(roster.keys[row][2])
    return created_at_us


def evidence_from_record(record: EvidenceSoFar) -> AdvisoryEvidence:
    """Return the advisory counts in the record `EvidenceSoFar` of a keyframe."""
    return AdvisoryEvidence(
        MappingProxyType({(entry.stream, entry.consumer): entry for entry in record.troubles})
    )


def evidence_to_record(evidence: AdvisoryEvidence, at_us: int) -> EvidenceSoFar | None:
    """Return the advisory counts as a record for a keyframe; None without any."""
    entries = tuple(evidence.entries.values())
    return EvidenceSoFar(at_us, entries) if entries else None


def with_arrival_time(advisory: Advisory, now_at_us: int) -> Advisory:
    """Return an advisory about a message with the time `now_at_us`; other advisories unchanged.

    Recent advisories are counted by natstui's clock, and the original time is by the server's.
    """
    if advisory.type not in _FIELD_BY_ADVISORY_TYPE or advisory.at_us == now_at_us:
        return advisory
    return replace(advisory, at_us=now_at_us)


_LEADER_ELECTION_TYPES = ("stream_leader_elected", "consumer_leader_elected")
_ASSET_ACTION_TYPES = ("stream_action", "consumer_action")
_ROLLED_BACK_TYPE = "stream_rolled_back"
_ABANDONED_BATCH_TYPE = "stream_batch_abandoned"
_DELETED_MESSAGE_REASON = "Unacknowledged message was deleted"
"""The reason of the advisory when a stream terminates a message that it deleted."""
_COUNTED_ADVISORY_TYPES = frozenset(
    {
        *_FIELD_BY_ADVISORY_TYPE,
        *_LEADER_ELECTION_TYPES,
        *_ASSET_ACTION_TYPES,
        _ROLLED_BACK_TYPE,
        _ABANDONED_BATCH_TYPE,
    }
)


def _add_advisory(
    entries: dict[StreamAndConsumer, AdvisoryCounts],
    advisory: Advisory | AdvisoriesCounted,
    name: StreamAndConsumer,
) -> None:
    """Add one advisory, or several counted ones, to the entry of `name`."""
    if advisory.type in _ASSET_ACTION_TYPES:
        _apply_asset_action(entries, advisory, name)
        return
    entry = entries.get(name) or AdvisoryCounts(*name)
    if advisory.type in _LEADER_ELECTION_TYPES:
        election_times_us = (*entry.elected_at_us[1 - _MAX_ELECTION_TIMES :], advisory.at_us)
        entries[name] = replace(entry, elected_at_us=election_times_us)
    elif advisory.type == _ABANDONED_BATCH_TYPE:
        batches = entry.abandoned_batches
        reason = _parse_body(advisory).get("reason")
        batch_counts = BatchCounts(
            batches.total_count + 1, advisory.at_us, reason if isinstance(reason, str) else ""
        )
        entries[name] = replace(entry, abandoned_batches=batch_counts)
    elif advisory.type == _ROLLED_BACK_TYPE:
        entries[name] = replace(
            entry, rolled_back_at_us=advisory.at_us, rolled_back_text=_advisory_text(advisory)
        )
    else:
        field_name = _FIELD_BY_ADVISORY_TYPE[message_advisory_type(advisory) or advisory.type]
        counts: MessageCounts = getattr(entry, field_name)
        if isinstance(advisory, AdvisoriesCounted):
            counts = counts.after(advisory.at_us, advisory.messages, advisory.said_count)
        else:
            counts = counts.after(advisory.at_us, message_of(advisory), 1)
        changes = {field_name: counts}
        entries[name] = replace(entry, **changes)  # type: ignore[arg-type]


def _add_ack_samples(
    entries: dict[StreamAndConsumer, AdvisoryCounts],
    sample: AckSample | AcksCounted,
    name: StreamAndConsumer,
) -> None:
    """Add sampled acks to the entry of `name`."""
    entry = entries.get(name) or AdvisoryCounts(*name)
    if isinstance(sample, AckSample):
        repeated_count, left_out_count = int(sample.deliveries_count > 1), 0
        times = from_latencies((sample.ack_ns,))
    else:
        repeated_count, left_out_count = sample.repeated_count, sample.left_out_count
        times = sample.times
    acks = entry.acks.after(sample.at_us, times, repeated_count, left_out_count)
    entries[name] = replace(entry, acks=acks)


def _advisory_text(advisory: Advisory | AdvisoriesCounted) -> str:
    return advisory.text if isinstance(advisory, Advisory) else ""


def _apply_asset_action(
    entries: dict[StreamAndConsumer, AdvisoryCounts],
    advisory: Advisory | AdvisoriesCounted,
    name: StreamAndConsumer,
) -> None:
    """Drop the counts of a created or deleted asset; store a consumer's time with its stream."""
    action = _parse_body(advisory).get("action")
    if action not in ("create", "delete"):
        return
    deleted_names = [
        entry_name
        for entry_name in entries
        if entry_name == name or (not name[1] and entry_name[0] == name[0])
    ]
    for deleted_name in deleted_names:
        del entries[deleted_name]
    if name[1]:
        stream = name[0], ""
        stream_entry = entries.get(stream) or AdvisoryCounts(*stream)
        field_name = "created_at_us" if action == "create" else "deleted_at_us"
        times: tuple[int, ...] = getattr(stream_entry, field_name)
        changes = {field_name: (*times[1 - _MAX_ACTION_TIMES :], advisory.at_us)}
        entries[stream] = replace(stream_entry, **changes)  # type: ignore[arg-type]


def message_advisory_type(
    advisory: Advisory | AdvisoriesCounted,
) -> MessageAdvisoryType | None:
    """Return the type of an advisory about a message; None for other advisories."""
    match advisory.type:
        case "terminated" if _parse_body(advisory).get("reason") == _DELETED_MESSAGE_REASON:
            return "removed"
        case "nak" | "terminated" | "max_deliver" | "removed":
            return advisory.type
        case _:
            return None


def message_of(advisory: Advisory) -> tuple[MessageCount, ...]:
    """Return the message of an advisory; empty if it has none."""
    body = _parse_body(advisory)
    seq, deliveries = body.get("stream_seq"), body.get("deliveries")
    if not isinstance(seq, int) or seq <= 0:
        return ()
    return (MessageCount(seq, 1, 0, deliveries if isinstance(deliveries, int) else 0),)


def _parse_body(advisory: Advisory | AdvisoriesCounted) -> dict[str, object]:
    if not isinstance(advisory, Advisory):
        return {}
    try:
        body = json.loads(advisory.body_json)
    except (ValueError, RecursionError):
        # Recordings may be edited by hand; an event without numbers is still an event.
        return {}
    return body if isinstance(body, dict) else {}
