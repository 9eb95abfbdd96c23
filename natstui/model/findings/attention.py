"""Which streams and consumers are looked at more than others: for settings, or for findings."""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest

from natstui.model.findings.causes.settings import needs_attention
from natstui.model.findings.causes.streams import needs_attention as stream_needs_attention
from natstui.model.findings.finding import Findings, Seat, worst_first
from natstui.model.live.state import State

Name = tuple[str, str]
_PREFERRED_MOST = 100
"""More would take the turn of everybody else in each poll."""
_FINDINGS_EACH = 3
"""So many findings of a consumer are expected at most, where very much is wrong."""


def preferred(findings: Findings) -> tuple[Name, ...]:
    """Return the consumers that something is wrong with, the worst first: to be polled first."""
    silenced = findings.silences
    found = [
        (worst_first(one.finding), entity[:2])
        for entity, watched in findings.watched.items()
        if entity.consumer
        for one in watched
        if one.raised
        and one.finding.kind.severity != "info"
        and (not silenced or findings.silence_of(one.finding) is None)
    ]
    # One consumer may have several.
    worst = nsmallest(_PREFERRED_MOST * _FINDINGS_EACH, found)
    return tuple(dict.fromkeys(name for _, name in worst))[:_PREFERRED_MOST]


def attention(seat: Seat, state: State) -> Seat:
    """Return the seat with those whose settings ask for a look; only changed ones are read."""
    streams, consumers = state.stream_configurations, state.consumer_configurations
    if seat.stream_settings is streams and seat.consumer_settings is consumers:
        return seat
    known_streams, known = seat.stream_settings, seat.consumer_settings
    changed_streams = {n for n, one in streams.items() if known_streams.get(n) is not one}
    attentive_streams = {name for name in seat.attentive_streams if name in streams}
    attentive_streams -= changed_streams
    attentive_streams |= {
        name for name in changed_streams if stream_needs_attention(streams[name])
    }
    changed = [
        (name, one)
        for name, one in consumers.items()
        if known.get(name) is not one or name[0] in changed_streams
    ]
    attentive = {name for name in seat.attentive if name in consumers}
    with_ephemerals = {name[0] for name, one in consumers.items() if not one.durable}
    filtered = {name for name in seat.filtered if name in consumers}
    filtered -= {name for name, _ in changed}
    filtered |= {name for name, one in changed if one.filter_subjects}
    attentive -= {name for name, _ in changed}
    attentive |= {n for n, one in changed if needs_attention(one, streams.get(n[0]))}
    return replace(
        seat,
        stream_settings=streams,
        consumer_settings=consumers,
        attentive=frozenset(attentive),
        filtered=frozenset(filtered),
        attentive_streams=frozenset(attentive_streams),
        with_ephemerals=frozenset(with_ephemerals),
    )
