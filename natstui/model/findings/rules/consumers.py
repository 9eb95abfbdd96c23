"""The rules about consumers: for each kind of the catalogue, when it holds and what shows it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from natstui.model.findings.catalogue import consumers as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Seen
from natstui.model.findings.rules.backlog import falling_behind
from natstui.model.findings.rules.evidence import (
    ack_wait_short,
    all_naked,
    backoff_spent,
    gave_up,
    leader_flaps,
    poison,
    terminated,
)
from natstui.model.findings.rules.look import ConsumerLook, away
from natstui.model.findings.rules.metadata import consumer_threshold
from natstui.model.findings.rules.settings import (
    expiring,
    no_match,
    original_pace,
    past_the_end,
    rate_limited,
)
from natstui.model.findings.thresholds import (
    FLOW_STALL_S,
    LAG_S,
    NEAR_SHARE,
    NO_PULLS_AFTER_S,
    REPEATS_ONLY_S,
    STALLED_S,
)
from natstui.model.live.age import next_waits_s
from natstui.model.live.rates import TREND_S, trend_per_s
from natstui.units import counted, duration_text

Found = Seen | None
Find = Callable[[ConsumerLook, bool], Found]
"""Looks for one kind of finding; told whether it is open already, for a lower limit to leave."""

PENDING, UNACKED, REDELIVERED, TOLD, ALWAYS = 1, 2, 4, 8, 16
"""What a consumer has that a rule needs at least one of."""


class Rule(NamedTuple):
    """One kind, and when it holds."""

    kind: Kind
    needs: int
    find: Find


def unreachable(look: ConsumerLook, known: bool) -> Found:
    """Its leader, or that of its stream, does not answer."""
    state = look.state
    gone = look.name in state.unreachable_consumers or look.name[0] in state.unreachable_streams
    return Seen(kinds.UNREACHABLE.sentence) if gone else None


def no_leader(look: ConsumerLook, known: bool) -> Found:
    """Nobody leads it."""
    if look.columns.leader[look.row] is not None or unreachable(look, known):
        return None
    return Seen(kinds.NO_LEADER.sentence)


def no_quorum(look: ConsumerLook, known: bool) -> Found:
    """So many replicas are away that nothing can be agreed on."""
    peers = look.columns.peers[look.row]
    gone = away(peers)
    if not peers or len(gone) <= len(peers) // 2:
        return None
    names = ", ".join(peer.name for peer in gone)
    return Seen(f"{len(gone)} of {counted(len(peers) + 1, 'replica')} away: {names}")


def replica_away(look: ConsumerLook, known: bool) -> Found:
    """A replica is away, and the others can go on."""
    gone = away(look.columns.peers[look.row])
    if not gone or no_quorum(look, known):
        return None
    return Seen(f"not heard of: {', '.join(peer.name for peer in gone)}")


def paused(look: ConsumerLook, known: bool) -> Found:
    """It was paused."""
    return Seen(kinds.PAUSED.sentence) if look.columns.paused[look.row] else None


def at_limit(look: ConsumerLook) -> bool:
    """Tell whether nothing more may be delivered before an acknowledgement."""
    return bool(look.limit) and look.unacked >= (look.limit or 0)


def ack_limit(look: ConsumerLook, known: bool) -> Found:
    """Nothing is delivered until an acknowledgement comes, for longer than it usually takes."""
    limit = look.limit
    if not limit or look.unacked < limit or _held(look):
        return None
    since_us = look.idle_since_us
    settled = look.past.grown("ack_floor_consumer_seq", TREND_S) or 0
    usual_s = 3 * TREND_S / settled if settled > 0 else 0.0
    if (look.at_us - since_us) / 1e6 < usual_s:
        return None
    wait = "message waits for its" if limit == 1 else "messages wait for their"
    text = f"{look.unacked} of {limit} {wait} acknowledgement"
    return Seen(f"{text}: nothing more is delivered until one comes", since_us, _unsettled(look))


def near_ack_limit(look: ConsumerLook, known: bool) -> Found:
    """There is little room left for unacknowledged messages."""
    limit = look.limit
    if not limit or limit < 10 or not NEAR_SHARE * limit <= look.unacked < limit:
        return None
    return Seen(f"{look.unacked} of {limit} messages wait for their acknowledgement")


def _unsettled(look: ConsumerLook) -> tuple[int, ...]:
    """Return the first message that is not settled: it blocks the ack floor."""
    floor = look.columns.ack_floor_stream_seq[look.row]
    return (floor + 1,) if look.columns.delivered_stream_seq[look.row] > floor else ()


def _held(look: ConsumerLook) -> bool:
    """Tell whether something worse explains why nothing is delivered."""
    return look.columns.leader[look.row] is None or look.columns.paused[look.row]


def no_subscriber(look: ConsumerLook, known: bool) -> Found:
    """Nobody listens on the deliver subject."""
    if look.config is None or look.config.pull or look.served or not look.pending or _held(look):
        return None
    return Seen(f"{look.pending} pending, {kinds.NO_SUBSCRIBER.sentence}")


def no_pulls(look: ConsumerLook, known: bool) -> Found:
    """Nobody asks for messages, for longer than between two fetches."""
    if look.config is None or not look.config.pull or look.served or not look.pending:
        return None
    if _held(look) or at_limit(look):
        return None
    quiet_s = look.quiet_s
    if quiet_s is None:
        since_us = look.waiting_since_us
        return Seen(f"{look.pending} pending, nobody ever pulled", since_us)
    if look.waiting_s <= NO_PULLS_AFTER_S:
        return None
    text = f"{look.pending} pending, {kinds.NO_PULLS.sentence}, the last delivery was"
    return Seen(f"{text} {quiet_s:.0f} s ago", look.waiting_since_us)


_PULL_LIMITS = {"max_batch": "messages", "max_bytes": "bytes", "max_expires": "ns of waiting"}


def pulls_refused(look: ConsumerLook, known: bool) -> Found:
    """No pull is open, and those above the limits of the consumer are refused."""
    seen = no_pulls(look, known)
    if seen is None:
        return None
    limits = [(name, look.settings.get(name)) for name in _PULL_LIMITS]
    set_ones = [(name, value) for name, value in limits if isinstance(value, int) and value > 0]
    if not set_ones:
        return None
    texts = (
        duration_text(value / 1e9) if name == "max_expires" else f"{value} {_PULL_LIMITS[name]}"
        for name, value in set_ones
    )
    text = f"{look.pending} pending, no pull is open; pulls for more than {', '.join(texts)}"
    return Seen(f"{text} are refused", seen.since_us)


def _delivers_nothing(look: ConsumerLook, after_s: float) -> bool:
    """Tell whether messages wait, somebody asks, nothing holds them back, and nothing comes."""
    if not look.pending or not look.served or _held(look) or at_limit(look):
        return False
    if look.settings.get("replay_policy") == "original" or look.settings.get("rate_limit_bps"):
        return False
    return look.waiting_s > after_s


def flow_stall(look: ConsumerLook, known: bool) -> Found:
    """The subscriber does not answer flow control."""
    if look.config is None or look.config.pull or not look.settings.get("flow_control"):
        return None
    if not _delivers_nothing(look, FLOW_STALL_S):
        return None
    text = f"{look.pending} pending, a subscriber is bound, nothing delivered for"
    return Seen(f"{text} {look.waiting_s:.0f} s", look.waiting_since_us, _unsettled(look))


def stalled(look: ConsumerLook, known: bool) -> Found:
    """Somebody asks, messages wait, and none is delivered."""
    if look.settings.get("flow_control") or not _delivers_nothing(look, STALLED_S):
        return None
    text = f"{look.pending} pending, somebody asks, nothing delivered for"
    return Seen(f"{text} {look.waiting_s:.0f} s", look.waiting_since_us)


def not_pinned(look: ConsumerLook, known: bool) -> Found:
    """It serves one pinned client, and there is none."""
    if look.config is None or look.config.priority_policy != "pinned_client" or not look.pending:
        return None
    if look.columns.pinned_client[look.row] or _held(look):
        return None
    return Seen(f"{look.pending} pending, no client is pinned", look.waiting_since_us)


def only_repeats(look: ConsumerLook, known: bool) -> Found:
    """Deliveries go on, and none of them is of a new message."""
    if look.before is None or not look.pending or not look.redelivered:
        return None
    before, row = look.before
    new, now = look.columns, look.row
    fresh = new.delivered_stream_seq[now] - before.delivered_stream_seq[row]
    repeated = new.delivered_consumer_seq[now] - before.delivered_consumer_seq[row]
    if fresh > 0 or (repeated <= 0 and not known):
        return None
    text = f"{look.pending} pending, and only {counted(look.redelivered, 'message')} again"
    return Seen(text, None, _unsettled(look), hold_s=REPEATS_ONLY_S)


def redelivering(look: ConsumerLook, known: bool) -> Found:
    """More and more messages were delivered again."""
    if not look.redelivered:
        return None
    per_s = trend_per_s(look.state.consumer_history, look.key, "redelivered_msgs")
    if not per_s or per_s <= 0:
        # They come and go: it is over when none came for the whole time.
        values = look.past.values("redelivered_msgs", TREND_S)
        if not known or all(now <= before for (_, now), (_, before) in pairwise(values)):
            return None
    return Seen(f"{counted(look.redelivered, 'message')} delivered again")


def not_acknowledged(look: ConsumerLook, known: bool) -> Found:
    """Messages are held beyond every ack wait, by a client that is gone or forgets them."""
    config = look.config
    if not look.unacked or config is None or config.ack_policy == "none" or _held(look):
        return None
    waits = [config.ack_wait_ns or 0]
    backoff = look.settings.get("backoff")
    if isinstance(backoff, list):
        waits += [pause for pause in backoff if isinstance(pause, int)]
    held_s = (look.at_us - look.idle_since_us) / 1e6
    if not max(waits) or held_s <= max(waits) / 1e9:
        return None
    first, last = _unsettled(look), look.columns.delivered_stream_seq[look.row]
    where = f" from {first[0]} to {last}" if first else ""
    text = f"{counted(look.unacked, 'message')}{where} held for {duration_text(held_s)}"
    text += f", longer than ack wait ({duration_text(max(waits) / 1e9)})"
    return Seen(text, look.idle_since_us, first, {"held_s": held_s, "msgs": look.unacked})


def max_waiting(look: ConsumerLook, known: bool) -> Found:
    """No further pull request is taken."""
    limit = look.config.max_waiting_pulls_count if look.config else None
    count = look.columns.waiting_pulls_count[look.row]
    if not limit or count < limit:
        return None
    return Seen(f"{count} of {limit} pull requests are open: further ones are refused")


def late(look: ConsumerLook, known: bool) -> Found:
    """The next message has waited for long."""
    waits_s = next_waits_s(look.state, look.row)
    if not look.pending or waits_s is None or waits_s <= LAG_S:
        return None
    since_us = look.at_us - round((waits_s - LAG_S) * 1e6)
    return Seen(f"the next message has waited for {duration_text(waits_s)}", since_us)


def skipped(look: ConsumerLook, known: bool) -> Found:
    """The stream has no longer what comes next."""
    stream, config = look.stream, look.config
    if not look.pending or stream is None or config is None or stream.config is None:
        return None
    kept_otherwise = stream.config.retention != "limits" or stream.config.max_msgs_per_subject
    if kept_otherwise or config.deliver_policy != "all":
        return None
    first_seq = stream.columns.first_seq[stream.row]
    delivered_seq = look.columns.delivered_stream_seq[look.row]
    missed = first_seq - 1 - delivered_seq
    if missed <= 0 or not delivered_seq:
        return None
    most = "up to " if config.filter_subjects else ""
    text = f"{most}{counted(missed, 'message')} removed before delivery,"
    sequences = (delivered_seq + 1, first_seq - 1)
    return Seen(f"{text} from {sequences[0]} to {sequences[1]}", None, sequences)


CONSUMER_RULES = (
    Rule(kinds.UNREACHABLE, ALWAYS, unreachable),
    Rule(kinds.NO_LEADER, ALWAYS, no_leader),
    Rule(kinds.NO_QUORUM, ALWAYS, no_quorum),
    Rule(kinds.REPLICA_AWAY, ALWAYS, replica_away),
    Rule(kinds.PAUSED, ALWAYS, paused),
    Rule(kinds.ACK_LIMIT, UNACKED, ack_limit),
    Rule(kinds.NEAR_ACK_LIMIT, UNACKED, near_ack_limit),
    Rule(kinds.NOT_ACKNOWLEDGED, UNACKED, not_acknowledged),
    Rule(kinds.NO_SUBSCRIBER, PENDING, no_subscriber),
    Rule(kinds.NO_PULLS, PENDING, no_pulls),
    Rule(kinds.PULLS_REFUSED, PENDING, pulls_refused),
    Rule(kinds.FLOW_STALL, PENDING, flow_stall),
    Rule(kinds.STALLED, PENDING, stalled),
    Rule(kinds.NOT_PINNED, PENDING, not_pinned),
    Rule(kinds.FALLING_BEHIND, PENDING, falling_behind),
    Rule(kinds.LATE, PENDING, late),
    Rule(kinds.SKIPPED, PENDING, skipped),
    Rule(kinds.ORIGINAL_PACE, PENDING, original_pace),
    Rule(kinds.RATE_LIMITED, PENDING, rate_limited),
    Rule(kinds.ONLY_REPEATS, REDELIVERED, only_repeats),
    Rule(kinds.REDELIVERING, REDELIVERED, redelivering),
    Rule(kinds.POISON, REDELIVERED, poison),
    Rule(kinds.GAVE_UP, REDELIVERED | TOLD, gave_up),
    Rule(kinds.BACKOFF_SPENT, TOLD, backoff_spent),
    Rule(kinds.ALL_NAKED, TOLD, all_naked),
    Rule(kinds.TERMINATED, TOLD, terminated),
    Rule(kinds.ACK_WAIT_SHORT, TOLD, ack_wait_short),
    Rule(kinds.LEADER_FLAPS, TOLD, leader_flaps),
    Rule(kinds.MAX_WAITING, ALWAYS, max_waiting),
    Rule(kinds.NO_MATCH, ALWAYS, no_match),
    Rule(kinds.PAST_THE_END, ALWAYS, past_the_end),
    Rule(kinds.EXPIRING, ALWAYS, expiring),
    Rule(kinds.OWN_THRESHOLD, ALWAYS, consumer_threshold),
)
"""Every rule about one consumer; `GONE` is found by comparing two moments."""


def conditions(look: ConsumerLook, known: frozenset[Kind]) -> list[tuple[Kind, Seen]]:
    """Return every condition that holds for a consumer now."""
    has = ALWAYS
    has |= PENDING if look.pending else 0
    has |= UNACKED if look.unacked else 0
    has |= REDELIVERED if look.redelivered else 0
    has |= TOLD if look.trouble is not None else 0
    found = []
    for kind, needs, find in CONSUMER_RULES:
        if needs & has:
            seen = find(look, kind in known)
            if seen is not None:
                found.append((kind, seen))
    return found
