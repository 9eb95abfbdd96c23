"""The causes of findings about a consumer, in order of precedence."""

from __future__ import annotations

from collections.abc import Mapping

from natstui.model.bench.latency import PERCENTILES
from natstui.model.findings.catalogue import consumers as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.streams import S_PILE_UP
from natstui.model.findings.causes.cause import Cause, diagnose, order_of
from natstui.model.findings.causes.lagging import lagging
from natstui.model.findings.causes.metadata import consumer_threshold
from natstui.model.findings.causes.settings import (
    expiring,
    no_match,
    original_pace,
    past_the_end,
    rate_limited,
)
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.row import replicas_count, unreachable_replicas
from natstui.model.findings.facts.stream import StreamFacts
from natstui.model.findings.finding import Symptom, of_key
from natstui.model.findings.thresholds import (
    ACKS_AGAIN_SHARE,
    ACKS_FEWEST,
    ACKS_LATE_SHARE,
    BACKOFF_WAITS_S,
    FETCH_LOOP_S,
    FLOOR_BEHIND_MSGS,
    FLOOR_BLOCKED_S,
    FLOW_STALL_S,
    GIVEN_UP_KEPT_S,
    INELIGIBLE_S,
    LAG_S,
    LEADERS_FEWEST,
    LEADERS_WINDOW_S,
    LOST_KEPT_S,
    NAKED_LEAVE_SHARE,
    NAKED_SHARE,
    NAKS_FEWEST,
    NEAR_SHARE,
    NEVER_ACKED_S,
    NEW_CONSUMER_S,
    NO_PULLS_AFTER_S,
    NO_SUBSCRIBER_S,
    ONE_MESSAGE_POLLS,
    PILE_UP_S,
    POISON_DELIVERIES,
    RECENT_S,
    REPEATS_FEWEST,
    REPEATS_MOST_SHARE,
    REPEATS_SHARE,
    STALLED_S,
    TERMS_FEWEST,
    UNKNOWN_PACE_S,
)
from natstui.model.live.ack_times import window_text
from natstui.model.live.age import next_waits_s
from natstui.model.live.message_counts import NOTHING_COUNTED, MessageCounts
from natstui.model.live.rates import TREND_S
from natstui.units import counted, duration_text

Facts = ConsumerFacts
PENDING, UNACKED, REDELIVERED, ANNOUNCED = 1, 2, 4, 8
"""Flags of a consumer, of which a cause needs at least one."""
_NAMED = 5
"""Limit of messages that are named in a sentence."""


# Contact: who leads it, and with whom.


def unreachable(f: Facts, is_open: bool) -> Symptom | None:
    """Its leader, or that of its stream, does not reply."""
    state = f.state
    if f.name in state.offline or (f.name[0], "") in state.offline:
        # Its server says why; that is a finding of its own.
        return None
    absent = f.name in state.unreachable_consumers or f.name[0] in state.unreachable_streams
    return Symptom(kinds.UNREACHABLE.sentence) if absent else None


def no_leader(f: Facts, is_open: bool) -> Symptom | None:
    """No server leads it."""
    if f.columns.leader[f.row] is not None or f.name in f.state.offline:
        return None
    return Symptom(kinds.NO_LEADER.sentence)


def no_quorum(f: Facts | StreamFacts, is_open: bool) -> Symptom | None:
    """So many replicas are away that nothing can be agreed on."""
    peers, leader = f.columns.peers[f.row], f.columns.leader[f.row]
    absent, total = unreachable_replicas(peers), replicas_count(leader, peers)
    if not peers or total - len(absent) > total // 2:
        return None
    names = ", ".join(peer.name for peer in absent)
    return Symptom(f"{len(absent)} of {counted(total, 'replica')} away: {names}")


def replica_away(f: Facts | StreamFacts, is_open: bool) -> Symptom | None:
    """A replica is away, and the others can go on."""
    absent = unreachable_replicas(f.columns.peers[f.row])
    if not absent:
        return None
    return Symptom(f"no contact with {', '.join(peer.name for peer in absent)}")


def leader_changes(f: Facts | StreamFacts, is_open: bool) -> Symptom | None:
    """Leaders were elected again and again."""
    if f.trouble is None:
        return None
    from_us = f.at_us - round(LEADERS_WINDOW_S * 1e6)
    recent = [
        at_us
        for at_us in f.trouble.elected_at_us
        if at_us >= from_us and not f.state.servers.explains_election(at_us)
    ]
    if len(recent) < LEADERS_FEWEST:
        return None
    return Symptom(f"{len(recent)} elections in {LEADERS_WINDOW_S / 60:.0f} min", recent[0])


# What comes again: naks, repeats, acks that do not come.


def paused(f: Facts, is_open: bool) -> Symptom | None:
    """It was paused."""
    return Symptom(kinds.PAUSED.sentence) if f.columns.paused[f.row] else None


def all_naked(f: Facts, is_open: bool) -> Symptom | None:
    """Nearly every delivery of the last seconds was nak'd, of several messages."""
    naks, count = f.naks, f.recent_naks_count
    # What was nak'd is ack pending until it is settled: with nothing ack pending it is over.
    if not f.unacked or count < NAKS_FEWEST or len(naks.messages) < 2:
        return None
    share = f.nak_share
    if share < (NAKED_LEAVE_SHARE if is_open else NAKED_SHARE):
        return None
    text = f"{counted(count, 'nak')} in {RECENT_S:.0f} s, {100 * share:.0f} % of deliveries"
    since_us = naks.recent[0][0] * 1_000_000 if len(naks.recent) < 2 else _began_us(naks)
    numbers = {"naks_count": count, "share": share, "total_count": naks.total_count}
    return Symptom(
        f"{text}; of messages {_named(naks.sequences)}", since_us, naks.sequences, numbers
    )


