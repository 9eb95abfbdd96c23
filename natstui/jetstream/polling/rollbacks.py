"""Detects a stream whose last sequence decreases: its store is an older one.

The server publishes no advisory for that.
"""

from __future__ import annotations

import json
import time

from natstui.feed import Sink
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.model.records.record import Advisory

ROLLED_BACK = "stream_rolled_back"
_MAX_LOG_APPLY_US = 5_000_000
"""Maximum time that a new leader needs to apply its log."""


class RollbackDetector:
    """Reports when a stream has lost its newest messages without being recreated."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def accept_row(self, known_row: StreamRow | None, new_row: StreamRow) -> bool:
        """Return whether the new row may replace the known one; report a rollback between them.

        It may not if it is outdated, as a row of a replicated stream may be: a leader that was
        frozen does not know yet that it lost leadership, and a new one may still apply its log.
        """
        if known_row is None or new_row.sampled_mono_us <= known_row.sampled_mono_us:
            return True
        if (
            known_row.created != new_row.created
            or new_row.state.last_seq >= known_row.state.last_seq
        ):
            return True
        has_no_replica = new_row.cluster is None or not new_row.cluster.replicas
        if (
            has_no_replica
            or new_row.sampled_mono_us - known_row.sampled_mono_us > _MAX_LOG_APPLY_US
        ):
            self._report(known_row, new_row)
            return True
        return False

    def _report(self, known_row: StreamRow, new_row: StreamRow) -> None:
        from_seq, to_seq = known_row.state.last_seq, new_row.state.last_seq
        body = {"stream": new_row.name, "from_seq": from_seq, "to_seq": to_seq}
        text = (
            f"stream {new_row.name} went back from sequence {from_seq:,} to {to_seq:,}: its "
            "newest messages are lost, its store is an older one"
        )
        now_us = time.time_ns() // 1000
        advisory = Advisory(now_us, ROLLED_BACK, new_row.name, None, text, json.dumps(body))
        self._sink.add(advisory)
