"""Compares what natstui says of a situation with what a senior engineer says of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NamedTuple

from natstui.jetstream.polling.subjects import SMALL_STREAM_RECOUNT_S
from natstui.jetstream.system.watching import CLIENTS_INTERVAL_S
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.thresholds import (
    DELETION_REPORTED_S,
    DROPPED_MSGS_REPORTED_S,
    LAGGING_WINDOW_S,
    LEADER_CHANGES_WINDOW_S,
    LOST_MSGS_REPORTED_S,
    NAKS_WINDOW_S,
    PILE_UP_WINDOW_S,
    RECREATIONS_WINDOW_S,
    REDELIVERIES_WINDOW_S,
    RESTARTS_WINDOW_S,
)
from natstui.model.servers.watch import SLOW_CONSUMERS_REPORTED_US
from tests.faults.situations import Situation

Verdict = Literal["right", "partly", "wrong", "silent", "cannot be known", "not made"]

Closing = Literal["not fixed", "within 3 polls", "after its hold", "still held", "late"]

POLLS_COUNT = 4
"""Three polls, and the one by which the lab has read what was found in the last of them."""
LASTING_S = 3.0
"""How long another critical cause must be open before it counts as said."""

NAMES: dict[str, tuple[str, str | None]] = {
    "kv-full": ("KV_FULL", None),
    "object-chunks": ("OBJ_CHUNKS", None),
    "five-consumer": ("FIVE_STREAM", "C"),
    "fine-sourcing-consumer": ("FINE_SOURCING_CONSUMER_ORIGIN", "*"),
}
"""Streams and consumers that are not called after their situation."""

SERVER_OF = {
    "node-killed": "n3",
    "node-frozen": "n3",
    "leaders-unbalanced": "n1",
    "cluster-node-restarts": "n3",
    "versions-differ": "n3",
    "lame-duck": "n2",
    "two-killed-meta": "meta group",
    "meta-flapping": "meta group",
}
"""The server, or the group of them, that a finding of a cluster must name."""

_SERVERS_S, _MINUTE_S, _RATE_S = 10.0, 60.0, 10.0
HOLDS_S: dict[str, float] = {
    # Kept on purpose: what happened is told for a while.
    "NT-C12": LOST_MSGS_REPORTED_S, "NT-C48": LOST_MSGS_REPORTED_S,
    "NT-S04": LOST_MSGS_REPORTED_S, "NT-S39": LOST_MSGS_REPORTED_S,
    "NT-S51": LOST_MSGS_REPORTED_S, "NT-C21": DROPPED_MSGS_REPORTED_S,
    "NT-S30": DROPPED_MSGS_REPORTED_S,
    "NT-C38": DELETION_REPORTED_S, "NT-S31": DELETION_REPORTED_S, "NT-S38": DELETION_REPORTED_S,
    "NT-V24": SLOW_CONSUMERS_REPORTED_US / 1e6,
    # Counted over a window, which must pass.
    "NT-C04": NAKS_WINDOW_S, "NT-C22": NAKS_WINDOW_S, "NT-C55": NAKS_WINDOW_S,
    "NT-C05": REDELIVERIES_WINDOW_S,
    "NT-C29": REDELIVERIES_WINDOW_S, "NT-C42": REDELIVERIES_WINDOW_S, "NT-C23": LAGGING_WINDOW_S,
    "NT-C46": RECREATIONS_WINDOW_S, "NT-S29": LEADER_CHANGES_WINDOW_S,
    "NT-V36": LEADER_CHANGES_WINDOW_S,
    "NT-V23": RESTARTS_WINDOW_S, "NT-V53": RESTARTS_WINDOW_S, "NT-A25": _RATE_S, "NT-A28": _RATE_S,
    "NT-S36": PILE_UP_WINDOW_S,
    # Replicas are compared where the leader stood still since the poll before.
    "NT-S14": 2.0,
    # Read that often only.
    "NT-A03": _MINUTE_S + CLIENTS_INTERVAL_S, "NT-V33": _MINUTE_S + CLIENTS_INTERVAL_S,
    "NT-V37": _MINUTE_S, "NT-V34": CLIENTS_INTERVAL_S, "NT-C49": CLIENTS_INTERVAL_S,
    "NT-C16": CLIENTS_INTERVAL_S, "NT-C17": CLIENTS_INTERVAL_S, "NT-C50": CLIENTS_INTERVAL_S,
    "NT-S13": SMALL_STREAM_RECOUNT_S, "NT-S21": SMALL_STREAM_RECOUNT_S,
    "NT-S40": SMALL_STREAM_RECOUNT_S,
    "NT-V03": _SERVERS_S, "NT-V04": _SERVERS_S, "NT-V21": _SERVERS_S, "NT-V22": _SERVERS_S,
    "NT-V02": _SERVERS_S,
}  # fmt: skip
"""How long after the fix a finding may be reported, beside the time its kind takes to leave."""

_ORIGIN_MISSING = r"(origin|source).*(missing|does not exist|deleted|gone)|source (silent|error)"

MEANS = {
    "no open pulls": r"no (open )?pulls?\b|no pull request|never pulled|unacked messages wait",
    "unacked messages wait for a pull": r"unacked messages wait",
    "several subscribers without a queue group": r"several subscribers|twice",
    "consumer paused": r"paused",
    "push consumer stalled": r"push consumer stalled|flow stall",
    "never pulled": r"never pulled|no (open )?pulls?\b",
    "no subscriber": r"no subscriber|nobody subscribes",
    "subscribed in another queue group": r"(other|another|wrong) (queue )?group|queue group",
    "subscribed without a queue group": r"without (a |its )?(queue )?group|queue group",
    "each message processed twice": r"twice|without (a )?queue group|several subscribers",
    "flow control not answered": r"flow control|flow stall",
    "rate limit reached": r"rate limit",
    "paused": r"paused",
    "max ack pending reached": r"max ack pending|ack limit",
    "never acked": r"never ack|not acked|not acknowledged|only repeats|acks? denied",
    "redelivered again and again": r"redeliver|only repeats",
    "acked after ack wait": r"acked after ack wait|later than ack wait|ack wait short",
    "ack floor blocked by one message": r"ack floor blocked|blocks the ack floor",
    "poison message": r"poison",
    "all messages nak'd": r"all (messages )?nak",
    "messages terminated": r"terminated",
    "waits for backoff": r"waits? for (its )?backoff|backoff",
    "redelivery waits for ack wait": r"waits? for (the )?(next |re)delivery|wait for ack wait",
    "max deliver reached": r"max deliver reached|gave up|dropped after max deliver",
    "messages lost before ack": r"lost before (its |their )?ack|unacked messages? .*lost",
    "filter matches nothing": r"filters?.* match(es)? nothing|nothing matches|matches no subject",
    "start is beyond the end of the stream": r"start.*beyond|starts later|start.*not reached",
    "no eligible pull": r"no eligible pull|not eligible|min pending",
    "pinned client idle": r"pinned client (is )?idle|pinned client",
    "pulls refused": r"pulls? refused|refused pulls?|priority group missing",
    "pull without its group": r"pulls? without (its |a |the )?(priority )?group",
    "pull max bytes too small": r"max bytes (is |are )?too small|smaller than the (next )?message",
    "max waiting reached": r"max waiting",
    "lagging": r"lagging|falling behind|too slow",
    "consumer too slow": r"too slow|falling behind",
    "backlog grows": r"backlog grows|falling behind",
    "slower than its own pace": r"pace",
    "messages lost before delivery": r"lost (messages|before delivery)|lost before delivery",
    "consumer removed by inactive threshold": r"removed by (its )?inactive threshold",
    "orphaned messages": r"orphan|nobody takes|no consumer filter matches",
    "no consumer for subject": r"no consumer for|nobody takes|no consumers?\b|without consumers",
    "no consumer": r"no consumers?\b|without consumers",
    "consumer deleted": r"consumer deleted|\bgone\b|deleted",
    "consumer recreated again and again": r"recreated|again and again created",
    "consumers piling up": r"piling up|consumer leak",
    "consumer limit reached": r"consumer limit|max consumers|nearly full",
    "stream full": r"stream full|refusing|is full",
    "rejecting publishes": r"reject|refus",
    "stream nearly full": r"nearly full|near a limit",
    "full per subject": r"full per subject|per subject",
    "publisher stopped": r"publisher stopped|nothing stored since",
    "stream sealed": r"sealed",
    "published messages are dropped": r"dropped at once|are dropped|no interest|keeps nothing",
    "consumer keeps all messages": r"keeps (all|everything|messages)|holds (all|everything)",
    "mirror origin missing": _ORIGIN_MISSING,
    "source missing": _ORIGIN_MISSING,
    "mirror lagging": r"mirror lag|source lag|source (behind|silent)|behind its origin",
    "mirror not active": r"not active|source silent|not heard",
    "mirror ahead of its origin": r"ahead of (its|the) origin",
    "mirror origin recreated": r"origin.*recreated",
    "stream recreated": r"recreated",
    "stream deleted": r"deleted",
    "purged": r"purged?\b",
    "messages purged": r"purged?\b",
    "atomic batch abandoned": r"batch(es)? (was |were )?abandoned|abandon",
    "object chunks without meta entry": r"chunks",
    "orphaned object chunks": r"chunks",
    "account storage limit reached": r"storage (limit reached|(nearly )?full|near limit)",
    "storage nearly full": r"storage (nearly full|full|near limit|limit reached)",
    "storage full": r"storage (is )?(nearly )?full",
    "account stream limit reached": r"streams? (limit|near limit)",
    "account consumer limit reached": r"consumers? (limit|near limit)",
    "many API errors": r"api errors",
    "many API requests": r"api (requests|flood|backlog)",
    "reconnects again and again": r"reconnects|flapping client|again and again",
    "very many subscriptions": r"many subscriptions",
    "connection limit reached": r"connection limit|connections? (nearly|near)",
    "connections full": r"connections full",
    "client closed with unacked messages": r"closed with unacked",
    "slow consumer": r"slow consumers?",
    "memory nearly full": r"memory (store )?(nearly )?full|memory near",
    "jetstream memory nearly full": r"memory (store )?(nearly )?full",
    "certificate expires": r"certificate",
    "authentication failures": r"authentication|auth errors|wrong password",
    "server restarted": r"restarted",
    "server restarts again and again": r"restarts|restarted.*times",
    "server not responding": r"not respond|no (answer|reply)|not connected|does not (reply|greet)",
    "server down": r"server down|server.*not respond|not connected",
    "store rolled back": r"rolled back|went back",
    "messages lost from the store": r"damaged|lost (from|by damage|in)|messages lost",
    "stream offline": r"offline|unsupported|refuses to run",
    "needs a newer server": r"newer (server|version)|api level|unsupported",
    "leaf node disconnected": r"leaf ?node",
    "lame duck": r"lame duck",
    "server in lame duck mode": r"lame duck",
    "leader unreachable": (
        r"leader unreachable|unreachable|no answer|does not (?:answer|reply)|not respond"
    ),
    "consumer offline": r"offline",
    "no leader": r"no leader|leaderless",
    "replica offline": r"replica (is )?(offline|down|away|unreachable)|away",
    "replica down": r"replica (is )?down|away",
    "replica not current": r"not current|away",
    "replica lagging": r"replica (is )?(lagging|behind)",
    "meta group without quorum": r"meta group|meta (has )?(no|without) quorum",
    "no quorum": r"no quorum|quorum lost",
    "scale hangs": r"scale|does not finish|hangs|catch",
    "move hangs": r"move (or scale )?hangs",
    "replicas differ": r"replicas differ",
    "leaders unbalanced": r"unbalanced",
    "leader changes often": r"leader (changes|flaps)|flapping",
    "meta leader changes often": r"meta.*leader",
    "memory stream emptied by a restart": r"emptied|memory stream",
    "versions differ": r"versions? differ",
    "redelivery by nak": r"nak",
    "messages nak'd": r"nak",
}
"""What a label looks like in natstui's labels and sentences."""


