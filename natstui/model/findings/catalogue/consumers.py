"""The catalogue of findings about consumers. Imports nothing of ours but `kind` and `status`."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.catalogue.status import UNEXPLAINED, Status
from natstui.model.findings.thresholds import (
    FALLING_WINDOW_S,
    LEADERS_WINDOW_S,
    NO_SUBSCRIBER_S,
    PACE_KNOWN_S,
    UNKNOWN_PACE_S,
)

UNREACHABLE = Kind(
    "NT-C01", "consumer", "critical", "leader unreachable",
    "its leader does not reply to the server",
    "which server led it, and whether that server runs",
    "start the server again; `nats server report jetstream` shows which one is down",
    "Insights CONSUMER_003",
)  # fmt: skip
NO_LEADER = Kind(
    "NT-C02", "consumer", "critical", "no leader", "the cluster has elected no leader for it",
    "whether more than half of its replicas run",
    "start the servers that are down; `nats consumer info STREAM CONSUMER` shows its replicas",
    "Insights CONSUMER_003, netdata pull diagnosis 5",
)  # fmt: skip
NO_QUORUM = Kind(
    "NT-C03", "consumer", "critical", "no quorum",
    "the leader has no contact with half of its replicas or more",
    "which replicas are away (CLUSTER in the detail)",
    "start the servers that are down",
    "Insights CONSUMER_003", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
ALL_NAKED = Kind(
    "NT-C04", "consumer", "critical", "all messages nak'd",
    "the client naks nearly every message that it receives",
    "the log of the client: why it naks",
    "fix what the client needs; `.` pause stops the naks meanwhile",
    "netdata pull diagnosis 4", 0.0, 1.0, ("recent", "naks", "naks, leaving", "naks, fewest"),
)  # fmt: skip
POISON = Kind(
    "NT-C05", "consumer", "critical", "poison message",
    "one message is delivered again and again and never acked",
    "the message itself: `m` and its sequence; the log of the client that receives it",
    "fix the client, or delete the message (`ctrl+d` on it, `nats stream rmm STREAM SEQ`)",
    "netdata pull diagnosis 4", 0.0, 0.0, ("poison",),
)  # fmt: skip
FLOW_STALL = Kind(
    "NT-C06", "consumer", "critical", "flow control not answered",
    "the subscriber does not reply to flow control, so nothing is delivered",
    "whether the client is busy or hangs: it replies to flow control only from its own loop",
    "restart the client; delete and create the consumer where the client was removed",
    "", 0.0, 0.0, ("flow stall",),
)  # fmt: skip
NO_PULLS = Kind(
    "NT-C07", "consumer", "critical", "no open pulls",
    "messages are pending, and its clients have stopped pulling",
    "whether a client of it runs; it pulled regularly before",
    "start the client; `N` pulls one message by hand (`nats consumer next STREAM CONSUMER`)",
    "netdata pull diagnosis 2", 0.0, 0.0, ("no pulls after", "pace", "known pace"),
    window_s=PACE_KNOWN_S,
)  # fmt: skip
NO_SUBSCRIBER = Kind(
    "NT-C08", "consumer", "critical", "no subscriber",
    "no client subscribes to its deliver subject",
    "whether the client runs, and in which queue group it subscribes (deliver group)",
    "start the client; `nats consumer info STREAM CONSUMER` shows the deliver subject",
    "Insights CONSUMER_009", NO_SUBSCRIBER_S, 0.0, ("no subscriber",),
)  # fmt: skip
ACK_LIMIT = Kind(
    "NT-C09", "consumer", "critical", "max ack pending reached",
    "delivery has stopped: as many messages as are allowed wait for their ack",
    "why acks do not come: the client is slow, hangs, or never acks",
    "ack in the client, or `e` and raise max ack pending (`nats consumer edit --max-pending`)",
    "Insights OPT_SYS_003, netdata pull diagnosis 1", 2.0, 0.0, (),
)  # fmt: skip
PULLS_REFUSED = Kind(
    "NT-C39", "consumer", "warning", "pulls refused",
    "nothing was ever delivered, and the server refuses pulls that do not fit the consumer",
    "batch, expiry, bytes and group of the client's pulls against those of the consumer",
    "change the pulls of the client, or `e` and raise max batch, max expires or max bytes",
    "", 0.0, 0.0, ("no pulls after",),
)  # fmt: skip
STALLED = Kind(
    "NT-C11", "consumer", "critical", "pull max bytes too small",
    "clients pull and messages are pending, but none is delivered",
    "the max bytes of the pulls against the size of the next message (`m`)",
    "raise max bytes of the pulls; if that is not it, `.` step down elects another leader",
    "netdata pull diagnosis 3", 0.0, 0.0, ("stalled",),
)  # fmt: skip
PUSH_STALLED = Kind(
    "NT-C15", "consumer", "critical", "push consumer stalled",
    "a subscriber is bound and messages are pending, but none is delivered",
    "the log of the subscriber, and of the server that leads the consumer",
    "restart the subscriber; `.` step down elects another leader",
    "", 0.0, 0.0, ("stalled",),
)  # fmt: skip
SKIPPED = Kind(
    "NT-C12", "consumer", "critical", "messages lost before delivery",
    "the stream removed messages before this consumer received them: a limit is too small",
    "the limits of the stream against how far the consumer is behind",
    "`nats stream edit STREAM --max-bytes SIZE` (or --max-msgs, --max-age) or `e` on the stream "
    "raises the limit; or start more clients of the consumer",
    "", 0.0, 0.0, ("lost",),
)  # fmt: skip
OWN_THRESHOLD = Kind(
    "NT-C13", "consumer", "critical", "past its threshold",
    "a critical threshold in its metadata (io.nats.monitor) is reached",
    "the number beside the threshold; its owner has decided that it is too much",
    "`e`, section Monitoring, changes the threshold",
    "Insights CONSUMER_006 to 011", 0.0, 0.0, (),
)  # fmt: skip
GAVE_UP = Kind(
    "NT-C21", "consumer", "warning", "max deliver reached",
    "messages were dropped after max deliver and are not delivered any more",
    "the messages (`m` and their sequence), and why the client does not ack them",
    "publish them again (`x` on a message), then delete them; `nats stream get STREAM SEQ`",
    "surveyor delivery_exceeded_count", 0.0, 0.0, ("given up",),
)  # fmt: skip
TERMINATED = Kind(
    "NT-C22", "consumer", "warning", "messages terminated",
    "the client terminates messages: they are not delivered any more",
    "the reasons of the client in the events (`3`)",
    "fix the client, or what is published",
    "", 0.0, 2.0, ("recent", "terms, fewest"),
)  # fmt: skip
FALLING_BEHIND = Kind(
    "NT-C23", "consumer", "warning", "lagging",
    "messages come faster than its clients process them",
    "delivered/s and ack pending: is the client slow, or are there too few?",
    "start more clients of it, or `e` and raise max ack pending where that holds it back",
    "Insights CONSUMER_008", 0.0, 5.0,
    ("falling behind, window", "falling behind, rate", "falling behind, backlog",
     "falling behind, time"),
    window_s=FALLING_WINDOW_S,
)  # fmt: skip
NOT_ACKNOWLEDGED = Kind(
    "NT-C25", "consumer", "warning", "not acked within ack wait",
    "messages were delivered and not acked within ack wait",
    "whether the client that received them still runs",
    "restart the client; `m` and the sequence shows the messages",
    "Insights CONSUMER_006", 0.0, 0.0, (),
)  # fmt: skip
REDELIVERING = Kind(
    "NT-C26", "consumer", "warning", "redelivered again and again",
    "most deliveries are of messages that were delivered before",
    "ack wait against the time that the client takes; naks in the events (`3`)",
    "fix the client, or `e` and raise ack wait",
    "Insights CONSUMER_011, OPT_SYS_002", 0.0, 1.0, ("repeats", "repeats, fewest"),
)  # fmt: skip
PAUSED = Kind(
    "NT-C27", "consumer", "warning", "paused",
    "delivery is paused until it is resumed or expires",
    "who paused it, and until when",
    "`.` resume (`nats consumer resume STREAM CONSUMER`)",
)  # fmt: skip
ACK_WAIT_SHORT = Kind(
    "NT-C29", "consumer", "warning", "acked after ack wait",
    "the client acks later than ack wait allows, so messages are delivered twice",
    "how long the client processes a message, against ack wait",
    "`e` and raise ack wait, or let the client report progress",
    "", 0.0, 2.0, ("near", "ack samples", "acks of repeats", "acks of repeats, late", "repeats",
                   "repeats, share", "repeats, fewest"),
)  # fmt: skip
MAX_WAITING = Kind(
    "NT-C30", "consumer", "warning", "max waiting reached",
    "as many pull requests are open as are allowed: further ones are refused",
    "how many clients pull, and with what expiry",
    "`e` and raise max waiting, or pull with larger batches",
    "Insights CONSUMER_007", 1.0, 5.0,
)  # fmt: skip
REPLICA_AWAY = Kind(
    "NT-C31", "consumer", "warning", "replica offline",
    "the leader has no contact with a replica of it",
    "whether that server runs (CLUSTER in the detail)",
    "start the server again",
    "Insights CONSUMER_001", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
NO_MATCH = Kind(
    "NT-C32", "consumer", "warning", "filter matches nothing",
    "no message that was stored since its creation matches its filter",
    "the spelling of the filter against the subjects of the stream",
    "`e` and change the filter (`nats consumer edit --filter`)",
    "", 0.0, 0.0, ("unmatched", "unmatched, window"),
)  # fmt: skip
PAST_THE_END = Kind(
    "NT-C33", "consumer", "warning", "start is beyond the end of the stream",
    "it starts at a sequence or a time that is not reached yet",
    "the start of the consumer against the last sequence of the stream",
    "delete and create it with another start, or wait",
)  # fmt: skip
EXPIRING = Kind(
    "NT-C35", "consumer", "warning", "expires soon",
    "its inactive threshold is nearly over: the server removes it then",
    "whether a client should use it",
    "start the client, or `e` and raise the inactive threshold",
    "", 0.0, 0.0, ("near",),
)  # fmt: skip
LATE = Kind(
    "NT-C36", "consumer", "warning", "next message is old",
    "the next message to deliver has waited for long",
    "its other findings; delivered/s",
    "start more clients of it",
    "Insights CONSUMER_008", 0.0, 0.0, ("lag",),
)  # fmt: skip
LEADER_FLAPS = Kind(
    "NT-C37", "consumer", "warning", "leader changes often",
    "its leader changes again and again",
    "load and network of the servers that hold its replicas",
    "`nats server report jetstream`; `.` step down picks another leader",
    "Insights META_003", 0.0, 0.0, ("leader changes", "leader changes, window"),
    window_s=LEADERS_WINDOW_S,
)  # fmt: skip
GONE = Kind(
    "NT-C38", "consumer", "warning", "consumer deleted", "it was there, and is deleted",
    "who deleted it: the events (`3`); an inactive threshold removes it too",
    "`u` undoes a deletion that was done here; else create it again",
    "", 0.0, 0.0, ("gone",),
)  # fmt: skip
NO_ELIGIBLE_PULL = Kind(
    "NT-C40", "consumer", "warning", "no eligible pull",
    "pull requests are open, and its priority policy lets none of them receive",
    "min pending and min ack pending of the open pulls against what is pending",
    "lower min pending in the client, or start a client that pulls without it",
    "", 0.0, 0.0, (),
)  # fmt: skip
PINNED_IDLE = Kind(
    "NT-C41", "consumer", "warning", "pinned client idle",
    "the pinned client does not pull, while others wait",
    "whether the pinned client runs",
    "`.` unpin lets the next client receive (`nats consumer unpin STREAM CONSUMER`)",
    "`nats server check consumer --pinned`", 0.0, 0.0, (),
)  # fmt: skip
NEVER_ACKED = Kind(
    "NT-C42", "consumer", "critical", "never acked",
    "messages are delivered again and again, and no ack comes",
    "whether the client acks, and whether its user may publish to $JS.ACK.>",
    "ack in the client, or allow its user to publish to $JS.ACK.>",
    "netdata pull diagnosis 4", 0.0, 0.0, ("never acked",),
)  # fmt: skip
FLOOR_BLOCKED = Kind(
    "NT-C43", "consumer", "warning", "ack floor blocked by one message",
    "one message is not acked, and all later ones are",
    "the message (`m` and its sequence), and the client that has it",
    "ack or terminate it in the client; a restart of that client returns it after ack wait",
    "", 0.0, 0.0, ("ack floor blocked", "ack floor blocked, fewest"),
)  # fmt: skip
NO_PULLS_SEEN = Kind(
    "NT-C44", "consumer", "warning", "no open pulls",
    "messages are pending, and no pull request is open",
    "whether a client of it runs; how often it pulls is not known",
    "start the client; `N` pulls one message by hand (`nats consumer next STREAM CONSUMER`)",
    "netdata pull diagnosis 2", 0.0, 0.0, ("unknown pace", "new consumer"),
)  # fmt: skip
UNACKED_WITHOUT_PULL = Kind(
    "NT-C45", "consumer", "warning", "unacked messages wait for a pull",
    "messages were delivered and not acked; they come back only when somebody pulls",
    "whether the client that received them still runs",
    "start the client: its next pull receives them again",
    "Insights CONSUMER_006", 0.0, 0.0, ("fetch loop",),
)  # fmt: skip
RECREATED = Kind(
    "NT-C46", "consumer", "warning", "consumer recreated again and again",
    "a client deletes and recreates it again and again: it begins from its start each time",
    "which client does it: the events (`3`)",
    "let the client keep the consumer and bind to it",
    "", 0.0, 5.0, ("recreated", "recreated, fewest"),
    window_s=5.0,
)  # fmt: skip
ROLLED_BACK = Kind(
    "NT-C47", "consumer", "warning", "ahead of its stream",
    "it received later messages than its stream has: the stream was restored or lost its newest",
    "whether the stream was restored, or its server crashed",
    "publish the missing messages again; new ones are delivered once their sequence is reached",
    "", 2.0, 0.0, (),
)  # fmt: skip
LOST_BEFORE_ACK = Kind(
    "NT-C48", "consumer", "warning", "messages lost before ack",
    "the stream removed messages that were delivered and not acked: they cannot be redelivered",
    "the limits of the stream against how long the client takes to ack",
    "`nats stream edit STREAM --max-bytes SIZE` (or --max-msgs, --max-age) or `e` on the stream "
    "raises the limit; ack faster in the client",
    "", 0.0, 0.0, ("lost",),
)  # fmt: skip
PROCESSED_TWICE = Kind(
    "NT-C49", "consumer", "warning", "each message processed twice",
    "several clients subscribe to its deliver subject without a queue group",
    "whether these are instances of one service (`W`): each of them receives every message",
    "set a deliver group and let them subscribe in it, or use a pull consumer",
    "", 0.0, 0.0, (),
)  # fmt: skip
DIED_UNACKED = Kind(
    "NT-C50", "consumer", "warning", "client closed with unacked messages",
    "the connection of a client ended while messages were ack pending: they wait for ack wait",
    "the log of that client: why it ended",
    "start the client: after ack wait its pull receives them again; `e` and lower ack wait",
    "Insights CONSUMER_006", 0.0, 0.0, ("no subscriber", "unknown pace", "fetch loop"),
    window_s=UNKNOWN_PACE_S,
)  # fmt: skip
NOT_PULLED_YET = Kind(
    "NT-C54", "consumer", "info", "no open pulls",
    "it is new, and nobody pulls",
    "whether a client should use it",
    "start the client",
    "", 0.0, 0.0, ("new consumer",),
)  # fmt: skip
NAKS = Kind(
    "NT-C55", "consumer", "info", "redelivery by nak",
    "the client naks some messages, which are delivered again",
    "the log of the client: why it naks",
    "nothing, if these retries are meant",
    "", 0.0, 2.0, ("naks, fewest", "repeats"),
)  # fmt: skip
WAITS_FOR_BACKOFF = Kind(
    "NT-C56", "consumer", "info", "waits for backoff",
    "messages that were not acked are delivered again at the next step of the backoff",
    "the backoff of the consumer",
    "wait, or `e` and shorten the backoff",
    "", 0.0, 0.0, (),
)  # fmt: skip
NEAR_ACK_LIMIT = Kind(
    "NT-C51", "consumer", "info", "near max ack pending",
    "nearly as many messages are ack pending as are allowed",
    "whether the client acks as fast as it receives",
    "`e` and raise max ack pending",
    "Insights OPT_SYS_003", 2.0, 2.0, ("near",),
)  # fmt: skip
ORIGINAL_PACE = Kind(
    "NT-C52", "consumer", "info", "replays at original pace",
    "it delivers messages as slowly as they were published",
    "whether that is meant: the replay policy",
    "delete and create it with replay policy instant",
)  # fmt: skip
RATE_LIMITED = Kind(
    "NT-C53", "consumer", "info", "rate limit reached",
    "its rate limit (bits a second) slows delivery",
    "the rate limit against what is published",
    "`e` and raise the rate limit, or remove it",
)  # fmt: skip

CONSUMER_KINDS = tuple(one for one in tuple(globals().values()) if isinstance(one, Kind))
"""The catalogue of consumers, the worst of a severity first."""

STANDSTILL = (
    ACK_LIMIT, NO_SUBSCRIBER, NO_PULLS, NO_PULLS_SEEN, PULLS_REFUSED, NO_ELIGIBLE_PULL,
    PINNED_IDLE, FLOW_STALL, STALLED, PUSH_STALLED,
)  # fmt: skip
"""Nothing more is delivered, though messages are pending: what people call stuck."""
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
    ALL_NAKED,
    POISON,
    NEVER_ACKED,
    ACK_LIMIT,
    ACK_WAIT_SHORT,
    REDELIVERING,
    RATE_LIMITED,
    PINNED_IDLE,
    NO_ELIGIBLE_PULL,
    PULLS_REFUSED,
    NO_SUBSCRIBER,
    NO_PULLS,
    NO_PULLS_SEEN,
    UNACKED_WITHOUT_PULL,
    FLOW_STALL,
    STALLED,
    PUSH_STALLED,
    NOT_ACKNOWLEDGED,
    ORIGINAL_PACE,
)
"""Why messages wait, where one of these was found at the time; the first is the reason."""
COMES_AGAIN = (ALL_NAKED, POISON, NEVER_ACKED, ACK_WAIT_SHORT, REDELIVERING)
"""Why messages are delivered again, in the same way."""
