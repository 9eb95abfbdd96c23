"""The causes of findings about a stream, in order of precedence."""

from __future__ import annotations

from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.configuration import StreamConfiguration
from natstui.model.assets.monitor_keys import PREFIX
from natstui.model.assets.subjects import overlap
from natstui.model.bench.plan import BENCHMARK_STREAM
from natstui.model.findings.catalogue import streams as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.causes.cause import Cause, diagnose, order_of
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
    DROPPED_KEPT_S,
    DROPPED_SHARE,
    DROPPED_WINDOW_S,
    FULL_END_SHARE,
    FULL_SOON_HOLD_S,
    FULL_SOON_S,
    HOLES_SHARE,
    LOST_KEPT_S,
    MAX_SUBJECTS,
    MIN_HOLES,
    MIN_ORPHANED_POLLS,
    MIN_OWN_SUBJECTS,
    MIN_PILE_UP,
    MIN_TREND_S,
    MOVE_HANGS_S,
    NEAR_SHARE,
    ORIGIN_ACTIVE_S,
    OWN_SUBJECTS_SHARE,
    PEER_LAG_MSGS,
    PILE_UP_S,
    SETTLING_UPSTREAM_S,
    SILENCE_GAPS_FACTOR,
    SILENT_UPSTREAM_S,
    UPLOAD_PAUSE_S,
    UPSTREAM_LAG_MSGS,
)
from natstui.model.live.limits import Fill, bytes_are_full, is_near
from natstui.units import bytes_text, counted, duration_text

Facts = StreamFacts


# Contact.


def find_unreachable_leader(f: Facts, is_open: bool) -> Symptom | None:
    """The leader of the stream does not reply."""
    if (f.name, "") in f.state.offline:
        # The reason of the server is a finding of its own.
        return None
    is_unreachable = f.name in f.state.unreachable_streams
    return Symptom(kinds.STREAM_UNREACHABLE.sentence) if is_unreachable else None


def find_missing_leader(f: Facts, is_open: bool) -> Symptom | None:
    """No server leads the stream."""
    if f.columns.leader[f.row] is not None or (f.name, "") in f.state.offline:
        return None
    return Symptom(kinds.STREAM_WITHOUT_LEADER.sentence)


def find_lagging_replicas(f: Facts, is_open: bool) -> Symptom | None:
    """A replica that has contact is far behind."""
    peers = f.columns.peers[f.row]
    unreachable = unreachable_replicas(peers)
    behind = [peer for peer in peers if peer.lag_msgs > PEER_LAG_MSGS and peer not in unreachable]
    if not behind:
        return None
    lags = (f"{peer.name} is {counted(peer.lag_msgs, 'entry')} behind" for peer in behind)
    return Symptom(", ".join(lags))


def find_differing_replicas(f: Facts, is_open: bool) -> Symptom | None:
    """A replica has other messages than the leader, though its lag is 0."""
    if not f.differing_msgs:
        return None
    columns, row = f.columns, f.row
    leader = columns.first_seq[row], columns.last_seq[row], columns.stored_msgs[row]
    replica_texts = [
        f"{replica.name} has {counted(replica.stored_msgs, 'message')} from "
        f"{replica.first_seq} to {replica.last_seq}"
        for replica in columns.replicas[row]
        if (replica.first_seq, replica.last_seq, replica.stored_msgs) != leader
    ]
    first, last, stored = leader
    leader_text = f"the leader {columns.leader[row]} {stored:,} from {first} to {last}"
    return Symptom(f"{', '.join(replica_texts)}; {leader_text}") if replica_texts else None


def find_hanging_move(f: Facts, is_open: bool) -> Symptom | None:
    """A move or scale waits for a server, and copies no messages."""
    desired, moving_s = f.columns.desired[f.row], f.moving_s
    if desired is None or moving_s is None or moving_s < MOVE_HANGS_S:
        return None
    if desired.status in ("catchup", "snapshot"):
        return None
    text = f"to {', '.join(desired.servers)} since {duration_text(moving_s)}"
    reason = f": {desired.reason}" if desired.reason else ""
    return Symptom(text + reason, desired.created_at_us)


# Storing.


def find_lost_messages(f: Facts, is_open: bool) -> Symptom | None:
    """The store lost messages, by the server's count or since a restart of the server."""
    count = f.columns.lost_msgs[f.row]
    if count:
        return Symptom(f"{counted(count, 'message')} lost by damage of the store")
    missing = f.missing_messages
    if missing is None or f.at_us - missing.at_us > LOST_KEPT_S * 1e6:
        return None
    text = f"{counted(missing.missing_msgs, 'message')} missing since its server was restarted"
    return Symptom(text, missing.at_us, (), {"missing_msgs": missing.missing_msgs})


