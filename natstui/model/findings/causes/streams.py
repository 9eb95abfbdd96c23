"""The causes of findings about a stream, in order of precedence."""

from __future__ import annotations

from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.assets.monitor_keys import PREFIX
from natstui.model.assets.subjects import overlap
from natstui.model.bench.plan import BENCHMARK_STREAM_DESCRIPTION
from natstui.model.findings.catalogue import streams as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.causes.cause import Cause, diagnose, rank_causes
from natstui.model.findings.causes.consumers import (
    find_leader_changes,
    find_lost_quorum,
    find_offline_replicas,
)
from natstui.model.findings.causes.metadata import find_stream_threshold, find_stream_warning
from natstui.model.findings.facts.row import unreachable_replicas
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import Symptom
from natstui.model.findings.thresholds import (
    DELETED_SEQUENCES_SHARE,
    DROPPED_MSGS_REPORTED_S,
    FULL_SOON_S,
    LOST_MSGS_REPORTED_S,
    MAX_SUBJECTS,
    MIN_DELETED_SEQUENCES,
    MIN_FILL_TREND_S,
    MIN_FULL_FORECAST_HOLD_S,
    MIN_ORPHANED_POLLS,
    MIN_PILED_UP_CONSUMERS,
    MIN_UNIQUE_SUBJECTS,
    NEAR_LIMIT_SHARE,
    NO_INTEREST_SHARE,
    NO_INTEREST_WINDOW_S,
    OBJECT_UPLOAD_PAUSE_S,
    ORIGIN_CHECKED_AFTER_SILENCE_S,
    PEER_LAG_MSGS,
    PILE_UP_WINDOW_S,
    PUBLISHER_SILENCE_GAPS_FACTOR,
    SILENT_AFTER_RESTART_S,
    SILENT_UPSTREAM_S,
    STREAM_FULL_END_SHARE,
    STREAM_MOVE_HANGS_AFTER_S,
    UNIQUE_SUBJECTS_SHARE,
    UPSTREAM_LAG_MSGS,
)
from natstui.model.live.limits import StreamFill, bytes_are_full, is_near_limit
from natstui.units import bytes_text, counted, duration_text

Facts = StreamFacts


# Contact.


