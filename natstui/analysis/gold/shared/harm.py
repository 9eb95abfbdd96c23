"""The harm of the findings of an analysis, their codes in the catalogue, and the advice.

The screen, the text and the page read them from here. Imports no pyspark.
"""

from __future__ import annotations

from msgspec import Struct

from natstui.model.findings.catalogue import account, consumers, status, streams
from natstui.model.findings.catalogue.consumers import (
    KINDS_OF_REDELIVERY,
    KINDS_OF_WAITING,
    STUCK_CAUSES,
)
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind

MEANING_BY_HARM = {
    "lost": "messages were lost or refused",
    "stuck": "processing stopped",
    "soon": "a limit is near, and what is beyond it will be refused",
    "late": "messages were delivered late",
    "wasteful": "work was done twice or for nothing",
    "blind": "some data is missing: more may have happened",
    "none": "worth knowing",
}
"""Kind of harm that a finding does → its meaning, the worst first."""


RECORDED_KIND = "finding"
"""Kind of a recorded finding in the verdict, whose cause is its code."""
STREAM_CODE_PREFIX = "NT-S"
"""Prefix of the codes of findings about streams."""


NEAR_CAUSE, FULL_SOON_CAUSE = "near", "full soon"
"""Causes of findings about a limit that is nearly reached, or will be reached soon."""
DROPPED_CAUSE = "dropped"
"""Cause of a finding about messages that a consumer dropped after max deliver."""


class FindingAdvice(Struct, frozen=True):
    """The kind of harm that a finding does, its code in the catalogue, and what to do."""

    harm: str
    code: str
    """Code in the catalogue; empty for findings that only an analysis has."""
    advice: str


def advice_text(kind: Kind) -> str:
    """Return the advice of a kind of finding: what to check, and what to do."""
    full_stop = "" if kind.check.endswith("?") else "."
    return f"Check {kind.check}{full_stop} {kind.act[:1].upper()}{kind.act[1:]}."


def _kind_advice(harm: str, kind: Kind) -> FindingAdvice:
    return FindingAdvice(harm, kind.code, advice_text(kind))


_UNEXPLAINED_STUCK = FindingAdvice(
    "stuck", "", "Check the log of its client and of the server at that time."
)

_HARM_BY_CODE: dict[str, str] = {
    kind.code: harm
    for harm, kinds in {
        "lost": (
            consumers.LOST_BEFORE_DELIVERY, consumers.LOST_BEFORE_ACK, streams.BATCH_ABANDONED,
            consumers.MAX_DELIVER_REACHED, streams.STREAM_MESSAGES_LOST, streams.STREAM_FULL,
            streams.SUBJECT_FULL,
            streams.NO_CONSUMER_FOR_SUBJECT, streams.STORE_ROLLED_BACK, streams.STREAM_DELETED,
            streams.STREAM_RECREATED,
            account.ACCOUNT_STORAGE_FULL, account.ACCOUNT_MEMORY_FULL,
        ),
        "stuck": (
            consumers.UNREACHABLE, consumers.NO_LEADER, consumers.NO_QUORUM, consumers.FLOW_STALL,
            consumers.NO_PULLS, consumers.NO_SUBSCRIBER, consumers.OTHER_QUEUE_GROUP,
            consumers.WITHOUT_QUEUE_GROUP, consumers.MAX_ACK_PENDING_REACHED,
            consumers.PULLS_REFUSED, consumers.PULL_STALLED, consumers.PUSH_STALLED,
            consumers.NOT_ACKED_WITHIN_ACK_WAIT,
            consumers.PAUSED, consumers.PINNED_IDLE, consumers.NO_ELIGIBLE_PULL,
            consumers.NO_PULLS_PACE_UNKNOWN, consumers.UNACKED_WITHOUT_PULL,
            consumers.FLOOR_BLOCKED,
            consumers.FILTER_MATCHES_NOTHING, consumers.START_BEYOND_END,
            consumers.AHEAD_OF_STREAM,
            streams.ORIGIN_MISSING, streams.MIRROR_AHEAD_OF_ORIGIN,
            streams.SOURCE_FILTER_MATCHES_NOTHING,
            streams.PUBLISHER_STOPPED,
            streams.STREAM_UNREACHABLE, streams.STREAM_WITHOUT_LEADER,
            streams.STREAM_WITHOUT_QUORUM, streams.MIRROR_NOT_ACTIVE,
            streams.SOURCE_ERROR, streams.ORPHANED_MESSAGES,
        ),
        "soon": (
            consumers.EXPIRES_SOON, streams.STREAM_NEARLY_FULL, streams.STREAM_FULL_SOON,
            streams.CONSUMER_LIMIT_REACHED,
            streams.REPLICAS_DIFFER, streams.MOVE_HANGS,
            account.ACCOUNT_STORAGE_NEAR_LIMIT, account.ACCOUNT_MEMORY_NEAR_LIMIT,
            account.ACCOUNT_STREAMS_NEAR_LIMIT, account.ACCOUNT_CONSUMERS_NEAR_LIMIT,
        ),
        "wasteful": (
            consumers.ALL_NAKD, consumers.POISON, consumers.TERMINATED,
            consumers.REDELIVERING, consumers.NEVER_ACKED, consumers.ACKED_AFTER_ACK_WAIT,
            consumers.CONSUMER_RECREATED, streams.CONSUMERS_PILING_UP,
            streams.MANY_SUBJECTS, streams.SUBJECT_PER_MESSAGE, streams.MANY_HOLES,
            account.API_ERRORS,
        ),
        "blind": (
            account.NOT_CONNECTED, account.REQUESTS_NOT_PERMITTED, account.DATA_UNAVAILABLE,
            account.ROWS_STALE,
            account.EVENTS_LEFT_OUT, account.NO_BULK_REPLIES,
        ),
    }.items()
    for kind in kinds
}  # fmt: skip
"""Code of the catalogue → harm; other codes have the harm `late`."""
LOSS_CODES = tuple(code for code, harm in _HARM_BY_CODE.items() if harm == "lost")
"""Codes of findings about lost or refused messages."""
REPORTED_SEVERITIES = ("critical", "warning")
"""Severities of recorded findings that may be in the verdict."""


