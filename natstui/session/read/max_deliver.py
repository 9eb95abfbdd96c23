"""The messages that a consumer dropped after max deliver, by the advisories of a recording."""

from __future__ import annotations

from natstui.model.live.evidence import message_of
from natstui.model.records.copies import MaxDeliverDrop
from natstui.model.records.evidence import AdvisoriesCounted
from natstui.model.records.record import Advisory, Configured
from natstui.session.read.recording import Recording


def read_dropped_messages(
    recording: Recording, stream: str, consumer: str
) -> tuple[list[MaxDeliverDrop], int]:
    """Return the messages that a consumer dropped after max deliver, and how many of its
    advisories have no sequence.

    Raises SessionError if a segment cannot be read.
    """
    drops, advisories_without_seq_count = list[MaxDeliverDrop](), 0
    created_at_us: int | None = None
    for record in recording.records():
        if isinstance(record, Configured):
            created_at_us = next(
                (
                    configured.created_at_us
                    for configured in record.consumers
                    if (configured.stream, configured.name) == (stream, consumer)
                ),
                created_at_us,
            )
        if not isinstance(record, Advisory | AdvisoriesCounted):
            continue
        if (record.type, record.stream, record.consumer) != ("max_deliver", stream, consumer):
            continue
        if isinstance(record, Advisory):
            messages, advisories_count = message_of(record), 1
        else:
            messages, advisories_count = record.messages, record.said_count
        drops += [
            MaxDeliverDrop(record.at_us, message.stream_seq, created_at_us) for message in messages
        ]
        advisories_without_seq_count += advisories_count - sum(
            message.said_count for message in messages
        )
    return drops, advisories_without_seq_count