def find_unreachable_leader(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the leader of the stream does not reply."""
    if (f.name, "") in f.state.offline:
        # The reason of the server is a finding of its own.
        return None
    is_unreachable = f.name in f.state.unreachable_streams
    return Symptom(kinds.STREAM_UNREACHABLE.sentence) if is_unreachable else None


def find_missing_leader(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if no server leads the stream."""
    if f.columns.leader[f.row] is not None or (f.name, "") in f.state.offline:
        return None
    return Symptom(kinds.STREAM_WITHOUT_LEADER.sentence)


def find_lagging_replicas(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a replica that has contact is far behind."""
    peers = f.columns.peers[f.row]
    unreachable = unreachable_replicas(peers)
    lagging_peers = [
        peer for peer in peers if peer.lag_msgs > PEER_LAG_MSGS and peer not in unreachable
    ]
    if not lagging_peers:
        return None
    lag_texts = (
        f"{peer.name} is {counted(peer.lag_msgs, 'entry')} behind" for peer in lagging_peers
    )
    return Symptom(", ".join(lag_texts))


def find_differing_replicas(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a replica has other messages than the leader, though its lag is 0."""
    if not f.differing_msgs:
        return None
    columns, row = f.columns, f.row
    leader_seqs_and_msgs = columns.first_seq[row], columns.last_seq[row], columns.stored_msgs[row]
    replica_texts = [
        f"{replica.name} has {counted(replica.stored_msgs, 'message')} from "
        f"{replica.first_seq} to {replica.last_seq}"
        for replica in columns.replicas[row]
        if (replica.first_seq, replica.last_seq, replica.stored_msgs) != leader_seqs_and_msgs
    ]
    first_seq, last_seq, stored_msgs = leader_seqs_and_msgs
    leader_text = (
        f"the leader {columns.leader[row]} {stored_msgs:,} from {first_seq} to {last_seq}"
    )
    return Symptom(f"{', '.join(replica_texts)}; {leader_text}") if replica_texts else None


def find_hanging_move(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a move or scale waits for a server, and copies no messages."""
    desired_placement, move_s = f.columns.desired[f.row], f.moving_s
    if desired_placement is None or move_s is None or move_s < STREAM_MOVE_HANGS_AFTER_S:
        return None
    if desired_placement.status in ("catchup", "snapshot"):
        return None
    text = f"to {', '.join(desired_placement.servers)} since {duration_text(move_s)}"
    reason = f": {desired_placement.reason}" if desired_placement.reason else ""
    return Symptom(text + reason, desired_placement.created_at_us)


# Storing.


def find_lost_messages(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the server counts lost messages, or misses some since its restart."""
    count = f.columns.lost_msgs[f.row]
    if count:
        return Symptom(f"{counted(count, 'message')} lost by damage of the store")
    missing = f.missing_messages
    if missing is None or f.at_us - missing.at_us > LOST_MSGS_REPORTED_S * 1e6:
        return None
    text = f"{counted(missing.missing_msgs, 'message')} missing since its server was restarted"
    return Symptom(text, missing.at_us, (), {"missing_msgs": missing.missing_msgs})


def find_store_rollback(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the last sequence of the stream decreased within the last minutes."""
    at_us = f.advisories.rolled_back_at_us if f.advisories else 0
    if not at_us or f.at_us - at_us > DROPPED_MSGS_REPORTED_S * 1e6:
        return None
    return Symptom(f.advisories.rolled_back_text if f.advisories else "", at_us)


def find_recreation(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream was deleted and recreated."""
    at_us = f.recreated_at_us
    if at_us is None or f.config is None or f.config.description == BENCHMARK_STREAM_DESCRIPTION:
        return None
    return Symptom("a new stream has the name of the old one", at_us)


def find_full_stream(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream is full and rejects publishes."""
    config = f.config
    if config is None or config.discard != "new":
        return None
    stored_msgs, stored_bytes = f.columns.stored_msgs[f.row], f.columns.stored_bytes[f.row]
    # A full work queue has room only for a moment after each ack.
    min_full_msgs = (config.max_msgs or 0) * (STREAM_FULL_END_SHARE if is_finding_open else 1)
    if config.max_msgs and stored_msgs >= min_full_msgs:
        text = f"{stored_msgs} of {counted(config.max_msgs, 'message')}: publishes are rejected"
        return Symptom(text, numbers={"max_msgs": config.max_msgs})
    if bytes_are_full(
        StreamFill(stored_msgs, stored_bytes, None, config.max_bytes), is_deleting=False
    ):
        text = (
            f"{bytes_text(stored_bytes)} of {bytes_text(config.max_bytes)}: publishes are rejected"
        )
        return Symptom(text, numbers={"max_bytes": config.max_bytes or 0})
    return None


def find_full_subjects(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if some subjects are full, and publishes to them are rejected."""
    config, counts = f.config, f.subject_counts
    if config is None or config.discard != "new" or counts is None or not f.full_subjects_count:
        return None
    max_msgs = config.max_msgs_per_subject or 0
    if not f.settings.get("discard_new_per_subject"):
        return None
    subjects = [subject for subject, msgs in counts.msgs_by_subject.items() if msgs >= max_msgs]
    limit_text = f"{max_msgs} of {counted(max_msgs, 'message')}"
    return Symptom(f"{', '.join(subjects[:5])}: {limit_text}, publishes are rejected")


def find_objects_without_meta(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if an object store has chunks of uploads that were not completed."""
    count = f.objects_without_meta_count
    if f.config is None or f.config.kind != "object" or not count:
        return None
    if f.silent_s is None or f.silent_s < OBJECT_UPLOAD_PAUSE_S:
        return None
    return Symptom(f"chunks of at least {counted(count, 'object')} have no meta entry")


def find_reached_consumer_limit(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream is at its limit of consumers."""
    limit = f.config.max_consumers_count if f.config else None
    count = f.columns.consumers_count[f.row]
    if not limit or count < limit:
        return None
    text = f"{count} of {counted(limit, 'consumer')}: further ones are refused"
    return Symptom(text, numbers={"max_consumers": limit})


def find_seal(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream is sealed."""
    return (
        Symptom(kinds.STREAM_SEALED.sentence) if f.config is not None and f.config.sealed else None
    )


def find_near_limit(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream is near a limit that rejects publishes or consumers."""
    config = f.config
    if config is None:
        return None
    consumers_count, max_count = f.columns.consumers_count[f.row], config.max_consumers_count
    if max_count and is_near_limit(consumers_count, max_count):
        text = f"{consumers_count} of {max_count} consumers"
        return Symptom(text, numbers={"max_consumers": max_count})
    if _used_share(f) < NEAR_LIMIT_SHARE:
        return None
    time_to_full_s, (used_text, limit_numbers) = _full_in_s(f), _describe_most_used_limit(f)
    forecast_text = (
        f", full in {duration_text(time_to_full_s)}" if time_to_full_s is not None else ""
    )
    return Symptom(used_text + forecast_text, numbers=limit_numbers)


def find_limit_forecast(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream will soon reach a limit that rejects publishes."""
    if not 0 < _used_share(f) < NEAR_LIMIT_SHARE:
        return None
    time_to_full_s = _full_in_s(f)
    if time_to_full_s is None or time_to_full_s >= FULL_SOON_S:
        return None
    # The first messages of a stream, or a burst, are no trend.
    report_after_s, (used_text, limit_numbers) = (
        min(MIN_FULL_FORECAST_HOLD_S, time_to_full_s / 10),
        _describe_most_used_limit(f),
    )
    return Symptom(
        f"{used_text}, full in {duration_text(time_to_full_s)}",
        numbers=limit_numbers,
        report_after_s=report_after_s,
    )


def _used_share(f: Facts) -> float:
    """Return the higher used share of the limits of messages and bytes; 0 with discard old."""
    config = f.config
    if config is None or config.discard != "new":
        return 0.0
    return max(_used_shares(f, config))


def _used_shares(f: Facts, config: StreamConfiguration) -> tuple[float, float]:
    """Return the used shares of the limits of messages and bytes; 0 without a limit."""
    stored_msgs, stored_bytes = f.columns.stored_msgs[f.row], f.columns.stored_bytes[f.row]
    return (
        stored_msgs / config.max_msgs if config.max_msgs else 0.0,
        stored_bytes / config.max_bytes if config.max_bytes else 0.0,
    )


def _describe_most_used_limit(f: Facts) -> tuple[str, dict[str, float]]:
    """Return a text about the most used limit, and the name and value of that limit."""
    config = f.config
    assert config is not None
    msgs_used_ratio, bytes_used_ratio = _used_shares(f, config)
    if msgs_used_ratio >= bytes_used_ratio:
        text = f"{f.columns.stored_msgs[f.row]} of {counted(config.max_msgs or 0, 'message')}"
        return text, {"max_msgs": config.max_msgs or 0}
    stored_bytes, max_bytes = f.columns.stored_bytes[f.row], config.max_bytes or 0
    return f"{bytes_text(stored_bytes)} of {bytes_text(max_bytes)}", {"max_bytes": max_bytes}


def _full_in_s(f: Facts) -> float | None:
    """Return the seconds until the first limit is reached; None if the trend is too short."""
    values = f.history.values("stored_msgs", MIN_FILL_TREND_S)
    if values[0][0] - values[-1][0] < MIN_FILL_TREND_S * 1e6:
        return None
    full_in_s: float | None = f.full_in_s
    return full_in_s


def find_stopped_publisher(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a publisher that published steadily has stopped."""
    allowed_silence_s, silent_s, steadily_published_s = f.allowed_silence_s, f.silent_s, f.steady_s
    if (
        allowed_silence_s is None
        or silent_s is None
        or steadily_published_s is None
        or silent_s <= allowed_silence_s
    ):
        return None
    if f.config is None or f.config.description == BENCHMARK_STREAM_DESCRIPTION or f.config.mirror:
        return None
    # A publisher of two minutes is not missed for a day.
    if silent_s > PUBLISHER_SILENCE_GAPS_FACTOR * steadily_published_s:
        return None
    text = f"nothing stored for {duration_text(silent_s)}, steady before that for"
    return Symptom(f"{text} {duration_text(steadily_published_s)}", f.columns.last_at_us[f.row])


def find_purge(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a user purged the stream: no limit removed its first messages."""
    purge = f.purge
    if (
        purge is None
        or f.missing_messages is not None
        or f.at_us - purge.at_us > LOST_MSGS_REPORTED_S * 1e6
    ):
        return None
    # Clients of buckets purge the values that they replace.
    if f.name.startswith((KV, OBJECTS)):
        return None
    text = f"{counted(purge.purged_msgs, 'message')} purged or deleted by a user"
    return Symptom(text, purge.at_us, (), {"purged_msgs": purge.purged_msgs})


def find_abandoned_batches(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if atomic batches were begun and not committed."""
    batches = f.advisories.abandoned_batches if f.advisories else None
    if batches is None or not batches.total_count:
        return None
    if f.at_us - batches.last_at_us > LOST_MSGS_REPORTED_S * 1e6:
        return None
    reason = f": {batches.last_reason}" if batches.last_reason else ""
    return Symptom(f"{batches.total_count} of its batches abandoned{reason}", None, (),
                   {"batches_count": batches.total_count})  # fmt: skip


# Origins.


def _list_origins(f: Facts) -> list[tuple[str, dict[str, object]]]:
    """Return the name and settings of the mirror and each source in the configuration."""
    mirror, sources = f.settings.get("mirror"), f.settings.get("sources")
    origins = [mirror] if isinstance(mirror, dict) else []
    origins += (
        [source for source in sources if isinstance(source, dict)]
        if isinstance(sources, list)
        else []
    )
    return [(str(origin.get("name")), origin) for origin in origins]


def find_missing_origin(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a mirrored or sourced stream does not exist in the account."""
    rows_of_existing_stream = f.state.streams.roster.rows_of_stream
    inactive_origin_names = {
        upstream.name for upstream in f.columns.upstreams[f.row]
        if upstream.active_ns is None or upstream.active_ns > ORIGIN_CHECKED_AFTER_SILENCE_S * 1e9
    }  # fmt: skip
    missing_origin_names = [
        name
        for name, settings in _list_origins(f)
        if name in inactive_origin_names
        and name not in rows_of_existing_stream
        and name not in f.state.unreachable_streams
        and not settings.get("external")
    ]
    account = f.state.account
    if not missing_origin_names or account is None or account.streams_count > len(f.state.streams):
        return None
    return Symptom(f"there is no stream {', '.join(missing_origin_names)}", report_after_s=5.0)


def find_origin_error(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the origin of the stream replies with an error."""
    for upstream in f.columns.upstreams[f.row]:
        if upstream.error:
            return Symptom(f"{upstream.name}: {upstream.error}")
    return None


def find_silent_origin(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream had no contact with an origin for `SILENT_UPSTREAM_S`."""
    silent_upstreams = [
        upstream
        for upstream in f.columns.upstreams[f.row]
        if upstream.active_ns is None or upstream.active_ns > SILENT_UPSTREAM_S * 1e9
    ]
    if not silent_upstreams:
        return None
    most_silent_upstream = max(silent_upstreams, key=lambda upstream: upstream.active_ns or 0)
    if (
        f.state.servers.has_server_returned_recently(f.at_us)
        and (most_silent_upstream.active_ns or 0) < SILENT_AFTER_RESTART_S * 1e9
    ):
        return None
    if most_silent_upstream.active_ns is None:
        return Symptom(
            f"never had contact with {most_silent_upstream.name}", report_after_s=SILENT_UPSTREAM_S
        )
    silence_text = duration_text(most_silent_upstream.active_ns / 1e9)
    text = f"no contact with {most_silent_upstream.name} for {silence_text}"
    return Symptom(
        f"{text}, its lag says {most_silent_upstream.lag_msgs}",
        f.at_us - most_silent_upstream.active_ns // 1000,
    )


def find_ahead_of_origin(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream mirrors a recreated origin, and has later sequences."""
    config, table = f.config, f.state.streams
    if config is None or not config.mirror:
        return None
    rows = table.roster.rows_of_stream.get(config.mirror, ())
    if not rows or any(settings.get("external") for _, settings in _list_origins(f)):
        return None
    origin_seq = table.columns.last_seq[rows[-1]]
    # Rows of a poll are read one after the other: the mirror's must be the older one.
    last_seq = f.history.value_before("last_seq", table.columns.sampled_mono_us[rows[-1]])
    if last_seq is None or last_seq <= origin_seq:
        return None
    text = f"the last sequence is {last_seq}, in {config.mirror} only {origin_seq}"
    return Symptom(text, None, (), {"ahead_msgs": last_seq - origin_seq}, report_after_s=2.0)


def find_unmatched_source_filter(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the filter of the only source matches no message of the origin."""
    origins = _list_origins(f)
    if len(origins) != 1 or f.columns.last_seq[f.row]:
        return None
    name, settings = origins[0]
    filters = [settings.get("filter_subject")] + [
        transform.get("src") for transform in settings.get("subject_transforms") or ()  # type: ignore[attr-defined]
        if isinstance(transform, dict)
    ]  # fmt: skip
    filter_subjects = [str(transform) for transform in filters if transform]
    table = f.state.streams
    rows = table.roster.rows_of_stream.get(name, ())
    if not filter_subjects or not rows or not table.columns.stored_msgs[rows[-1]]:
        return None
    upstreams = f.columns.upstreams[f.row]
    if not upstreams or upstreams[0].active_ns is None or upstreams[0].lag_msgs:
        return None
    if (f.at_us - f.columns.created_at_us[f.row]) / 1e6 < 10:
        return None
    origin_msgs = table.columns.stored_msgs[rows[-1]]
    return Symptom(
        f"{', '.join(filter_subjects)} matches none of {counted(origin_msgs, 'message')} of {name}"
    )


def find_lag_behind_origin(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream is far behind its mirror origin or a source."""
    min_lag_msgs = UPSTREAM_LAG_MSGS // 2 if is_finding_open else UPSTREAM_LAG_MSGS
    lagging_upstreams = [
        upstream for upstream in f.columns.upstreams[f.row] if upstream.lag_msgs > min_lag_msgs
    ]
    if not lagging_upstreams:
        return None
    most_lagging_upstream = max(lagging_upstreams, key=lambda upstream: upstream.lag_msgs)
    return Symptom(
        f"{counted(most_lagging_upstream.lag_msgs, 'message')} behind {most_lagging_upstream.name}"
    )


# Consumers: messages without a consumer, and consumers without a client.


def find_orphaned_messages(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if a work queue has messages that no consumer filter matches."""
    config, stored_msgs = f.config, f.columns.stored_msgs[f.row]
    if config is None or config.retention != "workqueue" or not stored_msgs:
        return None
    if not f.columns.consumers_count[f.row]:
        return Symptom(f"{counted(stored_msgs, 'message')}, and no consumer", report_after_s=1.0)
    count, filters, counts = f.orphaned_msgs, f.filters, f.subject_counts
    if (
        not count
        or f.orphaned_polls < MIN_ORPHANED_POLLS
        or filters is None
        or f.is_covered_by_filters
    ):
        return None
    # Scheduled messages wait for their time on subjects of their own.
    if f.settings.get("allow_msg_schedules") and counts is None:
        return None
    if counts is not None:
        unmatched_subjects = [
            subject
            for subject in counts.msgs_by_subject
            if not any(overlap(filter_subject, subject) for filter_subject in filters)
        ]
        orphaned_subjects = [
            subject for subject in unmatched_subjects if subject not in counts.scheduled_subjects
        ]
        are_counts_newer = counts.at_us >= (f.orphaned_since_us or 0)
        are_counts_complete = counts.subjects_count == len(counts.msgs_by_subject)
        if not orphaned_subjects and (
            unmatched_subjects or (are_counts_newer and are_counts_complete)
        ):
            return None
        if orphaned_subjects:
            text = f"{counted(count, 'message')} that no consumer filter matches, on"
            return Symptom(f"{text} {', '.join(orphaned_subjects[:5])}", f.orphaned_since_us)
    subjects_without_filter = [
        stream_subject
        for stream_subject in config.subjects
        if not any(overlap(stream_subject, filter_subject) for filter_subject in filters)
    ]
    reason = f"the consumer filters are {', '.join(filters[:5])}"
    if subjects_without_filter:
        reason = f"no consumer filter matches {', '.join(subjects_without_filter[:5])}"
    text = f"{counted(count, 'message')} that no consumer filter matches; {reason}"
    return Symptom(text, f.orphaned_since_us)


def find_unmatched_publishes(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if an interest stream drops messages that no consumer filter matches."""
    config = f.config
    if config is None or config.retention != "interest" or config.mirror or config.sealed:
        return None
    if not f.columns.consumers_count[f.row]:
        # Earlier messages may have had a consumer that was deleted since.
        if not f.published_alone_msgs:
            return None
        text = f"no consumer: {counted(f.published_alone_msgs, 'message')} published and not kept"
        return Symptom(text, f.consumerless_since_us, report_after_s=0.0)
    if f.is_covered_by_filters or f.came_per_s is None or f.unwanted_per_s is None:
        return None
    min_unmatched_share = NO_INTEREST_SHARE / 2 if is_finding_open else NO_INTEREST_SHARE
    if f.unwanted_per_s * NO_INTEREST_WINDOW_S < MIN_ORPHANED_POLLS or (
        f.unwanted_per_s < min_unmatched_share * f.came_per_s
    ):
        return None
    text = f"at least {f.unwanted_per_s:.1f} of {f.came_per_s:.1f} messages a second are dropped"
    filters = ", ".join((f.filters or [])[:5])
    return Symptom(f"{text}; the consumer filters are {filters}")


def find_unused_new_consumers(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if consumers are created repeatedly, and no client uses them."""
    if f.columns.consumers_count[f.row] < MIN_PILED_UP_CONSUMERS:
        return None
    count = f.unused_new_consumers_count
    if count < (MIN_PILED_UP_CONSUMERS // 2 if is_finding_open else MIN_PILED_UP_CONSUMERS):
        return None
    consumers_count = f.columns.consumers_count[f.row]
    text = (
        f"{count} of {consumers_count} consumers were created in {PILE_UP_WINDOW_S / 60:.0f} min"
    )
    text += " and are not used"
    return Symptom(text, None)


def find_left_consumers(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if ephemeral consumers have no client; the server deletes them later."""
    count = f.left_consumers_count
    if not count:
        return None
    consumers_count = f.columns.consumers_count[f.row]
    return Symptom(f"no client uses {count} of {counted(consumers_count, 'consumer')}")


# Size.


def find_many_subjects(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if the stream has more subjects than the threshold."""
    count = f.columns.subjects_count[f.row]
    return Symptom(f"{count:,} subjects") if count > MAX_SUBJECTS else None


def find_subject_per_message(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if nearly every message has its own subject: no subject limit is set."""
    columns, row, config = f.columns, f.row, f.config
    subjects_count, stored_msgs = columns.subjects_count[row], columns.stored_msgs[row]
    if config is None or config.max_msgs_per_subject or subjects_count > MAX_SUBJECTS:
        return None
    min_subjects_per_message = UNIQUE_SUBJECTS_SHARE - (0.1 if is_finding_open else 0.0)
    if (
        subjects_count < MIN_UNIQUE_SUBJECTS
        or subjects_count < min_subjects_per_message * stored_msgs
    ):
        return None
    return Symptom(f"{subjects_count:,} subjects for {stored_msgs:,} messages")


def find_holes(f: Facts, is_finding_open: bool) -> Symptom | None:
    """Return the evidence if most sequences between the first and last message are deleted."""
    deleted_msgs, columns = f.removed_msgs, f.columns
    sequences_count = columns.last_seq[f.row] - columns.first_seq[f.row] + 1
    if (
        deleted_msgs < MIN_DELETED_SEQUENCES
        or deleted_msgs < DELETED_SEQUENCES_SHARE * sequences_count
    ):
        return None
    return Symptom(f"{deleted_msgs:,} of {sequences_count:,} sequences are deleted", None,
                   (columns.first_seq[f.row],))  # fmt: skip


STREAM_CAUSES: tuple[Cause[StreamFacts], ...] = (
    Cause(kinds.STREAM_UNREACHABLE, find_unreachable_leader, (), ("contact", "origin", "storing",
                                                      "consumers")),
    Cause(kinds.STREAM_WITHOUT_QUORUM, find_lost_quorum, (), ("contact", "origin", "storing",
                                                       "consumers")),
    Cause(kinds.STREAM_WITHOUT_LEADER, find_missing_leader, (), ("contact", "origin", "storing",
                                                       "consumers")),
    Cause(kinds.STREAM_REPLICA_OFFLINE, find_offline_replicas, (), ("contact",)),
    Cause(kinds.REPLICA_LAGGING, find_lagging_replicas, (), ("contact",)),
    Cause(kinds.REPLICAS_DIFFER, find_differing_replicas, ("differing_msgs",)),
    Cause(kinds.MOVE_HANGS, find_hanging_move, ("moving_s",)),
    Cause(kinds.STREAM_MESSAGES_LOST, find_lost_messages),
    Cause(kinds.STORE_ROLLED_BACK, find_store_rollback),
    Cause(kinds.STREAM_RECREATED, find_recreation),
    Cause(kinds.STREAM_SEALED, find_seal, (), ("storing",)),
    Cause(kinds.STREAM_FULL, find_full_stream, ("stored_msgs",), ("storing", "limit")),
    Cause(kinds.SUBJECT_FULL, find_full_subjects, ("full_subjects_count",), ("limit",)),
    Cause(kinds.OBJECT_WITHOUT_META_ENTRY, find_objects_without_meta,
          ("objects_without_meta_count",
                                                                  "silent_s")),
    Cause(kinds.CONSUMER_LIMIT_REACHED, find_reached_consumer_limit, (), ("limit",)),
    Cause(kinds.STREAM_NEARLY_FULL, find_near_limit, ("stored_msgs", "full_in_s"), ("limit",)),
    Cause(kinds.STREAM_FULL_SOON, find_limit_forecast, ("stored_msgs", "full_in_s"), ("limit",)),
    Cause(kinds.PUBLISHER_STOPPED, find_stopped_publisher,
          ("silent_s", "steady_s", "longest_store_gap_s", "allowed_silence_s"), ("storing",)),
    Cause(kinds.STREAM_PURGED, find_purge),
    Cause(kinds.BATCH_ABANDONED, find_abandoned_batches),
    Cause(kinds.ORIGIN_MISSING, find_missing_origin, (), ("origin",)),
    Cause(kinds.SOURCE_ERROR, find_origin_error, (), ("origin",)),
    Cause(kinds.MIRROR_AHEAD_OF_ORIGIN, find_ahead_of_origin, (), ("origin",)),
    Cause(kinds.MIRROR_NOT_ACTIVE, find_silent_origin, (), ("origin",)),
    Cause(kinds.SOURCE_FILTER_MATCHES_NOTHING, find_unmatched_source_filter, (), ("origin",)),
    Cause(kinds.MIRROR_LAGGING, find_lag_behind_origin, (), ("origin",)),
    Cause(kinds.ORPHANED_MESSAGES, find_orphaned_messages,
          ("orphaned_msgs", "orphaned_polls", "dropped_by_consumers_msgs", "stored_msgs"),
          ("consumers",)),
    Cause(kinds.NO_CONSUMER_FOR_SUBJECT, find_unmatched_publishes,
          ("unwanted_per_s", "came_per_s", "published_alone_msgs"), ("consumers",)),
    Cause(kinds.CONSUMERS_PILING_UP, find_unused_new_consumers, ("unused_new_consumers_count",),
          ("clients",)),
    Cause(kinds.CONSUMERS_LEFT_BEHIND, find_left_consumers, ("left_consumers_count",),
          ("clients",)),
    Cause(kinds.MANY_SUBJECTS, find_many_subjects),
    Cause(kinds.SUBJECT_PER_MESSAGE, find_subject_per_message),
    Cause(kinds.MANY_HOLES, find_holes, ("removed_msgs",)),
    Cause(kinds.STREAM_LEADER_CHANGES_OFTEN, find_leader_changes),
    Cause(kinds.STREAM_PAST_CRITICAL_THRESHOLD, find_stream_threshold),
    Cause(kinds.STREAM_PAST_WARNING_THRESHOLD, find_stream_warning),
)  # fmt: skip
"""All causes of a stream in order of precedence.

Not `STREAM_DELETED`, which compares two polls.
"""
STREAM_ORDER = rank_causes(STREAM_CAUSES)


def stream_needs_attention(config: StreamConfiguration) -> bool:
    """Return whether a stream's configuration allows findings that its counters do not show."""
    return (
        config.discard == "new"
        or config.retention != "limits"
        or config.max_consumers_count is not None
        or config.sealed
        or config.kind == "object"
        or PREFIX in config.config_json
    )


def stream_causes(f: StreamFacts, open_kinds: frozenset[Kind]) -> list[tuple[Kind, Symptom]]:
    """Return the kind and evidence of each cause that holds for a stream now."""
    return diagnose(STREAM_CAUSES, f, 0, open_kinds)
