"""What `natstui watch --json` prints: one object per line, one class per kind, and the schema."""

from __future__ import annotations

import ast
import inspect
import json
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

from natstui.model.live.snapshot import Peer, Upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRow:
    """One consumer: what it is, how far it is, what holds it back."""

    schema: Literal[1] = 1
    kind: Literal["consumer"] = "consumer"
    name: str
    stream: str
    at_us: int
    created_at_us: int
    """With stream and name, the identity of a consumer."""
    description: str | None
    status: str
    """What it is doing, in one or two words."""
    status_level: Literal["ok", "idle", "warn", "bad", "unknown"]
    status_reason: str
    """The numbers behind the status."""
    pull: bool | None
    durable: bool | None
    ack_policy: str | None
    filter_subjects: tuple[str, ...] | None
    """Empty: everything in the stream."""
    pending_msgs: int
    """Unprocessed: matching and never delivered."""
    ack_pending_msgs: int
    """Delivered and waiting for their acknowledgement."""
    max_ack_pending_msgs: int | None
    redelivered_msgs: int
    """Distinct messages delivered more than once and not settled, or given up."""
    waiting_pulls_count: int
    """Open pull requests."""
    push_bound: bool | None
    """A subscriber listens on the deliver subject; null for a pull consumer."""
    paused: bool
    delivered_msgs_per_s: float | None
    """Deliveries, redeliveries included."""
    acked_msgs_per_s: float | None
    """Growth of the acknowledgement floor."""
    lag_s: float | None
    """Age of the next message to deliver; 0 with nothing pending."""
    drained_in_s: float | None
    """Until nothing is pending at the present trend; null if it does not shrink."""
    delivered_stream_seq: int
    delivered_consumer_seq: int
    ack_floor_stream_seq: int
    ack_floor_consumer_seq: int
    delivered_at_us: int | None
    acked_at_us: int | None
    pinned_client: str | None
    replicas_count: int | None
    leader: str | None
    peers: tuple[Peer, ...]
    sampled_ago_s: float
    """The age of these values."""
    stale: bool
    """They could not be refreshed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedRow:
    """A stream or a consumer is gone; made again under its name, it is another one."""

    schema: Literal[1] = 1
    kind: Literal["removed"] = "removed"
    name: str
    stream: str | None
    """The stream of a consumer; null when a stream is gone."""
    at_us: int
    created_at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnavailableRow:
    """Something cannot be read; what was known of it grows stale."""

    schema: Literal[1] = 1
    kind: Literal["unavailable"] = "unavailable"
    name: str
    """The API verb or source, as CONSUMER.LIST."""
    at_us: int
    reason: str
    denied_subject: str | None
    """The subject the user has no permission for, when that is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredRow:
    """Something that was unavailable can be read again."""

    schema: Literal[1] = 1
    kind: Literal["restored"] = "restored"
    name: str
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisoryRow:
    """The server announced something about a stream or a consumer."""

    schema: Literal[1] = 1
    kind: Literal["advisory"] = "advisory"
    name: str
    """The last word of the advisory's type, as max_deliver."""
    at_us: int
    stream: str | None
    consumer: str | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRow:
    """The connection and the server at its other end."""

    schema: Literal[1] = 1
    kind: Literal["server"] = "server"
    name: str | None
    """The server's own name."""
    at_us: int
    link: str
    """connecting, connected, reconnecting, failed or closed."""
    reason: str | None
    """Why it is not connected."""
    url: str | None
    version: str | None
    cluster: str | None
    domain: str | None
    user: str | None
    account: str | None
    tls: bool
    jetstream: bool | None
    api_level: int | None
    max_payload_bytes: int | None
    api_rtt_us: int | None
    """Round trip of the last `$JS.API.INFO`."""
    own_requests_per_s: float | None
    """API requests this command makes."""
    poll_interval_us: int | None
    backoff_reason: str | None
    """Why the interval is longer than asked for, if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """What the account uses of its limits; a limit of null is unlimited."""

    schema: Literal[1] = 1
    kind: Literal["account"] = "account"
    name: str | None
    at_us: int
    memory_bytes: int
    max_memory_bytes: int | None
    storage_bytes: int
    max_storage_bytes: int | None
    streams_count: int
    max_streams_count: int | None
    consumers_count: int
    max_consumers_count: int | None
    api_requests_count: int
    """By everybody in the account, since the server started."""
    api_errors_count: int
    api_requests_per_s: float | None
    api_inflight_count: int | None
    domain: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRow:
    """One stream: what it is, what it holds, what flows; a limit of null is unlimited."""

    schema: Literal[1] = 1
    kind: Literal["stream"] = "stream"
    name: str
    at_us: int
    created_at_us: int
    """With the name, the identity of a stream."""
    type: Literal["stream", "kv", "object"] | None
    """A KV bucket and an object store are streams by the convention of their name."""
    description: str | None
    subjects: tuple[str, ...] | None
    storage: str | None
    retention: str | None
    discard: str | None
    stored_msgs: int
    stored_bytes: int
    in_msgs_per_s: float | None
    """Growth of the last sequence between the two newest polls."""
    in_bytes_per_s: float | None
    in_bytes_estimated: bool
    """Messages left meanwhile: bytes in are messages in × the mean size of a stored one."""
    removed_msgs_per_s: float | None
    """Stored messages that left: by limits, acknowledgements, deletes or purges."""
    first_seq: int
    last_seq: int
    first_at_us: int | None
    last_at_us: int | None
    deleted_msgs: int
    """Holes between the first and the last."""
    lost_msgs: int
    subjects_count: int
    consumers_count: int
    max_msgs: int | None
    max_msgs_per_subject: int | None
    max_bytes: int | None
    max_age_ns: int | None
    msgs_used_percent: float | None
    """Of the limit of messages; null without one."""
    bytes_used_percent: float | None
    full_in_s: float | None
    """Until the first of these two limits is reached at the present trend; null if never."""
    duplicate_window_ns: int | None
    mirror: str | None
    sources: tuple[str, ...] | None
    upstreams: tuple[Upstream, ...]
    """The mirror or the sources as the leader sees them."""
    replicas_count: int | None
    leader: str | None
    """null while a stream has no leader, or its leader does not answer."""
    peers: tuple[Peer, ...]
    """Replicas without the leader."""
    sampled_ago_s: float
    """The age of these values."""
    stale: bool
    """They could not be refreshed."""


SCHEMA = 1
"""Grows when a field is renamed, removed, or changes its meaning; not when one is added."""

Row = (
    ServerRow
    | AccountRow
    | StreamRow
    | ConsumerRow
    | RemovedRow
    | UnavailableRow
    | RestoredRow
    | AdvisoryRow
)


def json_line(row: Row) -> str:
    """Return a row as one line of printable ASCII: no name can control a terminal."""
    return json.dumps(msgspec.to_builtins(row)).replace("\x7f", "\\u007f")


def schema_text() -> str:
    """Return the JSON Schema of every kind of line, each field with its meaning."""
    kinds = get_args(Row)
    _, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    for cls in (*kinds, Peer, Upstream):
        properties = components[cls.__name__]["properties"]
        for name, meaning in _meanings(cls).items():
            properties[name]["description"] = meaning
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Lines of `natstui watch --json`, schema {SCHEMA}",
        "oneOf": [{"$ref": f"#/$defs/{cls.__name__}"} for cls in kinds],
        "$defs": components,
    }
    return json.dumps(document, indent=2)


def _meanings(cls: type) -> dict[str, str]:
    """Return field → the docstring under it."""
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    meanings: dict[str, str] = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            meanings[ast.unparse(field.target)] = str(ast.literal_eval(below.value))
    return meanings
