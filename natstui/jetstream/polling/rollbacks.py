"""Detects a stream whose last sequence decreases: its store is an older one.

The server publishes no advisory for that.
"""

from __future__ import annotations

import json
import time

from natstui.feed import Sink
from natstui.jetstream.polling.decode.streams import StreamRow
from natstui.model.records.record import Advisory

ROLLED_BACK = "stream_rolled_back"
_CATCHING_UP_US = 5_000_000
"""Maximum time that a new leader needs to apply its log."""


class RollbackDetector:
    """Reports when a stream has lost its newest messages without being recreated."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def accept(self, before: StreamRow | None, after: StreamRow) -> bool:
        """Report a rollback from the known row to the new one; return False for an outdated row.

        A replicated stream may have an outdated row: a leader that was frozen does not know yet
        that it lost leadership, and a new leader may still apply its log.
        """
        if before is None or after.sampled_mono_us <= before.sampled_mono_us:
            return True
        if before.created != after.created or after.state.last_seq >= before.state.last_seq:
            return True
        has_no_replica = after.cluster is None or not after.cluster.replicas
        if has_no_replica or after.sampled_mono_us - before.sampled_mono_us > _CATCHING_UP_US:
            self._report(before, after)
            return True
        return False

    def _report(self, before: StreamRow, after: StreamRow) -> None:
        from_seq, to_seq = before.state.last_seq, after.state.last_seq
        body = {"stream": after.name, "from_seq": from_seq, "to_seq": to_seq}
        text = (
            f"stream {after.name} went back from sequence {from_seq:,} to {to_seq:,}: its "
            "newest messages are lost, its store is an older one"
        )
        now_us = time.time_ns() // 1000
        advisory = Advisory(now_us, ROLLED_BACK, after.name, None, text, json.dumps(body))
        self._sink.add(advisory)
