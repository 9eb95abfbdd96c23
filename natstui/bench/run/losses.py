"""What a benchmark removes for good of streams that exist, as far as it can be known before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from natstui.jetstream.connection.subject_counts import SubjectCounts
from natstui.model.assets.fields import is_on
from natstui.model.assets.limits_loss import OVERHEAD_BYTES, LimitedStream, Publishing
from natstui.model.bench.plan import BENCHMARK_STREAM, Role
from natstui.units import counted


def sent_subject(role: Role) -> str:
    """Return the subject that a role publishes to, as a filter where there are several."""
    return f"{role.subject}.*" if role.subjects_count > 1 else role.subject


def published_loss(
    info: Mapping[str, Any], senders: Sequence[Role], present: SubjectCounts
) -> str | None:
    """Return the clause about messages of a stream that publishing to it removes, or None.

    `info` is its STREAM.INFO; `present` has the subjects that are published to, or some of them.
    Limits remove the oldest messages, and a roll-up those before it. A stream that a benchmark
    created has nothing to lose.
    """
    config, state = info["config"], info["state"]
    if not state["messages"] or config.get("description") == BENCHMARK_STREAM:
        return None
    stored_bytes = sum((role.total_msgs or 0) * _message_bytes(role) for role in senders)
    totals = [role.total_msgs for role in senders]
    # Without a number of messages it ends by time, and reaches any limit.
    msgs = None if None in totals else sum(total or 0 for total in totals)
    limited = LimitedStream(config, state, present.msgs, present.is_last)
    removed = limited.removed(Publishing(msgs, stored_bytes))
    lost_msgs = max(removed.others_msgs, _rolled_up(config, state["messages"], senders, present))
    if not lost_msgs:
        return None
    return f"up to {counted(f'{lost_msgs:,}', 'message')} of {config['name']} are removed"


def _message_bytes(role: Role) -> int:
    payload = role.payload
    headers_bytes = sum(len(name) + len(value) + 4 for name, value in payload.headers)
    return max(payload.size_bytes, payload.size_max_bytes or 0) + headers_bytes + OVERHEAD_BYTES


def _rolled_up(
    config: Mapping[str, Any],
    stored_msgs: int,
    senders: Sequence[Role],
    present: SubjectCounts,
) -> int:
    if not is_on(config, "allow_rollup_hdrs"):
        return 0
    rollups = {
        value.lower()
        for role in senders
        for name, value in role.payload.headers
        if name.lower() == "nats-rollup"
    }
    if "all" in rollups or (rollups and not present.is_last):
        return stored_msgs
    return sum(present.msgs.values()) if rollups else 0
