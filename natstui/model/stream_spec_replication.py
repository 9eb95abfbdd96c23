"""Options of a stream: its copies and its upstreams."""

from __future__ import annotations

from natstui.model.config_field import Field

REPLICATION = (
    Field(
        "num_replicas", "Replicas", "count", "Replication",
        "Copies on different servers: 3 survives the loss of one, 5 of two.",
        default=1, flag="replicas",
    ),
    Field(
        "placement.cluster", "Cluster", "text", "Replication",
        "Place it in this cluster of a super-cluster.", flag="cluster",
    ),
    Field(
        "placement.tags", "Tags", "words", "Replication",
        "Place it only on servers that have all of these tags.", flag="tag",
    ),
    Field(
        "mirror", "Mirror", "source", "Replication",
        "A copy of one stream: NAME [seq=N] [time=T] [filter=S] [map=SRC:DEST] [api=PREFIX].",
        fixed="a mirror keeps its origin; it can only be removed, which makes it a stream",
        flag="mirror",
    ),
    Field(
        "sources", "Sources", "sources", "Replication",
        "Streams it copies from, separated by ; and each written like a mirror.", flag="source",
    ),
    Field(
        "mirror_direct", "Mirror direct", "switch", "Replication",
        "A mirror answers direct gets for its origin; off when the origin has no direct gets.",
        default=False, flag="allow-mirror-direct",
    ),
)  # fmt: skip
