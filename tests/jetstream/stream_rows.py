"""Rows of streams as the server writes them, with a few values that differ."""

from __future__ import annotations

import json

from natstui.jetstream.connection.decode.streams import StreamRow, read_stream


def stream_row(name: str, *, last_seq: int = 0, consumers_count: int = 1) -> StreamRow:
    """Return a row of a stream."""
    state = {"messages": last_seq, "first_seq": 1, "last_seq": last_seq}
    body = {
        "config": {"name": name},
        "created": "2026-01-01T00:00:00Z",
        "state": {**state, "consumer_count": consumers_count},
    }
    return read_stream(json.dumps(body).encode(), 0)