def poison(f: Facts, is_open: bool) -> Symptom | None:
    """One message is delivered again and again and never acked."""
    loops = [
        message
        for message in f.naks.worst()
        if message.deliveries_count >= POISON_DELIVERIES and message.stream_seq > f.floor
    ]
    if loops and f.unacked:
        worst = max(loops, key=lambda message: message.deliveries_count)
        text = f"message {worst.stream_seq} was delivered {worst.deliveries_count} times"
        others = f", {counted(len(loops) - 1, 'other')} as well" if len(loops) > 1 else ""
        others_seq = (each.stream_seq for each in loops if each is not worst)
        return Symptom(
            text + others,
            None if is_open else _began_us(f.naks),
            (worst.stream_seq, *others_seq),
            {"deliveries_count": worst.deliveries_count},
        )
    return _repeated(f, is_open)


def _repeated(f: Facts, is_open: bool) -> Symptom | None:
    """Find the one message that is redelivered in every poll while the ack floor stays."""
    if f.redelivered != 1 or not f.unacked:
        return None
    repeats = f.one_message_repeats
    if f.one_message_polls < ONE_MESSAGE_POLLS or repeats < POISON_DELIVERIES:
        return None
    # The counters may be of other messages that were acked since: this one must come again and
    # again while it is watched, as soon as that was possible.
    wait_s = f.longest_ack_wait_s or 0.0
    if f.watched_s > 2 * wait_s + 3 and not is_open:
        if f.one_message_s < 3 * wait_s or f.watched_repeats < ONE_MESSAGE_POLLS:
            return None
        if f.naks_count >= f.watched_repeats:
            return None
    first = f.floor + 1
    announced = [each for each in f.naks.messages if each.stream_seq == first]
    if announced and announced[0].deliveries_count < POISON_DELIVERIES:
        return None
    text = f"a message, probably {first}, was redelivered at least {repeats} times"
    return Symptom(text, None, (first,), {"deliveries_count": repeats})


def never_acked(f: Facts, is_open: bool) -> Symptom | None:
    """Messages come again and again, and no ack ever comes."""
    wait_s, acked_s = f.longest_ack_wait_s, f.acked_ago_s
    if wait_s is None or f.is_held or not f.unacked or not f.redelivered:
        return None
    silent_s = f.age_s if acked_s is None else acked_s
    # Deliveries must go on: where they do not, acks have nothing to answer.
    if silent_s <= max(wait_s, NEVER_ACKED_S) or (f.quiet_s or 0.0) > 3 * wait_s + 5:
        return None
    if f.naks_count or (f.trouble and f.trouble.terms.recent_count(f.at_us, RECENT_S)):
        return None
    last = (
        "no message was ever acked"
        if acked_s is None
        else f"last ack {duration_text(acked_s)} ago"
    )
    text = f"{f.redelivered} redelivered, {f.unacked} ack pending, {last}"
    return Symptom(text, f.unacked_since_us, f.unsettled)


def ack_limit(f: Facts, is_open: bool) -> Symptom | None:
    """Nothing is delivered until an ack comes, for longer than it usually takes."""
    limit = f.limit
    if not limit or f.unacked < limit or f.is_held:
        return None
    settled = f.past.grown("ack_floor_consumer_seq", TREND_S) or 0
    usual_s = 3 * TREND_S / settled if settled > 0 else 0.0
    if f.held_s < usual_s:
        return None
    text = f"{f.unacked} of {limit} ack pending: delivery has stopped until an ack comes"
    return Symptom(text, f.idle_since_us, f.unsettled)