def harm_of(kind: Kind) -> str:
    """Return the harm (a key of `MEANING_BY_HARM`) of recorded findings of a kind."""
    return _HARM_BY_CODE.get(kind.code, "late")


ADVICE_BY_KIND_AND_CAUSE: dict[tuple[str, str], FindingAdvice] = {
    **{
        (RECORDED_KIND, kind.code): _kind_advice(harm_of(kind), kind)
        for kind in KINDS.values()
        if kind.severity in REPORTED_SEVERITIES
    },
    **{("stuck", kind.code): _kind_advice("stuck", kind) for kind in KINDS_OF_WAITING},
    **{
        ("lag", kind.code): _kind_advice(harm_of(kind), kind)
        for kind in (*KINDS_OF_WAITING, consumers.LAGGING)
    },
    **{("redelivery", kind.code): _kind_advice("wasteful", kind) for kind in KINDS_OF_REDELIVERY},
    **{
        ("stuck", cause.word): (
            _kind_advice("stuck", cause) if isinstance(cause, Kind) else _UNEXPLAINED_STUCK
        )
        for cause in STUCK_CAUSES
    },
    ("stuck", status.UNEXPLAINED.word): _UNEXPLAINED_STUCK,
    ("lag", "lag"): _kind_advice("late", consumers.LAGGING),
    ("identity", "sequence restarted"): _kind_advice("lost", streams.STORE_ROLLED_BACK),
    ("identity", "identity"): FindingAdvice(
        "lost", streams.STREAM_DELETED.code,
        "Check who deletes it: its messages are lost. To remove only the messages, purge the "
        "stream instead.",
    ),
    ("identity", "recreated"): FindingAdvice(
        "wasteful", consumers.CONSUMER_DELETED.code,
        "Check who deletes it: the new consumer starts again, and repeats or skips messages. "
        "Use a durable consumer with a fixed name.",
    ),
    ("redelivery", "redelivery"): _kind_advice("wasteful", consumers.REDELIVERING),
    ("redelivery", "terminated"): _kind_advice("wasteful", consumers.TERMINATED),
    ("redelivery", DROPPED_CAUSE): _kind_advice("lost", consumers.MAX_DELIVER_REACHED),
    ("poison", "was dropped after max deliver"): _kind_advice("lost",
                                                             consumers.MAX_DELIVER_REACHED),
    ("poison", "is redelivered again and again"): _kind_advice("wasteful", consumers.POISON),
    ("recording", "recording"): FindingAdvice(
        "blind", "",
        "Check the disk that it was recorded to. `natstui sessions verify` says what is missing.",
    ),
    ("recording", "not_judged"): FindingAdvice(
        "blind", "",
        "Analyse it once on the machine where it is stored, or record with a newer natstui, "
        "which stores findings.",
    ),
    ("recording", "sampled"): FindingAdvice(
        "blind", "",
        "Compare fewer sessions at a time: then every stream and consumer is compared.",
    ),
    ("comparison", "slower"): FindingAdvice(
        "late", "",
        "Check what changed between the two sessions: the client, its configuration, the server.",
    ),
    ("comparison", "faster"): FindingAdvice("none", "", "No action is needed."),
    ("availability", "leader_absent"): _kind_advice("stuck", streams.STREAM_WITHOUT_LEADER),
    ("availability", "unreachable"): _kind_advice("stuck", streams.STREAM_UNREACHABLE),
    ("availability", "leader_change"): _kind_advice("late", streams.STREAM_LEADER_CHANGES_OFTEN),
    ("availability", "replica_away"): _kind_advice("late", streams.STREAM_REPLICA_OFFLINE),
    ("availability", "replica_lag"): _kind_advice("late", streams.REPLICA_LAGGING),
    ("availability", "api_slow"): _kind_advice("late", account.API_SLOW),
    ("availability", "disconnected"): _kind_advice("blind", account.NOT_CONNECTED),
    ("availability", "unavailable"): _kind_advice("blind", account.DATA_UNAVAILABLE),
    ("availability", "clock_step"): _kind_advice("blind", account.CLOCK_CHANGED),
    ("availability", "gap"): FindingAdvice(
        "blind", "", "Check whether the recording machine slept or was overloaded."
    ),
    ("capacity", "full"): _kind_advice("lost", streams.STREAM_FULL),
    ("capacity", NEAR_CAUSE): _kind_advice("soon", streams.STREAM_NEARLY_FULL),
    ("capacity", FULL_SOON_CAUSE): _kind_advice("soon", streams.STREAM_FULL_SOON),
    ("capacity", account.ACCOUNT_STORAGE_FULL.word): _kind_advice("lost",
                                                                 account.ACCOUNT_STORAGE_FULL),
    ("capacity", account.ACCOUNT_MEMORY_FULL.word): _kind_advice("lost",
                                                                account.ACCOUNT_MEMORY_FULL),
    ("capacity", f"storage {NEAR_CAUSE}"): _kind_advice("soon",
                                                        account.ACCOUNT_STORAGE_NEAR_LIMIT),
    ("capacity", f"memory {NEAR_CAUSE}"): _kind_advice("soon", account.ACCOUNT_MEMORY_NEAR_LIMIT),
    **{
        ("capacity", f"{storage_kind} {FULL_SOON_CAUSE}"): FindingAdvice(
            "soon", "",
            "Check which streams grow, and whether that continues. Lower the limits of "
            "streams, or raise the limit of the account.",
        )
        for storage_kind in ("storage", "memory")
    },
    ("hour", "hour"): FindingAdvice(
        "none", "", "Check that hour first: the tables and charts show what happened in it."
    ),
    ("idle", "idle"): FindingAdvice(
        "wasteful", "",
        "Check who needs them: the table of idle streams and consumers lists them. Delete "
        "those that are not needed.",
    ),
    **{
        ("change", problem): FindingAdvice(
            harm, "",
            "Check whether the change was intended: `natstui` shows the current configuration, "
            "and can undo its own changes.",
        )
        for problem, harm in (("stuck", "stuck"), ("lagging", "late"), ("redelivery", "wasteful"))
    },
    ("delay", "bursts"): FindingAdvice(
        "late", "",
        "Check whether messages may wait so long. If not, start more clients, or limit the "
        "rate of the publishers.",
    ),
    ("delay", "repeats"): FindingAdvice(
        "late", "",
        "Check why messages are redelivered: redeliveries delay new messages.",
    ),
    ("delay", "elections"): FindingAdvice(
        "late", "", "Check why leaders change: read the logs of the servers, check the network.",
    ),
    ("benchmark", "benchmark"): FindingAdvice(
        "lost", "",
        "Check the errors of its workers, and whether the stream had room for its messages.",
    ),
    ("benchmark", "does not add up"): FindingAdvice(
        "blind", "",
        "Check whether the recording has the entire run: it may begin or end in the middle of "
        "it, or have lost lines.",
    ),
}  # fmt: skip
"""Pair of a finding's kind and cause → its advice; a test requires one for each finding.

A cause is a label, or the code of the recorded finding that explains it: labels are not unique.
"""
