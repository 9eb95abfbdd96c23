"""The harm of a finding of an analysis, its code in the catalogue, and the advice.

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
"""Harm → its meaning, the worst first."""


RECORDED = "finding"
"""Kind of a recorded finding in the verdict; its cause is its code."""
OF_STREAMS = "NT-S"
"""Prefix of the codes of findings about streams."""


NEAR, FULL_SOON = "near", "full soon"
"""Causes of findings about a limit: nearly reached, or reached soon at the growth."""
GAVE_UP = "gave up"
"""Cause of a finding about messages that a consumer dropped after max deliver."""


@dataclass(frozen=True, slots=True)
class Advice:
    """The harm, code and advice of a finding."""

    harm: str
    code: str
    """Code in the catalogue; empty for findings that only an analysis has."""
    advice: str


def advice_of(kind: Kind) -> str:
    """Return the sentences that say what to check and what to do."""
    stop = "" if kind.check.endswith("?") else "."
    return f"Check {kind.check}{stop} {kind.act[:1].upper()}{kind.act[1:]}."


def _advice_for(harm: str, kind: Kind) -> Advice:
    return Advice(harm, kind.code, advice_of(kind))


_UNEXPLAINED = Advice("stuck", "", "Check the log of its client and of the server at that time.")

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
            account.M_EVENTS_LEFT_OUT, account.M_NO_BULK,
        ),
    }.items()
    for kind in kinds
}  # fmt: skip
"""Code of the catalogue → harm; all others are `late`."""
LOSS_CODES = tuple(code for code, harm in _HARM_OF.items() if harm == "lost")
"""Codes of findings about lost or refused messages."""
REPORTED_SEVERITIES = ("critical", "warning")
"""Severities of recorded findings that may be in the verdict."""


def harm_of(kind: Kind) -> str:
    """Return the harm of a recorded finding."""
    return _HARM_OF.get(kind.code, "late")


ADVICE: dict[tuple[str, str], Advice] = {
    **{
        (RECORDED, kind.code): _advice_for(harm_of(kind), kind)
        for kind in KINDS.values()
        if kind.severity in REPORTED_SEVERITIES
    },
    **{("stuck", kind.word): _advice_for("stuck", kind) for kind in HOLDS_BACK},
    **{
        ("lag", kind.word): _advice_for(harm_of(kind), kind)
        for kind in (*HOLDS_BACK, consumers.FALLING_BEHIND)
    },
    **{("redelivery", kind.word): _advice_for("wasteful", kind) for kind in COMES_AGAIN},
    **{
        ("stuck", cause.word): (
            _advice_for("stuck", cause) if isinstance(cause, Kind) else _UNEXPLAINED
        )
        for cause in STUCK_CAUSES
    },
    ("stuck", status.UNEXPLAINED.word): _UNEXPLAINED,
    ("lag", "lag"): _advice_for("late", consumers.FALLING_BEHIND),
    ("identity", "began anew"): _advice_for("lost", streams.S_ROLLED_BACK),
    ("identity", "identity"): Advice(
        "lost", streams.S_GONE.code,
        "Check who deletes it: its messages are lost. To remove only the messages, purge the "
        "stream instead.",
    ),
    ("identity", "made again"): Advice(
        "wasteful", consumers.GONE.code,
        "Check who deletes it: the new consumer starts again, and repeats or skips messages. "
        "Use a durable consumer with a fixed name.",
    ),
    ("redelivery", "redelivery"): _advice_for("wasteful", consumers.REDELIVERING),
    ("redelivery", "terminated"): _advice_for("wasteful", consumers.TERMINATED),
    ("redelivery", GAVE_UP): _advice_for("lost", consumers.GAVE_UP),
    ("poison", "was dropped after max deliver"): _advice_for("lost", consumers.GAVE_UP),
    ("poison", "is redelivered again and again"): _advice_for("wasteful", consumers.POISON),
    ("recording", "recording"): Advice(
        "blind", "",
        "Check the disk that it was recorded to. `natstui sessions verify` says what is missing.",
    ),
    ("recording", "not_judged"): Advice(
        "blind", "",
        "Analyse it once on the machine where it is stored, or record with a newer natstui, "
        "which stores findings.",
    ),
    ("recording", "sampled"): Advice(
        "blind", "",
        "Compare fewer sessions at a time: then every stream and consumer is compared.",
    ),
    ("comparison", "slower"): Advice(
        "late", "",
        "Check what changed between the two sessions: the client, its configuration, the server.",
    ),
    ("comparison", "faster"): Advice("none", "", "No action is needed."),
    ("availability", "leader_absent"): _advice_for("stuck", streams.S_NO_LEADER),
    ("availability", "unreachable"): _advice_for("stuck", streams.S_UNREACHABLE),
    ("availability", "leader_change"): _advice_for("late", streams.S_LEADER_FLAPS),
    ("availability", "replica_away"): _advice_for("late", streams.S_PEER_AWAY),
    ("availability", "replica_lag"): _advice_for("late", streams.S_PEER_LAGS),
    ("availability", "api_slow"): _advice_for("late", account.A_API_SLOW),
    ("availability", "disconnected"): _advice_for("blind", account.M_NO_LINK),
    ("availability", "unavailable"): _advice_for("blind", account.M_UNAVAILABLE),
    ("availability", "clock_step"): _advice_for("blind", account.M_CLOCK),
    ("availability", "gap"): Advice(
        "blind", "", "Check whether the recording machine slept or was overloaded."
    ),
    ("capacity", "full"): _advice_for("lost", streams.S_REFUSING),
    ("capacity", NEAR): _advice_for("soon", streams.S_NEAR),
    ("capacity", FULL_SOON): _advice_for("soon", streams.S_FULL_SOON),
    ("capacity", account.A_STORAGE_FULL.word): _advice_for("lost", account.A_STORAGE_FULL),
    ("capacity", account.A_MEMORY_FULL.word): _advice_for("lost", account.A_MEMORY_FULL),
    ("capacity", f"storage {NEAR}"): _advice_for("soon", account.A_STORAGE_NEAR),
    ("capacity", f"memory {NEAR}"): _advice_for("soon", account.A_MEMORY_NEAR),
    **{
        ("capacity", f"{storage_kind} {FULL_SOON}"): Advice(
            "soon", "",
            "Check which streams grow, and whether that continues. Lower the limits of "
            "streams, or raise the limit of the account.",
        )
        for storage_kind in ("storage", "memory")
    },
    ("hour", "hour"): Advice(
        "none", "", "Check that hour first: the tables and charts show what happened in it."
    ),
    ("idle", "idle"): Advice(
        "wasteful", "",
        "Check who needs them: the table of idle streams and consumers lists them. Delete "
        "those that are not needed.",
    ),
    **{
        ("change", trouble): Advice(
            harm, "",
            "Check whether the change was intended: `natstui` shows the current configuration, "
            "and can undo its own changes.",
        )
        for trouble, harm in (("stuck", "stuck"), ("lagging", "late"), ("redelivery", "wasteful"))
    },
    ("delay", "bursts"): Advice(
        "late", "",
        "Check whether messages may wait so long. If not, start more clients, or limit the "
        "rate of the publishers.",
    ),
    ("delay", "repeats"): Advice(
        "late", "",
        "Check why messages are redelivered: redeliveries delay new messages.",
    ),
    ("delay", "elections"): Advice(
        "late", "", "Check why leaders change: read the logs of the servers, check the network.",
    ),
    ("benchmark", "benchmark"): Advice(
        "lost", "",
        "Check the errors of its workers, and whether the stream had room for its messages.",
    ),
    ("benchmark", "does not add up"): Advice(
        "blind", "",
        "Check whether the recording has the entire run: it may begin or end in the middle of "
        "it, or have lost lines.",
    ),
}  # fmt: skip
"""(kind, cause) of a finding → its advice; a test requires one for every possible finding."""