def floor_blocked(f: Facts, is_open: bool) -> Symptom | None:
    """One message keeps the ack floor where it is, while those after it are acked."""
    if not f.unacked or f.is_held or f.limit is None:
        return None
    behind, delivered = f.acked_behind_floor_msgs, f.deliveries or 0
    if behind is None or behind < FLOOR_BEHIND_MSGS or f.unacked > max(3, behind // 5):
        return None
    if delivered <= 0 and not is_open:
        return None
    # What a client lost comes back soon after a usual ack wait.
    back_s = (f.longest_ack_wait_s or 0.0) + 5
    least_s = back_s if FLOOR_BLOCKED_S < back_s < 2 * FLOOR_BLOCKED_S else FLOOR_BLOCKED_S
    # Acks that a restart of a server lost come again after ack wait, at the next pull.
    if f.state.servers.explains_election(f.at_us - round(f.floor_blocked_s * 1e6)):
        least_s = max(least_s, (f.longest_ack_wait_s or 0.0) + f.allowed_gap_s)
    if f.floor_blocked_s < least_s and not is_open:
        return None
    text = f"message {f.floor + 1} is not acked, {behind} after it are"
    return Symptom(text, None, (f.floor + 1,))


def acked_late(f: Facts, is_open: bool) -> Symptom | None:
    """Clients ack later than ack wait: what they still process is delivered again."""
    symptom = _sampled_late(f)
    if symptom is not None:
        return symptom
    share, repeats = f.repeat_share, f.repeats or 0
    if share is None or f.naks_count or f.longest_ack_wait_s is None or f.is_held:
        return None
    moves = f.floor_moved_msgs or 0
    if not is_open and (repeats < REPEATS_FEWEST or f.repeat_polls < REPEATS_FEWEST):
        return None
    if share < (REPEATS_SHARE / 2 if is_open else REPEATS_SHARE) or not moves:
        return None
    wait = duration_text(f.longest_ack_wait_s)
    text = (
        f"{repeats} of {f.deliveries} deliveries are repeats, none was nak'd; ack wait is {wait}"
    )
    return Symptom(text, None, ())


def _sampled_late(f: Facts) -> Symptom | None:
    """Sampled acks take about as long as ack wait, or come after a redelivery.

    A sample counts from the last delivery, so what is acked after ack wait looks quick: that it
    was delivered again, and nobody nak'd it, shows it then.
    """
    wait_ns = f.config.ack_wait_ns if f.config else None
    if f.trouble is None or not wait_ns:
        return None
    window = f.trouble.acks.until(f.at_us)
    count = window.times.total_count
    p99_ns = window.times.percentile_ns(PERCENTILES["p99"])
    if count < ACKS_FEWEST or p99_ns is None:
        return None
    nakd = f.trouble.naks.last_at_us >= f.at_us - round(window.window_s * 1e6)
    again = not nakd and window.repeated_count >= ACKS_AGAIN_SHARE * count
    near = p99_ns >= NEAR_SHARE * wait_ns
    if not near and not (again and p99_ns >= ACKS_LATE_SHARE * wait_ns):
        return None
    text = f"acked after {window_text(window)}; ack wait is {duration_text(wait_ns / 1e9)}"
    if again:
        text += f", and {counted(window.repeated_count, 'message')} came again"
    return Symptom(
        text, None, (), {"p99_s": p99_ns / 1e9, "repeated_count": window.repeated_count}
    )


def redelivered(f: Facts, is_open: bool) -> Symptom | None:
    """Most deliveries are repeats, and nothing above says why."""
    share, repeats = f.repeat_share, f.repeats or 0
    if share is None or not f.redelivered or f.is_held:
        return None
    if share < (REPEATS_MOST_SHARE / 2 if is_open else REPEATS_MOST_SHARE):
        return None
    if not is_open and (repeats < REPEATS_FEWEST or f.repeat_polls < REPEATS_FEWEST):
        return None
    text = f"{repeats} of {f.deliveries} deliveries are repeats"
    return Symptom(f"{text}; {f.redelivered} not acked, {f.pending} pending", None, f.unsettled)


def naks(f: Facts, is_open: bool) -> Symptom | None:
    """Some messages are nak'd, and acked later."""
    count = f.recent_naks_count
    if count < (1 if is_open else NAKS_FEWEST):
        return None
    text = f"{counted(count, 'nak')} in {RECENT_S:.0f} s; of messages {_named(f.naks.sequences)}"
    return Symptom(text, _began_us(f.naks), f.naks.sequences)


def waits_for_backoff(f: Facts, is_open: bool) -> Symptom | None:
    """Messages wait for the next step of the backoff."""
    backoff = f.settings.get("backoff")
    wait_s = f.longest_ack_wait_s
    if not isinstance(backoff, list) or not f.unacked or wait_s is None or f.is_held:
        return None
    if not BACKOFF_WAITS_S <= f.held_s < wait_s:
        return None
    return Symptom(
        f"{counted(f.unacked, 'message')} ack pending for {duration_text(f.held_s)}; the "
        f"next delivery comes within {duration_text(wait_s)}", f.idle_since_us, f.unsettled,
    )  # fmt: skip


def _is_used_up(f: Facts) -> bool:
    """Return whether messages are ack pending for longer than every ack wait."""
    wait_s = f.longest_ack_wait_s
    return bool(f.unacked) and wait_s is not None and not f.is_held and f.held_s > wait_s


def unacked_without_pull(f: Facts, is_open: bool) -> Symptom | None:
    """Messages that were not acked come back only when somebody pulls, and nobody does."""
    if not _is_used_up(f) or not _no_pull_for_long(f) or f.config is None or not f.config.durable:
        return None
    text = f"{counted(f.unacked, 'message')} not acked for {duration_text(f.held_s)}"
    text += "; no pull is open, and messages are redelivered only to a pull"
    return Symptom(text, f.idle_since_us, f.unsettled)


def died_unacked(f: Facts, is_open: bool) -> Symptom | None:
    """A client's connection ended while messages were ack pending, and ack wait is not over.

    A client that works on a batch neither pulls nor acks for a while either, so at a pull consumer
    it takes a connection that ended after the last delivery to say that one died.
    """
    wait_s, delivered_at_us = f.longest_ack_wait_s, f.columns.delivered_at_us[f.row]
    config = f.config
    if config is None or not config.durable or wait_s is None or delivered_at_us is None:
        return None
    if f.is_held or f.held_s > wait_s:
        return None
    client = _ended_since(f, delivered_at_us)
    if is_open:
        # Whoever comes next receives them only after ack wait.
        is_dead = f.held_s > FETCH_LOOP_S
    elif config.pull:
        gap_s = f.pull_gap_s
        is_dead = client is not None and gap_s is not None
        is_dead = is_dead and min(gap_s or 0.0, f.held_s) > f.allowed_gap_s
    else:
        is_dead = not f.served and f.held_s > NO_SUBSCRIBER_S
    if not is_dead:
        return None
    who = f"client {client}" if client else "their client"
    text = f"{f.unacked} ack pending, unchanged for {duration_text(f.held_s)}; the connection of"
    text += f" {who} ended; ack wait is over in {duration_text(max(0.0, wait_s - f.held_s))}"
    hold_s = None if is_open or config.pull else NO_SUBSCRIBER_S
    return Symptom(text, f.idle_since_us, f.unsettled, hold_s=hold_s)


def _ended_since(f: Facts, delivered_at_us: int) -> str | None:
    """Return the client whose connection received the last delivery, maybe, and ended after it.

    It began before the delivery, and was in use then or later.
    """
    clients = f.state.clients
    if clients is None:
        return None
    from_us = delivered_at_us - round(FETCH_LOOP_S * 1e6)
    for each in reversed(clients.ended):
        was_there = each.started_at_us <= delivered_at_us <= each.stopped_at_us
        if was_there and each.active_at_us >= from_us:
            return each.client
    return None


def _no_pull_for_long(f: Facts) -> bool:
    """Return whether no pull request was seen for longer than between two fetches of a loop."""
    if f.config is None or not f.config.pull or f.served:
        return False
    gap_s = f.pull_gap_s
    return gap_s is None or gap_s > FETCH_LOOP_S


def not_acknowledged(f: Facts, is_open: bool) -> Symptom | None:
    """Messages are ack pending for longer than every ack wait, though clients receive."""
    if not _is_used_up(f) or _no_pull_for_long(f):
        return None
    first, last = f.unsettled, f.columns.delivered_stream_seq[f.row]
    where = f" from {first[0]} to {last}" if first else ""
    wait = duration_text(f.longest_ack_wait_s or 0.0)
    text = f"{counted(f.unacked, 'message')}{where} ack pending for {duration_text(f.held_s)}"
    return Symptom(f"{text}, longer than ack wait ({wait})", f.idle_since_us, first,
                   {"held_s": f.held_s, "msgs": f.unacked})  # fmt: skip


# Why nothing is delivered, though messages are pending.


def _waits(f: Facts) -> bool:
    """Return whether messages are pending, and no limit of its own holds them back."""
    return bool(f.pending) and not f.is_held and not f.is_at_limit


def _is_unbound(f: Facts) -> bool:
    """Return whether messages are pending at a push consumer, and no subscriber is bound."""
    return f.config is not None and not f.config.pull and not f.served and _waits(f)


def _groups_count(f: Facts) -> Mapping[str, int]:
    """Return the clients that subscribe to its deliver subject by their queue group, if known."""
    clients, subject = f.state.clients, f.config.deliver_subject if f.config else None
    if clients is None or clients.groups_count is None or subject is None:
        return {}
    return clients.groups_count.get(subject, {})


def _in_wrong_group(f: Facts, groups: Mapping[str, int]) -> Symptom | None:
    """Find clients that subscribe in some groups, where none subscribes in the deliver group."""
    config = f.config
    if not groups or config is None or not config.deliver_group or not _is_unbound(f):
        return None
    if config.deliver_group in _groups_count(f):
        return None
    clients = counted(sum(groups.values()), "client")
    names = ", ".join(sorted(name for name in groups if name))
    where = f"in queue group {names}" if names else "without a queue group"
    text = f"{f.pending} pending; subscribed to {config.deliver_subject} {where}: {clients}"
    return Symptom(f"{text}; the deliver group is {config.deliver_group}", f.waiting_since_us)


def other_group(f: Facts, is_open: bool) -> Symptom | None:
    """Clients subscribe in a queue group that is not the deliver group."""
    return _in_wrong_group(f, {name: count for name, count in _groups_count(f).items() if name})


def without_group(f: Facts, is_open: bool) -> Symptom | None:
    """Clients subscribe without the queue group that the consumer delivers to."""
    return _in_wrong_group(f, {name: c for name, c in _groups_count(f).items() if not name})


def no_subscriber(f: Facts, is_open: bool) -> Symptom | None:
    """No client subscribes to the deliver subject."""
    if f.config is None or not _is_unbound(f):
        return None
    group = f" in queue group {f.config.deliver_group}" if f.config.deliver_group else ""
    return Symptom(
        f"{f.pending} pending, no client subscribes to {f.config.deliver_subject}{group}"
    )


def _unpulled(f: Facts) -> bool:
    """Return whether messages are pending at a pull consumer, and no pull request is open."""
    return f.config is not None and f.config.pull and not f.served and _waits(f)


def _quiet_text(f: Facts) -> str:
    keeps, kept = "", f.kept_alone_msgs
    if kept and f.stream is not None:
        keeps = f"; only this consumer keeps {kept} of {counted(f.stream.stored_msgs, 'message')}"
    if f.quiet_s is None and f.has_known_activity:
        when = "no pull ever received a message"
    elif f.quiet_s is None:
        when = "the server does not know when the last delivery was"
    else:
        when = f"last delivery {f.quiet_s:.0f} s ago"
    return f"{f.pending} pending, no pull request is open, {when}{keeps}"


def not_pulled_yet(f: Facts, is_open: bool) -> Symptom | None:
    """Nobody pulls from a consumer that is new."""
    if not _unpulled(f) or f.waiting_s <= NO_PULLS_AFTER_S:
        return None
    if f.quiet_s is not None or f.age_s > NEW_CONSUMER_S:
        return None
    return Symptom(f"{_quiet_text(f)}; it is {duration_text(f.age_s)} old", f.waiting_since_us)


def _may_still_process(f: Facts) -> bool:
    """Return whether ack wait allows a client to process what it received until now."""
    wait_s, delivered_at_us = f.longest_ack_wait_s, f.columns.delivered_at_us[f.row]
    if not f.unacked or wait_s is None or delivered_at_us is None or f.held_s > wait_s:
        return False
    return _ended_since(f, delivered_at_us) is None


def _is_overdue(f: Facts) -> bool:
    """Return whether nobody pulled for longer than the clients pause."""
    gap_s, allowed_s = f.pull_gap_s, f.allowed_gap_s
    if gap_s is None:
        # Nobody was ever seen.
        return f.waiting_s > NO_PULLS_AFTER_S
    if _may_still_process(f):
        # The first long job of a client is longer than its pauses were.
        allowed_s = max(allowed_s, UNKNOWN_PACE_S)
    return min(f.waiting_s, gap_s) > allowed_s


def pulls_overdue(f: Facts, is_open: bool) -> Symptom | None:
    """Clients whose pace is known have stopped pulling, and process nothing any more."""
    if not _unpulled(f) or f.longest_pull_gap_s is None or not _is_overdue(f):
        return None
    if _may_still_process(f):
        return None
    return Symptom(_quiet_text(f), f.waiting_since_us)


def no_pulls(f: Facts, is_open: bool) -> Symptom | None:
    """Nobody pulls, and the clients may do so for a reason that is not known."""
    if not _unpulled(f) or not _is_overdue(f):
        return None
    text = _quiet_text(f)
    if _may_still_process(f):
        text += f"; a client may still process {counted(f.unacked, 'message')}"
    return _after_three_polls(f, is_open, text)


def _after_three_polls(f: Facts, is_open: bool, text: str) -> Symptom:
    """Return a symptom that must hold for three polls, as a message may have just arrived."""
    return Symptom(text, f.waiting_since_us, hold_s=None if is_open else 2.0)


_PULL_LIMITS = {"max_batch": "messages", "max_bytes": "bytes", "max_expires": "ns of waiting"}


def pulls_refused(f: Facts, is_open: bool) -> Symptom | None:
    """Nothing was ever delivered, and the consumer refuses pulls that do not fit it."""
    if not _unpulled(f) or f.quiet_s is not None or f.waiting_s <= NO_PULLS_AFTER_S:
        return None
    # A pull that was open was not refused.
    if (f.unanswered_pulls_s or 0.0) > 0:
        return None
    limits = [(name, f.settings.get(name)) for name in _PULL_LIMITS]
    texts = [
        duration_text(value / 1e9) if name == "max_expires" else f"{value} {_PULL_LIMITS[name]}"
        for name, value in limits
        if isinstance(value, int) and value > 0
    ]
    what = [f"for more than {', '.join(texts)}"] if texts else []
    groups = f.settings.get("priority_groups")
    if isinstance(groups, list) and groups:
        what.append(f"without group {', '.join(map(str, groups))}")
    if not what:
        return None
    text = f"{f.pending} pending, no pull request is open; pulls {' and '.join(what)}"
    return Symptom(f"{text} are refused", f.waiting_since_us)


def _is_pulled(f: Facts) -> bool:
    """Return whether clients pull since messages are pending, also where no pull is open now."""
    if f.config is None or not f.config.pull:
        return False
    unanswered_s, gap_s = f.unanswered_pulls_s, f.pull_gap_s
    if unanswered_s is None or unanswered_s <= FETCH_LOOP_S or gap_s is None:
        return False
    return gap_s <= f.allowed_gap_s


def _ineligible(f: Facts, after_s: float) -> bool:
    """Return whether clients pull or are bound, messages are pending, and nothing is delivered."""
    if not (f.served or _is_pulled(f)) or not _waits(f) or f.waiting_s <= after_s:
        return False
    return f.settings.get("replay_policy") != "original" and not f.settings.get("rate_limit_bps")


def pinned_idle(f: Facts, is_open: bool) -> Symptom | None:
    """The pinned client does not pull, while others wait."""
    if (
        f.config is None
        or f.config.priority_policy != "pinned_client"
        or not _ineligible(f, INELIGIBLE_S)
    ):
        return None
    pinned = f.columns.pinned_client[f.row]
    timeout = f.settings.get("priority_timeout")
    limit = (
        f", the pin moves after {duration_text(timeout / 1e9)}"
        if isinstance(timeout, int) and timeout > 0
        else ""
    )
    who = f"client {pinned} is pinned and does not pull" if pinned else "no client is pinned"
    text = f"{f.pending} pending, {counted(f.open_pulls or 0, 'other pull')} open, {who}"
    return _after_three_polls(f, is_open, f"{text} for {f.waiting_s:.0f} s{limit}")


def no_eligible_pull(f: Facts, is_open: bool) -> Symptom | None:
    """The open pull requests ask for more pending messages than there are."""
    policy = f.config.priority_policy if f.config else None
    if policy not in ("overflow", "prioritized") or not _ineligible(f, INELIGIBLE_S):
        return None
    text = f"{f.pending} pending, {counted(f.open_pulls or 0, 'open pull')}, none eligible:"
    why = "the min pending or min ack pending of the pulls is not reached"
    if policy != "overflow":
        why = "their priority excludes them"
    return _after_three_polls(f, is_open, f"{text} {why}")


def processed_twice(f: Facts, is_open: bool) -> Symptom | None:
    """Several clients subscribe without a queue group: each of them receives every message."""
    config = f.config
    if config is None or config.deliver_group or not config.durable:
        return None
    count = _groups_count(f).get("", 0)
    if count < 2:
        return None
    return Symptom(f"{count} clients subscribe to {config.deliver_subject} without a queue group")


def flow_stall(f: Facts, is_open: bool) -> Symptom | None:
    """The subscriber does not reply to flow control."""
    if f.config is None or f.config.pull or not f.settings.get("flow_control"):
        return None
    if not _ineligible(f, FLOW_STALL_S):
        return None
    text = f"{f.pending} pending, a client is subscribed, nothing delivered for"
    return Symptom(f"{text} {f.waiting_s:.0f} s", f.waiting_since_us, f.unsettled)


def stalled(f: Facts, is_open: bool) -> Symptom | None:
    """Clients pulled since messages are pending, and none was delivered."""
    if f.config is None or not f.config.pull or not _waits(f) or f.waiting_s <= STALLED_S:
        return None
    # Where a priority policy decides who receives, a pull that gets nothing is not too small.
    if f.settings.get("replay_policy") == "original" or f.config.priority_policy:
        return None
    if not _is_pulled(f):
        return None
    text = f"{f.pending} pending, clients pull, nothing delivered for {f.waiting_s:.0f} s"
    return _after_three_polls(f, is_open, text)


def push_stalled(f: Facts, is_open: bool) -> Symptom | None:
    """A subscriber is bound, messages are pending, and none is delivered."""
    if f.config is None or f.config.pull or f.settings.get("flow_control"):
        return None
    if not _ineligible(f, STALLED_S):
        return None
    text = f"{f.pending} pending, a client is subscribed, nothing delivered for"
    return _after_three_polls(f, is_open, f"{text} {f.waiting_s:.0f} s")


def late(f: Facts, is_open: bool) -> Symptom | None:
    """The next message has waited for long."""
    waits_s = next_waits_s(f.state, f.row)
    if not f.pending or waits_s is None or waits_s <= LAG_S or f.is_held:
        return None
    since_us = f.at_us - round((waits_s - LAG_S) * 1e6)
    return Symptom(f"the next message has been waiting for {duration_text(waits_s)}", since_us)


# What stands beside all this.


def near_ack_limit(f: Facts, is_open: bool) -> Symptom | None:
    """There is little room left for messages that are not acked."""
    limit = f.limit
    if not limit or limit < 10 or not NEAR_SHARE * limit <= f.unacked < limit:
        return None
    return Symptom(f"{f.unacked} of {limit} ack pending")


def max_deliver_reached(f: Facts, is_open: bool) -> Symptom | None:
    """Messages were dropped after max deliver."""
    dropped = f.dropped_msgs
    given_up = f.trouble.give_ups if f.trouble else NOTHING_COUNTED
    if not dropped or f.config is None:
        return None
    if f.config.max_deliver_count == 1 and (f.at_us - given_up.last_at_us) / 1e6 > GIVEN_UP_KEPT_S:
        return None
    stream = f.stream
    kept = ""
    if stream is not None and stream.config is not None and stream.config.retention != "limits":
        kept = " and stay in the stream"
    where = f": {_named(given_up.sequences)}" if given_up.sequences else ""
    count = max(dropped, given_up.total_count if given_up.total_count and f.redelivered else 0)
    # What is ack pending may have been delivered once, and is no part of the redelivered then.
    is_all = f.config.max_deliver_count == 1 or not f.unacked or count >= f.redelivered
    text = f"{counted(count, 'message')} dropped after {f.config.max_deliver_count} deliveries"
    text = text if is_all else f"at least {text}"
    since_us = given_up.first_at_us if given_up.total_count else None
    return Symptom(text + kept + where, since_us, given_up.sequences, {"given_up_msgs": count})


def terminated(f: Facts, is_open: bool) -> Symptom | None:
    """The client terminates messages."""
    terms = f.trouble.terms if f.trouble else NOTHING_COUNTED
    count = terms.recent_count(f.at_us, RECENT_S)
    if count < (1 if is_open else TERMS_FEWEST):
        return None
    text = f"{counted(terms.total_count, 'message')} terminated, {count} in {RECENT_S:.0f} s"
    sequences = terms.sequences
    return Symptom(f"{text}: {_named(sequences)}", _began_us(terms), sequences, {"count": count})


def lost(f: Facts, is_open: bool) -> Symptom | None:
    """Its stream removed messages before it received them."""
    loss = f.lost
    if loss is None or loss.purged:
        return _lost_before_watching(f) if loss is None else None
    return _lost_text(f, loss.lost_msgs, (loss.first_seq, loss.last_seq), loss.since_at_us)


def _lost_before_watching(f: Facts) -> Symptom | None:
    """Find messages that are gone and that it has not passed yet."""
    stream, delivered = f.stream, f.columns.delivered_stream_seq[f.row]
    # With filters, what it passed were perhaps messages of others.
    if f.is_filtered or not delivered or not f.pending:
        return None
    if stream is None or not stream.loses_by_limits:
        return None
    if stream.config is None or stream.config.retention != "limits":
        return None
    if not stream.removing_limit:
        # No limit is reached: a user removed them.
        return None
    first_seq = stream.columns.first_seq[stream.row]
    if first_seq - 1 - delivered <= 0:
        return None
    return _lost_text(f, first_seq - 1 - delivered, (delivered + 1, first_seq - 1), None)


def _lost_text(f: Facts, count: int, sequences: tuple[int, int], since_us: int | None) -> Symptom:
    config = f.stream.config if f.stream else None
    is_exact = not f.is_filtered and config is not None and config.retention == "limits"
    text = f"{'' if is_exact else 'at least '}{counted(count, 'message')} removed before delivery,"
    text = f"{text} from {sequences[0]} to {sequences[1]}"
    if f.lost_per_min is not None:
        text += f", {f.lost_per_min:,.0f} a minute"
    limit = f.stream.removing_limit_text if f.stream else None
    text += f"; {limit}" if limit else ""
    reached = f.stream.removing_limit if f.stream else {}
    return Symptom(text, since_us, sequences, {"lost_msgs": count, **reached})


def lost_before_ack(f: Facts, is_open: bool) -> Symptom | None:
    """Its stream removed messages that were delivered and not acked."""
    removed = f.trouble.removed if f.trouble else NOTHING_COUNTED
    if not removed.total_count or f.at_us - removed.last_at_us > LOST_KEPT_S * 1e6:
        return None
    if f.stream is None or not f.stream.loses_by_limits:
        return None
    if not is_open and not _are_removed_by_limit(f.stream, removed):
        return None
    text = f"{counted(removed.total_count, 'message')} removed before their ack"
    return Symptom(f"{text}: {_named(removed.sequences)}", removed.first_at_us, removed.sequences,
                   {"lost_msgs": removed.total_count, **f.stream.removing_limit})  # fmt: skip


def _are_removed_by_limit(stream: StreamFacts, removed: MessageCounts) -> bool:
    """Return whether a limit is reached, which removes the first messages: a user removes any."""
    first_seq, sequences = stream.columns.first_seq[stream.row], removed.sequences
    return bool(stream.removing_limit) and (not sequences or min(sequences) < first_seq)


def rolled_back(f: Facts, is_open: bool) -> Symptom | None:
    """It is past the end of its stream, which lost its newest messages, or it was reset."""
    ahead = f.ahead_of_stream_msgs
    if not ahead:
        return None
    delivered = f.columns.delivered_stream_seq[f.row]
    position_text = f"delivered up to sequence {delivered}"
    if not f.columns.delivered_consumer_seq[f.row]:
        position_text = f"delivery begins at sequence {delivered + 1}"
    return Symptom(f"{position_text}, the stream ends at {delivered - ahead}")


def max_waiting(f: Facts, is_open: bool) -> Symptom | None:
    """No further pull request is accepted."""
    limit = f.config.max_waiting_pulls_count if f.config else None
    count = f.columns.waiting_pulls_count[f.row]
    if not limit or count < limit:
        return None
    return Symptom(f"{count} of {limit} pull requests are open: further ones are refused")


def _named(sequences: tuple[int, ...]) -> str:
    """Return sequences for people: `3, 5 and 12 more`."""
    names = ", ".join(str(seq) for seq in sequences[:_NAMED])
    return names + (f" and {len(sequences) - _NAMED} more" if len(sequences) > _NAMED else "")


def _began_us(counts: MessageCounts) -> int:
    """Return when the newest run of seconds without a long pause began."""
    began = counts.recent[-1][0]
    for second, _ in reversed(counts.recent):
        if began - second > RECENT_S:
            break
        began = second
    return max(began * 1_000_000, counts.first_at_us)


_FLOW = ("pending_msgs", "ack_pending_msgs", "open_pulls", "waiting_s", "quiet_s")
_PACE = ("kept_alone_msgs", *_FLOW, "pull_gap_s", "longest_pull_gap_s", "allowed_gap_s", "age_s")
_REPEATS = (
    "redelivered_msgs", "deliveries", "repeats", "repeat_share", "repeat_polls", "naks_count",
    "floor_moved_msgs", "acked_ago_s", "longest_ack_wait_s",
)  # fmt: skip
_HELD = ("ack_pending_msgs", "held_s", "longest_ack_wait_s", "open_pulls")

CONSUMER_CAUSES: tuple[Cause[ConsumerFacts], ...] = (
    Cause(kinds.UNREACHABLE, unreachable, (), ("contact", "delivery", "redelivery")),
    Cause(kinds.NO_QUORUM, no_quorum, (), ("contact", "delivery", "redelivery")),
    Cause(kinds.NO_LEADER, no_leader, (), ("contact", "delivery", "redelivery")),
    Cause(kinds.REPLICA_AWAY, replica_away, (), ("contact",)),
    Cause(kinds.PAUSED, paused, ("pending_msgs",), ("delivery", "redelivery")),
    Cause(kinds.ALL_NAKED, all_naked, ("recent_naks_count", "nak_share", "ack_pending_msgs"),
          ("redelivery", "delivery"), ANNOUNCED),
    Cause(kinds.POISON, poison,
          ("one_message_polls", "one_message_s", "one_message_repeats", "watched_repeats",
           "redelivered_msgs"), ("redelivery", "delivery"), REDELIVERED | ANNOUNCED),
    Cause(kinds.NEVER_ACKED, never_acked, _REPEATS, ("redelivery", "delivery"), REDELIVERED),
    Cause(kinds.ACK_LIMIT, ack_limit, _HELD, ("delivery", "redelivery"), UNACKED),
    Cause(kinds.FLOOR_BLOCKED, floor_blocked,
          ("floor_blocked_s", "acked_behind_floor_msgs", "deliveries"),
          ("redelivery",), UNACKED),
    Cause(kinds.ACK_WAIT_SHORT, acked_late, _REPEATS, ("redelivery",), REDELIVERED | ANNOUNCED),
    Cause(kinds.REDELIVERING, redelivered, _REPEATS, ("redelivery", "delivery"), REDELIVERED),
    Cause(kinds.NAKS, naks, ("recent_naks_count", "repeats", "deliveries"), ("redelivery",),
          ANNOUNCED),
    Cause(kinds.ORIGINAL_PACE, original_pace, _FLOW, ("delivery",), PENDING),
    Cause(kinds.RATE_LIMITED, rate_limited, _FLOW, ("delivery",), PENDING),
    Cause(kinds.PINNED_IDLE, pinned_idle, _FLOW, ("delivery",), PENDING),
    Cause(kinds.NO_ELIGIBLE_PULL, no_eligible_pull, _FLOW, ("delivery",), PENDING),
    Cause(kinds.STALLED, stalled, (*_PACE, "unanswered_pulls_s"), ("delivery",), PENDING),
    Cause(kinds.PULLS_REFUSED, pulls_refused, _PACE, ("delivery",), PENDING),
    Cause(kinds.OTHER_GROUP, other_group, _FLOW, ("delivery",), PENDING),
    Cause(kinds.WITHOUT_GROUP, without_group, _FLOW, ("delivery",), PENDING),
    Cause(kinds.NO_SUBSCRIBER, no_subscriber, _FLOW, ("delivery",), PENDING),
    Cause(kinds.NOT_PULLED_YET, not_pulled_yet, _PACE, ("delivery",), PENDING),
    Cause(kinds.NO_PULLS, pulls_overdue, _PACE, ("delivery", "redelivery"), PENDING),
    Cause(kinds.NO_PULLS_SEEN, no_pulls, _PACE, ("delivery", "redelivery"), PENDING),
    Cause(kinds.DIED_UNACKED, died_unacked, _HELD, ("redelivery",), UNACKED),
    Cause(kinds.UNACKED_WITHOUT_PULL, unacked_without_pull, _HELD, ("delivery", "redelivery"),
          UNACKED),
    Cause(kinds.FLOW_STALL, flow_stall, _FLOW, ("delivery",), PENDING),
    Cause(kinds.PUSH_STALLED, push_stalled, _FLOW, ("delivery",), PENDING),
    Cause(kinds.NOT_ACKNOWLEDGED, not_acknowledged, _HELD, ("redelivery",), UNACKED),
    Cause(kinds.WAITS_FOR_BACKOFF, waits_for_backoff, _HELD, ("redelivery",), UNACKED),
    Cause(kinds.FALLING_BEHIND, lagging, ("pending_msgs", "deliveries"), ("delivery",), PENDING),
    Cause(kinds.LATE, late, ("pending_msgs",), ("delivery",), PENDING),
    Cause(kinds.SKIPPED, lost, ("lost_msgs", "lost_per_min")),
    Cause(kinds.LOST_BEFORE_ACK, lost_before_ack, (), (), ANNOUNCED),
    Cause(kinds.ROLLED_BACK, rolled_back, ("ahead_of_stream_msgs",)),
    Cause(kinds.GAVE_UP, max_deliver_reached, ("dropped_msgs", "redelivered_msgs"), (),
          REDELIVERED | ANNOUNCED),
    Cause(kinds.TERMINATED, terminated, (), (), ANNOUNCED),
    Cause(kinds.LEADER_FLAPS, leader_changes, (), (), ANNOUNCED),
    Cause(kinds.MAX_WAITING, max_waiting, ("open_pulls",)),
    Cause(kinds.PROCESSED_TWICE, processed_twice),
    Cause(kinds.NO_MATCH, no_match, ("pending_msgs", "age_s")),
    Cause(kinds.PAST_THE_END, past_the_end, ()),
    Cause(kinds.EXPIRING, expiring, ("held_s",)),
    Cause(kinds.OWN_THRESHOLD, consumer_threshold, ()),
    Cause(kinds.NEAR_ACK_LIMIT, near_ack_limit, ("ack_pending_msgs",), (), UNACKED),
)  # fmt: skip
"""All causes of a consumer in order of precedence, except `GONE`, which compares two moments."""
CONSUMER_ORDER = order_of(CONSUMER_CAUSES)
_UNUSED = tuple(cause for cause in CONSUMER_CAUSES if "contact" in cause.topics)
"""Causes that are checked for a consumer that no client uses."""


def _is_one_of_a_leak(f: Facts) -> bool:
    """Return whether it is one of the consumers that pile up in its stream, and nobody uses it."""
    stream = f.stream
    if stream is None or f.served or (f.quiet_s is not None and f.quiet_s < NO_PULLS_AFTER_S):
        return False
    watched = f.state.findings.watched.get(of_key(stream.key), ())
    leak = next((w.finding for w in watched if w.finding.kind is S_PILE_UP and w.raised), None)
    if leak is None:
        return False
    return f.columns.created_at_us[f.row] >= leak.since_us - round(PILE_UP_S * 1e6)


def consumer_causes(f: ConsumerFacts, open_kinds: frozenset[Kind]) -> list[tuple[Kind, Symptom]]:
    """Return every cause that holds for a consumer now, with its facts."""
    has = PENDING if f.pending else 0
    has |= UNACKED if f.unacked else 0
    has |= REDELIVERED if f.redelivered else 0
    has |= ANNOUNCED if f.trouble is not None else 0
    is_unused = f.is_sourcing or f.is_left or _is_one_of_a_leak(f)
    causes = _UNUSED if is_unused else CONSUMER_CAUSES
    return diagnose(causes, f, has, open_kinds)
