"""The catalogue of findings about streams. Of natstui it imports only `kind` and thresholds."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import ANY_LIMIT_LABEL, Kind
from natstui.model.findings.thresholds import (
    LEADER_CHANGES_WINDOW_S,
    MIN_PUBLISHER_SILENCE_S,
    STEADY_PUBLISHER_AFTER_S,
)

STREAM_UNREACHABLE = Kind(
    "NT-S01", "stream", "critical", "leader unreachable",
    "the stream's leader does not reply to the server",
    "which server led the stream, and whether that server runs",
    "start the server again; `nats server report jetstream` shows which one is down",
    "Synadia Insights JETSTREAM_008",
)  # fmt: skip
STREAM_WITHOUT_LEADER = Kind(
    "NT-S02", "stream", "critical", "no leader",
        "the cluster has elected no leader for the stream",
    "whether more than half of the stream's replicas run",
    "start the servers that are down; `nats stream info STREAM` shows its replicas",
    "Synadia Insights JETSTREAM_008, `nats server check jetstream`",
)  # fmt: skip
STREAM_WITHOUT_QUORUM = Kind(
    "NT-S03", "stream", "critical", "no quorum",
    "the leader has no contact with half of its replicas or more",
    "which replicas are offline (CLUSTER in the details)",
    "start the servers that are down",
    "Synadia Insights JETSTREAM_008", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
STREAM_MESSAGES_LOST = Kind(
    "NT-S04", "stream", "critical", "messages lost from the store",
    "the file store of the stream is damaged: messages were lost",
    "disk and file system of the server that leads it",
    "restore a backup, or `finding.act` purge up to the damaged sequence",
)  # fmt: skip
STREAM_FULL = Kind(
    "NT-S05", "stream", "critical", "stream full", "the stream is full and rejects publishes",
    "what fills the stream: publishers, or consumers that do not ack",
    f"raise {ANY_LIMIT_LABEL} or set discard old (`stream.edit`); purge messages (`stream.purge`)",
    "Synadia Insights JETSTREAM_010", 0.0, 0.0, ("full",),
)  # fmt: skip
MIRROR_NOT_ACTIVE = Kind(
    "NT-S06", "stream", "critical", "mirror not active",
    "the stream has lost contact with its origin; the lag shown may still be 0",
    "whether the servers of the origin run, and whether they can be reached",
    "start the servers of the origin, or remove the source (`stream.edit`)",
    "Synadia Insights JETSTREAM_015, io.nats.monitor.seen-critical", 0.0, 0.0,
    ("silent source", "silent source, restart"),
)  # fmt: skip
SOURCE_ERROR = Kind(
    "NT-S07", "stream", "critical", "source error",
        "the origin of the stream replies with an error",
    "the error, and the permissions and domain of the source",
    "fix the source (`stream.edit`)",
)  # fmt: skip
ORPHANED_MESSAGES = Kind(
    "NT-S21", "stream", "warning", "orphaned messages",
    "a work queue has messages that no consumer filter matches",
    "the subjects of the messages (`stream.messages`), compared with the filters of the consumers",
    "add a consumer (`consumer.add` in its consumers), or drop the subjects (`stream.edit`), or "
    "purge them (`stream.purge`)",
    "", 0.0, 0.0, ("orphaned",),
)  # fmt: skip
NO_CONSUMER_FOR_SUBJECT = Kind(
    "NT-S22", "stream", "warning", "no consumer for subject",
    "published messages are dropped: its retention is interest, and no consumer filter matches",
    "whether a consumer was deleted, and the filters against the subjects that are published",
    "create the consumer, or widen a filter (`nats consumer edit STREAM CONSUMER --filter`)",
    "", 2.0, 0.0, ("dropped at once", "dropped at once, share", "orphaned"),
    window_s=3.0,
)  # fmt: skip
STREAM_REPLICA_OFFLINE = Kind(
    "NT-S23", "stream", "warning", "replica offline",
    "the leader has no contact with one of the stream's replicas",
    "whether that server runs (CLUSTER in the details)",
    "start the server again",
    "`nats server check jetstream` (replicas), io.nats.monitor.peer-seen-critical",
    1.0, 0.0, ("replica contact",),
)  # fmt: skip
REPLICA_LAGGING = Kind(
    "NT-S24", "stream", "warning", "replica lagging",
        "a replica of the stream is far behind the leader",
    "disk and network of that server",
    "wait until the replica catches up; `nats stream cluster peer-remove` moves it elsewhere",
    "`nats audit` JETSTREAM_001, io.nats.monitor.peer-lag-critical", 2.0, 2.0, ("replica lag",),
)  # fmt: skip
MIRROR_LAGGING = Kind(
    "NT-S25", "stream", "warning", "mirror lagging",
    "the stream is far behind its origin or a source",
    "the network between the two servers, and the publish rate at the origin",
    "wait until the stream catches up",
    "io.nats.monitor.lag-critical", 2.0, 2.0, ("source lag",),
)  # fmt: skip
STREAM_NEARLY_FULL = Kind(
    "NT-S26", "stream", "warning", "stream nearly full",
    "the stream is near a limit; beyond it, publishes or consumers are rejected",
    "what fills the stream, and how fast",
    f"raise {ANY_LIMIT_LABEL} (`stream.edit`); purge messages that are not needed "
    "(`stream.purge`)",
    "Synadia Insights JETSTREAM_010; `nats audit` JETSTREAM_003", 0.0, 2.0, ("near",),
)  # fmt: skip
STREAM_FULL_SOON = Kind(
    "NT-S42", "stream", "warning", "stream full soon",
    "growing at this rate, the stream soon reaches a limit and rejects publishes",
    "what fills the stream, and whether that continues",
    f"raise {ANY_LIMIT_LABEL} (`stream.edit`); purge messages that are not needed "
    "(`stream.purge`)",
    "", 0.0, 2.0, ("full soon", "full soon, trend", "full soon, held"),
)  # fmt: skip
MANY_SUBJECTS = Kind(
    "NT-S27", "stream", "warning", "many subjects",
    "the stream has so many subjects that the server needs much memory for them",
    "whether the subject has an id, so that every message gets a new subject",
    "set max messages per subject (`stream.edit`), or publish to fewer subjects",
    "`nats audit` JETSTREAM_002", 0.0, 0.0, ("subjects",),
)  # fmt: skip
SUBJECT_PER_MESSAGE = Kind(
    "NT-S33", "stream", "warning", "subject per message",
    "nearly every message has a subject of its own, and the server keeps all of them in memory",
    "which part of the subject differs in each message: an id, a time",
    "set max messages per subject or max age (`stream.edit`); let publishers put the id into a "
    "header",
    "`nats audit` JETSTREAM_002", 2.0, 5.0, ("own subjects", "own subjects, fewest"),
)  # fmt: skip
STREAM_PAST_CRITICAL_THRESHOLD = Kind(
    "NT-S08", "stream", "critical", "past its critical threshold",
    "a critical threshold in the stream's metadata (io.nats.monitor) is reached",
    "the value and the threshold, which the owner of the stream has set",
    "change the threshold (`stream.edit`, section Monitoring)",
    "`nats server check stream`, Synadia Insights JETSTREAM_018 to 027",
)  # fmt: skip
STREAM_PAST_WARNING_THRESHOLD = Kind(
    "NT-S32", "stream", "warning", "past its warning threshold",
    "a warning threshold in the stream's metadata (io.nats.monitor) is reached",
    "the value and the threshold, which the owner of the stream has set",
    "change the threshold (`stream.edit`, section Monitoring)",
    "`nats server check stream`",
)  # fmt: skip
MANY_HOLES = Kind(
    "NT-S28", "stream", "warning", "many holes",
    "most sequences between its first and last message are deleted",
    "why the first message stays: a consumer that never acks, or a key that never changes",
    "purge messages up to a sequence (`stream.purge`)",
    "", 0.0, 0.0, ("holes", "holes, fewest"),
)  # fmt: skip
STREAM_LEADER_CHANGES_OFTEN = Kind(
    "NT-S29", "stream", "warning", "leader changes often",
        "the leader of the stream changes again and again",
    "load and network of the servers that store the replicas",
    "`nats server report jetstream`; elect a new leader (`finding.act`, step down)",
    "Synadia Insights META_003", 0.0, 0.0, ("leader changes", "leader changes, window"),
    window_s=LEADER_CHANGES_WINDOW_S,
)  # fmt: skip
STORE_ROLLED_BACK = Kind(
    "NT-S30", "stream", "warning", "store rolled back",
    "the last sequence decreased: after a restore, or after a server lost its newest data",
    "who restored the stream, or which server crashed",
    "publish the missing messages again",
    "", 0.0, 0.0, ("dropped after max deliver",),
)  # fmt: skip
STREAM_DELETED = Kind(
    "NT-S31", "stream", "warning", "stream deleted", "the stream was deleted",
    "who deleted the stream: the events (`screen.events`)",
    "`undo` undoes a deletion made in natstui; otherwise restore a backup",
    "", 0.0, 0.0, ("deletions",),
)  # fmt: skip
ORIGIN_MISSING = Kind(
    "NT-S11", "stream", "critical", "mirror origin missing",
    "the origin of this mirror or source does not exist",
    "the name of the origin in the configuration, and whether the origin was deleted",
    "create the origin again, or correct the source (`stream.edit`)",
    "Synadia Insights JETSTREAM_015", 2.0, 0.0, (),
)  # fmt: skip
MIRROR_AHEAD_OF_ORIGIN = Kind(
    "NT-S12", "stream", "critical", "mirror ahead of its origin",
    "the origin was recreated with lower sequences: nothing is copied until it catches up",
    "when the origin was recreated",
    "delete the mirror and create it again",
    "", 2.0, 0.0, (),
)  # fmt: skip
REPLICAS_DIFFER = Kind(
    "NT-S14", "stream", "critical", "replicas differ",
    "a replica without lag has other messages than the leader: it will not repair itself",
    "which replica lacks messages; disk and log of its server",
    "`nats stream edit STREAM --replicas 1`, then 3: the new replicas copy the leader",
    "`nats server stream-check`", 0.0, 0.0, ("replicas compared",),
)  # fmt: skip
MOVE_HANGS = Kind(
    "NT-S41", "stream", "warning", "move or scale hangs",
    "the replicas should move to other servers, but the move makes no progress",
    "whether the target servers run",
    "start the target servers, or restore the old replicas and placement (`stream.edit`)",
    "", 0.0, 0.0, ("move hangs",),
)  # fmt: skip
PUBLISHER_STOPPED = Kind(
    "NT-S34", "stream", "warning", "publisher stopped",
    "messages were stored steadily, but now none arrives",
    "whether the publisher runs, and whether its log shows rejected publishes",
    "start the publisher, or fix the rejects: the stream is full or sealed, or messages too large",
    "", 0.0, 0.0, ("steady publisher", "steady publisher, gap", "publisher stopped",
                   "publisher stopped, gaps"),
    window_s=STEADY_PUBLISHER_AFTER_S + MIN_PUBLISHER_SILENCE_S,
)  # fmt: skip
SOURCE_FILTER_MATCHES_NOTHING = Kind(
    "NT-S35", "stream", "warning", "filter of source matches nothing",
    "the filter of a source matches no message of the origin",
    "the spelling of the filter, compared with the subjects of the origin",
    "correct the filter of the source (`stream.edit`)",
)  # fmt: skip
CONSUMERS_PILING_UP = Kind(
    "NT-S36", "stream", "warning", "consumers piling up",
    "consumers are created again and again, and no client uses them",
    "which client creates a consumer at each start and never deletes it (`screen.consumers`, "
    "sorted by age)",
    "let the client reuse one name or set an inactive threshold; delete the unused consumers",
    "Synadia Insights OPT (consumer leak)", 0.0, 5.0, ("piling up", "piling up, window"),
)  # fmt: skip
CONSUMER_LIMIT_REACHED = Kind(
    "NT-S37", "stream", "warning", "consumer limit reached",
    "the stream is at its limit of consumers: further ones are refused",
    "whether all consumers of the stream are used",
    "raise max consumers (`stream.edit`), or delete unused consumers",
    "`nats audit` JETSTREAM_003", 0.0, 0.0, (),
)  # fmt: skip
BATCH_ABANDONED = Kind(
    "NT-S39", "stream", "warning", "atomic batch abandoned",
    "the server dropped atomic batches that were not committed, with all their messages",
    "whether the publisher commits its batches before the server's time limit",
    "let the publisher commit each batch; publish the dropped messages again",
    "", 0.0, 0.0, ("lost",),
)  # fmt: skip
SUBJECT_FULL = Kind(
    "NT-S13", "stream", "critical", "full per subject",
    "some subjects are at max messages per subject: publishes to them are rejected",
    "whether older messages of these subjects are needed",
    "purge a subject (`stream.purge`), or raise max messages per subject (`stream.edit`)",
)  # fmt: skip
OBJECT_WITHOUT_META_ENTRY = Kind(
    "NT-S40", "stream", "warning", "object chunks without meta entry",
    "uploads were interrupted, or pause: their chunks use space but belong to no object",
    "which upload was interrupted (natstui object ls names it)",
    "upload the object again; purge the subject of the chunks (`stream.purge`) once their upload "
    "has ended",
    "", 0.0, 0.0, ("upload", "upload, ended"),
)  # fmt: skip
STREAM_PURGED = Kind(
    "NT-S51", "stream", "info", "purged",
    "a user purged or deleted messages (no limit of the stream explains the removal)",
    "who purged it",
    "no action is needed if that was intended; otherwise restore a backup",
    "", 0.0, 0.0, ("lost",),
)  # fmt: skip
CONSUMERS_LEFT_BEHIND = Kind(
    "NT-S53", "stream", "info", "consumers left behind",
    "clients left ephemeral consumers behind: the server deletes them after a while",
    "whether a client still needs them",
    "no action is needed if the clients ended; a client can delete its consumer before it ends",
    "", 10.0, 0.0, ("no subscriber", "no pulls after"),
)  # fmt: skip
STREAM_SEALED = Kind(
    "NT-S52", "stream", "info", "stream sealed",
    "the stream was sealed: it rejects publishes for ever",
    "whether a publisher still publishes to its subjects",
    "let publishers use another stream",
)  # fmt: skip
STREAM_RECREATED = Kind(
    "NT-S38", "stream", "warning", "stream recreated",
    "the stream was deleted and recreated: its old messages and consumers are deleted",
    "who deleted the stream: the events (`screen.events`)",
    "restore a backup, or create the consumers again",
    "", 0.0, 0.0, ("deletions",),
)  # fmt: skip

STREAM_KINDS = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, Kind))
"""The kinds of findings about streams; of each severity, the worst first."""
