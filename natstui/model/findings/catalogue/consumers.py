"""The catalogue of findings about consumers. Imports nothing of ours but `kind` and `status`."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.status import UNEXPLAINED, Status

UNREACHABLE = Kind(
    "NT-C01", "consumer", "critical", "unreachable", "its leader does not answer the server",
    "which server led it, and whether that server runs",
    "start the server again; `nats server report jetstream` shows who is away",
    "Insights CONSUMER_003",
)  # fmt: skip
NO_LEADER = Kind(
    "NT-C02", "consumer", "critical", "no leader", "the cluster has elected no leader for it",
    "whether more than half of its replicas run",
    "start the servers that are away; `nats consumer info STREAM CONSUMER` shows its replicas",
    "Insights CONSUMER_003, netdata pull diagnosis 5",
)  # fmt: skip
NO_QUORUM = Kind(
    "NT-C03", "consumer", "critical", "no quorum", "half of its replicas or more are away",
    "which replicas the leader does not hear of (CLUSTER in the detail)",
    "start the servers that are away",
    "Insights CONSUMER_003", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
ALL_NAKED = Kind(
    "NT-C04", "consumer", "critical", "all nak'd",
    "the client refuses nearly every message that it gets",
    "the log of the client: what it refuses messages for",
    "mend the client; `.` pause stops the storm meanwhile",
    "netdata pull diagnosis 4", 0.0, 1.0, ("recent", "naks", "naks, leaving", "naks, fewest"),
)  # fmt: skip
POISON = Kind(
    "NT-C05", "consumer", "critical", "poison message",
    "one message is delivered again and again and never settled",
    "the message itself: `m` and its sequence; the log of the client that takes it",
    "mend the client, or delete the message (`ctrl+d` on it, `nats stream rmm STREAM SEQ`)",
    "netdata pull diagnosis 4", 0.0, 0.0, ("poison",),
)  # fmt: skip
FLOW_STALL = Kind(
    "NT-C06", "consumer", "critical", "flow stall",
    "the subscriber does not answer flow control, so nothing is delivered",
    "whether the client is busy or hangs: it answers flow control only from its own loop",
    "restart the client; delete and create the consumer where the client is gone",
    "", 0.0, 0.0, ("flow stall",),
)  # fmt: skip
NO_PULLS = Kind(
    "NT-C07", "consumer", "critical", "no pulls", "no pull request is open",
    "whether a client of it runs",
    "start the client; `N` pulls one message by hand (`nats consumer next STREAM CONSUMER`)",
    "netdata pull diagnosis 2", 1.0, 0.0, ("no pulls after",),
)  # fmt: skip
NO_SUBSCRIBER = Kind(
    "NT-C08", "consumer", "critical", "no subscriber", "nobody subscribes to it",
    "whether the client runs that listens on its deliver subject",
    "start the client; `nats consumer info STREAM CONSUMER` shows the deliver subject",
    "Insights CONSUMER_009",
)  # fmt: skip
ACK_LIMIT = Kind(
    "NT-C09", "consumer", "critical", "ack limit",
    "nothing more is delivered until a message is acknowledged",
    "why acknowledgements do not come: the client is slow, hangs, or never acknowledges",
    "mend the client, or `e` and raise max ack pending (`nats consumer edit --max-pending`)",
    "Insights OPT_SYS_003, netdata pull diagnosis 1", 2.0, 0.0, (),
)  # fmt: skip
PULLS_REFUSED = Kind(
    "NT-C39", "consumer", "warning", "pulls refused",
    "no pull request is open, and the consumer refuses those that ask for more than it allows",
    "what batch, expiry and bytes the client asks for, against the limits of the consumer",
    "ask for less in the client, or `e` and raise max batch, max expires or max bytes",
    "", 1.0, 0.0, ("no pulls after",),
)  # fmt: skip
STALLED = Kind(
    "NT-C11", "consumer", "critical", "stalled",
    "messages wait and clients ask for them, but none is delivered",
    "whether the pull requests allow for the size of the next message (max bytes)",
    "pull with more bytes; `.` step down gives it another leader",
    "netdata pull diagnosis 3", 0.0, 0.0, ("stalled",),
)  # fmt: skip
SKIPPED = Kind(
    "NT-C12", "consumer", "critical", "lost messages",
    "the stream removed messages before this consumer got them",
    "the limits of the stream against how far the consumer is behind",
    "`e` on the stream and raise its limits; make the consumer faster",
    "",
)  # fmt: skip
OWN_THRESHOLD = Kind(
    "NT-C13", "consumer", "critical", "own threshold",
    "a threshold that stands in its metadata (io.nats.monitor) is reached",
    "the number beside the threshold; its owner has decided that it is too much",
    "`e`, section Monitoring, changes the threshold",
    "Insights CONSUMER_006 to 011", 0.0, 0.0, (),
)  # fmt: skip
GAVE_UP = Kind(
    "NT-C21", "consumer", "warning", "gave up",
    "messages reached max deliver and are not delivered any more",
    "the messages (`m` and their sequence), and what the client refuses them for",
    "publish them again (`R` on a message), then delete them; `nats stream get STREAM SEQ`",
    "surveyor delivery_exceeded_count", 0.0, 0.0, ("given up",),
)  # fmt: skip
TERMINATED = Kind(
    "NT-C22", "consumer", "warning", "terminated",
    "the client terminates messages: they are not delivered any more",
    "the reasons that the client gives, in the events (`3`)",
    "mend the client, or what is published",
    "", 0.0, 2.0, ("recent", "terms, fewest"),
)  # fmt: skip
FALLING_BEHIND = Kind(
    "NT-C23", "consumer", "warning", "falling behind", "messages come faster than it takes them",
    "delivered/s and ack pending: is the client slow, or are there too few?",
    "start more clients of it, or `e` and raise max ack pending where that holds it back",
    "Insights CONSUMER_008", 0.0, 5.0,
    ("falling behind, window", "falling behind, rate", "falling behind, backlog",
     "falling behind, time"),
)  # fmt: skip
ONLY_REPEATS = Kind(
    "NT-C24", "consumer", "warning", "only repeats",
    "every delivery is of a message that was delivered before, while new ones wait",
    "ack wait against the time that the client takes; naks and terms in the events (`3`)",
    "mend the client, or `e` and raise ack wait",
    "", 0.0, 1.0, ("only repeats",),
)  # fmt: skip
NOT_ACKNOWLEDGED = Kind(
    "NT-C25", "consumer", "warning", "not acknowledged",
    "messages were delivered and not acknowledged",
    "whether the client that got them still runs: they come back when ack wait is over",
    "restart the client; `m` and the sequence shows what it holds",
    "Insights CONSUMER_006", 0.0, 0.0, (),
)  # fmt: skip
REDELIVERING = Kind(
    "NT-C26", "consumer", "warning", "redelivering", "messages are delivered again",
    "ack wait against the time that the client takes; naks in the events (`3`)",
    "mend the client, or `e` and raise ack wait",
    "Insights CONSUMER_011, OPT_SYS_002", 0.0, 1.0,
)  # fmt: skip
PAUSED = Kind(
    "NT-C27", "consumer", "warning", "paused",
    "delivery is paused until it is resumed or expires",
    "who paused it, and until when",
    "`.` resume (`nats consumer resume STREAM CONSUMER`)",
)  # fmt: skip
BACKOFF_SPENT = Kind(
    "NT-C28", "consumer", "warning", "backoff spent",
    "a message went through every step of the backoff and is not settled",
    "the message (`m` and its sequence), and the log of the client",
    "mend the client; `e` and set max deliver where it shall be given up",
)  # fmt: skip
ACK_WAIT_SHORT = Kind(
    "NT-C29", "consumer", "warning", "ack wait short",
    "the client acknowledges messages later than ack wait allows, so they are delivered twice",
    "the sampled times to acknowledge, against ack wait",
    "`e` and raise ack wait, or let the client report progress",
    "", 0.0, 0.0, ("near", "ack samples", "acks of repeats", "acks of repeats, late"),
)  # fmt: skip
MAX_WAITING = Kind(
    "NT-C30", "consumer", "warning", "max waiting",
    "as many pull requests are open as are allowed: further ones are refused",
    "how many clients pull, and with what expiry",
    "`e` and raise max waiting, or pull with larger batches",
    "Insights CONSUMER_007", 1.0, 0.0,
)  # fmt: skip
REPLICA_AWAY = Kind(
    "NT-C31", "consumer", "warning", "replica away", "the leader does not hear of a replica of it",
    "whether that server runs (CLUSTER in the detail)",
    "start the server again",
    "Insights CONSUMER_001", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
NO_MATCH = Kind(
    "NT-C32", "consumer", "warning", "nothing matches",
    "its filter matches no subject of its stream",
    "the filter against the subjects of the stream",
    "`e` and change the filter (`nats consumer edit --filter`)",
)  # fmt: skip
PAST_THE_END = Kind(
    "NT-C33", "consumer", "warning", "starts later",
    "it starts at a sequence or a time that is not reached yet",
    "the start of the consumer against the last sequence of the stream",
    "delete and create it with another start, or wait",
)  # fmt: skip
NOT_PINNED = Kind(
    "NT-C34", "consumer", "warning", "nobody pinned",
    "it serves one pinned client only, and none is pinned",
    "whether the client runs that was pinned; its events (`3`)",
    "start a client; `.` unpin lets the next one take over",
    "`nats server check consumer --pinned`", 1.0, 0.0,
)  # fmt: skip
EXPIRING = Kind(
    "NT-C35", "consumer", "warning", "expires soon",
    "its inactive threshold is nearly over: the server will remove it",
    "whether a client shall use it",
    "start the client, or `e` and raise the inactive threshold",
    "", 0.0, 0.0, ("near",),
)  # fmt: skip
LATE = Kind(
    "NT-C36", "consumer", "warning", "late",
    "the next message that it will deliver has waited for long",
    "what holds it back, in its other findings; delivered/s",
    "start more clients of it",
    "Insights CONSUMER_008", 0.0, 0.0, ("lag",),
)  # fmt: skip
LEADER_FLAPS = Kind(
    "NT-C37", "consumer", "warning", "leader flaps",
    "its leader changes again and again",
    "load and network of the servers that hold its replicas",
    "`nats server report jetstream`; `.` step down picks another leader",
    "Insights META_003", 0.0, 0.0, ("leader changes", "leader changes, window"),
)  # fmt: skip
GONE = Kind(
    "NT-C38", "consumer", "warning", "gone", "it was there, and is not any more",
    "who deleted it: the events (`3`); an inactive threshold removes it too",
    "`u` undoes a deletion that was done here; else create it again",
    "", 0.0, 0.0, ("gone",),
)  # fmt: skip
NEAR_ACK_LIMIT = Kind(
    "NT-C51", "consumer", "info", "near ack limit",
    "nearly as many messages wait for their acknowledgement as are allowed",
    "whether the client keeps up with acknowledging",
    "`e` and raise max ack pending",
    "Insights OPT_SYS_003", 2.0, 2.0, ("near",),
)  # fmt: skip
ORIGINAL_PACE = Kind(
    "NT-C52", "consumer", "info", "original pace",
    "it replays messages as slowly as they were published",
    "whether that is meant: the replay policy",
    "delete and create it with replay policy instant",
)  # fmt: skip
RATE_LIMITED = Kind(
    "NT-C53", "consumer", "info", "rate limit",
    "a limit of bits a second holds its deliveries back",
    "the rate limit against what is published",
    "`e` and raise the rate limit, or remove it",
)  # fmt: skip

CONSUMER_KINDS = tuple(one for one in tuple(globals().values()) if isinstance(one, Kind))
"""The catalogue of consumers, the worst of a severity first."""

STANDSTILL = (ACK_LIMIT, NO_SUBSCRIBER, NO_PULLS, FLOW_STALL, STALLED)
"""Nothing more is delivered, though there is something: what people call stuck."""
Cause = Kind | Status
STUCK_CAUSES: tuple[Cause, ...] = (
    NO_LEADER,
    PAUSED,
    POISON,
    ACK_LIMIT,
    REDELIVERING,
    NO_SUBSCRIBER,
    NO_PULLS,
    NOT_ACKNOWLEDGED,
    UNEXPLAINED,
)
"""What explains a stuck stretch of a recording; the first that fits is its cause."""

HOLDS_BACK = (
    UNREACHABLE,
    NO_LEADER,
    NO_QUORUM,
    PAUSED,
    POISON,
    ALL_NAKED,
    FLOW_STALL,
    NO_SUBSCRIBER,
    NO_PULLS,
    PULLS_REFUSED,
    NOT_PINNED,
    ACK_LIMIT,
    STALLED,
    BACKOFF_SPENT,
    ONLY_REPEATS,
    ACK_WAIT_SHORT,
    REDELIVERING,
    NOT_ACKNOWLEDGED,
    ORIGINAL_PACE,
    RATE_LIMITED,
)
"""Why messages wait, where one of these was found at the time; the first is the reason."""
COMES_AGAIN = (ALL_NAKED, POISON, ACK_WAIT_SHORT, BACKOFF_SPENT, ONLY_REPEATS)
"""Why messages are delivered again, in the same way."""
