"""The catalogue of findings about streams. Imports nothing of ours but `kind`."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind

S_UNREACHABLE = Kind(
    "NT-S01", "stream", "critical", "no answer", "its leader does not answer the server",
    "which server led it, and whether that server runs",
    "start the server again; `nats server report jetstream` shows who is away",
    "Insights JETSTREAM_008",
)  # fmt: skip
S_NO_LEADER = Kind(
    "NT-S02", "stream", "critical", "leaderless", "the cluster has elected no leader for it",
    "whether more than half of its replicas run",
    "start the servers that are away; `nats stream info STREAM` shows its replicas",
    "Insights JETSTREAM_008, `nats server check jetstream`",
)  # fmt: skip
S_NO_QUORUM = Kind(
    "NT-S03", "stream", "critical", "quorum lost", "half of its replicas or more are away",
    "which replicas the leader does not hear of (CLUSTER in the detail)",
    "start the servers that are away",
    "Insights JETSTREAM_008", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
S_LOST = Kind(
    "NT-S04", "stream", "critical", "damaged", "messages were lost by damage of its store",
    "disk and file system of the server that leads it",
    "restore a backup, or `.` purge up to the damage",
)  # fmt: skip
S_REFUSING = Kind(
    "NT-S05", "stream", "critical", "refusing", "it is full and refuses new messages",
    "what fills it: publishers, or consumers that do not acknowledge",
    "`e` and raise its limits, `P` purges what is not needed, or let it discard old messages",
    "Insights JETSTREAM_010", 0.0, 0.0, ("full",),
)  # fmt: skip
S_SILENT = Kind(
    "NT-S06", "stream", "critical", "source silent",
    "its origin or a source was not heard of for long; its lag may still say 0",
    "whether the origin exists, and whether its servers can be reached",
    "create the origin again, or `e` and remove the source",
    "Insights JETSTREAM_015, io.nats.monitor.seen-critical", 0.0, 0.0, ("silent source",),
)  # fmt: skip
S_SOURCE_ERROR = Kind(
    "NT-S07", "stream", "critical", "source error", "its origin or a source answers with an error",
    "the error; permissions and domain of the source",
    "`e` and mend the source",
)  # fmt: skip
S_UNSERVED = Kind(
    "NT-S21", "stream", "warning", "nobody takes",
    "a work queue holds messages of subjects that no consumer takes",
    "its subjects against the filters of its consumers",
    "`a` on the stream's consumers, or `e` and drop the subjects",
)  # fmt: skip
S_NO_INTEREST = Kind(
    "NT-S22", "stream", "warning", "no interest",
    "without consumers, a stream with interest retention keeps nothing that is published",
    "whether its consumers were deleted or never made",
    "create the consumers, or keep messages by limits",
)  # fmt: skip
S_PEER_AWAY = Kind(
    "NT-S23", "stream", "warning", "away",
    "the leader does not hear of a replica of it",
    "whether that server runs (CLUSTER in the detail)",
    "start the server again",
    "`nats server check jetstream` (replicas), io.nats.monitor.peer-seen-critical",
    1.0, 0.0, ("replica contact",),
)  # fmt: skip
S_PEER_LAGS = Kind(
    "NT-S24", "stream", "warning", "replica behind", "a replica of it is far behind the leader",
    "disk and network of that server",
    "wait for it to catch up; `nats stream cluster peer-remove` gives the place to another",
    "audit JETSTREAM_001, io.nats.monitor.peer-lag-critical", 2.0, 2.0, ("replica lag",),
)  # fmt: skip
S_SOURCE_LAGS = Kind(
    "NT-S25", "stream", "warning", "source behind",
    "it is far behind its origin or a source",
    "network between the two, and what is published at the origin",
    "wait for it to catch up",
    "io.nats.monitor.lag-critical", 2.0, 2.0, ("source lag",),
)  # fmt: skip
S_NEAR = Kind(
    "NT-S26", "stream", "warning", "nearly full",
    "it is near a limit at which it refuses messages or consumers",
    "what fills it, and how fast",
    "`e` and raise its limits; `P` purges what is not needed",
    "Insights (message limit) and JETSTREAM_010, audit JETSTREAM_003", 0.0, 2.0,
    ("near", "full soon", "full soon, trend", "full soon, held"),
)  # fmt: skip
S_SUBJECTS = Kind(
    "NT-S27", "stream", "warning", "many subjects",
    "it has more subjects than servers keep in memory with ease",
    "whether an identifier in the subject makes a new one for every message",
    "`e` and set max messages per subject, or publish to fewer subjects",
    "audit JETSTREAM_002", 0.0, 0.0, ("subjects",),
)  # fmt: skip
S_OWN_SUBJECTS = Kind(
    "NT-S33", "stream", "warning", "subjects explode",
    "nearly every message has a subject of its own, and the server keeps all of them in memory",
    "which part of the subject is another one for each message: an id, a time",
    "`e` and set max messages per subject or max age; let publishers put the id into a header",
    "audit JETSTREAM_002", 2.0, 5.0, ("own subjects", "own subjects, fewest"),
)  # fmt: skip
S_OWN_THRESHOLD = Kind(
    "NT-S08", "stream", "critical", "past its threshold",
    "a critical threshold that stands in its metadata (io.nats.monitor) is reached",
    "the number beside the threshold; its owner has decided that it is too much or too little",
    "`e`, section Monitoring, changes the threshold",
    "`nats server check stream`, Insights JETSTREAM_018 to 027",
)  # fmt: skip
S_OWN_WARNING = Kind(
    "NT-S32", "stream", "warning", "past its warning",
    "a warning threshold that stands in its metadata (io.nats.monitor) is reached",
    "the number beside the threshold; its owner has decided that it is too much or too little",
    "`e`, section Monitoring, changes the threshold",
    "`nats server check stream`",
)  # fmt: skip
S_HOLES = Kind(
    "NT-S28", "stream", "warning", "many holes",
    "most sequences between its first and last message are deleted",
    "what keeps the first message: a consumer that is gone, a key that never changes",
    "`P` purges up to a sequence",
    "", 0.0, 0.0, ("holes", "holes, fewest"),
)  # fmt: skip
S_LEADER_FLAPS = Kind(
    "NT-S29", "stream", "warning", "flapping", "its leader changes again and again",
    "load and network of the servers that hold its replicas",
    "`nats server report jetstream`; `.` step down picks another leader",
    "Insights META_003", 0.0, 0.0, ("leader changes", "leader changes, window"),
)  # fmt: skip
S_ROLLED_BACK = Kind(
    "NT-S30", "stream", "warning", "rolled back",
    "its last sequence went back: it was restored, or a server came back without its newest data",
    "who restored it, or which server crashed",
    "publish again what is missing",
    "", 0.0, 0.0, ("given up",),
)  # fmt: skip
S_GONE = Kind(
    "NT-S31", "stream", "warning", "deleted", "it was there, and is not any more",
    "who deleted it: the events (`3`)",
    "`u` undoes a deletion that was done here; else restore a backup",
    "", 0.0, 0.0, ("gone",),
)  # fmt: skip

STREAM_KINDS = tuple(one for one in tuple(globals().values()) if isinstance(one, Kind))
"""The catalogue of streams, the worst of a severity first."""
