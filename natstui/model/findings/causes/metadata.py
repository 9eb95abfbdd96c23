"""The causes in the metadata of a stream or consumer: the thresholds of its operator."""

from __future__ import annotations

from collections.abc import Mapping

from natstui.model.findings.facts.consumer import ConsumerFacts as Consumer
from natstui.model.findings.facts.stream import StreamFacts as Stream
from natstui.model.findings.finding import Symptom
from natstui.model.findings.monitor_metadata import (
    ConsumerFacts,
    Severity,
    StreamFacts,
    ThresholdResult,
    consumer_checks,
    is_monitored,
    stream_checks,
)


def metadata_of(settings: Mapping[str, object]) -> Mapping[str, str]:
    """Return the metadata in a configuration; empty without any."""
    metadata = settings.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def find_consumer_threshold(f: Consumer, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a critical threshold in the metadata of a consumer is reached."""
    return _make_symptom(check_consumer_thresholds(f), "critical")


def find_stream_threshold(f: Stream, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a critical threshold in the metadata of a stream is reached."""
    return _make_symptom(check_stream_thresholds(f), "critical")


def find_stream_warning(f: Stream, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a warning threshold in the metadata of a stream is reached."""
    return _make_symptom(check_stream_thresholds(f), "warning")


def _make_symptom(threshold_results: list[ThresholdResult], severity: Severity) -> Symptom | None:
    texts = [
        f"{result.name}: {result.text}"
        for result in threshold_results
        if result.severity == severity
    ]
    return Symptom("; ".join(texts)) if texts else None


def check_stream_thresholds(f: Stream) -> list[ThresholdResult]:
    """Return the results of all thresholds in a stream's metadata; empty without any."""
    metadata, config = metadata_of(f.settings), f.config
    if config is None or not is_monitored(metadata):
        return []
    columns, row, link = f.columns, f.row, f.state.link
    facts = StreamFacts(
        stored_msgs=columns.stored_msgs[row],
        subjects_count=columns.subjects_count[row],
        is_clustered=bool(columns.peers[row]) or bool(link is not None and link.cluster),
        leader=columns.leader[row],
        peers=columns.peers[row],
        upstreams=columns.upstreams[row],
        mirror=config.mirror is not None,
    )
    return stream_checks(metadata, facts)


def check_consumer_thresholds(f: Consumer) -> list[ThresholdResult]:
    """Return the results of all thresholds in a consumer's metadata; empty without any."""
    metadata, config = metadata_of(f.settings), f.config
    if config is None or not is_monitored(metadata):
        return []
    columns, row = f.columns, f.row
    facts = ConsumerFacts(
        ack_pending_msgs=f.unacked,
        waiting_pulls_count=columns.waiting_pulls_count[row],
        pending_msgs=f.pending,
        redelivered_msgs=f.redelivered,
        delivered_ago_ns=_time_since_ns(f.at_us, columns.delivered_at_us[row]),
        acked_ago_ns=_time_since_ns(f.at_us, columns.acked_at_us[row]),
        pins_client=config.priority_policy == "pinned_client",
        pinned_client=columns.pinned_client[row],
    )
    return consumer_checks(metadata, facts)


def _time_since_ns(now_us: int, at_us: int | None) -> int | None:
    return None if at_us is None else max(0, now_us - at_us) * 1000
