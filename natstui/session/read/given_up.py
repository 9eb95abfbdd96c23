"""Messages that a consumer dropped after max deliver, by the advisories of a recording."""

from __future__ import annotations

import msgspec

from natstui.decoding import decoder_of
from natstui.model.records.evidence import AdvisoriesCounted
from natstui.model.records.record import Advisory
from natstui.session.read.recording import Recording


class _Said(msgspec.Struct):
    stream_seq: int = 0


def recorded_give_ups(
    recording: Recording, stream: str, consumer: str
) -> tuple[list[tuple[int, int]], int]:
    """Return time and sequence of each dropped message, and how many advisories have no sequence.

    Raises SessionError.
    """
    dropped, left_out = list[tuple[int, int]](), 0
    for record in recording.records():
        if not isinstance(record, Advisory | AdvisoriesCounted):
            continue
        if (record.type, record.stream, record.consumer) != ("max_deliver", stream, consumer):
            continue
        if isinstance(record, Advisory):
            seq = decoder_of(_Said).decode(record.body_json).stream_seq
            dropped.append((record.at_us, seq))
        else:
            dropped += [(record.at_us, message.stream_seq) for message in record.messages]
            left_out += record.said_count - sum(message.said_count for message in record.messages)
    return dropped, left_out
