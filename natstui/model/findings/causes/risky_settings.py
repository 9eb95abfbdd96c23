"""The causes in settings: settings that stop delivery, and risky settings.

Risky settings change only with the configuration. They are computed on request, and not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.assets.monitor_keys import PREFIX
from natstui.model.assets.subjects import overlap
from natstui.model.findings.catalogue import risky_settings as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import Finding, Symptom, entity_of_key, severity_sort_key
from natstui.model.findings.thresholds import (
    CONSUMER_UNUSED_AFTER_S,
    MIN_DUPLICATE_WINDOW_S,
    MIN_SAME_LEADER_CONSUMERS,
    MIN_UNMATCHED_MSGS,
    NEAR_LIMIT_SHARE,
    NO_PULLS_AFTER_S,
    SAME_LEADER_SHARE,
    STREAM_INACTIVE_AFTER_S,
    UNMATCHED_MSGS_WINDOW_S,
)
from natstui.model.live.state import State
from natstui.units import bytes_text, counted, duration_text


def has_unmatchable_filter(
    config: ConsumerConfiguration, stream: StreamConfiguration | None
) -> bool:
    """Return whether no filter of a consumer can match any subject of its stream."""
    if stream is None or not config.filter_subjects or not stream.subjects:
        return False
    if stream.mirror or stream.sources or "subject_transform" in stream.config_json:
        return False
    return not any(
        overlap(filter_subject, subject)
        for filter_subject in config.filter_subjects
        for subject in stream.subjects
    )


MANY_OPEN_PULLS_COUNT = 100
"""Number of open pull requests above which a consumer is checked."""


def consumer_needs_attention(
    config: ConsumerConfiguration, stream: StreamConfiguration | None
) -> bool:
    """Return whether a consumer's configuration allows findings even if nothing is pending."""
    has_low_max_waiting = 0 < (config.max_waiting_pulls_count or 0) <= MANY_OPEN_PULLS_COUNT
    return (
        bool(config.inactive_threshold_ns)
        or bool(config.durable and config.deliver_subject and not config.deliver_group)
        or (config.pull and has_low_max_waiting)
        or config.deliver_policy in ("by_start_sequence", "by_start_time")
        or bool(config.priority_policy)
        or PREFIX in config.config_json
        or has_unmatchable_filter(config, stream)
    )


