"""The catalogue of findings about streams. Imports nothing of ours but `kind` and thresholds."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.thresholds import LEADERS_WINDOW_S, STEADY_RUN_S, STOPPED_LEAST_S

S_UNREACHABLE = Kind(
    "NT-S01", "stream", "critical", "leader unreachable",
    "its leader does not reply to the server",
    "which server led it, and whether that server runs",
    "start the server again; `nats server report jetstream` shows which one is down",
    "Insights JETSTREAM_008",
)  # fmt: skip
S_NO_LEADER = Kind(
    "NT-S02", "stream", "critical", "no leader", "the cluster has elected no leader for it",
    "whether more than half of its replicas run",
    "start the servers that are down; `nats stream info STREAM` shows its replicas",
    "Insights JETSTREAM_008, `nats server check jetstream`",
)  # fmt: skip
S_NO_QUORUM = Kind(
    "NT-S03", "stream", "critical", "no quorum",
    "the leader has no contact with half of its replicas or more",
    "which replicas are away (CLUSTER in the detail)",
    "start the servers that are down",
    "Insights JETSTREAM_008", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
S_LOST = Kind(
    "NT-S04", "stream", "critical", "messages lost from the store",
    "messages were lost by damage of its store",
    "disk and file system of the server that leads it",
    "restore a backup, or `.` purge up to the damage",
)  # fmt: skip
S_REFUSING = Kind(
    "NT-S05", "stream", "critical", "stream full", "it is full and rejects publishes",
    "what fills it: publishers, or consumers that do not ack",
    "`e` and raise its limits, `P` purges what is not needed, or let it discard old messages",
    "Insights JETSTREAM_010", 0.0, 0.0, ("full",),
)  # fmt: skip
S_SILENT = Kind(
    "NT-S06", "stream", "critical", "mirror not active",
    "it has had no contact with its origin for long; its lag may still say 0",
    "whether the servers of the origin run, and whether they can be reached",
    "start the servers of the origin, or `e` and remove the source",
    "Insights JETSTREAM_015, io.nats.monitor.seen-critical", 0.0, 0.0,
    ("silent source", "silent source, restart"),
)  # fmt: skip
S_SOURCE_ERROR = Kind(
    "NT-S07", "stream", "critical", "source error", "its origin replies with an error",
    "the error; permissions and domain of the source",
    "`e` and fix the source",
)  # fmt: skip
S_UNSERVED = Kind(
    "NT-S21", "stream", "warning", "orphaned messages",
    "a work queue has messages that no consumer waits for",
    "the subjects of its messages (`m`) against the filters of its consumers",
    "`a` on the stream's consumers adds one; `e` and drop the subjects, or `P` purges them",
    "", 0.0, 0.0, ("orphaned",),
)  # fmt: skip
S_NO_INTEREST = Kind(
    "NT-S22", "stream", "warning", "no consumer for subject",
    "published messages are dropped: its retention is interest, and no consumer filter matches",
    "whether a consumer was deleted, and the filters against the subjects that are published",
    "create the consumer, or widen a filter (`nats consumer edit STREAM CONSUMER --filter`)",
    "", 2.0, 0.0, ("dropped at once", "dropped at once, share", "orphaned"),
    window_s=3.0,
)  # fmt: skip
S_PEER_AWAY = Kind(
    "NT-S23", "stream", "warning", "replica offline",
    "the leader has no contact with a replica of it",
    "whether that server runs (CLUSTER in the detail)",
    "start the server again",
    "`nats server check jetstream` (replicas), io.nats.monitor.peer-seen-critical",
    1.0, 0.0, ("replica contact",),
)  # fmt: skip
S_PEER_LAGS = Kind(
    "NT-S24", "stream", "warning", "replica lagging", "a replica of it is far behind the leader",
    "disk and network of that server",
    "wait for it to catch up; `nats stream cluster peer-remove` moves it to another server",
    "audit JETSTREAM_001, io.nats.monitor.peer-lag-critical", 2.0, 2.0, ("replica lag",),
)  # fmt: skip
S_SOURCE_LAGS = Kind(
    "NT-S25", "stream", "warning", "mirror lagging",
    "it is far behind its origin or a source",
    "network between the two, and what is published at the origin",
    "wait for it to catch up",
    "io.nats.monitor.lag-critical", 2.0, 2.0, ("source lag",),
)  # fmt: skip
S_NEAR = Kind(
    "NT-S26", "stream", "warning", "stream nearly full",
    "it is near a limit at which it rejects publishes or consumers",
    "what fills it, and how fast",
    "`e` and raise its limits; `P` purges what is not needed",
    "Insights (message limit) and JETSTREAM_010, audit JETSTREAM_003", 0.0, 2.0, ("near",),
)  # fmt: skip
S_FULL_SOON = Kind(
    "NT-S42", "stream", "warning", "stream full soon",
    "at its growth it soon reaches a limit at which it rejects publishes",
    "what fills it, and whether that goes on",
    "`e` and raise its limits; `P` purges what is not needed",
    "", 0.0, 2.0, ("full soon", "full soon, trend", "full soon, held"),
)  # fmt: skip
S_SUBJECTS = Kind(
    "NT-S27", "stream", "warning", "many subjects",
    "it has more subjects than servers keep in memory with ease",
    "whether an identifier in the subject makes a new one for every message",
    "`e` and set max messages per subject, or publish to fewer subjects",
    "audit JETSTREAM_002", 0.0, 0.0, ("subjects",),
)  # fmt: skip
S_OWN_SUBJECTS = Kind(
    "NT-S33", "stream", "warning", "subject per message",
    "nearly every message has a subject of its own, and the server keeps all of them in memory",
    "which part of the subject is another one for each message: an id, a time",
    "`e` and set max messages per subject or max age; let publishers put the id into a header",
    "audit JETSTREAM_002", 2.0, 5.0, ("own subjects", "own subjects, fewest"),
)  # fmt: skip
S_OWN_THRESHOLD = Kind(
    "NT-S08", "stream", "critical", "past its critical threshold",
    "a critical threshold in its metadata (io.nats.monitor) is reached",
    "the number beside the threshold; its owner has decided that it is too much or too little",
    "`e`, section Monitoring, changes the threshold",
    "`nats server check stream`, Insights JETSTREAM_018 to 027",
)  # fmt: skip
S_OWN_WARNING = Kind(
    "NT-S32", "stream", "warning", "past its warning threshold",
    "a warning threshold in its metadata (io.nats.monitor) is reached",
    "the number beside the threshold; its owner has decided that it is too much or too little",
    "`e`, section Monitoring, changes the threshold",
    "`nats server check stream`",
)  # fmt: skip
S_HOLES = Kind(
    "NT-S28", "stream", "warning", "many holes",
    "most sequences between its first and last message are deleted",
    "what keeps the first message: a consumer that was deleted, a key that never changes",
    "`P` purges up to a sequence",
    "", 0.0, 0.0, ("holes", "holes, fewest"),
)  # fmt: skip
S_LEADER_FLAPS = Kind(
    "NT-S29", "stream", "warning", "leader changes often", "its leader changes again and again",
    "load and network of the servers of its replicas",
    "`nats server report jetstream`; `.` step down picks another leader",
    "Insights META_003", 0.0, 0.0, ("leader changes", "leader changes, window"),
    window_s=LEADERS_WINDOW_S,
)  # fmt: skip
S_ROLLED_BACK = Kind(
    "NT-S30", "stream", "warning", "store rolled back",
    "its last sequence went back: it was restored, or a server came back without its newest data",
    "who restored it, or which server crashed",
    "publish again what is missing",
    "", 0.0, 0.0, ("given up",),
)  # fmt: skip
S_GONE = Kind(
    "NT-S31", "stream", "warning", "stream deleted", "it was there, and is deleted",
    "who deleted it: the events (`3`)",
    "`u` undoes a deletion that was done here; else restore a backup",
    "", 0.0, 0.0, ("gone",),
)  # fmt: skip
S_ORIGIN_MISSING = Kind(
    "NT-S11", "stream", "critical", "mirror origin missing",
    "the stream that it mirrors or sources does not exist",
    "the name of the origin in its configuration; whether the origin was deleted",
    "create the origin again, or `e` and correct the source",
    "Insights JETSTREAM_015", 2.0, 0.0, (),
)  # fmt: skip
S_AHEAD = Kind(
    "NT-S12", "stream", "critical", "mirror ahead of its origin",
    "its origin was recreated and has fewer sequences: nothing is copied until it reaches them",
    "when the origin was recreated",
    "delete the mirror and create it again",
    "", 2.0, 0.0, (),
)  # fmt: skip
S_DIFFER = Kind(
    "NT-S14", "stream", "critical", "replicas differ",
    "a replica has other messages than the leader, and no lag: what is missing is not repaired",
    "which replica lacks messages; disk and log of its server",
    "`nats stream edit STREAM --replicas 1`, then 3 again: the new replicas are copies",
    "`nats server stream-check`", 0.0, 0.0, ("replicas compared",),
)  # fmt: skip
S_MOVE_HANGS = Kind(
    "NT-S41", "stream", "warning", "move or scale hangs",
    "its replicas should be on other servers, and the change does not go on",
    "whether the servers run that it should move to",
    "start these servers, or `e` and set replicas and placement back",
    "", 0.0, 0.0, ("move hangs",),
)  # fmt: skip
S_STOPPED = Kind(
    "NT-S34", "stream", "warning", "publisher stopped",
    "messages were stored steadily, and none has come since",
    "whether the publisher runs, and whether its publishes are rejected: its log",
    "start the publisher; a stream that is sealed or full, or too large a message, is a reject",
    "", 0.0, 0.0, ("steady publisher", "steady publisher, gap", "publisher stopped",
                   "publisher stopped, gaps"),
    window_s=STEADY_RUN_S + STOPPED_LEAST_S,
)  # fmt: skip
S_SOURCE_UNMATCHED = Kind(
    "NT-S35", "stream", "warning", "filter of source matches nothing",
    "the filter of its source matches nothing that the origin has",
    "the spelling of the filter against the subjects of the origin",
    "`e` and correct the filter of the source",
)  # fmt: skip
S_PILE_UP = Kind(
    "NT-S36", "stream", "warning", "consumers piling up",
    "again and again consumers are created that no client uses",
    "which client creates a consumer each time it starts, and does not delete it (`2`, by age)",
    "let the client use one name, or set an inactive threshold; delete those that are not used",
    "Insights OPT (consumer leak)", 0.0, 5.0, ("piling up", "piling up, window"),
)  # fmt: skip
S_CONSUMER_LIMIT = Kind(
    "NT-S37", "stream", "warning", "consumer limit reached",
    "it has as many consumers as it may have: further ones are refused",
    "whether all of its consumers are used",
    "`e` and raise max consumers, or delete consumers that are not used",
    "audit JETSTREAM_003", 0.0, 0.0, (),
)  # fmt: skip
S_BATCH_ABANDONED = Kind(
    "NT-S39", "stream", "warning", "atomic batch abandoned",
    "the server dropped atomic batches that were not committed: none of their messages is stored",
    "the publisher of the batches: whether it commits, and within the time of the server",
    "commit each batch in the publisher; publish the dropped messages again",
    "", 0.0, 0.0, ("lost",),
)  # fmt: skip
S_FULL_SUBJECT = Kind(
    "NT-S13", "stream", "critical", "full per subject",
    "some of its subjects have as many messages as they may have: it rejects publishes to them",
    "whether older messages of these subjects are needed",
    "`P` purges a subject, or `e` and raise max messages per subject",
)  # fmt: skip
S_NO_META = Kind(
    "NT-S40", "stream", "warning", "object chunks without meta entry",
    "uploads were not completed: their chunks use space and belong to no object",
    "which upload was interrupted",
    "`P` purges the subjects of those chunks; upload the object again",
    "", 0.0, 0.0, ("upload",),
)  # fmt: skip
S_PURGED = Kind(
    "NT-S51", "stream", "info", "purged",
    "messages were removed that no limit of it removes: a user purged or deleted them",
    "who purged it",
    "nothing, if it was meant; else restore a backup",
    "", 0.0, 0.0, ("lost",),
)  # fmt: skip
S_LEFT = Kind(
    "NT-S53", "stream", "info", "consumers left behind",
    "clients left consumers that are not durable: the server removes them when they stay unused",
    "whether a client still wants them",
    "nothing, if their clients ended; a client that deletes its consumer at its end leaves none",
    "", 10.0, 0.0, ("no subscriber", "no pulls after"),
)  # fmt: skip
S_SEALED = Kind(
    "NT-S52", "stream", "info", "stream sealed",
    "it was sealed: it rejects publishes, and that cannot be undone",
    "whether a publisher still publishes to its subjects",
    "let publishers use another stream",
)  # fmt: skip
S_RECREATED = Kind(
    "NT-S38", "stream", "warning", "stream recreated",
    "it was deleted and recreated: its messages and consumers of before are deleted",
    "who deleted it: the events (`3`)",
    "restore a backup, or create its consumers again",
    "", 0.0, 0.0, ("gone",),
)  # fmt: skip

STREAM_KINDS = tuple(one for one in tuple(globals().values()) if isinstance(one, Kind))
"""The catalogue of streams, the worst of a severity first."""
