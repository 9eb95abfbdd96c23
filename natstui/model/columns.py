"""Titles of the columns of streams and consumers, for screen and command line."""

from __future__ import annotations

from collections.abc import Mapping

STREAM_TITLES: Mapping[str, str] = {
    "name": "STREAM",
    "status": "STATUS",
    "kind": "KIND",
    "subjects": "SUBJECTS",
    "storage": "STORE",
    "retention": "RETAINS",
    "msgs": "MSGS",
    "bytes": "BYTES",
    "in": "IN/s",
    "in_bytes": "B/s",
    "removed": "OUT/s",
    "trend": "INGEST 1m",
    "consumers": "CONS",
    "first_seq": "FIRST SEQ",
    "first_age": "OLDEST",
    "last_seq": "LAST SEQ",
    "last_age": "NEWEST",
    "used": "USED",
    "msgs_used": "MSG%",
    "bytes_used": "BYTE%",
    "age_used": "AGE%",
    "full": "FULL IN",
    "holes": "HOLES",
    "leader": "LEADER",
    "replicas": "REPLICAS",
}
"""Column of a table of streams → its title."""
CONSUMER_TITLES: Mapping[str, str] = {
    "name": "CONSUMER",
    "stream": "STREAM",
    "status": "STATUS",
    "mode": "MODE",
    "life": "LIFE",
    "ack": "ACK",
    "pending": "PENDING",
    "ack_pending": "ACK PEND",
    "redelivered": "REDEL",
    "waiting": "WAITING",
    "delivered_rate": "DELIV/s",
    "acked_rate": "ACK/s",
    "lag": "LAG",
    "drain": "DRAIN",
    "trend": "PENDING 1m",
    "floor": "ACK FLOOR s/c",
    "delivered": "DELIVERED s/c",
    "activity": "ACTIVE",
}
"""Column of a table of consumers → its title."""