def find_store_rollback(f: Facts, is_open: bool) -> Symptom | None:
    """The last sequence of the stream decreased within the last minutes."""
    at_us = f.advisories.rolled_back_at_us if f.advisories else 0
    if not at_us or f.at_us - at_us > DROPPED_KEPT_S * 1e6:
        return None
    return Symptom(f.advisories.rolled_back_text if f.advisories else "", at_us)


def find_recreation(f: Facts, is_open: bool) -> Symptom | None:
    """The stream was deleted and recreated."""
    at_us = f.recreated_at_us
    if at_us is None or f.config is None or f.config.description == BENCHMARK_STREAM:
        return None
    return Symptom("a new stream has the name of the old one", at_us)


def find_full_stream(f: Facts, is_open: bool) -> Symptom | None:
    """The stream is full and rejects publishes."""
    config = f.config
    if config is None or config.discard != "new":
        return None
    stored, size = f.columns.stored_msgs[f.row], f.columns.stored_bytes[f.row]
    # A full work queue has room only for a moment after each ack.
    min_msgs = (config.max_msgs or 0) * (FULL_END_SHARE if is_open else 1)
    if config.max_msgs and stored >= min_msgs:
        text = f"{stored} of {counted(config.max_msgs, 'message')}: publishes are rejected"
        return Symptom(text, numbers={"max_msgs": config.max_msgs})
    if bytes_are_full(Fill(stored, size, None, config.max_bytes), losing=False):
        text = f"{bytes_text(size)} of {bytes_text(config.max_bytes)}: publishes are rejected"
        return Symptom(text, numbers={"max_bytes": config.max_bytes or 0})
    return None


def find_full_subjects(f: Facts, is_open: bool) -> Symptom | None:
    """Some subjects are full, and publishes to them are rejected."""
    config, counts = f.config, f.subject_counts
    if config is None or config.discard != "new" or counts is None or not f.full_subjects_count:
        return None
    max_msgs = config.max_msgs_per_subject or 0
    if not f.settings.get("discard_new_per_subject"):
        return None
    subjects = [subject for subject, msgs in counts.msgs_by_subject.items() if msgs >= max_msgs]
    limit_text = f"{max_msgs} of {counted(max_msgs, 'message')}"
    return Symptom(f"{', '.join(subjects[:5])}: {limit_text}, publishes are rejected")


def find_objects_without_meta(f: Facts, is_open: bool) -> Symptom | None:
    """An object store has chunks of uploads that were not completed."""
    count = f.objects_without_meta_count
    if f.config is None or f.config.kind != "object" or not count:
        return None
    if f.silent_s is None or f.silent_s < UPLOAD_PAUSE_S:
        return None
    return Symptom(f"chunks of at least {counted(count, 'object')} have no meta entry")


def find_reached_consumer_limit(f: Facts, is_open: bool) -> Symptom | None:
    """The stream is at its limit of consumers."""
    limit = f.config.max_consumers_count if f.config else None
    count = f.columns.consumers_count[f.row]
    if not limit or count < limit:
        return None
    text = f"{count} of {counted(limit, 'consumer')}: further ones are refused"
    return Symptom(text, numbers={"max_consumers": limit})


def find_seal(f: Facts, is_open: bool) -> Symptom | None:
    """The stream is sealed."""
    return (
        Symptom(kinds.STREAM_SEALED.sentence) if f.config is not None and f.config.sealed else None
    )


def find_near_limit(f: Facts, is_open: bool) -> Symptom | None:
    """The stream is near a limit that rejects publishes or consumers."""
    config = f.config
    if config is None:
        return None
    consumers, max_count = f.columns.consumers_count[f.row], config.max_consumers_count
    if max_count and is_near(consumers, max_count):
        text = f"{consumers} of {max_count} consumers"
        return Symptom(text, numbers={"max_consumers": max_count})
    if _used_share(f) < NEAR_SHARE:
        return None
    full_s, (level_text, limit) = _full_in_s(f), _describe_most_used_limit(f)
    forecast_text = f", full in {duration_text(full_s)}" if full_s is not None else ""
    return Symptom(level_text + forecast_text, numbers=limit)


