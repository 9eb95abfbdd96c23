"""The catalogue of findings about settings. Of natstui it imports only `kind`."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind

MAX_AGE_BELOW_ACK_WAIT = Kind(
    "NT-K01", "consumer", "warning", "age below ack wait",
    "messages expire before ack wait is over: they are never redelivered",
    "max age of the stream, compared with ack wait and backoff of the consumer",
    "raise max age (`consumer.edit`), or lower ack wait",
)  # fmt: skip
MAX_ACK_PENDING_IS_ONE = Kind(
    "NT-K02", "consumer", "info", "one at a time",
    "max ack pending is 1: one message at a time, however many clients there are",
    "whether strict order is intended",
    "raise max ack pending (`consumer.edit`)",
)  # fmt: skip
UNLIMITED_DELIVERIES = Kind(
    "NT-K03", "consumer", "info", "unlimited deliveries",
    "a message that is never acked is delivered again and again",
    "what the client does with a message that it cannot process",
    "set max deliver (`consumer.edit`); the events then name the dropped messages",
)  # fmt: skip
CONSUMER_UNUSED = Kind(
    "NT-K04", "consumer", "info", "unused",
    "nothing was delivered for weeks, and no client pulls",
    "whether the consumer is needed: on work queue and interest streams it keeps messages",
    "delete it (`consumer.delete`)",
    "Synadia Insights OPT_IDLE_003, OPT_IDLE_004", 0.0, 0.0, ("unused",),
)  # fmt: skip
INACTIVE_THRESHOLD_BELOW_ACK_WAIT = Kind(
    "NT-K05", "consumer", "info", "threshold below ack wait",
    "the inactive threshold is below ack wait: the consumer is deleted before any redelivery",
    "both durations",
    "raise the inactive threshold (`consumer.edit`)",
)  # fmt: skip
FEWER_REPLICAS_THAN_STREAM = Kind(
    "NT-K06", "consumer", "info", "fewer replicas",
    "the consumer has fewer replicas than its stream: losing one server may lose its position",
    "whether that is intended",
    "raise the replicas (`consumer.edit`)",
)  # fmt: skip
LAST_BACKOFF_REPEATS = Kind(
    "NT-K07", "consumer", "info", "backoff repeats",
    "max deliver is not set, so the last step of the backoff repeats for ever",
    "the backoff and max deliver",
    "set max deliver (`consumer.edit`)",
)  # fmt: skip
STREAM_WITHOUT_LIMIT = Kind(
    "NT-K21", "stream", "info", "no limit",
    "messages, bytes and age are unlimited: the stream grows until the account or disk is "
    "full",
    "how much the stream stores per day",
    "set max bytes or max age (`stream.edit`)",
    "Synadia Insights OPT_SYS_001",
)  # fmt: skip
STREAM_IN_MEMORY = Kind(
    "NT-K22", "stream", "info", "in memory",
        "a restart of the servers loses the messages of the stream",
    "whether these messages may be lost",
    "create the stream again with file storage (`stream.clone` clones the settings)",
)  # fmt: skip
ONE_REPLICA = Kind(
    "NT-K23", "stream", "info", "one replica",
    "the stream has one replica: it is down when its server is down",
    "whether the stream may be unavailable",
    "set 3 replicas (`stream.edit`)",
)  # fmt: skip
STREAM_INACTIVE = Kind(
    "NT-K24", "stream", "info", "inactive", "nothing was stored in the stream for weeks",
    "whether the stream is needed; each replica costs resources on its server",
    "delete the stream (`stream.delete`), or lower the replicas (`stream.edit`)",
    "Synadia Insights OPT_IDLE_002 and over-replicated idle stream", 0.0, 0.0, ("inactive",),
)  # fmt: skip
NO_DIRECT_GET = Kind(
    "NT-K25", "stream", "info", "no direct get",
    "only the leader serves reads of messages, and natstui measures lag more slowly",
    "allow direct",
    "allow direct (`stream.edit`)",
)  # fmt: skip
PUBLISHES_UNCONFIRMED = Kind(
    "NT-K26", "stream", "info", "publishes unconfirmed",
    "publishers get no ack when a message is stored",
    "whether no ack is intended, as for streams that capture core subjects",
    "allow acks (`stream.edit`)",
)  # fmt: skip
SHORT_DUPLICATE_WINDOW = Kind(
    "NT-K27", "stream", "info", "short duplicate window",
    "a message that is published again after a lost reply may be stored twice",
    "how long publishers wait for a reply, multiplied by their attempts",
    "raise the duplicate window (`stream.edit`)",
    "", 0.0, 0.0, ("duplicate window",),
)  # fmt: skip
LEADERS_ON_ONE_SERVER = Kind(
    "NT-K28", "stream", "info", "leaders on one server",
    "the server that leads the stream leads most of its consumers, too",
    "load of that server, compared with the others (CLUSTER in the details)",
    "elect a new leader (`finding.act`, step down); `nats server cluster balance` spreads leaders",
    "Synadia Insights OPT: stream and consumers led by one server", 0.0, 0.0,
    ("leaders together", "leaders together, fewest"),
)  # fmt: skip

SETTING_KINDS = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, Kind))
"""The kinds of findings about settings."""
