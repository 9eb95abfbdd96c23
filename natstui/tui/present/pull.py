"""The counters beside a pulled message."""

from __future__ import annotations

from natstui.model.state import State
from natstui.tui.present.view import ConsumerView
from natstui.units import parse_duration_ns


def counters_text(state: State, stream: str, consumer: str) -> str:
    """Return the consumer's counters as the last poll saw them."""
    view = ConsumerView(state, 0, stream)
    for row in reversed(view.rows()):
        columns = view.columns
        if columns.name[row] == consumer:
            floor = columns.ack_floor_stream_seq[row]
            return (
                f"unprocessed {columns.pending_msgs[row]:,}   "
                f"ack pending {columns.ack_pending_msgs[row]:,}   "
                f"redelivered {columns.redelivered_msgs[row]:,}   "
                f"delivered {columns.delivered_stream_seq[row]}   floor {floor}"
            )
    return "its counters are not known yet"


def parsed_delay_s(text: str) -> float:
    """Return the seconds of `5s` or `1m30s`; raise ValueError with a sentence."""
    return parse_duration_ns(text) / 1e9
