"""The catalogue of findings about consumers. Of natstui it imports only `kind` and `status`."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import ANY_LIMIT_LABEL, ANY_LIMIT_OPTION, Kind
from natstui.model.findings.catalogue.status import UNEXPLAINED, Status
from natstui.model.findings.thresholds import (
    LAGGING_WINDOW_S,
    LEADER_CHANGES_WINDOW_S,
    MAX_PULL_GAP_IF_UNKNOWN_S,
    NO_SUBSCRIBER_S,
    PULL_GAPS_KNOWN_AFTER_S,
    RECURRENCE_S,
)

UNREACHABLE = Kind(
    "NT-C01", "consumer", "critical", "leader unreachable",
    "the consumer's leader does not reply to the server",
    "which server led the consumer, and whether that server runs",
    "start the server again; `nats server report jetstream` shows which one is down",
    "Synadia Insights CONSUMER_003",
)  # fmt: skip
NO_LEADER = Kind(
    "NT-C02", "consumer", "critical", "no leader",
        "the cluster has elected no leader for the consumer",
    "whether more than half of the consumer's replicas run",
    "start the servers that are down; `nats consumer info STREAM CONSUMER` shows its replicas",
    "Synadia Insights CONSUMER_003, netdata pull diagnosis 5",
)  # fmt: skip
NO_QUORUM = Kind(
    "NT-C03", "consumer", "critical", "no quorum",
    "the leader has no contact with half of its replicas or more",
    "which replicas are offline (CLUSTER in the details)",
    "start the servers that are down",
    "Synadia Insights CONSUMER_003", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
ALL_NAKD = Kind(
    "NT-C04", "consumer", "critical", "all messages nak'd",
    "the client naks nearly every message that it receives",
    "the client's log: the reason for the naks",
    "fix the client or the service it depends on; `finding.act` pause stops the naks until then",
    "netdata pull diagnosis 4", 0.0, 1.0, ("recent", "naks", "naks, leaving", "naks, fewest"),
)  # fmt: skip
POISON = Kind(
    "NT-C05", "consumer", "critical", "poison message",
    "one message is delivered again and again and never acked",
    "the message itself: `consumer.messages` and its sequence; the log of the client that "
    "receives it",
    "fix the client, or delete the message (`msg.delete` on it, `nats stream rmm STREAM SEQ`)",
    "netdata pull diagnosis 4", 0.0, 0.0, ("poison",),
)  # fmt: skip
FLOW_STALL = Kind(
    "NT-C06", "consumer", "critical", "flow control not answered",
    "the subscriber does not reply to flow control, so nothing is delivered",
    "whether the client is busy or hangs: only a running client loop replies to flow control",
    "restart the client; if the client no longer exists, delete and recreate the consumer",
    "", 0.0, 0.0, ("flow stall",),
)  # fmt: skip
NO_PULLS = Kind(
    "NT-C07", "consumer", "critical", "no open pulls",
    "messages are pending, and the clients have stopped pulling",
    "whether the client still runs: until now it pulled regularly",
    "start the client; `pull.next_of` pulls one message by hand (`nats consumer next STREAM "
    "CONSUMER`)",
    "netdata pull diagnosis 2", 0.0, 0.0, ("no pulls after", "pace", "known pace"),
    window_s=PULL_GAPS_KNOWN_AFTER_S,
)  # fmt: skip
NO_SUBSCRIBER = Kind(
    "NT-C08", "consumer", "critical", "no subscriber",
    "no client subscribes to the deliver subject of the consumer",
    "whether the client runs, and in which queue group it subscribes (deliver group)",
    "start the client; `nats consumer info STREAM CONSUMER` shows the deliver subject",
    "Synadia Insights CONSUMER_009", NO_SUBSCRIBER_S, 0.0, ("no subscriber",),
)  # fmt: skip
OTHER_QUEUE_GROUP = Kind(
    "NT-C16", "consumer", "critical", "subscribed in another queue group",
    "clients subscribe to the deliver subject, but in another queue group than the deliver group",
    "the queue group in the client, compared with the deliver group of the consumer",
    "let the client subscribe in the deliver group of the consumer",
    "Synadia Insights CONSUMER_009", NO_SUBSCRIBER_S, 0.0, ("no subscriber",),
)  # fmt: skip
WITHOUT_QUEUE_GROUP = Kind(
    "NT-C17", "consumer", "critical", "subscribed without a queue group",
    "clients subscribe to the deliver subject, but without the deliver group of the consumer",
    "whether the client names a queue group when it subscribes; a mere observer needs none",
    "let the client subscribe in the deliver group of the consumer; or start the client, if only "
    "an observer subscribes",
    "Synadia Insights CONSUMER_009", NO_SUBSCRIBER_S, 0.0, ("no subscriber",),
)  # fmt: skip
MAX_ACK_PENDING_REACHED = Kind(
    "NT-C09", "consumer", "critical", "max ack pending reached",
    "delivery has stopped: the number of messages waiting for an ack is at its limit",
    "why no acks come: the client is slow, hangs, or never acks",
    "ack in the client, or `consumer.edit` and raise max ack pending (`nats consumer edit "
    "--max-pending`)",
    "Synadia Insights OPT_SYS_003, netdata pull diagnosis 1", 2.0, 0.0, (),
)  # fmt: skip
PULLS_REFUSED = Kind(
    "NT-C39", "consumer", "warning", "pulls refused",
    "nothing was ever delivered: the pulls conflict with the consumer's settings and are refused",
    "whether batch, expiry, max bytes and group of the pulls match the consumer's configuration",
    "change the pulls of the client, or raise max batch, max expires or max bytes "
    "(`consumer.edit`)",
    "", 0.0, 0.0, ("no pulls after",),
)  # fmt: skip
PULL_STALLED = Kind(
    "NT-C11", "consumer", "critical", "pull max bytes too small",
    "clients pull and messages are pending, but none is delivered",
    "whether the max bytes of the pulls is below the size of the next message "
    "(`consumer.messages`)",
    "raise the max bytes of the pulls; if that does not help, elect a new leader (`finding.act`, "
    "step down)",
    "netdata pull diagnosis 3", 0.0, 0.0, ("stalled",),
)  # fmt: skip
PUSH_STALLED = Kind(
    "NT-C15", "consumer", "critical", "push consumer stalled",
    "a client is subscribed and messages are pending, but none is delivered",
    "the log of the subscriber, and of the server that leads the consumer",
    "restart the subscriber; elect a new leader (`finding.act`, step down)",
    "", 0.0, 0.0, ("stalled",),
)  # fmt: skip
LOST_BEFORE_DELIVERY = Kind(
    "NT-C12", "consumer", "critical", "messages lost before delivery",
    "the stream removed messages before this consumer received them: a limit is too small",
    "how far the consumer is behind, compared with the limits of the stream",
    f"raise {ANY_LIMIT_LABEL}: `stream.edit` on the stream, or `nats stream edit STREAM "
    f"{ANY_LIMIT_OPTION}; "
    "or start more clients of the consumer",
    "", 0.0, 0.0, ("lost",),
)  # fmt: skip
CONSUMER_PAST_THRESHOLD = Kind(
    "NT-C13", "consumer", "critical", "past its threshold",
    "a critical threshold in the consumer's metadata (io.nats.monitor) is reached",
    "the value and the threshold, which the owner of the consumer has set",
    "change the threshold (`consumer.edit`, section Monitoring)",
    "Synadia Insights CONSUMER_006 to 011", 0.0, 0.0, (),
)  # fmt: skip
MAX_DELIVER_REACHED = Kind(
    "NT-C21", "consumer", "warning", "max deliver reached",
    "messages reached max deliver and are not delivered any more",
    "the messages (`consumer.messages`, or `nats stream get STREAM SEQ`), and why the client does "
    "not ack them",
    "publish the messages again (`msg.again` on a message), then delete the old ones",
    "surveyor delivery_exceeded_count", 0.0, 0.0, ("dropped after max deliver",),
)  # fmt: skip
TERMINATED = Kind(
    "NT-C22", "consumer", "warning", "messages terminated",
    "the client terminates messages, so they are not delivered again",
    "the client's reasons, in the events (`screen.events`)",
    "fix the client, or the publisher of these messages",
    "", 0.0, 2.0, ("recent", "terms, fewest", "recurring"), recurrence_s=RECURRENCE_S,
)  # fmt: skip
LAGGING = Kind(
    "NT-C23", "consumer", "warning", "lagging",
    "messages arrive faster than the clients process them",
    "delivered/s and ack pending: are the clients slow, or too few?",
    "start more clients, or raise max ack pending if that limits delivery (`consumer.edit`)",
    "Synadia Insights CONSUMER_008", 0.0, 5.0,
    ("falling behind, window", "falling behind, rate", "falling behind, backlog",
     "falling behind, time", "recurring"),
    window_s=LAGGING_WINDOW_S, recurrence_s=RECURRENCE_S,
)  # fmt: skip
NOT_ACKED_WITHIN_ACK_WAIT = Kind(
    "NT-C25", "consumer", "warning", "not acked within ack wait",
    "some messages were delivered and not acked within ack wait",
    "whether the client that received the messages still runs",
    "restart the client; `consumer.messages` and the sequence shows the messages",
    "Synadia Insights CONSUMER_006", 0.0, 0.0, (),
)  # fmt: skip
REDELIVERING = Kind(
    "NT-C26", "consumer", "warning", "redelivered again and again",
    "most deliveries are redeliveries",
    "whether the client needs longer than ack wait; naks in the events (`screen.events`)",
    "fix the client, or raise ack wait (`consumer.edit`)",
    "Synadia Insights CONSUMER_011, OPT_SYS_002", 0.0, 1.0, ("repeats", "repeats, fewest"),
)  # fmt: skip
PAUSED = Kind(
    "NT-C27", "consumer", "warning", "paused",
    "delivery is paused until it is resumed or expires",
    "who paused it, and until when",
    "`finding.act` resume (`nats consumer resume STREAM CONSUMER`)",
)  # fmt: skip
ACKED_AFTER_ACK_WAIT = Kind(
    "NT-C29", "consumer", "warning", "acked after ack wait",
    "the client acks later than ack wait allows, so messages are delivered twice",
    "whether the client needs longer for a message than ack wait",
    "raise ack wait (`consumer.edit`), or let the client send in-progress acks",
    "", 0.0, 2.0, ("near", "ack samples", "acks of repeats", "late acks of redeliveries",
                   "repeats", "repeats, share", "repeats, fewest"),
)  # fmt: skip
MAX_WAITING_REACHED = Kind(
    "NT-C30", "consumer", "warning", "max waiting reached",
    "the limit of open pull requests is reached: further pulls are refused",
    "how many clients pull, and how long their pulls stay open",
    "raise max waiting (`consumer.edit`), or pull with larger batches",
    "Synadia Insights CONSUMER_007", 1.0, 5.0,
)  # fmt: skip
REPLICA_OFFLINE = Kind(
    "NT-C31", "consumer", "warning", "replica offline",
    "the leader has no contact with one of the consumer's replicas",
    "whether that server runs (CLUSTER in the details)",
    "start the server again",
    "Synadia Insights CONSUMER_001", 1.0, 0.0, ("replica contact",),
)  # fmt: skip
FILTER_MATCHES_NOTHING = Kind(
    "NT-C32", "consumer", "warning", "filter matches nothing",
    "since the consumer was created, no stored message has matched its filter",
    "the spelling of the filter, compared with the subjects of the stream",
    "`consumer.edit` and change the filter (`nats consumer edit --filter`)",
    "", 0.0, 0.0, ("unmatched", "unmatched, window"),
)  # fmt: skip
START_BEYOND_END = Kind(
    "NT-C33", "consumer", "warning", "start is beyond the end of the stream",
    "the consumer starts at a sequence or a time that is not reached yet",
    "the start of the consumer, compared with the last sequence of the stream",
    "create the consumer again with another start position, or wait",
)  # fmt: skip
EXPIRES_SOON = Kind(
    "NT-C35", "consumer", "warning", "expires soon",
    "the inactive threshold is nearly reached: the server will then delete the consumer",
    "whether a client should use the consumer",
    "start the client, or raise the inactive threshold (`consumer.edit`)",
    "", 0.0, 0.0, ("near",),
)  # fmt: skip
NEXT_MESSAGE_OLD = Kind(
    "NT-C36", "consumer", "warning", "next message is old",
    "the next message to deliver has been waiting for a long time",
    "the other findings of the consumer, and delivered/s",
    "start more clients of the consumer",
    "Synadia Insights CONSUMER_008", 0.0, 0.0, ("lag",),
)  # fmt: skip
LEADER_CHANGES_OFTEN = Kind(
    "NT-C37", "consumer", "warning", "leader changes often",
    "the leader of the consumer changes again and again",
    "load and network of the servers that store the replicas",
    "`nats server report jetstream`; elect a new leader (`finding.act`, step down)",
    "Synadia Insights META_003", 0.0, 0.0, ("leader changes", "leader changes, window"),
    window_s=LEADER_CHANGES_WINDOW_S,
)  # fmt: skip
CONSUMER_DELETED = Kind(
    "NT-C38", "consumer", "warning", "consumer deleted", "the consumer was deleted",
    "who deleted the consumer (events, `screen.events`), or whether its inactive threshold was "
    "over",
    "`undo` undoes a deletion made in natstui; otherwise create the consumer again",
    "", 0.0, 0.0, ("deletions",),
)  # fmt: skip
NO_ELIGIBLE_PULL = Kind(
    "NT-C40", "consumer", "warning", "no eligible pull",
    "pull requests are open, but the priority policy allows none of them a message",
    "whether pending or ack pending is below the minimum that the open pulls demand",
    "lower min pending in the client, or start a client that pulls without min pending",
    "", 0.0, 0.0, (),
)  # fmt: skip
PINNED_IDLE = Kind(
    "NT-C41", "consumer", "warning", "pinned client idle",
    "the pinned client does not pull, while others wait",
    "whether the pinned client runs",
    "`finding.act` unpin lets another client receive (`nats consumer unpin STREAM CONSUMER`)",
    "`nats server check consumer --pinned`", 0.0, 0.0, (),
)  # fmt: skip
NEVER_ACKED = Kind(
    "NT-C42", "consumer", "critical", "never acked",
    "messages are delivered again and again, and no ack arrives",
    "whether the client sends acks, and whether its user may publish to $JS.ACK.>",
    "let the client ack, or allow its user to publish to $JS.ACK.>",
    "netdata pull diagnosis 4", 0.0, 0.0, ("never acked",),
)  # fmt: skip
FLOOR_BLOCKED = Kind(
    "NT-C43", "consumer", "warning", "ack floor blocked by one message",
    "one message is not acked, although all later ones are",
    "the message (`consumer.messages` and its sequence), and the client that has it",
    "let the client ack or terminate the message, or restart the client for a redelivery",
    "", 0.0, 0.0, ("ack floor blocked", "ack floor blocked, fewest"),
)  # fmt: skip
NO_PULLS_PACE_UNKNOWN = Kind(
    "NT-C44", "consumer", "warning", "no open pulls",
    "messages are pending, but no client has an open pull request",
    "whether a client of the consumer runs; if so, its pulls are refused: compare their max bytes "
    "with the size of the next message (`consumer.messages`)",
    "start the client; `pull.next_of` pulls one message by hand (`nats consumer next STREAM "
    "CONSUMER`)",
    "netdata pull diagnosis 2", 0.0, 0.0, ("unknown pace", "new consumer"),
)  # fmt: skip
UNACKED_WITHOUT_PULL = Kind(
    "NT-C45", "consumer", "warning", "unacked messages wait for a pull",
    "delivered messages were not acked; they are redelivered only when a client pulls",
    "whether the client that received the messages still runs",
    "start the client: its next pull receives the messages again",
    "Synadia Insights CONSUMER_006", 0.0, 0.0, ("fetch loop",),
)  # fmt: skip
CONSUMER_RECREATED = Kind(
    "NT-C46", "consumer", "warning", "consumer recreated again and again",
    "a client recreates the consumer again and again: delivery begins from the start each time",
    "which client recreates the consumer: the events (`screen.events`)",
    "let the client create the consumer once and then bind to it",
    "", 0.0, 5.0, ("recreated", "recreated, fewest"),
    window_s=5.0,
)  # fmt: skip
AHEAD_OF_STREAM = Kind(
    "NT-C47", "consumer", "warning", "ahead of its stream",
    "the consumer is past the end of its stream: the stream lost its newest messages, or the "
    "consumer was reset beyond them",
    "whether the stream was restored, its server crashed, or somebody reset the consumer",
    "reset it to a sequence that exists: `natstui consumer reset STREAM CONSUMER --seq SEQ`; "
    "else delivery resumes when its sequence is reached",
    "", 2.0, 0.0, (),
)  # fmt: skip
LOST_BEFORE_ACK = Kind(
    "NT-C48", "consumer", "warning", "messages lost before ack",
    "the stream removed messages that were delivered and not acked: they cannot be redelivered",
    "whether the stream's limits remove messages before the client acks them",
    f"raise {ANY_LIMIT_LABEL}: `stream.edit` on the stream, or `nats stream edit STREAM "
    f"{ANY_LIMIT_OPTION}; "
    "ack faster in the client",
    "", 0.0, 0.0, ("lost",),
)  # fmt: skip
PROCESSED_TWICE = Kind(
    "NT-C49", "consumer", "warning", "each message processed twice",
    "several clients subscribe to the deliver subject without a queue group",
    "whether they are instances of one service (`consumer.clients`): each instance receives every "
    "message",
    "set a deliver group and let the clients subscribe with it, or use a pull consumer",
    "", 0.0, 0.0, (),
)  # fmt: skip
CLIENT_CLOSED_WITH_UNACKED = Kind(
    "NT-C50", "consumer", "warning", "client closed with unacked messages",
    "the connection of a client ended while messages were ack pending: they wait for ack wait",
    "the log of that client: why it ended",
    "start the client: after ack wait its pull receives them again; lower ack wait "
    "(`consumer.edit`)",
    "Synadia Insights CONSUMER_006", 0.0, 0.0, ("no subscriber", "unknown pace", "fetch loop"),
    window_s=MAX_PULL_GAP_IF_UNKNOWN_S,
)  # fmt: skip
NOT_PULLED_YET = Kind(
    "NT-C54", "consumer", "info", "no open pulls",
    "the consumer is new, and no client pulls",
    "whether a client should use the consumer",
    "start the client",
    "", 0.0, 0.0, ("new consumer",),
)  # fmt: skip
SOME_NAKS = Kind(
    "NT-C55", "consumer", "info", "redelivery by nak",
    "the client naks some messages, which are delivered again",
    "the client's log: the reason for the naks",
    "no action is needed if these retries are intended",
    "", 0.0, 2.0, ("naks, fewest", "repeats", "recurring"), recurrence_s=RECURRENCE_S,
)  # fmt: skip
WAITS_FOR_BACKOFF = Kind(
    "NT-C56", "consumer", "info", "waits for backoff",
    "unacked messages wait out the backoff before their next delivery",
    "the backoff of the consumer",
    "wait, or shorten the backoff (`consumer.edit`)",
    "", 0.0, 0.0, (),
)  # fmt: skip
NEAR_MAX_ACK_PENDING = Kind(
    "NT-C51", "consumer", "info", "near max ack pending",
    "the number of ack pending messages is close to its limit",
    "whether the client acks as fast as it receives",
    "raise max ack pending (`consumer.edit`)",
    "Synadia Insights OPT_SYS_003", 2.0, 2.0, ("near",),
)  # fmt: skip
ORIGINAL_PACE = Kind(
    "NT-C52", "consumer", "info", "replays at original pace",
    "the consumer delivers messages as slowly as they were published",
    "whether replay policy original is intended",
    "delete the consumer and create it with replay policy instant",
)  # fmt: skip
RATE_LIMIT_REACHED = Kind(
    "NT-C53", "consumer", "info", "rate limit reached",
    "the rate limit of the consumer (bits per second) slows delivery",
    "the rate limit, compared with the rate of the publishers",
    "raise the rate limit (`consumer.edit`), or remove it",
)  # fmt: skip

CONSUMER_KINDS = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, Kind))
"""The kinds of findings about consumers; of each severity, the worst first."""

STUCK_KINDS = (
    MAX_ACK_PENDING_REACHED, OTHER_QUEUE_GROUP, WITHOUT_QUEUE_GROUP, NO_SUBSCRIBER, NO_PULLS,
    NO_PULLS_PACE_UNKNOWN, PULLS_REFUSED,
    NO_ELIGIBLE_PULL, PINNED_IDLE, FLOW_STALL, PULL_STALLED, PUSH_STALLED,
)  # fmt: skip
"""Kinds of a stuck consumer: delivery has stopped, though messages are pending."""
STUCK_CAUSES: tuple[Kind | Status, ...] = (
    NO_LEADER,
    PAUSED,
    POISON,
    MAX_ACK_PENDING_REACHED,
    REDELIVERING,
    NO_SUBSCRIBER,
    NO_PULLS,
    NOT_ACKED_WITHIN_ACK_WAIT,
    UNEXPLAINED,
)
"""Causes of a stuck period in a recording, in order of precedence."""

KINDS_OF_WAITING = (
    UNREACHABLE,
    NO_LEADER,
    NO_QUORUM,
    PAUSED,
    ALL_NAKD,
    POISON,
    NEVER_ACKED,
    MAX_ACK_PENDING_REACHED,
    ACKED_AFTER_ACK_WAIT,
    REDELIVERING,
    RATE_LIMIT_REACHED,
    PINNED_IDLE,
    NO_ELIGIBLE_PULL,
    PULLS_REFUSED,
    OTHER_QUEUE_GROUP,
    WITHOUT_QUEUE_GROUP,
    NO_SUBSCRIBER,
    NO_PULLS,
    NO_PULLS_PACE_UNKNOWN,
    UNACKED_WITHOUT_PULL,
    FLOW_STALL,
    PULL_STALLED,
    PUSH_STALLED,
    NOT_ACKED_WITHIN_ACK_WAIT,
    ORIGINAL_PACE,
)
"""Kinds that explain why messages waited, in order of precedence."""
KINDS_OF_REDELIVERY = (ALL_NAKD, POISON, NEVER_ACKED, ACKED_AFTER_ACK_WAIT, REDELIVERING)
"""Kinds that explain redeliveries, in order of precedence."""
