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
from natstui.model.findings.causes.consumers import leader_changes, no_quorum, replica_away
from natstui.model.findings.causes.metadata import stream_threshold, stream_warning
from natstui.model.findings.facts.row import unreachable_replicas
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import Symptom
from natstui.model.findings.thresholds import (
    DROPPED_SHARE,
    DROPPED_WINDOW_S,
    FULL_LEAVE_SHARE,
    FULL_SOON_HELD_S,
    FULL_SOON_S,
    GIVEN_UP_KEPT_S,
    HOLES_FEWEST,
    HOLES_SHARE,
    LOST_KEPT_S,
    MOVE_HANGS_S,
    NEAR_SHARE,
    ORIGIN_ACTIVE_S,
    ORPHANED_POLLS,
    PEER_LAG_MSGS,
    PILE_UP_FEWEST,
    PILE_UP_S,
    SETTLING_UPSTREAM_S,
    SILENT_UPSTREAM_S,
    STOPPED_GAPS,
    SUBJECTS_MOST,
    SUBJECTS_OWN_FEWEST,
    SUBJECTS_OWN_SHARE,
    TREND_LEAST_S,
    UPLOAD_S,
    UPSTREAM_LAG_MSGS,
)
from natstui.model.live.limits import Fill, bytes_are_full, is_near
from natstui.units import bytes_text, counted, duration_text

Facts = StreamFacts


# Contact.


def unreachable(f: Facts, is_open: bool) -> Symptom | None:
    """Its leader does not reply."""
    if (f.name, "") in f.state.offline:
        # Its server says why; that is a finding of its own.
        return None
    absent = f.name in f.state.unreachable_streams
    return Symptom(kinds.S_UNREACHABLE.sentence) if absent else None


def no_leader(f: Facts, is_open: bool) -> Symptom | None:
    """No server leads it."""
    if f.columns.leader[f.row] is not None or (f.name, "") in f.state.offline:
        return None
    return Symptom(kinds.S_NO_LEADER.sentence)


def replica_lags(f: Facts, is_open: bool) -> Symptom | None:
    """A replica that has contact is far behind."""
    peers = f.columns.peers[f.row]
    absent = unreachable_replicas(peers)
    behind = [peer for peer in peers if peer.lag_msgs > PEER_LAG_MSGS and peer not in absent]
    if not behind:
        return None
    lags = (f"{peer.name} is {counted(peer.lag_msgs, 'entry')} behind" for peer in behind)
    return Symptom(", ".join(lags))


def replicas_differ(f: Facts, is_open: bool) -> Symptom | None:
    """A replica has other messages than the leader, though its lag is 0."""
    if not f.differing_msgs:
        return None
    columns, row = f.columns, f.row
    leader = columns.first_seq[row], columns.last_seq[row], columns.stored_msgs[row]
    others = [
        f"{replica.name} has {counted(replica.stored_msgs, 'message')} from "
        f"{replica.first_seq} to {replica.last_seq}"
        for replica in columns.replicas[row]
        if (replica.first_seq, replica.last_seq, replica.stored_msgs) != leader
    ]
    first, last, stored = leader
    own = f"the leader {columns.leader[row]} {stored:,} from {first} to {last}"
    return Symptom(f"{', '.join(others)}; {own}") if others else None


def move_hangs(f: Facts, is_open: bool) -> Symptom | None:
    """A move or scale waits for a server; one that copies messages goes on."""
    desired, moving_s = f.columns.desired[f.row], f.moving_s
    if desired is None or moving_s is None or moving_s < MOVE_HANGS_S:
        return None
    if desired.status in ("catchup", "snapshot"):
        return None
    text = f"to {', '.join(desired.servers)} since {duration_text(moving_s)}"
    why = f": {desired.reason}" if desired.reason else ""
    return Symptom(text + why, desired.created_at_us)


# Storing.


def messages_lost(f: Facts, is_open: bool) -> Symptom | None:
    """The store lost messages: the server counts them, or they are missing after its restart."""
    count = f.columns.lost_msgs[f.row]
    if count:
        return Symptom(f"{counted(count, 'message')} lost by damage of the store")
    missing = f.missing
    if missing is None or f.at_us - missing.at_us > LOST_KEPT_S * 1e6:
        return None
    text = f"{counted(missing.missing_msgs, 'message')} missing since its server was restarted"
    return Symptom(text, missing.at_us, (), {"missing_msgs": missing.missing_msgs})