class Seen(NamedTuple):
    """A finding that natstui says is open."""

    code: str
    severity: str
    stream: str
    consumer: str
    part: str
    text: str
    """Its label and sentence."""


class Poll(NamedTuple):
    """All open findings at a moment of the lab's clock."""

    at_s: float
    seen: tuple[Seen, ...]


@dataclass
class Course:
    """One situation over time, in seconds of the lab's clock, and the polls of its system."""

    situation: Situation
    polls: list[Poll] = field(default_factory=list)
    broken_s: float | None = None
    fixed_s: float | None = None
    ended_s: float | None = None
    failed: str = ""
    """Why it could not be made."""
    siblings: tuple[Situation, ...] = ()
    """Other situations of the same entity."""


def entity_of(situation: Situation) -> tuple[str, str | None]:
    """Return the names of a situation's stream and consumer; empty where it has none."""
    if situation.key in NAMES:
        return NAMES[situation.key]
    if situation.entity not in ("stream", "consumer"):
        return "", None
    name = situation.key.upper().replace("-", "_")
    return name, "C" if situation.entity == "consumer" else None


def is_on(situation: Situation, seen: Seen) -> bool:
    """Return whether a finding is about the situation's entity."""
    stream, consumer = entity_of(situation)
    if not stream:
        # M codes are about natstui's own reading, yet a lost connection is how a server is down.
        named = SERVER_OF.get(situation.key, "")
        return not seen.stream and named in f"{seen.part} {seen.text}"
    if consumer == "*":
        return seen.stream == stream and bool(seen.consumer)
    return (seen.stream, seen.consumer) == (stream, consumer or "")


