"""What a finding of an analysis does to people, its code in the catalogue, and what to do then.

One home for the screen, the text and the page. Imports no pyspark.
"""

from __future__ import annotations

from dataclasses import dataclass

from natstui.model.findings.catalogue import account, consumers, status, streams
from natstui.model.findings.catalogue.consumers import COMES_AGAIN, HOLDS_BACK, STUCK_CAUSES
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind

HARMS = {
    "lost": "messages were lost or refused",
    "stuck": "processing stopped",
    "soon": "a limit is near, and what is beyond it will be refused",
    "late": "messages were delivered late",
    "wasteful": "work was done twice or for nothing",
    "blind": "some data is missing: more may have happened",
    "none": "worth knowing",
}
"""Every harm, the worst first, and what it means."""


RECORDED = "finding"
"""Kind of a finding of the verdict that is a recorded one itself; its cause is its code."""
OF_STREAMS = "NT-S"
"""How the codes of findings about streams begin."""


NEAR, FULL_SOON = "near", "full soon"
"""Causes of findings about a limit: it is nearly used up, or will be soon from further away."""
GAVE_UP = "gave up"
"""Cause of a finding about how many messages a consumer dropped after max deliver."""


@dataclass(frozen=True, slots=True)
class Advised:
    """What is told with a finding beside its own words."""

    harm: str
    code: str
    """Of the catalogue; empty for what only an analysis finds."""
    advice: str


def advice_of(kind: Kind) -> str:
    """Return what to look at and what to do, as sentences."""
    stop = "" if kind.check.endswith("?") else "."
    return f"Check {kind.check}{stop} {kind.act[:1].upper()}{kind.act[1:]}."


def _of(harm: str, kind: Kind) -> Advised:
    return Advised(harm, kind.code, advice_of(kind))


_UNEXPLAINED = Advised("stuck", "", "Check the log of its client and of the server at that time.")

_HARM_OF: dict[str, str] = {
    kind.code: harm
    for harm, kinds in {
        "lost": (
            consumers.SKIPPED, consumers.LOST_BEFORE_ACK, streams.S_BATCH_ABANDONED,
            consumers.GAVE_UP, streams.S_LOST, streams.S_REFUSING, streams.S_FULL_SUBJECT,
            streams.S_NO_INTEREST, streams.S_ROLLED_BACK, streams.S_GONE,
            streams.S_RECREATED,
            account.A_STORAGE_FULL, account.A_MEMORY_FULL,
        ),
        "stuck": (
            consumers.UNREACHABLE, consumers.NO_LEADER, consumers.NO_QUORUM, consumers.FLOW_STALL,
            consumers.NO_PULLS, consumers.NO_SUBSCRIBER, consumers.OTHER_GROUP,
            consumers.WITHOUT_GROUP, consumers.ACK_LIMIT,
            consumers.PULLS_REFUSED, consumers.STALLED, consumers.PUSH_STALLED,
            consumers.NOT_ACKNOWLEDGED,
            consumers.PAUSED, consumers.PINNED_IDLE, consumers.NO_ELIGIBLE_PULL,
            consumers.NO_PULLS_SEEN, consumers.UNACKED_WITHOUT_PULL, consumers.FLOOR_BLOCKED,
            consumers.NO_MATCH, consumers.PAST_THE_END, consumers.ROLLED_BACK,
            streams.S_ORIGIN_MISSING, streams.S_AHEAD, streams.S_SOURCE_UNMATCHED,
            streams.S_STOPPED,
            streams.S_UNREACHABLE, streams.S_NO_LEADER, streams.S_NO_QUORUM, streams.S_SILENT,
            streams.S_SOURCE_ERROR, streams.S_UNSERVED,
        ),
        "soon": (
            consumers.EXPIRING, streams.S_NEAR, streams.S_FULL_SOON, streams.S_CONSUMER_LIMIT,
            streams.S_DIFFER, streams.S_MOVE_HANGS,
            account.A_STORAGE_NEAR, account.A_MEMORY_NEAR,
            account.A_STREAMS_NEAR, account.A_CONSUMERS_NEAR,
        ),
        "wasteful": (
            consumers.ALL_NAKED, consumers.POISON, consumers.TERMINATED,
            consumers.REDELIVERING, consumers.NEVER_ACKED, consumers.ACK_WAIT_SHORT,
            consumers.RECREATED, streams.S_PILE_UP,
            streams.S_SUBJECTS, streams.S_OWN_SUBJECTS, streams.S_HOLES, account.A_API_ERRORS,
        ),
        "blind": (
            account.M_NO_LINK, account.M_DENIED, account.M_UNAVAILABLE, account.M_STALE,
            account.M_EVENTS_LEFT_OUT,
        ),
    }.items()
    for kind in kinds
}  # fmt: skip
"""Code of the catalogue → harm; what is not here came late."""
LOSING = tuple(code for code, harm in _HARM_OF.items() if harm == "lost")
"""Codes of findings that messages were lost or refused."""
TOLD_SEVERITIES = ("critical", "warning")
"""A recorded finding that is only worth knowing is in its table, and not among the ten."""


def harm_of(kind: Kind) -> str:
    """Return what a recorded finding does to people."""
    return _HARM_OF.get(kind.code, "late")