def rolled_back(f: Facts, is_open: bool) -> Symptom | None:
    """Its last sequence went back not long ago."""
    at_us = f.trouble.rolled_back_at_us if f.trouble else 0
    if not at_us or f.at_us - at_us > GIVEN_UP_KEPT_S * 1e6:
        return None
    return Symptom(f.trouble.rolled_back_text if f.trouble else "", at_us)


def recreated(f: Facts, is_open: bool) -> Symptom | None:
    """It was deleted and recreated."""
    at_us = f.recreated_at_us
    if at_us is None or f.config is None or f.config.description == BENCHMARK_STREAM:
        return None
    return Symptom("a new stream has the name of the old one", at_us)


def full(f: Facts, is_open: bool) -> Symptom | None:
    """A publisher gets an error instead of an ack."""
    config = f.config
    if config is None or config.discard != "new":
        return None
    stored, size = f.columns.stored_msgs[f.row], f.columns.stored_bytes[f.row]
    # A full queue whose clients work has room for a moment, and is full again.
    least = (config.max_msgs or 0) * (FULL_LEAVE_SHARE if is_open else 1)
    if config.max_msgs and stored >= least:
        text = f"{stored} of {counted(config.max_msgs, 'message')}: publishes are rejected"
        return Symptom(text, numbers={"max_msgs": config.max_msgs})
    if bytes_are_full(Fill(stored, size, None, config.max_bytes), losing=False):
        text = f"{bytes_text(size)} of {bytes_text(config.max_bytes)}: publishes are rejected"
        return Symptom(text, numbers={"max_bytes": config.max_bytes or 0})
    return None


def full_per_subject(f: Facts, is_open: bool) -> Symptom | None:
    """A publisher to some subjects gets an error instead of an ack."""
    config, counts = f.config, f.counted
    if config is None or config.discard != "new" or counts is None or not f.full_subjects_count:
        return None
    most = config.max_msgs_per_subject or 0
    if not f.settings.get("discard_new_per_subject"):
        return None
    subjects = [subject for subject, msgs in counts.msgs_by_subject.items() if msgs >= most]
    most_text = f"{most} of {counted(most, 'message')}"
    return Symptom(f"{', '.join(subjects[:5])}: {most_text}, publishes are rejected")


def objects_without_meta(f: Facts, is_open: bool) -> Symptom | None:
    """An object store has chunks of uploads that were not completed."""
    count = f.objects_without_meta_count
    if f.config is None or f.config.kind != "object" or not count:
        return None
    if f.silent_s is None or f.silent_s < UPLOAD_S:
        return None
    return Symptom(f"chunks of at least {counted(count, 'object')} have no meta entry")


def consumer_limit(f: Facts, is_open: bool) -> Symptom | None:
    """It has as many consumers as it may have."""
    limit = f.config.max_consumers_count if f.config else None
    count = f.columns.consumers_count[f.row]
    if not limit or count < limit:
        return None
    text = f"{count} of {counted(limit, 'consumer')}: further ones are refused"
    return Symptom(text, numbers={"max_consumers": limit})


def sealed(f: Facts, is_open: bool) -> Symptom | None:
    """It was sealed."""
    return Symptom(kinds.S_SEALED.sentence) if f.config is not None and f.config.sealed else None


def nearly_full(f: Facts, is_open: bool) -> Symptom | None:
    """It is near a limit at which something is refused."""
    config = f.config
    if config is None:
        return None
    consumers, most_count = f.columns.consumers_count[f.row], config.max_consumers_count
    if most_count and is_near(consumers, most_count):
        text = f"{consumers} of {most_count} consumers"
        return Symptom(text, numbers={"max_consumers": most_count})
    if _used_share(f) < NEAR_SHARE:
        return None
    full_s, (level, limit) = _full_in_s(f), _level(f)
    soon = f", full in {duration_text(full_s)}" if full_s is not None else ""
    return Symptom(level + soon, numbers=limit)


def full_soon(f: Facts, is_open: bool) -> Symptom | None:
    """At its growth it soon reaches a limit at which publishes are refused."""
    if not 0 < _used_share(f) < NEAR_SHARE:
        return None
    full_s = _full_in_s(f)
    if full_s is None or full_s >= FULL_SOON_S:
        return None
    # The first messages of a stream, or a burst, are no trend.
    hold_s, (level, limit) = min(FULL_SOON_HELD_S, full_s / 10), _level(f)
    return Symptom(f"{level}, full in {duration_text(full_s)}", numbers=limit, hold_s=hold_s)


