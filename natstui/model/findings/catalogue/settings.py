"""The catalogue of findings about settings that exist. Imports nothing of ours but `kind`."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind

K_AGE_BELOW_WAIT = Kind(
    "NT-K01", "consumer", "warning", "age below ack wait",
    "messages leave the stream before ack wait is over: they are never delivered again",
    "max age of the stream against ack wait and backoff of the consumer",
    "`e` and raise max age, or lower ack wait",
)  # fmt: skip
K_ONE_PENDING = Kind(
    "NT-K02", "consumer", "info", "one at a time",
    "max ack pending is 1: one message at a time, whatever the number of clients",
    "whether strict order is meant",
    "`e` and raise max ack pending",
)  # fmt: skip
K_UNLIMITED_DELIVERIES = Kind(
    "NT-K03", "consumer", "info", "unlimited deliveries",
    "a message that is never acked is delivered again and again",
    "what the client does with a message that it cannot process",
    "`e` and set max deliver; its events name the dropped messages",
)  # fmt: skip
K_UNUSED = Kind(
    "NT-K04", "consumer", "info", "unused",
    "nothing was delivered to it for weeks, and nobody pulls",
    "whether anybody needs it: it keeps messages of work queues and interest streams",
    "`ctrl+d` deletes it",
    "Insights OPT_IDLE_003, OPT_IDLE_004", 0.0, 0.0, ("unused",),
)  # fmt: skip
K_EXPIRES_BEFORE_ACK = Kind(
    "NT-K05", "consumer", "info", "threshold below ack wait",
    "the inactive threshold is below ack wait: the consumer is removed before messages return",
    "both durations",
    "`e` and raise the inactive threshold",
)  # fmt: skip
K_FEWER_REPLICAS = Kind(
    "NT-K06", "consumer", "info", "fewer replicas",
    "it has fewer replicas than its stream: its position is lost with one server",
    "whether that is meant",
    "`e` and raise its replicas",
)  # fmt: skip
K_BACKOFF_CUT = Kind(
    "NT-K07", "consumer", "info", "backoff repeats",
    "without max deliver, the last step of the backoff repeats for ever",
    "the backoff against max deliver",
    "`e` and set max deliver",
)  # fmt: skip
K_NO_LIMIT = Kind(
    "NT-K21", "stream", "info", "no limit",
    "neither messages, bytes nor age are limited: it grows until the account or the disk is full",
    "how much it stores a day",
    "`e` and set max bytes or max age",
    "Insights OPT_SYS_001",
)  # fmt: skip
K_MEMORY = Kind(
    "NT-K22", "stream", "info", "in memory", "a restart of its servers loses its messages",
    "whether its messages may be lost",
    "create it again with file storage (`A` clones its settings)",
)  # fmt: skip
K_ONE_REPLICA = Kind(
    "NT-K23", "stream", "info", "one replica",
    "it lives on one server of a cluster: it is down with that server",
    "whether it may be down",
    "`e` and set 3 replicas",
)  # fmt: skip
K_INACTIVE = Kind(
    "NT-K24", "stream", "info", "inactive", "nothing was stored in it for weeks",
    "whether anybody needs it; with several replicas it costs every server",
    "`ctrl+d` deletes it, or `e` and lower its replicas",
    "Insights OPT_IDLE_002 and over-replicated idle stream", 0.0, 0.0, ("inactive",),
)  # fmt: skip
K_NO_DIRECT = Kind(
    "NT-K25", "stream", "info", "no direct get",
    "messages are read by way of the leader only, and lags are looked up more slowly",
    "allow direct",
    "`e` and allow direct",
)  # fmt: skip
K_NO_ACK = Kind(
    "NT-K26", "stream", "info", "publishes unconfirmed",
    "publishers get no ack that a message was stored",
    "no ack: it is meant for mirrors of core subjects only",
    "`e` and allow acks",
)  # fmt: skip
K_SHORT_DUPLICATES = Kind(
    "NT-K27", "stream", "info", "short duplicate window",
    "a message that is published again after a lost reply may be stored twice",
    "how long publishers wait for a reply, times how often they try",
    "`e` and raise the duplicate window",
    "", 0.0, 0.0, ("duplicate window",),
)  # fmt: skip
K_LED_TOGETHER = Kind(
    "NT-K28", "stream", "info", "leaders on one server",
    "the server that leads the stream leads most of its consumers, too",
    "load of that server against the others (CLUSTER in the details)",
    "`.` step down gives it another leader; `nats server cluster balance`",
    "Insights OPT (leader of a stream and of its consumers)", 0.0, 0.0,
    ("leaders together", "leaders together, fewest"),
)  # fmt: skip

SETTING_KINDS = tuple(one for one in tuple(globals().values()) if isinstance(one, Kind))
"""The catalogue of settings."""