def is_related(situation: Situation, seen: Seen) -> bool:
    """Return whether a finding is about the stream of the situation."""
    stream, _ = entity_of(situation)
    return bool(stream) and seen.stream == stream


def names(cause: str, seen: Seen) -> bool:
    """Return whether a finding says this cause."""
    return re.search(MEANS.get(cause, re.escape(cause)), seen.text, re.IGNORECASE) is not None


def says(situation: Situation, seen: Seen) -> bool:
    """Return whether a finding says what is expected."""
    labels = [label for label in (situation.cause, *situation.also) if label]
    return any(names(label, seen) for label in labels)


class Judged(NamedTuple):
    """How natstui did on one situation."""

    verdict: Verdict
    said: str
    """What it said instead, or beside."""
    opened_s: float | None = None
    closed_s: float | None = None
    changes_count: int = 0
    hold_s: float = 0.0
    """How long after the fix it may be reported, by its facts and its kind."""
    closing: Closing = "not fixed"


def _texts(seen: Iterable[Seen]) -> str:
    return ", ".join(
        sorted({f"{each.code} {each.severity} {each.text.split(':')[0]}" for each in seen})
    )


def judge_findings(course: Course, seen: Iterable[Seen]) -> Judged:
    """Judge findings of one moment: of a process started afterwards, or of a recording."""
    situation, here, related = course.situation, [], []
    for each in seen:
        if is_on(situation, each):
            here.append(each)
        elif is_related(situation, each):
            related.append(each)
    here = [each for each in here if not _is_sibling(course, each)]
    if not situation.cause:
        loud = [
            each
            for each in (*here, *related)
            if each.severity != "info" and not says(situation, each)
        ]
        return Judged("wrong" if loud else "right", _texts(loud))
    right = [each for each in here if says(situation, each)]
    other = [
        each
        for each in here
        if each.severity == "critical" and not (says(situation, each) or _is_own(each))
    ]
    if right:
        return Judged("partly" if other else "right", _texts(other or right))
    if other:
        return Judged("wrong", _texts(other))
    beside = [each for each in (*here, *related) if each.severity != "info"]
    elsewhere = [each for each in related if says(situation, each)]
    if not situation.known:
        return Judged("cannot be known", _texts(beside or elsewhere))
    if beside or elsewhere:
        return Judged("partly", _texts(beside or elsewhere))
    return Judged("silent", "")