def find_limit_forecast(f: Facts, is_open: bool) -> Symptom | None:
    """By its growth, the stream soon reaches a limit that rejects publishes."""
    if not 0 < _used_share(f) < NEAR_SHARE:
        return None
    full_s = _full_in_s(f)
    if full_s is None or full_s >= FULL_SOON_S:
        return None
    # The first messages of a stream, or a burst, are no trend.
    hold_s, (level_text, limit) = min(FULL_SOON_HOLD_S, full_s / 10), _describe_most_used_limit(f)
    return Symptom(f"{level_text}, full in {duration_text(full_s)}", numbers=limit, hold_s=hold_s)


def _used_share(f: Facts) -> float:
    """Return the higher used share of the limits of messages and bytes; 0 with discard old."""
    config = f.config
    if config is None or config.discard != "new":
        return 0.0
    return max(_used_shares(f, config))


def _used_shares(f: Facts, config: StreamConfiguration) -> tuple[float, float]:
    """Return the used shares of the limits of messages and bytes; 0 without a limit."""
    msgs, size = f.columns.stored_msgs[f.row], f.columns.stored_bytes[f.row]
    return (
        msgs / config.max_msgs if config.max_msgs else 0.0,
        size / config.max_bytes if config.max_bytes else 0.0,
    )


def _describe_most_used_limit(f: Facts) -> tuple[str, dict[str, float]]:
    """Return a text about the most used limit, and the limit by its name."""
    config = f.config
    assert config is not None
    msgs_used_ratio, bytes_used_ratio = _used_shares(f, config)
    if msgs_used_ratio >= bytes_used_ratio:
        text = f"{f.columns.stored_msgs[f.row]} of {counted(config.max_msgs or 0, 'message')}"
        return text, {"max_msgs": config.max_msgs or 0}
    size, max_bytes = f.columns.stored_bytes[f.row], config.max_bytes or 0
    return f"{bytes_text(size)} of {bytes_text(max_bytes)}", {"max_bytes": max_bytes}


def _full_in_s(f: Facts) -> float | None:
    """Return the seconds until the first limit is reached; None if the trend is too short."""
    values = f.history.values("stored_msgs", MIN_TREND_S)
    if values[0][0] - values[-1][0] < MIN_TREND_S * 1e6:
        return None
    full_in_s: float | None = f.full_in_s
    return full_in_s


def find_stopped_publisher(f: Facts, is_open: bool) -> Symptom | None:
    """A publisher that published steadily has stopped."""
    allowed_s, silent_s, steady_s = f.allowed_silence_s, f.silent_s, f.steady_s
    if allowed_s is None or silent_s is None or steady_s is None or silent_s <= allowed_s:
        return None
    if f.config is None or f.config.description == BENCHMARK_STREAM or f.config.mirror:
        return None
    # A publisher of two minutes is not missed for a day.
    if silent_s > SILENCE_GAPS_FACTOR * steady_s:
        return None
    text = f"nothing stored for {duration_text(silent_s)}, steady before that for"
    return Symptom(f"{text} {duration_text(steady_s)}", f.columns.last_at_us[f.row])


def find_purge(f: Facts, is_open: bool) -> Symptom | None:
    """A user purged the stream: no limit explains that its first messages were removed."""
    loss = f.purge
    if loss is None or f.missing_messages is not None or f.at_us - loss.at_us > LOST_KEPT_S * 1e6:
        return None
    # Clients of buckets purge the values that they replace.
    if f.name.startswith((KV, OBJECTS)):
        return None
    text = f"{counted(loss.purged_msgs, 'message')} purged or deleted by a user"
    return Symptom(text, loss.at_us, (), {"purged_msgs": loss.purged_msgs})


def find_abandoned_batches(f: Facts, is_open: bool) -> Symptom | None:
    """Atomic batches were begun and not committed."""
    batches = f.advisories.abandoned_batches if f.advisories else None
    if batches is None or not batches.total_count:
        return None
    if f.at_us - batches.last_at_us > LOST_KEPT_S * 1e6:
        return None
    reason = f": {batches.last_reason}" if batches.last_reason else ""
    return Symptom(f"{batches.total_count} of its batches abandoned{reason}", None, (),
                   {"batches_count": batches.total_count})  # fmt: skip


# Origins.


def _origins(f: Facts) -> list[tuple[str, dict[str, object]]]:
    """Return the name and settings of the mirror and each source in the configuration."""
    mirror, sources = f.settings.get("mirror"), f.settings.get("sources")
    origins = [mirror] if isinstance(mirror, dict) else []
    origins += (
        [source for source in sources if isinstance(source, dict)]
        if isinstance(sources, list)
        else []
    )
    return [(str(origin.get("name")), origin) for origin in origins]


