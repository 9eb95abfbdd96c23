"""The catalogue of findings about the account and about monitoring itself."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind

ACCOUNT_STORAGE_FULL = Kind(
    "NT-A01", "account", "critical", "storage full",
    "the account has nearly used up its file storage",
    "which streams use most storage (`screen.streams`, sorted by bytes)",
    "purge streams (`stream.purge`), lower their limits (`stream.edit`), or raise the limit of "
    "the account",
    "`nats server check jetstream`; `nats audit` SERVER_005", 0.0, 0.0, ("account, full",),
)  # fmt: skip
ACCOUNT_MEMORY_FULL = Kind(
    "NT-A02", "account", "critical", "memory full",
    "the account has nearly used up its memory storage",
    "which memory streams are the largest",
    "purge streams (`stream.purge`), lower their limits (`stream.edit`), or raise the limit of "
    "the account",
    "`nats server check jetstream`", 0.0, 0.0, ("account, full",),
)  # fmt: skip
ACCOUNT_CONNECTIONS_FULL = Kind(
    "NT-A03", "account", "critical", "connections full",
    "servers refuse clients of the account: it has as many connections as it may have",
    "which clients connect most (`natstui connections`), and whether one leaks connections",
    "close connections that nobody needs, or raise the account's max connections",
    "`nats audit` ACCOUNTS_001", 0.0, 30.0, ("connections refused",),
)  # fmt: skip
ACCOUNT_STORAGE_NEAR_LIMIT = Kind(
    "NT-A21", "account", "warning", "storage near limit",
    "the account is near the limit of its file storage",
    "which streams use most storage (`screen.streams`, sorted by bytes), and which grow",
    "purge streams (`stream.purge`), lower their limits (`stream.edit`), or raise the limit of "
    "the account",
    "`nats server check jetstream`", 0.0, 0.0, ("account, near",),
)  # fmt: skip
ACCOUNT_MEMORY_NEAR_LIMIT = Kind(
    "NT-A22", "account", "warning", "memory near limit",
    "the account is near the limit of its memory storage",
    "which memory streams are the largest",
    "purge streams (`stream.purge`), lower their limits (`stream.edit`), or raise the limit of "
    "the account",
    "`nats server check jetstream`", 0.0, 0.0, ("account, near",),
)  # fmt: skip
ACCOUNT_STREAMS_NEAR_LIMIT = Kind(
    "NT-A23", "account", "warning", "streams near limit",
    "the account is near its limit of streams",
    "whether clients create streams and never delete them",
    "delete an unused stream (`stream.delete`), or raise the limit of the account",
    "`nats server check jetstream --streams`", 0.0, 0.0, ("near",),
)  # fmt: skip
ACCOUNT_CONSUMERS_NEAR_LIMIT = Kind(
    "NT-A24", "account", "warning", "consumers near limit",
    "the account is near its limit of consumers",
    "whether clients create durables and never delete them",
    "delete an unused consumer (`consumer.delete`), or raise the limit of the account",
    "`nats server check jetstream --consumers`", 0.0, 0.0, ("near",),
)  # fmt: skip
API_ERRORS = Kind(
    "NT-A25", "account", "warning", "API errors",
    "the JetStream API replies to requests of the account with errors",
    "which client requests what, and the error: `natstui health --audit 10s`",
    "fix the client that it names",
    "", 2.0, 5.0, ("API errors",),
)  # fmt: skip
API_SLOW = Kind(
    "NT-A26", "account", "warning", "API slow", "the JetStream API replies slowly",
    "the load of the servers, and the network to them",
    "`nats server report jetstream`; `natstui check` measures step by step",
    "`nats server check connection`", 2.0, 5.0, ("API reply time",),
)  # fmt: skip
API_BACKLOG = Kind(
    "NT-A27", "account", "warning", "API backlog",
        "many requests wait in the queue of the JetStream API",
    "which client requests so much: `natstui health --audit 10s`",
    "fix the client that it names",
    "Synadia Insights JETSTREAM_005", 0.0, 2.0, ("API backlog",),
)  # fmt: skip
MANY_API_REQUESTS = Kind(
    "NT-A28", "account", "warning", "many API requests",
    "clients of the account send very many requests to the JetStream API",
    "which client requests consumer or stream info in its loop: `natstui health --audit 10s`",
    "let the client keep one consumer and pull from it, and request info rarely",
    "Synadia Insights JETSTREAM_005", 2.0, 5.0, ("API requests",), 5.0,
)  # fmt: skip
ACCOUNT_UNLIMITED = Kind(
    "NT-A51", "account", "info", "account unlimited",
    "neither memory nor storage of the account is limited: one stream may fill the disk",
    "the limits of the account",
    "set limits of the account in the server's configuration or its JWT",
    "Synadia Insights OPT_SYS_008",
)  # fmt: skip

NOT_CONNECTED = Kind(
    "NT-M01", "monitoring", "critical", "not connected",
    "natstui is not connected: the screen shows old values",
    "the reason shown here; `natstui check` tests the connection step by step",
    "start the server, or fix the address or the credentials",
    "`nats server check connection`", 0.0, 0.0,
)  # fmt: skip
REQUESTS_NOT_PERMITTED = Kind(
    "NT-M21", "monitoring", "warning", "not permitted",
    "the user has no permission for some requests of natstui: findings may be missing",
    "which subject is denied",
    "allow the user this subject; docs/permissions.md lists what natstui needs",
)  # fmt: skip
DATA_UNAVAILABLE = Kind(
    "NT-M22", "monitoring", "warning", "cannot read",
    "some data cannot be read, so the screen shows its old values",
    "the reason shown here",
    "fix the reason; natstui tries again by itself",
    "", 2.0, 0.0,
)  # fmt: skip
ROWS_STALE = Kind(
    "NT-M23", "monitoring", "warning", "stale",
    "some rows were not refreshed for a long time: findings may be missing",
    "whether the API is slow, and how many requests natstui may send",
    "raise the budget of requests, or watch fewer assets",
    "", 0.0, 0.0, ("stale",),
)  # fmt: skip
EVENTS_LEFT_OUT = Kind(
    "NT-M24", "monitoring", "warning", "events left out",
    "too many advisories arrived to keep each one; those about messages are still counted",
    "which consumer has a storm of naks",
    "fix that client first",
)  # fmt: skip
NO_BULK_REPLIES = Kind(
    "NT-M25", "monitoring", "warning", "no bulk replies",
    "the servers send no bulk replies: rows come from lists, and replicas are not compared",
    "the reason shown here",
    "fix the reason; natstui tries again by itself",
    "", 10.0, 0.0,
)  # fmt: skip
"""Reported only after 10 s: a server that starts may reply late."""
ALERT_NOT_DELIVERED = Kind(
    "NT-M31", "monitoring", "warning", "alert not delivered",
    "a rule of [alerts] cannot send its notifications",
    "the reason shown here, and the webhook, command or subject of the rule",
    "fix the rule or its receiver; `natstui alert` continues by itself",
)  # fmt: skip
"""Reported only by `natstui alert`, which sends it by its other rules."""
CLOCK_CHANGED = Kind(
    "NT-M51", "monitoring", "info", "clock set",
    "the clock of this machine was changed: durations around that moment are not exact",
    "its time synchronization",
    "no action is needed if the change was intended",
    "", 0.0, 0.0, ("dropped after max deliver",),
)  # fmt: skip

ACCOUNT_KINDS = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, Kind))
"""The kinds of findings about the account and monitoring itself."""