def _is_own(seen: Seen) -> bool:
    """Return whether natstui says this of itself: it is not connected, or cannot read."""
    return not seen.code or seen.code.startswith("NT-M")


def _is_sibling(course: Course, seen: Seen) -> bool:
    return not says(course.situation, seen) and any(
        says(sibling, seen) for sibling in course.siblings
    )


def judge_live(course: Course) -> Judged:
    """Judge what was said from poll to poll between the break and the fix."""
    situation = course.situation
    if course.failed or course.broken_s is None:
        return Judged("not made", course.failed)
    until_s = course.ended_s or course.fixed_s or float("inf")
    if situation.key == "fine-new-consumer":
        until_s = course.broken_s + situation.within_s
    polls = [poll for poll in course.polls if course.broken_s <= poll.at_s < until_s]
    if not polls:
        return Judged("not made", "nothing was read meanwhile")
    lasting = _lasting(polls)
    judged = judge_findings(course, lasting)
    if not situation.cause or judged.verdict not in ("right", "partly"):
        return judged
    open_at = [
        any(is_on(situation, each) and says(situation, each) for each in poll.seen)
        for poll in polls
    ]
    if True not in open_at:
        return judged
    opened_s = polls[open_at.index(True)].at_s - course.broken_s
    since_opened = open_at[open_at.index(True) :]
    changes = sum(1 for before, now in pairwise(since_opened) if before != now)
    closed_s = _closed_after_s(course)
    said, verdict = judged.said, judged.verdict
    if verdict == "right" and opened_s > situation.within_s + POLLS_COUNT * _interval_s(polls):
        verdict, said = "partly", f"late: {opened_s:.0f} s. {said}"
    if verdict == "right" and changes > 2:
        verdict, said = "partly", f"blinks: {changes} changes. {said}"
    hold_s = max(
        _hold_s(each)
        for poll in polls
        for each in poll.seen
        if is_on(situation, each) and says(situation, each)
    )
    closing = _closing(course, closed_s, hold_s)
    return Judged(verdict, said, opened_s, closed_s, changes, hold_s, closing)