def find_missing_origin(f: Facts, is_open: bool) -> Symptom | None:
    """The origin of the stream does not exist in the account."""
    existing_streams = f.state.streams.roster.rows_of_stream
    inactive = {
        upstream.name for upstream in f.columns.upstreams[f.row]
        if upstream.active_ns is None or upstream.active_ns > ORIGIN_ACTIVE_S * 1e9
    }  # fmt: skip
    missing = [
        name
        for name, settings in _origins(f)
        if name in inactive
        and name not in existing_streams
        and name not in f.state.unreachable_streams
        and not settings.get("external")
    ]
    account = f.state.account
    if not missing or account is None or account.streams_count > len(f.state.streams):
        return None
    return Symptom(f"there is no stream {', '.join(missing)}", hold_s=5.0)


def find_origin_error(f: Facts, is_open: bool) -> Symptom | None:
    """The origin of the stream replies with an error."""
    for upstream in f.columns.upstreams[f.row]:
        if upstream.error:
            return Symptom(f"{upstream.name}: {upstream.error}")
    return None


def find_silent_origin(f: Facts, is_open: bool) -> Symptom | None:
    """The stream has lost contact with an origin; usual is contact within a second."""
    silent = [
        upstream
        for upstream in f.columns.upstreams[f.row]
        if upstream.active_ns is None or upstream.active_ns > SILENT_UPSTREAM_S * 1e9
    ]
    if not silent:
        return None
    worst = max(silent, key=lambda upstream: upstream.active_ns or 0)
    if f.state.servers.is_settling(f.at_us) and (worst.active_ns or 0) < SETTLING_UPSTREAM_S * 1e9:
        return None
    if worst.active_ns is None:
        return Symptom(f"never had contact with {worst.name}", hold_s=SILENT_UPSTREAM_S)
    text = f"no contact with {worst.name} for {duration_text(worst.active_ns / 1e9)}"
    return Symptom(f"{text}, its lag says {worst.lag_msgs}", f.at_us - worst.active_ns // 1000)


def find_ahead_of_origin(f: Facts, is_open: bool) -> Symptom | None:
    """The stream mirrors a recreated origin, and has later sequences than the origin."""
    config, table = f.config, f.state.streams
    if config is None or not config.mirror:
        return None
    rows = table.roster.rows_of_stream.get(config.mirror, ())
    if not rows or any(settings.get("external") for _, settings in _origins(f)):
        return None
    origin_seq = table.columns.last_seq[rows[-1]]
    # Rows of a poll are read one after the other: the mirror's must be the older one.
    last_seq = f.history.value_before("last_seq", table.columns.sampled_mono_us[rows[-1]])
    if last_seq is None or last_seq <= origin_seq:
        return None
    text = f"the last sequence is {last_seq}, in {config.mirror} only {origin_seq}"
    return Symptom(text, None, (), {"ahead_msgs": last_seq - origin_seq}, hold_s=2.0)


def find_unmatched_source_filter(f: Facts, is_open: bool) -> Symptom | None:
    """The filter of the only source matches no message of the origin."""
    origins = _origins(f)
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
    stored = table.columns.stored_msgs[rows[-1]]
    return Symptom(
        f"{', '.join(filter_subjects)} matches none of {counted(stored, 'message')} of {name}"
    )


def find_lag_behind_origin(f: Facts, is_open: bool) -> Symptom | None:
    """The stream is far behind its mirror origin or a source."""
    min_lag_msgs = UPSTREAM_LAG_MSGS // 2 if is_open else UPSTREAM_LAG_MSGS
    behind = [
        upstream for upstream in f.columns.upstreams[f.row] if upstream.lag_msgs > min_lag_msgs
    ]
    if not behind:
        return None
    worst = max(behind, key=lambda upstream: upstream.lag_msgs)
    return Symptom(f"{counted(worst.lag_msgs, 'message')} behind {worst.name}")


# Consumers: messages without a consumer, and consumers without a client.


def find_orphaned_messages(f: Facts, is_open: bool) -> Symptom | None:
    """A work queue has messages that no consumer filter matches."""
    config, stored = f.config, f.columns.stored_msgs[f.row]
    if config is None or config.retention != "workqueue" or not stored:
        return None
    if not f.columns.consumers_count[f.row]:
        return Symptom(f"{counted(stored, 'message')}, and no consumer", hold_s=1.0)
    count, filters, counts = f.orphaned_msgs, f.filters, f.subject_counts
    if not count or f.orphaned_polls < MIN_ORPHANED_POLLS or filters is None or f.is_covered:
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
        is_newer = counts.at_us >= (f.orphaned_since_us or 0)
        is_complete = counts.subjects_count == len(counts.msgs_by_subject)
        if not orphaned_subjects and (unmatched_subjects or (is_newer and is_complete)):
            return None
        if orphaned_subjects:
            text = f"{counted(count, 'message')} that no consumer filter matches, on"
            return Symptom(f"{text} {', '.join(orphaned_subjects[:5])}", f.orphaned_since_us)
    subjects_without_filter = [
        s
        for s in config.subjects
        if not any(overlap(s, filter_subject) for filter_subject in filters)
    ]
    reason = f"the consumer filters are {', '.join(filters[:5])}"
    if subjects_without_filter:
        reason = f"no consumer filter matches {', '.join(subjects_without_filter[:5])}"
    text = f"{counted(count, 'message')} that no consumer filter matches; {reason}"
    return Symptom(text, f.orphaned_since_us)


def find_unmatched_publishes(f: Facts, is_open: bool) -> Symptom | None:
    """Published messages are dropped at once, because no consumer filter matches them."""
    config = f.config
    if config is None or config.retention != "interest" or config.mirror or config.sealed:
        return None
    if not f.columns.consumers_count[f.row]:
        # Earlier messages may have had a consumer that was deleted since.
        if not f.published_alone_msgs:
            return None
        text = f"no consumer: {counted(f.published_alone_msgs, 'message')} published and not kept"
        return Symptom(text, f.consumerless_since_us, hold_s=0.0)
    if f.is_covered or f.came_per_s is None or f.unwanted_per_s is None:
        return None
    share = DROPPED_SHARE / 2 if is_open else DROPPED_SHARE
    if f.unwanted_per_s * DROPPED_WINDOW_S < MIN_ORPHANED_POLLS or (
        f.unwanted_per_s < share * f.came_per_s
    ):
        return None
    text = f"at least {f.unwanted_per_s:.1f} of {f.came_per_s:.1f} messages a second are dropped"
    filters = ", ".join((f.filters or [])[:5])
    return Symptom(f"{text}; the consumer filters are {filters}")


def find_unused_new_consumers(f: Facts, is_open: bool) -> Symptom | None:
    """Consumers are created repeatedly, and no client uses them."""
    if f.columns.consumers_count[f.row] < MIN_PILE_UP:
        return None
    count = f.unused_new_consumers_count
    if count < (MIN_PILE_UP // 2 if is_open else MIN_PILE_UP):
        return None
    consumers_count = f.columns.consumers_count[f.row]
    text = f"{count} of {consumers_count} consumers were created in {PILE_UP_S / 60:.0f} min"
    text += " and are not used"
    return Symptom(text, None)


def find_left_consumers(f: Facts, is_open: bool) -> Symptom | None:
    """Clients left ephemeral consumers behind, which the server deletes later."""
    count = f.left_consumers_count
    if not count:
        return None
    consumers_count = f.columns.consumers_count[f.row]
    return Symptom(f"no client uses {count} of {counted(consumers_count, 'consumer')}")


# Size.


def find_many_subjects(f: Facts, is_open: bool) -> Symptom | None:
    """The stream has more subjects than the threshold."""
    count = f.columns.subjects_count[f.row]
    return Symptom(f"{count:,} subjects") if count > MAX_SUBJECTS else None


def find_subject_per_message(f: Facts, is_open: bool) -> Symptom | None:
    """Nearly every message has its own subject, without a limit per subject."""
    columns, row, config = f.columns, f.row, f.config
    subjects, stored = columns.subjects_count[row], columns.stored_msgs[row]
    if config is None or config.max_msgs_per_subject or subjects > MAX_SUBJECTS:
        return None
    share = OWN_SUBJECTS_SHARE - (0.1 if is_open else 0.0)
    if subjects < MIN_OWN_SUBJECTS or subjects < share * stored:
        return None
    return Symptom(f"{subjects:,} subjects for {stored:,} messages")


def find_holes(f: Facts, is_open: bool) -> Symptom | None:
    """Most sequences between the first and last message are deleted."""
    deleted, columns = f.removed_msgs, f.columns
    span = columns.last_seq[f.row] - columns.first_seq[f.row] + 1
    if deleted < MIN_HOLES or deleted < HOLES_SHARE * span:
        return None
    return Symptom(f"{deleted:,} of {span:,} sequences are deleted", None,
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
STREAM_ORDER = order_of(STREAM_CAUSES)


def needs_attention(config: StreamConfiguration) -> bool:
    """Return whether a stream's configuration allows findings with inconspicuous counters."""
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