def _used_share(f: Facts) -> float:
    """Return the highest used share of its limits; 0 if none of them refuses messages."""
    config = f.config
    if config is None or config.discard != "new":
        return 0.0
    return max(_shares(f, config))


def _shares(f: Facts, config: StreamConfiguration) -> tuple[float, float]:
    """Return the used shares of its limits of messages and bytes."""
    msgs, size = f.columns.stored_msgs[f.row], f.columns.stored_bytes[f.row]
    return (
        msgs / config.max_msgs if config.max_msgs else 0.0,
        size / config.max_bytes if config.max_bytes else 0.0,
    )


def _level(f: Facts) -> tuple[str, dict[str, float]]:
    """Return the text about the most used limit, and the name of that limit."""
    config = f.config
    assert config is not None
    of_msgs, of_bytes = _shares(f, config)
    if of_msgs >= of_bytes:
        text = f"{f.columns.stored_msgs[f.row]} of {counted(config.max_msgs or 0, 'message')}"
        return text, {"max_msgs": config.max_msgs or 0}
    size, most_bytes = f.columns.stored_bytes[f.row], config.max_bytes or 0
    return f"{bytes_text(size)} of {bytes_text(most_bytes)}", {"max_bytes": most_bytes}


def _full_in_s(f: Facts) -> float | None:
    """Return the time until the first limit is reached; None if the trend is too short."""
    values = f.past.values("stored_msgs", TREND_LEAST_S)
    if values[0][0] - values[-1][0] < TREND_LEAST_S * 1e6:
        return None
    full_in_s: float | None = f.full_in_s
    return full_in_s


def publisher_stopped(f: Facts, is_open: bool) -> Symptom | None:
    """A publisher that published steadily has stopped."""
    allowed_s, silent_s, steady_s = f.allowed_silence_s, f.silent_s, f.steady_s
    if allowed_s is None or silent_s is None or steady_s is None or silent_s <= allowed_s:
        return None
    if f.config is None or f.config.description == BENCHMARK_STREAM or f.config.mirror:
        return None
    # What ran for two minutes is not missed for a day.
    if silent_s > STOPPED_GAPS * steady_s:
        return None
    text = f"nothing stored for {duration_text(silent_s)}, steady before that for"
    return Symptom(f"{text} {duration_text(steady_s)}", f.columns.last_at_us[f.row])


def purged(f: Facts, is_open: bool) -> Symptom | None:
    """Somebody purged it: no limit explains that its first messages were removed."""
    loss = f.purged
    if loss is None or f.missing is not None or f.at_us - loss.at_us > LOST_KEPT_S * 1e6:
        return None
    # Clients of buckets purge what they replace.
    if f.name.startswith((KV, OBJECTS)):
        return None
    text = f"{counted(loss.purged_msgs, 'message')} purged or deleted by a user"
    return Symptom(text, loss.at_us, (), {"purged_msgs": loss.purged_msgs})


def batch_abandoned(f: Facts, is_open: bool) -> Symptom | None:
    """Atomic batches were begun and not committed."""
    batches = f.trouble.abandoned_batches if f.trouble else None
    if batches is None or not batches.total_count:
        return None
    if f.at_us - batches.last_at_us > LOST_KEPT_S * 1e6:
        return None
    reason = f": {batches.last_reason}" if batches.last_reason else ""
    return Symptom(f"{batches.total_count} of its batches abandoned{reason}", None, (),
                   {"batches_count": batches.total_count})  # fmt: skip


# Origins.


def _origins(f: Facts) -> list[tuple[str, dict[str, object]]]:
    """Return the origins in its configuration: name → settings."""
    mirror, sources = f.settings.get("mirror"), f.settings.get("sources")
    origins = [mirror] if isinstance(mirror, dict) else []
    origins += (
        [source for source in sources if isinstance(source, dict)]
        if isinstance(sources, list)
        else []
    )
    return [(str(origin.get("name")), origin) for origin in origins]