ADVISED: dict[tuple[str, str], Advised] = {
    **{
        (RECORDED, kind.code): _of(harm_of(kind), kind)
        for kind in KINDS.values()
        if kind.severity in TOLD_SEVERITIES
    },
    **{("stuck", kind.word): _of("stuck", kind) for kind in HOLDS_BACK},
    **{
        ("lag", kind.word): _of(harm_of(kind), kind)
        for kind in (*HOLDS_BACK, consumers.FALLING_BEHIND)
    },
    **{("redelivery", kind.word): _of("wasteful", kind) for kind in COMES_AGAIN},
    **{
        ("stuck", cause.word): _of("stuck", cause) if isinstance(cause, Kind) else _UNEXPLAINED
        for cause in STUCK_CAUSES
    },
    ("stuck", status.UNEXPLAINED.word): _UNEXPLAINED,
    ("lag", "lag"): _of("late", consumers.FALLING_BEHIND),
    ("identity", "began anew"): _of("lost", streams.S_ROLLED_BACK),
    ("identity", "identity"): Advised(
        "lost", streams.S_GONE.code,
        "Check who deletes it: its messages are lost. To remove only the messages, purge the "
        "stream instead.",
    ),
    ("identity", "made again"): Advised(
        "wasteful", consumers.GONE.code,
        "Check who deletes it: the new consumer starts again, and repeats or skips messages. "
        "Use a durable consumer with a fixed name.",
    ),
    ("redelivery", "redelivery"): _of("wasteful", consumers.REDELIVERING),
    ("redelivery", "terminated"): _of("wasteful", consumers.TERMINATED),
    ("redelivery", GAVE_UP): _of("lost", consumers.GAVE_UP),
    ("poison", "was dropped after max deliver"): _of("lost", consumers.GAVE_UP),
    ("poison", "is redelivered again and again"): _of("wasteful", consumers.POISON),
    ("recording", "recording"): Advised(
        "blind", "",
        "Check the disk that it was recorded to. `natstui sessions verify` says what is missing.",
    ),
    ("recording", "not_judged"): Advised(
        "blind", "",
        "Analyse it once on the machine where it is stored, or record with a newer natstui, "
        "which stores findings.",
    ),
    ("recording", "sampled"): Advised(
        "blind", "",
        "Compare fewer sessions at a time: then every stream and consumer is compared.",
    ),
    ("comparison", "slower"): Advised(
        "late", "",
        "Check what changed between the two sessions: the client, its configuration, the server.",
    ),
    ("comparison", "faster"): Advised("none", "", "No action is needed."),
    ("availability", "leader_absent"): _of("stuck", streams.S_NO_LEADER),
    ("availability", "unreachable"): _of("stuck", streams.S_UNREACHABLE),
    ("availability", "leader_change"): _of("late", streams.S_LEADER_FLAPS),
    ("availability", "replica_away"): _of("late", streams.S_PEER_AWAY),
    ("availability", "replica_lag"): _of("late", streams.S_PEER_LAGS),
    ("availability", "api_slow"): _of("late", account.A_API_SLOW),
    ("availability", "disconnected"): _of("blind", account.M_NO_LINK),
    ("availability", "unavailable"): _of("blind", account.M_UNAVAILABLE),
    ("availability", "clock_step"): _of("blind", account.M_CLOCK),
    ("availability", "gap"): Advised(
        "blind", "", "Check whether the recording machine slept or was overloaded."
    ),
    ("capacity", "full"): _of("lost", streams.S_REFUSING),
    ("capacity", NEAR): _of("soon", streams.S_NEAR),
    ("capacity", FULL_SOON): _of("soon", streams.S_FULL_SOON),
    ("capacity", account.A_STORAGE_FULL.word): _of("lost", account.A_STORAGE_FULL),
    ("capacity", account.A_MEMORY_FULL.word): _of("lost", account.A_MEMORY_FULL),
    ("capacity", f"storage {NEAR}"): _of("soon", account.A_STORAGE_NEAR),
    ("capacity", f"memory {NEAR}"): _of("soon", account.A_MEMORY_NEAR),
    **{
        ("capacity", f"{what} {FULL_SOON}"): Advised(
            "soon", "",
            "Check which streams grow, and whether that continues. Lower the limits of "
            "streams, or raise the limit of the account.",
        )
        for what in ("storage", "memory")
    },
    ("hour", "hour"): Advised(
        "none", "", "Check that hour first: the tables and charts show what happened in it."
    ),
    ("idle", "idle"): Advised(
        "wasteful", "",
        "Check who needs them: the table of idle streams and consumers lists them. Delete "
        "those that are not needed.",
    ),
    **{
        ("change", trouble): Advised(
            harm, "",
            "Check whether the change was intended: `natstui` shows the current configuration, "
            "and can undo its own changes.",
        )
        for trouble, harm in (("stuck", "stuck"), ("lagging", "late"), ("redelivery", "wasteful"))
    },
    ("delay", "bursts"): Advised(
        "late", "",
        "Check whether messages may wait so long. If not, start more clients, or limit the "
        "rate of the publishers.",
    ),
    ("delay", "repeats"): Advised(
        "late", "",
        "Check why messages are redelivered: redeliveries delay new messages.",
    ),
    ("delay", "elections"): Advised(
        "late", "", "Check why leaders change: read the logs of the servers, check the network.",
    ),
    ("benchmark", "benchmark"): Advised(
        "lost", "",
        "Check the errors of its workers, and whether the stream had room for its messages.",
    ),
    ("benchmark", "does not add up"): Advised(
        "blind", "",
        "Check whether the recording has the entire run: it may begin or end in the middle of "
        "it, or have lost lines.",
    ),
}  # fmt: skip
"""By the kind and the cause of a finding; a test finds one for each that there can be."""
