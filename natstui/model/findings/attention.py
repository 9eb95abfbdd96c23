"""Which streams and consumers are looked at though their counters are well, for their settings."""

from __future__ import annotations

from dataclasses import replace

from natstui.model.findings.finding import Seat
from natstui.model.findings.rules.settings import needs_attention
from natstui.model.findings.rules.streams import refuses_or_drops
from natstui.model.live.state import State

Name = tuple[str, str]


def attention(seat: Seat, state: State) -> Seat:
    """Return the seat with those whose settings ask for a look; only changed ones are read."""
    streams, consumers = state.stream_configurations, state.consumer_configurations
    if seat.stream_settings is streams and seat.consumer_settings is consumers:
        return seat
    known_streams, known = seat.stream_settings, seat.consumer_settings
    changed_streams = {n for n, one in streams.items() if known_streams.get(n) is not one}
    attentive_streams = {name for name in seat.attentive_streams if name in streams}
    attentive_streams -= changed_streams
    attentive_streams |= {name for name in changed_streams if refuses_or_drops(streams[name])}
    changed = [
        (name, one)
        for name, one in consumers.items()
        if known.get(name) is not one or name[0] in changed_streams
    ]
    attentive = {name for name in seat.attentive if name in consumers}
    attentive -= {name for name, _ in changed}
    attentive |= {n for n, one in changed if needs_attention(one, streams.get(n[0]))}
    return replace(
        seat,
        stream_settings=streams,
        consumer_settings=consumers,
        attentive=frozenset(attentive),
        attentive_streams=frozenset(attentive_streams),
    )