def origin_missing(f: Facts, is_open: bool) -> Symptom | None:
    """Its origin is not in the account."""
    there = f.state.streams.roster.rows_of_stream
    inactive = {
        upstream.name for upstream in f.columns.upstreams[f.row]
        if upstream.active_ns is None or upstream.active_ns > ORIGIN_ACTIVE_S * 1e9
    }  # fmt: skip
    missing = [
        name
        for name, settings in _origins(f)
        if name in inactive
        and name not in there
        and name not in f.state.unreachable_streams
        and not settings.get("external")
    ]
    account = f.state.account
    if not missing or account is None or account.streams_count > len(f.state.streams):
        return None
    return Symptom(f"there is no stream {', '.join(missing)}", hold_s=5.0)


def origin_error(f: Facts, is_open: bool) -> Symptom | None:
    """Its origin replies with an error."""
    for upstream in f.columns.upstreams[f.row]:
        if upstream.error:
            return Symptom(f"{upstream.name}: {upstream.error}")
    return None


def origin_silent(f: Facts, is_open: bool) -> Symptom | None:
    """There was no contact with an origin; an available one has contact within a second."""
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


def ahead_of_origin(f: Facts, is_open: bool) -> Symptom | None:
    """Its origin was recreated: it has later sequences than the origin."""
    config, table = f.config, f.state.streams
    if config is None or not config.mirror:
        return None
    rows = table.roster.rows_of_stream.get(config.mirror, ())
    if not rows or any(settings.get("external") for _, settings in _origins(f)):
        return None
    last_seq, origin_seq = f.columns.last_seq[f.row], table.columns.last_seq[rows[-1]]
    if last_seq <= origin_seq:
        return None
    created_us = table.columns.created_at_us[rows[-1]]
    newer = created_us > f.columns.created_at_us[f.row]
    if not newer and table.columns.sampled_mono_us[rows[-1]] < f.mono_us - 1_000_000:
        return None
    text = f"the last sequence is {last_seq}, in {config.mirror} only {origin_seq}"
    return Symptom(text, None, (), {"ahead_msgs": last_seq - origin_seq}, hold_s=2.0)


def source_unmatched(f: Facts, is_open: bool) -> Symptom | None:
    """The filter of its only source matches nothing that the origin stores."""
    origins = _origins(f)
    if len(origins) != 1 or f.columns.last_seq[f.row]:
        return None
    name, settings = origins[0]
    filters = [settings.get("filter_subject")] + [
        each.get("src") for each in settings.get("subject_transforms") or ()  # type: ignore[attr-defined]
        if isinstance(each, dict)
    ]  # fmt: skip
    wanted = [str(each) for each in filters if each]
    table = f.state.streams
    rows = table.roster.rows_of_stream.get(name, ())
    if not wanted or not rows or not table.columns.stored_msgs[rows[-1]]:
        return None
    upstreams = f.columns.upstreams[f.row]
    if not upstreams or upstreams[0].active_ns is None or upstreams[0].lag_msgs:
        return None
    if (f.at_us - f.columns.created_at_us[f.row]) / 1e6 < 10:
        return None
    stored = table.columns.stored_msgs[rows[-1]]
    return Symptom(f"{', '.join(wanted)} matches none of {counted(stored, 'message')} of {name}")


def origin_lags(f: Facts, is_open: bool) -> Symptom | None:
    """It is far behind an origin or a source."""
    least = UPSTREAM_LAG_MSGS // 2 if is_open else UPSTREAM_LAG_MSGS
    behind = [upstream for upstream in f.columns.upstreams[f.row] if upstream.lag_msgs > least]
    if not behind:
        return None
    worst = max(behind, key=lambda upstream: upstream.lag_msgs)
    return Symptom(f"{counted(worst.lag_msgs, 'message')} behind {worst.name}")


# Consumers: who receives what it has.


