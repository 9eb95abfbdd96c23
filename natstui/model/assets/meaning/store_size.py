"""How much room messages take in a store.

Measured on nats-server 2.15.1: `state.bytes` of 50,000 equal messages is, for each, its payload,
its subject, its encoded headers and a fixed part; a file on disk is within 0.3 bytes of that.
"""

from __future__ import annotations

from collections.abc import Mapping

from natstui.model.assets.fields import number_at, strings_at, text_at
from natstui.model.assets.text import exact_bytes
from natstui.units import bytes_text

FILE_MESSAGE_BYTES = 30
"""Length, sequence, time, subject length and checksum of a message in a file."""
FILE_HEADER_BYTES = 4
"""More in a file for a message with headers."""
MEMORY_MESSAGE_BYTES = 16


def stored_bytes(
    messages_count: int,
    payload_bytes: int,
    subject_bytes: int,
    header_bytes: int = 0,
    *,
    storage: str = "file",
) -> int:
    """Return what `messages_count` messages take in one replica (`state.bytes`)."""
    fixed_bytes = MEMORY_MESSAGE_BYTES
    if storage != "memory":
        fixed_bytes = FILE_MESSAGE_BYTES + (FILE_HEADER_BYTES if header_bytes else 0)
    return messages_count * (fixed_bytes + subject_bytes + payload_bytes + header_bytes)


def size_estimate(config: Mapping[str, object], messages_count: int, payload_bytes: int) -> str:
    """Return how much `messages_count` messages of a size take, overhead and replicas included."""
    subject = max((len(text) for text in strings_at(config, "subjects")), default=10)
    one = stored_bytes(messages_count, payload_bytes, subject, storage=text_at(config, "storage"))
    replicas = max(1, number_at(config, "num_replicas"))
    where = "of memory" if text_at(config, "storage") == "memory" else "on disk"
    overhead = one - messages_count * payload_bytes
    text = f"{messages_count:,} messages of {exact_bytes(payload_bytes)} take {bytes_text(one)}"
    times = f" × {replicas} replicas = {bytes_text(one * replicas)}" if replicas > 1 else ""
    return f"{text}{times} {where}; {bytes_text(overhead)} of it is overhead"
