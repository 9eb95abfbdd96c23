"""The catalogue of findings about servers, their meta group, and clients of the account.

Of natstui it imports only `kind`.
"""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind

SERVER_DOWN = Kind(
    "NT-V01", "server", "critical", "server down", "the server has stopped replying",
    "whether the process runs and the network is reachable; the server's log",
    "start the server again; if it will not come back: `natstui meta peer-remove`, which "
    "loses what has its only copy there",
    "`nats server check meta`; `nats audit` META_001",
)  # fmt: skip
META_GROUP_WITHOUT_QUORUM = Kind(
    "NT-V02", "server", "critical", "meta group without quorum",
    "the meta group has no leader: nothing can be created, listed or elected",
    "how many servers of the meta group run: more than half are needed",
    "start the servers that are offline; if most are lost, see disaster recovery in the server "
    "documentation",
    "Synadia Insights META_006, error 10008", 2.0, 0.0,
)  # fmt: skip
SERVER_STORAGE_FULL = Kind(
    "NT-V03", "server", "critical", "server storage full",
    "JetStream has used up the file storage of the server: publishes are refused (10023)",
    "which streams use most storage (`screen.streams`, sorted by bytes), and the server's "
    "max_file_store",
    "`stream.purge` purges, `stream.edit` lowers limits of streams; or raise max_file_store",
    "Synadia Insights JETSTREAM_016", 0.0, 0.0, ("server store, full",),
)  # fmt: skip
SERVER_MEMORY_FULL = Kind(
    "NT-V04", "server", "critical", "server memory store full",
    "JetStream has used up the memory storage of the server: publishes are refused (10028)",
    "which memory streams are the largest, and the server's max_memory_store",
    "`stream.purge` purges, `stream.edit` lowers limits of streams; or raise max_memory_store",
    "Synadia Insights JETSTREAM_005", 0.0, 0.0, ("server store, full",),
)  # fmt: skip
CERTIFICATE_EXPIRED = Kind(
    "NT-V05", "server", "critical", "certificate expired",
    "the server's certificate has expired, or expires within days: clients then refuse it",
    "who renews it", "renew the certificate, then reload the server",
    "`nats server check server --tls`; `nats audit` SERVER_008", 0.0, 0.0, ("certificate, soon",),
)  # fmt: skip
SERVER_CONNECTIONS_FULL = Kind(
    "NT-V06", "server", "critical", "connections full",
    "it has as many connections as it accepts: further clients are refused",
    "which clients open most connections (`screen.connections`), and whether one leaks "
    "connections",
    "raise max_connections in its configuration and reload it, or add servers",
    "`nats audit` ACCOUNTS_001",
)  # fmt: skip
SERVER_STORAGE_NEAR_LIMIT = Kind(
    "NT-V21", "server", "warning", "server storage nearly full",
    "JetStream has nearly used up the file storage of the server",
    "which streams use most storage (`screen.streams`, sorted by bytes), and which grow",
    "`stream.purge` purges, `stream.edit` lowers limits of streams; or raise max_file_store",
    "`nats audit` SERVER_005, Synadia Insights JETSTREAM_007", 0.0, 0.0, ("server store, near",),
)  # fmt: skip
SERVER_MEMORY_NEAR_LIMIT = Kind(
    "NT-V22", "server", "warning", "server memory store nearly full",
    "JetStream has nearly used up the memory storage of the server",
    "which memory streams are the largest",
    "`stream.purge` purges, `stream.edit` lowers limits of streams; or raise max_memory_store",
    "`nats audit` SERVER_005", 0.0, 0.0, ("server store, near",),
)  # fmt: skip
SERVER_RESTARTS_OFTEN = Kind(
    "NT-V23", "server", "warning", "server restarts again and again",
    "the server restarted several times within minutes",
    "the server's log: who stops the server, or why it crashes",
    "fix the cause: memory, disk or configuration",
    "", 0.0, 0.0, ("restarts", "restarts within"),
)  # fmt: skip
SLOW_CONSUMER = Kind(
    "NT-V24", "server", "warning", "slow consumer",
    "the server closed connections of clients that did not read fast enough",
    "the closed connections (`screen.connections`, then `connections.closed`) and their reasons",
    "let the client read faster, or start more clients; for core subscriptions, use a stream",
    "Synadia Insights SERVER_004; `nats audit` SERVER_004", 0.0, 0.0, (),
)  # fmt: skip
VERSIONS_DIFFER = Kind(
    "NT-V25", "account", "warning", "versions differ",
    "servers run different versions: an older one may refuse streams of a newer one",
    "whether an upgrade is in progress", "upgrade the remaining servers",
    "Synadia Insights SERVER_002; `nats audit` SERVER_002", 10.0, 0.0,
)  # fmt: skip
META_LEADER_CHANGES_OFTEN = Kind(
    "NT-V36", "server", "warning", "meta leader changes often",
    "the leader of the meta group changes again and again: creating and listing streams is "
    "delayed",
    "load and network of the servers of the meta group",
    "give the servers more CPU and faster disks; `natstui servers` shows the meta group",
    "Synadia Insights META_003", 0.0, 0.0, ("leader changes", "leader changes, window"),
)  # fmt: skip
LAME_DUCK_MODE = Kind(
    "NT-V26", "server", "warning", "lame duck mode",
    "the server is in lame duck mode: it is about to stop and sends its clients to other servers",
    "whether an operator stops the server", "no action is needed if the stop is intended",
)  # fmt: skip
META_MEMBER_AWAY = Kind(
    "NT-V27", "server", "warning", "meta member away",
    "the leader of the meta group has no contact with the server",
    "whether the server runs, and its routes", "start the server again",
    "Synadia Insights META_001, `nats server check meta`", 0.0, 0.0, ("replica contact",),
)  # fmt: skip
ROUTES_MISSING = Kind(
    "NT-V28", "server", "warning", "routes missing",
    "the server is not connected to every other server of its cluster",
    "the server's log, and the network between the servers", "fix the routes of its configuration",
    "Synadia Insights CLUSTER_005", 5.0, 0.0,
)  # fmt: skip
CERTIFICATE_EXPIRES_SOON = Kind(
    "NT-V29", "server", "warning", "certificate expires",
    "the server's certificate expires within days",
    "who renews it", "renew the certificate, then reload the server",
    "`nats audit` SERVER_008", 0.0, 0.0, ("certificate",),
)  # fmt: skip
SERVER_CPU_BUSY = Kind(
    "NT-V30", "server", "warning", "server CPU busy",
    "the server uses nearly all CPU cores of its machine",
    "which clients send most (`screen.connections`), and how many streams the server leads",
    "balance the leaders (`natstui balance`), or add servers",
    "`nats audit` SERVER_003", 10.0, 5.0, ("server cpu",),
)  # fmt: skip
GATEWAY_OR_LEAFNODE_LOST = Kind(
    "NT-V32", "server", "warning", "gateway or leafnode lost",
    "the server has lost connections to other clusters or leafnodes",
    "whether the other server runs", "start the other server, or correct its address",
    "Synadia Insights CLUSTER_007", 5.0, 0.0,
)  # fmt: skip
CLIENT_RECONNECTS_OFTEN = Kind(
    "NT-V33", "client", "warning", "reconnects again and again",
    "connections of this name are opened and closed many times a minute",
    "why its connections were closed (`screen.connections`, then `connections.closed`), and the "
    "client's log",
    "let the client keep one connection; fix what closes it",
    "Synadia Insights CLUSTER_006", 0.0, 30.0, ("closes",),
)  # fmt: skip
MANY_SUBSCRIPTIONS = Kind(
    "NT-V34", "client", "warning", "very many subscriptions",
    "one connection has very many subscriptions: the client probably leaks them",
    "whether the client ever unsubscribes", "fix the client: unsubscribe, or use a wildcard",
    "", 0.0, 30.0, ("subscriptions",),
)  # fmt: skip
AUTHENTICATION_FAILURES = Kind(
    "NT-V37", "server", "warning", "authentication failures",
    "the server refuses clients: their user, password, token or key is wrong",
    "which client and user the evidence names, and since when their credentials are others",
    "correct the credentials of the client, or stop it: it tries again and again",
    "", 0.0, 0.0, ("connections refused",),
)  # fmt: skip
SERVER_CONNECTIONS_NEAR_LIMIT = Kind(
    "NT-V35", "server", "warning", "connections near limit",
    "the server is close to its limit of connections",
    "which clients open most connections (`screen.connections`)",
    "raise max_connections, or add servers",
    "`nats audit` ACCOUNTS_001", 0.0, 0.0, ("server store, near",),
)  # fmt: skip
SERVER_MEMORY_OUTLIER = Kind(
    "NT-V52", "server", "info", "memory outlier",
    "the server uses far more memory than the others of its cluster",
    "which memory streams the server has, and which clients are slow (`screen.connections`)",
    "balance the leaders (`natstui balance`); read the server's log",
    "Synadia Insights CLUSTER_001; `nats audit` CLUSTER_001", 30.0, 30.0,
    ("memory outlier", "memory outlier, least"),
)  # fmt: skip
LEADERS_UNBALANCED = Kind(
    "NT-V51", "server", "info", "leaders unbalanced",
    "it leads far more than its share of the streams, and does most of their work",
    "how many leaders each server has (`natstui servers`)", "`natstui balance` moves leaders",
    "", 30.0, 30.0,
    ("unbalanced", "unbalanced, fewest", "unbalanced, by chance", "unbalanced, restart"),
)  # fmt: skip

SERVER_RESTARTED = Kind(
    "NT-V53", "server", "info", "server restarted", "the server was restarted minutes ago",
    "whether that was intended; else the server's log",
    "no action is needed if the restart was intended", "", 0.0, 0.0, ("restarts within",),
)  # fmt: skip

SERVER_KINDS = tuple(kind for kind in tuple(globals().values()) if isinstance(kind, Kind))
"""The kinds of findings about servers and clients."""