def orphaned(f: Facts, is_open: bool) -> Symptom | None:
    """A work queue has messages that no consumer filter matches."""
    config, stored = f.config, f.columns.stored_msgs[f.row]
    if config is None or config.retention != "workqueue" or not stored:
        return None
    if not f.columns.consumers_count[f.row]:
        return Symptom(f"{counted(stored, 'message')}, and no consumer", hold_s=1.0)
    count, filters, counts = f.orphaned_msgs, f.filters, f.counted
    if not count or f.orphaned_polls < ORPHANED_POLLS or filters is None or f.is_covered:
        return None
    # Scheduled messages wait for their time on subjects of their own.
    if f.settings.get("allow_msg_schedules") and counts is None:
        return None
    if counts is not None:
        unmatched = [
            subject
            for subject in counts.msgs_by_subject
            if not any(overlap(each, subject) for each in filters)
        ]
        orphans = [subject for subject in unmatched if subject not in counts.scheduled_subjects]
        is_newer = counts.at_us >= (f.orphaned_since_us or 0)
        is_complete = counts.subjects_count == len(counts.msgs_by_subject)
        if not orphans and (unmatched or (is_newer and is_complete)):
            return None
        if orphans:
            text = f"{counted(count, 'message')} that no consumer filter matches, on"
            return Symptom(f"{text} {', '.join(orphans[:5])}", f.orphaned_since_us)
    alone = [s for s in config.subjects if not any(overlap(s, each) for each in filters)]
    why = f"the consumer filters are {', '.join(filters[:5])}"
    if alone:
        why = f"no consumer filter matches {', '.join(alone[:5])}"
    text = f"{counted(count, 'message')} that no consumer filter matches; {why}"
    return Symptom(text, f.orphaned_since_us)


def dropped_at_once(f: Facts, is_open: bool) -> Symptom | None:
    """What is published is dropped at once, because no consumer wants it."""
    config = f.config
    if config is None or config.retention != "interest" or config.mirror or config.sealed:
        return None
    if not f.columns.consumers_count[f.row]:
        # Of what was published before nobody knows whether a consumer that is gone had it.
        if not f.published_alone_msgs:
            return None
        text = f"no consumer: {counted(f.published_alone_msgs, 'message')} published and not kept"
        return Symptom(text, f.alone_since_us, hold_s=0.0)
    if f.is_covered or f.came_per_s is None or f.unwanted_per_s is None:
        return None
    share = DROPPED_SHARE / 2 if is_open else DROPPED_SHARE
    if f.unwanted_per_s * DROPPED_WINDOW_S < ORPHANED_POLLS or (
        f.unwanted_per_s < share * f.came_per_s
    ):
        return None
    text = f"at least {f.unwanted_per_s:.1f} of {f.came_per_s:.1f} messages a second are dropped"
    filters = ", ".join((f.filters or [])[:5])
    return Symptom(f"{text}; the consumer filters are {filters}")


