"""How many messages of a worker are under way, from what it counted. Pure."""

from __future__ import annotations

from natstui.model.bench.counts import Counts
from natstui.model.bench.plan import Role

_ONE_BY_ONE = ("explicit", "double")


def in_flight_msgs(role: Role, counts: Counts) -> int | None:
    """Return what a sender has no answer to, or what a receiver has not acknowledged yet.

    None where nobody answers, and where one acknowledgement settles many.
    """
    does = role.traits
    if does.awaits_reply or does.awaits_responses:
        answered = counts.received_msgs - counts.duplicate_msgs + counts.duplicate_acked_msgs
    elif does.sends and does.is_stored:
        answered = counts.acked_msgs + counts.duplicate_acked_msgs
    elif does.has_shared_consumer and role.acks in _ONE_BY_ONE:
        settled = counts.acks_sent_msgs + counts.naks_sent_msgs + counts.terms_sent_msgs
        return max(counts.received_msgs - settled - counts.never_acked_msgs, 0)
    else:
        return None
    gone = counts.refused_msgs + counts.unanswered_msgs
    return max(counts.sent_msgs - answered - gone, 0)
