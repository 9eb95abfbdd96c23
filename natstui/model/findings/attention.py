"""Streams and consumers that are checked more often than others, for settings or findings."""

from __future__ import annotations

from dataclasses import replace
from heapq import nsmallest

from natstui.model.findings.causes.settings import needs_attention
from natstui.model.findings.causes.streams import needs_attention as stream_needs_attention
from natstui.model.findings.finding import Findings, Seat, worst_first
from natstui.model.live.state import State

Name = tuple[str, str]
_PREFERRED_MOST = 100
"""Limit of preferred consumers: more would delay all others in each poll."""
_FINDINGS_EACH = 3
"""Expected maximum of findings per consumer, when many are open."""


def preferred(findings: Findings) -> tuple[Name, ...]:
    """Return the consumers with findings, which are polled first; the worst first."""
    silenced = findings.silences
    open_findings = [
        (worst_first(watch.finding), entity[:2])
        for entity, watched in findings.watched.items()
        if entity.consumer
        for watch in watched
        if watch.raised
        and watch.finding.kind.severity != "info"
        and (not silenced or findings.silence_of(watch.finding) is None)
    ]
    # One consumer may have several.
    worst = nsmallest(_PREFERRED_MOST * _FINDINGS_EACH, open_findings)
    return tuple(dict.fromkeys(name for _, name in worst))[:_PREFERRED_MOST]


def attention(seat: Seat, state: State) -> Seat:
    """Return the seat with the consumers whose settings need checks; reads changed ones."""
    streams, consumers = state.stream_configurations, state.consumer_configurations
    if seat.stream_settings is streams and seat.consumer_settings is consumers:
        return seat
    old_streams, old_consumers = seat.stream_settings, seat.consumer_settings
    changed_streams = {
        name for name, config in streams.items() if old_streams.get(name) is not config
    }
    attentive_streams = {name for name in seat.attentive_streams if name in streams}
    attentive_streams -= changed_streams
    attentive_streams |= {
        name for name in changed_streams if stream_needs_attention(streams[name])
    }
    changed = [
        (name, config)
        for name, config in consumers.items()
        if old_consumers.get(name) is not config or name[0] in changed_streams
    ]
    attentive = {name for name in seat.attentive if name in consumers}
    with_ephemerals = {name[0] for name, config in consumers.items() if not config.durable}
    filtered = {name for name in seat.filtered if name in consumers}
    filtered -= {name for name, _ in changed}
    filtered |= {name for name, config in changed if config.filter_subjects}
    attentive -= {name for name, _ in changed}
    attentive |= {
        name for name, config in changed if needs_attention(config, streams.get(name[0]))
    }
    return replace(
        seat,
        stream_settings=streams,
        consumer_settings=consumers,
        attentive=frozenset(attentive),
        filtered=frozenset(filtered),
        attentive_streams=frozenset(attentive_streams),
        with_ephemerals=frozenset(with_ephemerals),
    )