def piling_up(f: Facts, is_open: bool) -> Symptom | None:
    """Again and again consumers are created that nobody uses."""
    if f.columns.consumers_count[f.row] < PILE_UP_FEWEST:
        return None
    count = f.unused_new_consumers_count
    if count < (PILE_UP_FEWEST // 2 if is_open else PILE_UP_FEWEST):
        return None
    every = f.columns.consumers_count[f.row]
    minutes = PILE_UP_S / 60
    text = f"{count} of {every} consumers were created in {minutes:.0f} min and are not used"
    return Symptom(text, None)


def left_behind(f: Facts, is_open: bool) -> Symptom | None:
    """Clients left consumers behind, and the server removes them after a while."""
    count = f.left_consumers_count
    if not count:
        return None
    every = f.columns.consumers_count[f.row]
    return Symptom(f"no client uses {count} of {counted(every, 'consumer')}")


# Size.


def many_subjects(f: Facts, is_open: bool) -> Symptom | None:
    """It has very many subjects."""
    count = f.columns.subjects_count[f.row]
    return Symptom(f"{count:,} subjects") if count > SUBJECTS_MOST else None


def own_subjects(f: Facts, is_open: bool) -> Symptom | None:
    """Nearly every message has its own subject, and nothing limits how many there will be."""
    columns, row, config = f.columns, f.row, f.config
    subjects, stored = columns.subjects_count[row], columns.stored_msgs[row]
    if config is None or config.max_msgs_per_subject or subjects > SUBJECTS_MOST:
        return None
    share = SUBJECTS_OWN_SHARE - (0.1 if is_open else 0.0)
    if subjects < SUBJECTS_OWN_FEWEST or subjects < share * stored:
        return None
    return Symptom(f"{subjects:,} subjects for {stored:,} messages")


def holes(f: Facts, is_open: bool) -> Symptom | None:
    """Most of its sequences are deleted."""
    deleted, columns = f.removed_msgs, f.columns
    span = columns.last_seq[f.row] - columns.first_seq[f.row] + 1
    if deleted < HOLES_FEWEST or deleted < HOLES_SHARE * span:
        return None
    return Symptom(f"{deleted:,} of {span:,} sequences are deleted", None,
                   (columns.first_seq[f.row],))  # fmt: skip


STREAM_CAUSES: tuple[Cause[StreamFacts], ...] = (
    Cause(kinds.S_UNREACHABLE, unreachable, (), ("contact", "origin", "storing", "consumers")),
    Cause(kinds.S_NO_QUORUM, no_quorum, (), ("contact", "origin", "storing", "consumers")),
    Cause(kinds.S_NO_LEADER, no_leader, (), ("contact", "origin", "storing", "consumers")),
    Cause(kinds.S_PEER_AWAY, replica_away, (), ("contact",)),
    Cause(kinds.S_PEER_LAGS, replica_lags, (), ("contact",)),
    Cause(kinds.S_DIFFER, replicas_differ, ("differing_msgs",)),
    Cause(kinds.S_MOVE_HANGS, move_hangs, ("moving_s",)),
    Cause(kinds.S_LOST, messages_lost),
    Cause(kinds.S_ROLLED_BACK, rolled_back),
    Cause(kinds.S_RECREATED, recreated),
    Cause(kinds.S_SEALED, sealed, (), ("storing",)),
    Cause(kinds.S_REFUSING, full, ("stored_msgs",), ("storing", "limit")),
    Cause(kinds.S_FULL_SUBJECT, full_per_subject, ("full_subjects_count",), ("limit",)),
    Cause(kinds.S_NO_META, objects_without_meta, ("objects_without_meta_count", "silent_s")),
    Cause(kinds.S_CONSUMER_LIMIT, consumer_limit, (), ("limit",)),
    Cause(kinds.S_NEAR, nearly_full, ("stored_msgs", "full_in_s"), ("limit",)),
    Cause(kinds.S_FULL_SOON, full_soon, ("stored_msgs", "full_in_s"), ("limit",)),
    Cause(kinds.S_STOPPED, publisher_stopped,
          ("silent_s", "steady_s", "longest_store_gap_s", "allowed_silence_s"), ("storing",)),
    Cause(kinds.S_PURGED, purged),
    Cause(kinds.S_BATCH_ABANDONED, batch_abandoned),
    Cause(kinds.S_ORIGIN_MISSING, origin_missing, (), ("origin",)),
    Cause(kinds.S_SOURCE_ERROR, origin_error, (), ("origin",)),
    Cause(kinds.S_AHEAD, ahead_of_origin, (), ("origin",)),
    Cause(kinds.S_SILENT, origin_silent, (), ("origin",)),
    Cause(kinds.S_SOURCE_UNMATCHED, source_unmatched, (), ("origin",)),
    Cause(kinds.S_SOURCE_LAGS, origin_lags, (), ("origin",)),
    Cause(kinds.S_UNSERVED, orphaned,
          ("orphaned_msgs", "orphaned_polls", "dropped_by_consumers_msgs", "stored_msgs"),
          ("consumers",)),
    Cause(kinds.S_NO_INTEREST, dropped_at_once,
          ("unwanted_per_s", "came_per_s", "published_alone_msgs"), ("consumers",)),
    Cause(kinds.S_PILE_UP, piling_up, ("unused_new_consumers_count",), ("clients",)),
    Cause(kinds.S_LEFT, left_behind, ("left_consumers_count",), ("clients",)),
    Cause(kinds.S_SUBJECTS, many_subjects),
    Cause(kinds.S_OWN_SUBJECTS, own_subjects),
    Cause(kinds.S_HOLES, holes, ("removed_msgs",)),
    Cause(kinds.S_LEADER_FLAPS, leader_changes),
    Cause(kinds.S_OWN_THRESHOLD, stream_threshold),
    Cause(kinds.S_OWN_WARNING, stream_warning),
)  # fmt: skip
"""All causes of a stream in order of precedence, except `S_GONE`, which compares two moments."""
STREAM_ORDER = order_of(STREAM_CAUSES)


def needs_attention(config: StreamConfiguration) -> bool:
    """Return whether a stream may have a finding although its counters look well."""
    return (
        config.discard == "new"
        or config.retention != "limits"
        or config.max_consumers_count is not None
        or config.sealed
        or config.kind == "object"
        or PREFIX in config.config_json
    )


def stream_causes(f: StreamFacts, open_kinds: frozenset[Kind]) -> list[tuple[Kind, Symptom]]:
    """Return every cause that holds for a stream now, with its facts."""
    return diagnose(STREAM_CAUSES, f, 0, open_kinds)
