"""Thresholds in the metadata of a stream or consumer, as `io.nats.monitor.*`.

The results equal those of `nats server check`. That tool ignores the metadata of consumers, so
their results follow its documentation. Two rules differ from natstui's other findings: too few
messages are critical, and so is an idle consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from natstui.model.assets.monitor_keys import (
    CONSUMER_KEYS,
    PREFIX,
    STREAM_KEYS,
    MonitorKey,
    parse_threshold,
)
from natstui.model.live.snapshot import Peer, Upstream
from natstui.units import counted, duration_text

Severity = Literal["critical", "warning", "ok"]


class ThresholdResult(Struct, frozen=True):
    """The severity of one value, by its comparison with a threshold."""

    severity: Severity
    name: str
    """The key of the threshold, without its prefix."""
    text: str


class StreamFacts(Struct, frozen=True):
    """The values of a stream that its thresholds check."""

    stored_msgs: int
    subjects_count: int
    is_clustered: bool
    """Whether the stream is in a cluster, and so must have a leader."""
    leader: str | None
    peers: Sequence[Peer]
    """Replicas without the leader."""
    upstreams: Sequence[Upstream]
    mirror: bool
    """Whether the stream is a mirror by its configuration."""


class ConsumerFacts(Struct, frozen=True):
    """The values of a consumer that its thresholds check; times in ns, None for never."""

    ack_pending_msgs: int
    waiting_pulls_count: int
    pending_msgs: int
    redelivered_msgs: int
    delivered_ago_ns: int | None
    acked_ago_ns: int | None
    pins_client: bool
    """Whether its priority policy pins a client."""
    pinned_client: str | None


class _Thresholds:
    """The thresholds in metadata by name; 0 for an absent key."""

    def __init__(self, keys: Sequence[MonitorKey], metadata: Mapping[str, str]) -> None:
        self._values = {key.name: parse_threshold(key, metadata.get(key.key, "0")) for key in keys}

    def __getitem__(self, name: str) -> int:
        return self._values[name]


def is_monitored(metadata: Mapping[str, str]) -> bool:
    """Return whether metadata has any threshold."""
    return any(key.startswith(PREFIX) for key in metadata)


def stream_checks(metadata: Mapping[str, str], facts: StreamFacts) -> list[ThresholdResult]:
    """Return the results of all thresholds of a stream; empty without any."""
    if not is_monitored(metadata):
        return []
    try:
        limits = _Thresholds(STREAM_KEYS, metadata)
    except ValueError as error:
        return [ThresholdResult("critical", "enabled", f"the thresholds cannot be read: {error}")]
    return [
        *_check_replicas(limits, facts),
        *_check_messages(limits, facts.stored_msgs),
        *_check_subjects(limits, facts.subjects_count),
        *_check_sources(
            limits, [upstream for upstream in facts.upstreams if not upstream.mirror], facts
        ),
        *_check_mirrors(limits, facts),
    ]


def _check_replicas(limits: _Thresholds, facts: StreamFacts) -> list[ThresholdResult]:
    expected_count = limits["peer-expect"]
    if not facts.is_clustered:
        text = f"{expected_count} replicas are expected, but the server is not in a cluster"
        return [ThresholdResult("critical", "peer-expect", text)] if expected_count > 0 else []
    if facts.leader is None:
        return [ThresholdResult("critical", "peer-expect", "the stream has no leader")]
    count = 1 + len(facts.peers)
    if count != expected_count:
        # Also without the key: the check of the NATS CLI takes its absence for 0.
        text = f"{expected_count} replicas are expected, there are {count}"
        return [ThresholdResult("critical", "peer-expect", text)]
    results = [ThresholdResult("ok", "peer-expect", counted(count, "replica"))]
    offline_count = sum(peer.offline for peer in facts.peers)
    if offline_count:
        text = f"{counted(offline_count, 'replica')} offline"
        results.append(ThresholdResult("critical", "peer-expect", text))
    max_lag_msgs, max_silence_ns = limits["peer-lag-critical"], limits["peer-seen-critical"]
    if max_lag_msgs > 0:
        lagging_count = sum(peer.lag_msgs > max_lag_msgs for peer in facts.peers)
        text = f"over {max_lag_msgs} behind"
        results.append(_check_count("peer-lag-critical", lagging_count, "replica", text))
    if max_silence_ns > 0:
        silent_count = sum((peer.active_ns or 0) > max_silence_ns for peer in facts.peers)
        text = f"without contact for over {duration_text(max_silence_ns / 1e9)}"
        results.append(_check_count("peer-seen-critical", silent_count, "replica", text))
    return results


def _check_count(name: str, count: int, noun: str, text: str) -> ThresholdResult:
    return ThresholdResult("critical" if count else "ok", name, f"{counted(count, noun)} {text}")


def _check_messages(limits: _Thresholds, stored_msgs: int) -> list[ThresholdResult]:
    warning_msgs, critical_msgs = limits["msgs-warn"], limits["msgs-critical"]
    text = counted(stored_msgs, "message")
    if warning_msgs <= 0 and critical_msgs <= 0:
        return []
    if critical_msgs > 0 and stored_msgs <= critical_msgs:
        text += f", {critical_msgs} are too few"
        return [ThresholdResult("critical", "msgs-critical", text)]
    if warning_msgs > 0 and stored_msgs <= warning_msgs:
        return [ThresholdResult("warning", "msgs-warn", f"{text}, {warning_msgs} are few")]
    return [ThresholdResult("ok", "msgs-critical" if critical_msgs > 0 else "msgs-warn", text)]


def _check_subjects(limits: _Thresholds, subjects_count: int) -> list[ThresholdResult]:
    warning_subjects_count = limits["subjects-warn"]
    critical_subjects_count = limits["subjects-critical"]
    if warning_subjects_count <= 0 and critical_subjects_count <= 0:
        return []
    is_upper_limit = warning_subjects_count < critical_subjects_count
    text = counted(subjects_count, "subject")
    limits_with_severity: tuple[tuple[str, int, Severity], ...] = (
        ("subjects-critical", critical_subjects_count, "critical"),
        ("subjects-warn", warning_subjects_count, "warning"),
    )
    for name, limit, severity in limits_with_severity:
        if subjects_count >= limit if is_upper_limit else subjects_count <= limit:
            direction_text = "or more" if is_upper_limit else "or fewer"
            return [
                ThresholdResult(severity, name, f"{text}, the limit is {limit} {direction_text}")
            ]
    name = "subjects-critical" if critical_subjects_count > 0 else "subjects-warn"
    return [ThresholdResult("ok", name, text)]


def _check_sources(
    limits: _Thresholds, sources: Sequence[Upstream], facts: StreamFacts
) -> list[ThresholdResult]:
    min_count, max_count, count = limits["min-sources"], limits["max-sources"], len(sources)
    results = []
    if min_count > 0 and count < min_count:
        text = f"{counted(count, 'source')}, at least {min_count} are expected"
        results.append(ThresholdResult("critical", "min-sources", text))
    elif max_count > 0 and count > max_count:
        text = f"{counted(count, 'source')}, at most {max_count} are expected"
        results.append(ThresholdResult("critical", "max-sources", text))
    elif min_count > 0 or max_count > 0:
        name = "min-sources" if min_count > 0 else "max-sources"
        results.append(ThresholdResult("ok", name, counted(count, "source")))
    if sources and not facts.mirror:
        results += _check_upstreams(limits, sources, "source")
    return results


def _check_mirrors(limits: _Thresholds, facts: StreamFacts) -> list[ThresholdResult]:
    if limits["lag-critical"] <= 0 and limits["seen-critical"] <= 0:
        return []
    mirrors = [upstream for upstream in facts.upstreams if upstream.mirror]
    if facts.mirror and not mirrors:
        return [ThresholdResult("critical", "lag-critical", "the mirror has no state yet")]
    if mirrors:
        return _check_upstreams(limits, mirrors, "mirror")
    if any(not upstream.mirror for upstream in facts.upstreams):
        return []
    text = "the threshold is for a mirror or sources, but the stream has none"
    return [ThresholdResult("critical", "lag-critical", text)]


def _check_upstreams(
    limits: _Thresholds, upstreams: Sequence[Upstream], noun: str
) -> list[ThresholdResult]:
    min_lag_msgs, min_silence_ns = limits["lag-critical"], limits["seen-critical"]
    results = []
    if min_lag_msgs > 0:
        lagging_count = sum(upstream.lag_msgs >= min_lag_msgs for upstream in upstreams)
        text = f"{min_lag_msgs} or more messages behind"
        results.append(_check_count("lag-critical", lagging_count, noun, text))
    if min_silence_ns > 0:
        silent_count = sum((upstream.active_ns or 0) >= min_silence_ns for upstream in upstreams)
        text = f"without contact for {duration_text(min_silence_ns / 1e9)} or longer"
        results.append(_check_count("seen-critical", silent_count, noun, text))
    return results


def consumer_checks(metadata: Mapping[str, str], facts: ConsumerFacts) -> list[ThresholdResult]:
    """Return the results of all thresholds of a consumer; empty without any."""
    if not is_monitored(metadata):
        return []
    try:
        limits = _Thresholds(CONSUMER_KEYS, metadata)
    except ValueError as error:
        return [ThresholdResult("critical", "enabled", f"the thresholds cannot be read: {error}")]
    results = []
    for name, count, noun in (
        ("outstanding-ack-critical", facts.ack_pending_msgs, "unacknowledged message"),
        ("waiting-critical", facts.waiting_pulls_count, "open pull"),
        ("unprocessed-critical", facts.pending_msgs, "pending message"),
        ("redelivery-critical", facts.redelivered_msgs, "redelivered message"),
    ):
        if (limit := limits[name]) > 0:
            severity: Severity = "critical" if count >= limit else "ok"
            results.append(
                ThresholdResult(severity, name, f"{counted(count, noun)}, the limit is {limit}")
            )
    for name, ago_ns, noun in (
        ("last-delivery-critical", facts.delivered_ago_ns, "delivery"),
        ("last-ack-critical", facts.acked_ago_ns, "acknowledgement"),
    ):
        if (limit := limits[name]) > 0:
            is_exceeded = ago_ns is None or ago_ns >= limit
            results.append(
                ThresholdResult(
                    "critical" if is_exceeded else "ok", name, _format_last(noun, ago_ns, limit)
                )
            )
    if limits["pinned"]:
        is_pinned = facts.pins_client and facts.pinned_client is not None
        text = "a client is pinned" if is_pinned else "no client is pinned"
        results.append(ThresholdResult("ok" if is_pinned else "critical", "pinned", text))
    return results


def _format_last(noun: str, ago_ns: int | None, limit_ns: int) -> str:
    limit = f"the limit is {duration_text(limit_ns / 1e9)}"
    if ago_ns is None:
        return f"no {noun} ever, {limit}"
    return f"the last {noun} was {duration_text(ago_ns / 1e9)} ago, {limit}"
