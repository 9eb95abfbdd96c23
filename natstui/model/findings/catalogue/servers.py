"""The catalogue of findings about servers, their meta group, and clients of the account.

Imports nothing of ours but `kind`.
"""

from __future__ import annotations

from natstui.model.findings.catalogue.kind import Kind

V_DOWN = Kind(
    "NT-V01", "server", "critical", "server down", "it does not answer, and did before",
    "whether its process runs and its network is reachable; its log",
    "start the server again; one that is gone for good: `natstui meta peer-remove`",
    "`nats server check meta`, audit META_001",
)  # fmt: skip
V_NO_META = Kind(
    "NT-V02", "server", "critical", "meta group without quorum",
    "the meta group has no leader: nothing can be created, listed or elected",
    "how many of its servers run: more than half must",
    "start the servers that are away; without most of them, see the server documentation on "
    "disaster recovery",
    "Insights META_006, error 10008", 2.0, 0.0,
)  # fmt: skip
V_STORAGE_FULL = Kind(
    "NT-V03", "server", "critical", "server storage full",
    "JetStream has used up the file storage of the server: publishes are refused (10023)",
    "which streams hold most (`1`, sorted by bytes), and the server's max_file_store",
    "`P` purges, `e` lowers limits of streams; or raise max_file_store",
    "Insights JETSTREAM_016", 0.0, 0.0, ("server store, full",),
)  # fmt: skip
V_MEMORY_FULL = Kind(
    "NT-V04", "server", "critical", "server memory store full",
    "JetStream has used up the memory storage of the server: publishes are refused (10028)",
    "which streams in memory hold most, and the server's max_memory_store",
    "`P` purges, `e` lowers limits of streams; or raise max_memory_store",
    "Insights JETSTREAM_005", 0.0, 0.0, ("server store, full",),
)  # fmt: skip
V_EXPIRED = Kind(
    "NT-V05", "server", "critical", "certificate expired",
    "the server's certificate is not valid any more, or ends within days: clients refuse it",
    "who renews it", "renew the certificate, then reload the server",
    "`nats server check server --tls`, audit SERVER_008", 0.0, 0.0, ("certificate, soon",),
)  # fmt: skip
V_CONNECTIONS_FULL = Kind(
    "NT-V06", "server", "critical", "connections full",
    "it has as many connections as it accepts: further clients are refused",
    "which clients connect most (`W`), and whether one leaks connections",
    "raise max_connections in its configuration and reload it, or add servers",
    "audit ACCOUNTS_001",
)  # fmt: skip
V_STORAGE_NEAR = Kind(
    "NT-V21", "server", "warning", "server storage nearly full",
    "JetStream has nearly used up the file storage of the server",
    "which streams hold most (`1`, sorted by bytes), and which grow",
    "`P` purges, `e` lowers limits of streams; or raise max_file_store",
    "audit SERVER_005, Insights JETSTREAM_007", 0.0, 0.0, ("server store, near",),
)  # fmt: skip
V_MEMORY_NEAR = Kind(
    "NT-V22", "server", "warning", "server memory store nearly full",
    "JetStream has nearly used up the memory storage of the server",
    "which streams in memory hold most",
    "`P` purges, `e` lowers limits of streams; or raise max_memory_store",
    "audit SERVER_005", 0.0, 0.0, ("server store, near",),
)  # fmt: skip
V_RESTARTED = Kind(
    "NT-V23", "server", "warning", "server restarts again and again",
    "it began anew several times within minutes",
    "its log: who stops it, or why it ends", "fix what ends it: memory, disk or configuration",
    "", 0.0, 0.0, ("restarts", "restarts within"),
)  # fmt: skip
V_SLOW = Kind(
    "NT-V24", "server", "warning", "slow consumer",
    "it closed connections of clients that did not read fast enough",
    "the connections that ended (`W`, closed ones), by their reason",
    "let the client read faster, or in more processes; of core subscriptions, use a stream",
    "Insights SERVER_004, audit SERVER_004", 0.0, 0.0, (),
)  # fmt: skip
V_VERSIONS = Kind(
    "NT-V25", "account", "warning", "versions differ",
    "servers run different versions: what one stores, an older one may refuse to run",
    "whether an upgrade is going on", "upgrade the others, or finish what was begun",
    "Insights SERVER_002, audit SERVER_002", 10.0, 0.0,
)  # fmt: skip
V_META_FLAPS = Kind(
    "NT-V36", "server", "warning", "meta leader changes often",
    "the leader of the meta group changes again and again: creating and listing is held up",
    "load and network of its servers",
    "give the servers the CPU and disk they need; `natstui servers` shows the meta group",
    "Insights META_003", 0.0, 0.0, ("leader changes", "leader changes, window"),
)  # fmt: skip
V_LEAVING = Kind(
    "NT-V26", "server", "warning", "lame duck mode",
    "it said that it stops: its clients are sent to other servers",
    "whether somebody stops it on purpose", "nothing, if it was meant",
)  # fmt: skip
V_META_AWAY = Kind(
    "NT-V27", "server", "warning", "meta member away",
    "the leader of the meta group does not hear of it",
    "whether that server runs, and its routes", "start the server again",
    "Insights META_001, `nats server check meta`", 0.0, 0.0, ("replica contact",),
)  # fmt: skip
V_ROUTES = Kind(
    "NT-V28", "server", "warning", "routes missing",
    "it is not connected to every other server of its cluster",
    "its log, and the network between the servers", "fix the routes of its configuration",
    "Insights CLUSTER_005", 5.0, 0.0,
)  # fmt: skip
V_EXPIRES = Kind(
    "NT-V29", "server", "warning", "certificate expires",
    "the server's certificate is valid for some days only",
    "who renews it", "renew the certificate, then reload the server",
    "audit SERVER_008", 0.0, 0.0, ("certificate",),
)  # fmt: skip
V_BUSY = Kind(
    "NT-V30", "server", "warning", "server CPU busy",
    "it takes nearly all of its processor's cores",
    "which clients send most (`W`), and how many streams it leads",
    "balance the leaders (`natstui balance`), or add servers",
    "audit SERVER_003", 10.0, 5.0, ("server cpu",),
)  # fmt: skip
V_LINK_LOST = Kind(
    "NT-V32", "server", "warning", "gateway or leafnode lost",
    "it has fewer connections to other clusters or leafnodes than before",
    "whether the other side runs", "start the other side, or correct its address",
    "Insights CLUSTER_007", 5.0, 0.0,
)  # fmt: skip
V_FLAPPING = Kind(
    "NT-V33", "client", "warning", "reconnects again and again",
    "connections of this name are opened and closed many times a minute",
    "why its connections were closed (`6`, then `o`), and the client's log",
    "let the client keep one connection; fix what ends it",
    "Insights CLUSTER_006", 0.0, 30.0, ("closes",),
)  # fmt: skip
V_SUBSCRIPTIONS = Kind(
    "NT-V34", "client", "warning", "very many subscriptions",
    "one connection has so many subscriptions that a leak is likely",
    "whether the client unsubscribes", "fix the client: unsubscribe, or use a wildcard",
    "", 0.0, 30.0, ("subscriptions",),
)  # fmt: skip
V_CONNECTIONS = Kind(
    "NT-V35", "server", "warning", "connections near limit",
    "it has nearly as many connections as it accepts",
    "which clients connect most (`W`)", "raise max_connections, or add servers",
    "audit ACCOUNTS_001", 0.0, 0.0, ("server store, near",),
)  # fmt: skip
V_MEMORY_OUTLIER = Kind(
    "NT-V52", "server", "info", "memory outlier",
    "it uses far more memory than the other servers of its cluster",
    "which streams it has in memory, and which clients are slow (`W`)",
    "balance the leaders (`natstui balance`); look at its log",
    "Insights CLUSTER_001, audit CLUSTER_001", 30.0, 30.0,
    ("memory outlier", "memory outlier, least"),
)  # fmt: skip
V_UNBALANCED = Kind(
    "NT-V51", "server", "info", "leaders unbalanced",
    "it leads far more than its share of the streams, and does most of their work",
    "the leaders by server (`natstui servers`)", "`natstui balance` moves leaders",
    "", 30.0, 30.0,
    ("unbalanced", "unbalanced, fewest", "unbalanced, by chance", "unbalanced, restart"),
)  # fmt: skip

SERVER_KINDS = tuple(one for one in tuple(globals().values()) if isinstance(one, Kind))
"""The catalogue of servers and clients."""