def _hold_s(seen: Seen) -> float:
    return KINDS[seen.code].leave_s + HOLDS_S.get(seen.code, 0.0) if seen.code in KINDS else 0.0


def _closing(course: Course, closed_s: float | None, hold_s: float) -> Closing:
    """Return how the closing compares with three polls, and with the hold that a fact states."""
    if course.fixed_s is None:
        return "not fixed"
    later = [poll for poll in course.polls if poll.at_s >= course.fixed_s]
    polls_s = POLLS_COUNT * _interval_s(later)
    if later:
        # Right after the fix, polls may be further apart than usual.
        polls_s = max(polls_s, later[:POLLS_COUNT][-1].at_s - course.fixed_s)
    after_s = later[-1].at_s - course.fixed_s if closed_s is None and later else closed_s or 0.0
    if closed_s is None:
        return "still held" if after_s < hold_s + polls_s else "late"
    if closed_s <= polls_s:
        return "within 3 polls"
    return "after its hold" if closed_s <= hold_s + polls_s else "late"


def _interval_s(polls: list[Poll]) -> float:
    """Return the longest usual time between two polls: a busy machine takes longer than 1 s."""
    gaps = sorted(after.at_s - before.at_s for before, after in pairwise(polls))
    return max(1.0, gaps[len(gaps) * 9 // 10]) if gaps else 1.0


def _lasting(polls: list[Poll]) -> tuple[Seen, ...]:
    """Return what was open; of other criticals only what lasted for some polls."""
    times: dict[Seen, int] = {}
    for poll in polls:
        for each in poll.seen:
            times[each] = times.get(each, 0) + 1
    enough = min(LASTING_S, len(polls))
    return tuple(each for each, count in times.items() if count >= enough)


def _closed_after_s(course: Course) -> float | None:
    """Return how long after the fix it was closed for good; None where it was not."""
    if course.fixed_s is None:
        return None
    closed_s = None
    for poll in course.polls:
        if poll.at_s < course.fixed_s:
            continue
        is_open = any(
            is_on(course.situation, each) and says(course.situation, each) for each in poll.seen
        )
        if is_open:
            closed_s = None
        elif closed_s is None:
            closed_s = poll.at_s - course.fixed_s
    return closed_s
