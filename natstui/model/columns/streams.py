"""Titles of the columns of streams, for screen and command line."""

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
