"""Streams and consumers that are checked more often, because of their settings or findings."""

from __future__ import annotations

from heapq import nsmallest

from natstui.model.findings.causes.risky_settings import consumer_needs_attention
from natstui.model.findings.causes.streams import stream_needs_attention
from natstui.model.findings.finding import Evaluation, Findings, severity_sort_key
from natstui.model.live.state import State
from natstui.values import replace

StreamAndConsumer = tuple[str, str]
_MAX_PREFERRED_CONSUMERS = 100
"""Limit of preferred consumers: more would delay the polling of all others."""
_MAX_FINDINGS_PER_CONSUMER = 3
"""Expected maximum of findings per consumer."""


def find_preferred_consumers(findings: Findings) -> tuple[StreamAndConsumer, ...]:
    """Return the consumers with a critical finding or a warning, the worst first.

    These consumers are polled first: at most 100, without those whose findings are all silenced.
    """
    silences = findings.silences
    open_findings = [
        (severity_sort_key(condition.finding), entity[:2])
        for entity, conditions in findings.conditions.items()
        if entity.consumer
        for condition in conditions
        if condition.is_raised
        and condition.finding.kind.severity != "info"
        and (not silences or findings.find_silence(condition.finding) is None)
    ]
    # One consumer may have several findings.
    worst_findings = nsmallest(
        _MAX_PREFERRED_CONSUMERS * _MAX_FINDINGS_PER_CONSUMER, open_findings
    )
    return tuple(dict.fromkeys(name for _, name in worst_findings))[:_MAX_PREFERRED_CONSUMERS]


def update_checked_assets(evaluation: Evaluation, state: State) -> Evaluation:
    """Return the evaluation with current sets of the streams and consumers to check.

    Only streams and consumers whose settings changed since the evaluation are inspected.
    """
    streams, consumers = state.stream_configurations, state.consumer_configurations
    if evaluation.stream_settings is streams and evaluation.consumer_settings is consumers:
        return evaluation
    old_stream_settings, old_consumer_settings = (
        evaluation.stream_settings,
        evaluation.consumer_settings,
    )
    changed_streams = {
        name for name, config in streams.items() if old_stream_settings.get(name) is not config
    }
    checked_streams = {name for name in evaluation.checked_streams if name in streams}
    checked_streams -= changed_streams
    checked_streams |= {name for name in changed_streams if stream_needs_attention(streams[name])}
    changed_consumers = [
        (name, config)
        for name, config in consumers.items()
        if old_consumer_settings.get(name) is not config or name[0] in changed_streams
    ]
    checked_consumers = {name for name in evaluation.checked_consumers if name in consumers}
    streams_with_ephemerals = {name[0] for name, config in consumers.items() if not config.durable}
    filtered_consumers = {name for name in evaluation.filtered_consumers if name in consumers}
    filtered_consumers -= {name for name, _ in changed_consumers}
    filtered_consumers |= {name for name, config in changed_consumers if config.filter_subjects}
    checked_consumers -= {name for name, _ in changed_consumers}
    checked_consumers |= {
        name
        for name, config in changed_consumers
        if consumer_needs_attention(config, streams.get(name[0]))
    }
    return replace(
        evaluation,
        stream_settings=streams,
        consumer_settings=consumers,
        checked_consumers=frozenset(checked_consumers),
        filtered_consumers=frozenset(filtered_consumers),
        checked_streams=frozenset(checked_streams),
        streams_with_ephemerals=frozenset(streams_with_ephemerals),
    )