def find_unmatched_filter(f: ConsumerFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the consumer's filter matches no subject or stored message."""
    stream = f.state.stream_configurations.get(f.name[0])
    if f.config is None or stream is None or not f.config.filter_subjects:
        return None
    filters = ", ".join(f.config.filter_subjects[:3])
    # Subjects of the stream may have changed: messages that match may still be stored.
    if has_unmatchable_filter(f.config, stream) and not f.pending and not f.unacked:
        text = f"{filters} matches nothing; the stream has"
        return Symptom(f"{text} {', '.join(stream.subjects[:5])}")
    count = count_unmatched_messages(f)
    if count is None:
        return None
    return Symptom(
        f"{filters} matches none of {counted(count, 'message')} stored since it was created"
    )


def count_unmatched_messages(f: ConsumerFacts) -> int | None:
    """Return the number of messages since a consumer's creation that match none of its filters.

    None if a message matched, if that is unknown, or for too few messages. A matching message is
    delivered or pending, so a consumer with neither has matched nothing.
    """
    stream, config = f.stream, f.config
    columns, row = f.columns, f.row
    if stream is None or config is None or stream.config is None or f.pending or f.unacked:
        return None
    # The delivered stream sequence also passes messages that do not match.
    if columns.delivered_consumer_seq[row]:
        return None
    counts = [
        f.state.subject_counts.get((f.name[0], filter_subject))
        for filter_subject in config.filter_subjects
    ]
    if any(count is not None and count.stored_msgs for count in counts):
        return None
    if stream.config.retention != "limits" or f.age_s < NO_PULLS_AFTER_S:
        return None
    last_at_us = stream.columns.last_at_us[stream.row]
    if last_at_us is None or last_at_us <= columns.created_at_us[row]:
        return None
    if config.deliver_policy == "all":
        new_msgs = stream.columns.stored_msgs[stream.row]
    else:
        new_msgs = _count_messages_since_first_poll(f, stream)
    return new_msgs if new_msgs >= MIN_UNMATCHED_MSGS else None


def _count_messages_since_first_poll(f: ConsumerFacts, stream: StreamFacts) -> int:
    """Return the number of messages that the stream stored since the consumer's first poll.

    At most those of the last 5 minutes.
    """
    consumer_polls = f.history.values("sampled_mono_us", UNMATCHED_MSGS_WINDOW_S)
    last_seqs = [
        last_seq
        for mono_us, last_seq in stream.history.values("last_seq", UNMATCHED_MSGS_WINDOW_S)
        if mono_us >= consumer_polls[-1][0]
    ]
    return last_seqs[0] - last_seqs[-1] if last_seqs else 0


def find_start_beyond_end(f: ConsumerFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the consumer starts at a sequence or time that is not reached yet."""
    config = f.config
    if config is None or config.deliver_policy not in ("by_start_sequence", "by_start_time"):
        return None
    if config.deliver_policy == "by_start_time":
        return _find_future_start(f, f.settings.get("opt_start_time"))
    start_seq, stream = f.settings.get("opt_start_seq"), f.stream
    if not isinstance(start_seq, int) or stream is None:
        return None
    last_seq = stream.columns.last_seq[stream.row]
    if start_seq <= last_seq + 1:
        return None
    text = f"the consumer starts at sequence {start_seq}, the stream ends at {last_seq}"
    return Symptom(text, None, (start_seq,))


def _find_future_start(f: ConsumerFacts, start_time: object) -> Symptom | None:
    try:
        at_us = datetime.fromisoformat(str(start_time)).timestamp() * 1e6
    except ValueError:
        return None
    if at_us <= f.at_us:
        return None
    return Symptom(
        f"the consumer starts in {duration_text((at_us - f.at_us) / 1e6)}, at {start_time}"
    )


def find_expiry(f: ConsumerFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the server will soon delete the durable consumer as unused."""
    config = f.config
    # An ephemeral consumer is meant to be deleted when no client uses it.
    if config is None or not config.inactive_threshold_ns or f.has_client or not config.durable:
        return None
    inactive_threshold_s = config.inactive_threshold_ns / 1e9
    if f.inactive_s < NEAR_LIMIT_SHARE * inactive_threshold_s:
        return None
    text = f"unused for {duration_text(f.inactive_s)} of {duration_text(inactive_threshold_s)}"
    # A pull between two polls restarts the threshold, which only the next polls show.
    report_after_s = (
        0.0 if is_finding_open else min(2.0, inactive_threshold_s * (1 - NEAR_LIMIT_SHARE) / 2)
    )
    return Symptom(
        f"{text}, after which the server deletes the consumer", None, (), {}, report_after_s
    )


def find_original_pace(f: ConsumerFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the consumer delivers at the pace at which messages were sent."""
    if f.settings.get("replay_policy") != "original" or not f.has_client:
        return None
    return Symptom(f"{f.pending} pending, delivered at the pace of their publishers")


def find_rate_limit(f: ConsumerFacts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a rate limit slows the delivery."""
    limit = f.settings.get("rate_limit_bps")
    if not isinstance(limit, int) or not limit or not f.has_client:
        return None
    return Symptom(f"{f.pending} pending, at most {bytes_text(limit / 8)}/s are delivered")


def find_risky_consumer_settings(state: State, row: int) -> list[Finding]:
    """Return the findings about risky settings of a consumer, the worst first."""
    f = ConsumerFacts(state, row)
    if f.config is None:
        return []
    stream = state.stream_configurations.get(f.name[0])
    if f.is_sourcing:
        return []
    kinds_and_texts = [*_risks_of_consumer(f, f.config, f.settings, stream)]
    return _make_findings(kinds_and_texts, f.key, f.columns.created_at_us[row])


def find_risky_stream_settings(state: State, row: int) -> list[Finding]:
    """Return the findings about risky settings of a stream, the worst first."""
    f = StreamFacts(state, row)
    if f.config is None:
        return []
    kinds_and_texts = [*_risks_of_stream(f, f.config, f.settings)]
    return _make_findings(kinds_and_texts, f.key, f.columns.created_at_us[row])


def _make_findings(
    kinds_and_texts: list[tuple[Kind, str]], entity_key: tuple[str | int, ...], created_at_us: int
) -> list[Finding]:
    entity = entity_of_key(entity_key)
    findings = [Finding(kind, entity, created_at_us, text) for kind, text in kinds_and_texts]
    return sorted(findings, key=severity_sort_key)


def _risks_of_consumer(
    f: ConsumerFacts,
    config: ConsumerConfiguration,
    settings: Mapping[str, object],
    stream: StreamConfiguration | None,
) -> Iterator[tuple[Kind, str]]:
    has_acks, ack_wait_ns = config.ack_policy != "none", config.ack_wait_ns or 0
    if has_acks and stream and stream.max_age_ns and stream.max_age_ns < ack_wait_ns:
        max_age_text, ack_wait_text = (
            duration_text(stream.max_age_ns / 1e9),
            duration_text(ack_wait_ns / 1e9),
        )
        yield (
            kinds.MAX_AGE_BELOW_ACK_WAIT,
            f"max age {max_age_text} is shorter than ack wait {ack_wait_text}",
        )
    if has_acks and config.max_ack_pending_msgs == 1:
        yield kinds.MAX_ACK_PENDING_IS_ONE, "max ack pending is 1"
    backoff = settings.get("backoff")
    if has_acks and config.max_deliver_count is None:
        yield kinds.UNLIMITED_DELIVERIES, "max deliver is not set"
        if isinstance(backoff, list) and backoff:
            yield (
                kinds.LAST_BACKOFF_REPEATS,
                f"{len(backoff)} steps of backoff, and no max deliver",
            )
    inactive_threshold_ns = config.inactive_threshold_ns
    if has_acks and inactive_threshold_ns and inactive_threshold_ns < ack_wait_ns:
        yield (
            kinds.INACTIVE_THRESHOLD_BELOW_ACK_WAIT,
            (
                f"inactive threshold {duration_text(inactive_threshold_ns / 1e9)}, "
                f"ack wait {duration_text(ack_wait_ns / 1e9)}"
            ),
        )
    if stream and config.durable and config.replicas_count < stream.replicas_count:
        replicas_counts = config.replicas_count, stream.replicas_count
        yield (
            kinds.FEWER_REPLICAS_THAN_STREAM,
            f"{replicas_counts[0]} of the stream's {replicas_counts[1]} replicas",
        )
    if config.durable and not f.has_client and f.inactive_s > CONSUMER_UNUSED_AFTER_S:
        yield kinds.CONSUMER_UNUSED, f"nothing delivered for {duration_text(f.inactive_s)}"


def _risks_of_all_consumers(f: StreamFacts) -> Iterator[tuple[Kind, str]]:
    """Yield the kind and text of each risk of a stream's consumers together."""
    table = f.state.consumers
    rows = table.roster.rows_of_stream.get(f.name, ())
    leader, count = f.columns.leader[f.row], len(rows)
    if f.columns.peers[f.row] and leader and count >= MIN_SAME_LEADER_CONSUMERS:
        led_count = sum(table.columns.leader[row] == leader for row in rows)
        if led_count > SAME_LEADER_SHARE * count:
            yield kinds.LEADERS_ON_ONE_SERVER, f"{leader} leads {led_count} of {count} consumers"


def _risks_of_stream(
    f: StreamFacts, config: StreamConfiguration, settings: Mapping[str, object]
) -> Iterator[tuple[Kind, str]]:
    stream_limits = (
        config.max_msgs,
        config.max_bytes,
        config.max_age_ns,
        config.max_msgs_per_subject,
    )
    if config.retention == "limits" and not any(stream_limits) and not config.sealed:
        yield kinds.STREAM_WITHOUT_LIMIT, "messages, bytes and age are unlimited"
    if config.storage == "memory":
        yield kinds.STREAM_IN_MEMORY, "memory storage"
    link = f.state.link
    if config.replicas_count == 1 and link is not None and link.cluster:
        yield kinds.ONE_REPLICA, f"1 replica in the cluster {link.cluster}"
    last_at_us = f.columns.last_at_us[f.row]
    if last_at_us is not None and not config.sealed:
        quiet_s = (f.at_us - last_at_us) / 1e6
        if quiet_s > STREAM_INACTIVE_AFTER_S:
            yield kinds.STREAM_INACTIVE, f"nothing stored for {duration_text(quiet_s)}"
    window_ns = config.duplicate_window_ns
    # The window cannot be longer than max age.
    is_window_short = (
        0 < (window_ns or 0) < min(MIN_DUPLICATE_WINDOW_S * 1e9, config.max_age_ns or 1e18)
    )
    if window_ns and is_window_short and not config.mirror:
        yield (
            kinds.SHORT_DUPLICATE_WINDOW,
            f"the duplicate window is {duration_text(window_ns / 1e9)}",
        )
    yield from _risks_of_all_consumers(f)
    if not config.allow_direct and not config.mirror:
        yield kinds.NO_DIRECT_GET, "allow direct is off"
    if settings.get("no_ack"):
        yield kinds.PUBLISHES_UNCONFIRMED, "no ack is on"
