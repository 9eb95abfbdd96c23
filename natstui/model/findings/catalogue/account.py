"""The catalogue of findings about the account and about monitoring itself."""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind

A_STORAGE_FULL = Kind(
    "NT-A01", "account", "critical", "storage full",
    "the account has nearly used up its file storage",
    "which streams hold most (`1`, sorted by bytes)",
    "`P` purges, `e` lowers limits of streams; or raise the limit of the account",
    "`nats server check jetstream`, audit SERVER_005", 0.0, 0.0, ("account, full",),
)  # fmt: skip
A_MEMORY_FULL = Kind(
    "NT-A02", "account", "critical", "memory full",
    "the account has nearly used up its memory storage",
    "which streams in memory hold most",
    "`P` purges, `e` lowers limits of streams; or raise the limit of the account",
    "`nats server check jetstream`", 0.0, 0.0, ("account, full",),
)  # fmt: skip
A_CONNECTIONS_FULL = Kind(
    "NT-A03", "account", "critical", "connections full",
    "servers refuse clients of the account: it has as many connections as it may have",
    "which clients connect most (`natstui connections`), and whether one leaks connections",
    "close connections that nobody needs, or raise the account's max connections",
    "audit ACCOUNTS_001", 0.0, 30.0, ("connections refused",),
)  # fmt: skip
A_STORAGE_NEAR = Kind(
    "NT-A21", "account", "warning", "storage near limit",
    "the account comes near the limit of its file storage",
    "which streams hold most (`1`, sorted by bytes), and which grow",
    "`P` purges, `e` lowers limits of streams; or raise the limit of the account",
    "`nats server check jetstream`", 0.0, 0.0, ("account, near",),
)  # fmt: skip
A_MEMORY_NEAR = Kind(
    "NT-A22", "account", "warning", "memory near limit",
    "the account comes near the limit of its memory storage",
    "which streams in memory hold most",
    "`P` purges, `e` lowers limits of streams; or raise the limit of the account",
    "`nats server check jetstream`", 0.0, 0.0, ("account, near",),
)  # fmt: skip
A_STREAMS_NEAR = Kind(
    "NT-A23", "account", "warning", "streams near limit",
    "the account has nearly as many streams as it may have",
    "whether streams are made and never deleted",
    "`ctrl+d` deletes what nobody needs; or raise the limit of the account",
    "`nats server check jetstream --streams`", 0.0, 0.0, ("near",),
)  # fmt: skip
A_CONSUMERS_NEAR = Kind(
    "NT-A24", "account", "warning", "consumers near limit",
    "the account has nearly as many consumers as it may have",
    "whether clients make durables and never delete them",
    "`ctrl+d` deletes what nobody needs; or raise the limit of the account",
    "`nats server check jetstream --consumers`", 0.0, 0.0, ("near",),
)  # fmt: skip
A_API_ERRORS = Kind(
    "NT-A25", "account", "warning", "API errors",
    "the JetStream API replies to requests of the account with errors",
    "which client requests what, and the error: `natstui health --audit 10s`",
    "fix the client that it names",
    "", 2.0, 5.0, ("API errors",),
)  # fmt: skip
A_API_SLOW = Kind(
    "NT-A26", "account", "warning", "API slow", "the JetStream API takes long to answer",
    "load of the servers, and the network to them",
    "`nats server report jetstream`; `natstui check` measures step by step",
    "`nats server check connection`", 2.0, 5.0, ("API answers",),
)  # fmt: skip
A_API_BACKLOG = Kind(
    "NT-A27", "account", "warning", "API backlog", "many requests wait at the JetStream API",
    "which client requests so much: `natstui health --audit 10s`",
    "fix the client that it names",
    "Insights JETSTREAM_005", 0.0, 2.0, ("API backlog",),
)  # fmt: skip
A_API_FLOOD = Kind(
    "NT-A28", "account", "warning", "many API requests",
    "clients of the account send very many requests to the JetStream API",
    "which client requests consumer or stream info in its loop: `natstui health --audit 10s`",
    "keep one consumer and pull from it; read info rarely, or let a message say what changed",
    "Insights JETSTREAM_005", 2.0, 5.0, ("API requests",), 5.0,
)  # fmt: skip
A_UNLIMITED = Kind(
    "NT-A51", "account", "info", "account unlimited",
    "neither memory nor storage of the account is limited: one stream may fill the disk",
    "the limits of the account",
    "set limits of the account in the server's configuration or its JWT",
    "Insights OPT_SYS_008",
)  # fmt: skip

M_NO_LINK = Kind(
    "NT-M01", "monitoring", "critical", "not connected",
    "natstui is not connected: what is shown is of the past",
    "the reason beside it; `natstui check` goes through the connection step by step",
    "start the server, or fix the address or the credentials",
    "`nats server check connection`", 0.0, 0.0,
)  # fmt: skip
M_DENIED = Kind(
    "NT-M21", "monitoring", "warning", "not permitted",
    "the user may not read what natstui asks for, so findings may be missing",
    "which subject is denied",
    "let the user publish or subscribe to it; docs/permissions.md lists what natstui needs",
)  # fmt: skip
M_UNAVAILABLE = Kind(
    "NT-M22", "monitoring", "warning", "cannot read",
    "something cannot be read, so what is shown of it is old",
    "the reason beside it",
    "fix the reason; natstui tries again by itself",
    "", 2.0, 0.0,
)  # fmt: skip
M_STALE = Kind(
    "NT-M23", "monitoring", "warning", "stale",
    "rows could not be refreshed for long, so findings may be missing",
    "whether the API is slow, and how often natstui may ask",
    "raise the budget of requests, or watch fewer assets",
    "", 0.0, 0.0, ("stale",),
)  # fmt: skip
M_EVENTS_LEFT_OUT = Kind(
    "NT-M24", "monitoring", "warning", "events left out",
    "announcements came faster than they are kept; those of messages are still counted",
    "which consumer has a storm of naks",
    "fix that client first",
)  # fmt: skip
M_NOT_DELIVERED = Kind(
    "NT-M31", "monitoring", "warning", "alert not delivered",
    "a rule of [alerts] cannot send its notices, so somebody is not informed",
    "the reason beside it, and the webhook, command or subject of the rule",
    "fix the rule or its receiver; `natstui alert` continues by itself",
)  # fmt: skip
"""Only `natstui alert` finds it, and the other rules send it."""
M_CLOCK = Kind(
    "NT-M51", "monitoring", "info", "clock set",
    "the clock of this machine was set: spans around it are not exact",
    "its time synchronization",
    "nothing, if it was meant",
    "", 0.0, 0.0, ("given up",),
)  # fmt: skip

ACCOUNT_KINDS = tuple(one for one in tuple(globals().values()) if isinstance(one, Kind))
"""The catalogue of the account and of monitoring itself."""
