"""Replaces names by pseudonyms, the same everywhere in a session, before the session is shared.

Every text that is not listed here becomes "(redacted)", also in records of later versions.
Numbers, times and texts of a closed list stay.
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from natstui.errors import SessionError
from natstui.lines import BadLine
from natstui.model.live.snapshot import Snapshot
from natstui.session.files.entry import RecordSplitter, encode_keyframe
from natstui.session.files.info import SessionInfo
from natstui.session.files.segment import SegmentContent
from natstui.values import replace

REDACTED = "(redacted)"
_KEPT_FIELDS = frozenset(
    {
        "EngineStarted.natstui_version", "EngineStarted.theme", "LinkChanged.server_version",
        "Advisory.type", "FindingReport.code", "StreamConfiguration.storage",
        "StreamConfiguration.retention", "StreamConfiguration.discard",
        "ConsumerConfiguration.deliver_policy", "ConsumerConfiguration.ack_policy",
        "ConsumerConfiguration.priority_policy", "WorkerResult.pattern", "WorkerResult.latency",
        "WorkerLatency.name", "PreviousRun.latency", "BenchmarkLog.change",
        "PollCost.backoff_reason",
        "ServerState.version", "AccountServer.version", "ClientConnection.kind",
        "ClientConnection.protocol", "ClientConnection.tls_version",
    }
)  # fmt: skip
_STREAM_CATEGORY = "stream"
_CONSUMER_CATEGORY = "consumer"
_SERVER_CATEGORY = "server"
_ACCOUNT_CATEGORY = "account"
_USER_CATEGORY = "user"
_ROLE_CATEGORY = "role"
_CLIENT_CATEGORY = "client"
_FINDING_PART_CATEGORY = "part"
_RUN_CATEGORY = "run"
_SERVER_ID_CATEGORY = "id"
_ADDRESS_CATEGORY = "address"
_CATEGORY_BY_FIELD = {
    "EngineStarted.account": _ACCOUNT_CATEGORY,
    "StreamColumns.name": _STREAM_CATEGORY,
    "StreamColumns.leader": _SERVER_CATEGORY,
    "ConsumerColumns.stream": _STREAM_CATEGORY,
    "ConsumerColumns.name": _CONSUMER_CATEGORY,
    "ConsumerColumns.leader": _SERVER_CATEGORY,
    "ConsumerColumns.pinned_client": _CLIENT_CATEGORY,
    "Peer.name": _SERVER_CATEGORY,
    "StoredReplica.name": _SERVER_CATEGORY,
    "DesiredPlacement.servers": _SERVER_CATEGORY,
    "Upstream.name": _STREAM_CATEGORY,
    "Snapshot.swept_streams": _STREAM_CATEGORY,
    "Snapshot.unreachable_streams": _STREAM_CATEGORY,
    "OfflineAsset.stream": _STREAM_CATEGORY,
    "OfflineAsset.consumer": _CONSUMER_CATEGORY,
    "UnlistedConsumers.stream": _STREAM_CATEGORY,
    "Account.domain": _SERVER_CATEGORY,
    "StreamConfiguration.name": _STREAM_CATEGORY,
    "StreamConfiguration.mirror": _STREAM_CATEGORY,
    "StreamConfiguration.sources": _STREAM_CATEGORY,
    "ConsumerConfiguration.stream": _STREAM_CATEGORY,
    "ConsumerConfiguration.name": _CONSUMER_CATEGORY,
    "ConsumerConfiguration.deliver_group": _CONSUMER_CATEGORY,
    "Advisory.stream": _STREAM_CATEGORY,
    "Advisory.consumer": _CONSUMER_CATEGORY,
    "AdvisoriesCounted.stream": _STREAM_CATEGORY,
    "AdvisoriesCounted.consumer": _CONSUMER_CATEGORY,
    "FindingReport.stream": _STREAM_CATEGORY,
    "FindingReport.consumer": _CONSUMER_CATEGORY,
    "FindingReport.part": _FINDING_PART_CATEGORY,
    "AdvisoryCounts.stream": _STREAM_CATEGORY,
    "AdvisoryCounts.consumer": _CONSUMER_CATEGORY,
    "AckSample.stream": _STREAM_CATEGORY,
    "AckSample.consumer": _CONSUMER_CATEGORY,
    "AcksCounted.stream": _STREAM_CATEGORY,
    "SubjectsCounted.stream": _STREAM_CATEGORY,
    "AcksCounted.consumer": _CONSUMER_CATEGORY,
    "LinkChanged.server_name": _SERVER_CATEGORY,
    "LinkChanged.cluster": _SERVER_CATEGORY,
    "LinkChanged.domain": _SERVER_CATEGORY,
    "LinkChanged.account": _ACCOUNT_CATEGORY,
    "LinkChanged.user": _USER_CATEGORY,
    "Role.name": _ROLE_CATEGORY,
    "Role.consumer": _CONSUMER_CATEGORY,
    "Role.queue": _CONSUMER_CATEGORY,
    "StreamPlan.name": _STREAM_CATEGORY,
    "BenchmarkPlanned.run_id": _RUN_CATEGORY,
    "BenchmarkPhase.run_id": _RUN_CATEGORY,
    "BenchmarkReport.run_id": _RUN_CATEGORY,
    "BenchmarkProgress.run_id": _RUN_CATEGORY,
    "BenchmarkLog.run_id": _RUN_CATEGORY,
    "BenchmarkFinished.run_id": _RUN_CATEGORY,
    "BenchmarkSoFar.run_id": _RUN_CATEGORY,
    "BenchmarkReport.role": _ROLE_CATEGORY,
    "WorkerResult.role": _ROLE_CATEGORY,
    "WorkerSoFar.role": _ROLE_CATEGORY,
    "Fault.role": _ROLE_CATEGORY,
    "ServersRead.leaving": _SERVER_CATEGORY,
    "RefusedLogin.server": _SERVER_CATEGORY,
    "RefusedLogin.client": _CLIENT_CATEGORY,
    "RefusedLogin.user": _USER_CATEGORY,
    "Servers.silent": _SERVER_CATEGORY,
    "ServerState.server_id": _SERVER_ID_CATEGORY,
    "ServerState.name": _SERVER_CATEGORY,
    "ServerState.cluster": _SERVER_CATEGORY,
    "ServerState.domain": _SERVER_CATEGORY,
    "Meta.cluster": _SERVER_CATEGORY,
    "Meta.leader": _SERVER_CATEGORY,
    "MetaPeer.name": _SERVER_CATEGORY,
    "AccountTotals.name": _ACCOUNT_CATEGORY,
    "AccountServer.server_id": _SERVER_ID_CATEGORY,
    "AccountServer.name": _SERVER_CATEGORY,
    "AccountServer.cluster": _SERVER_CATEGORY,
    "Connections.silent": _SERVER_CATEGORY,
    "ClientConnection.server_id": _SERVER_ID_CATEGORY,
    "ClientConnection.server_name": _SERVER_CATEGORY,
    "ClientConnection.name": _CLIENT_CATEGORY,
    "ClientConnection.user": _USER_CATEGORY,
    "ClientConnection.address": _ADDRESS_CATEGORY,
    "Subscription.queue": _CONSUMER_CATEGORY,
}
_SUBJECT_FIELDS = frozenset(
    {
        "StreamConfiguration.subjects", "ConsumerConfiguration.filter_subjects",
        "ConsumerConfiguration.deliver_subject", "Permitted.publish_allow",
        "Permitted.publish_deny", "Permitted.subscribe_allow", "Permitted.subscribe_deny",
        "SubjectsCounted.filter_subject", "SubjectsCounted.scheduled_subjects",
        "Unavailable.what", "Unavailable.denied_subject", "Restored.what", "Role.subject",
        "Subscription.subject", "StreamPlan.subjects",
    }
)  # fmt: skip
API_TOKENS = frozenset(
    {
        "API", "ACK", "NEXT", "STREAM", "CONSUMER", "LIST", "NAMES", "INFO", "CREATE", "UPDATE",
        "DELETE", "PURGE", "MSG", "GET", "DIRECT", "DURABLE", "EVENT", "ADVISORY", "METRIC",
        "REQ", "USER", "SNAPSHOT", "RESTORE", "PEER", "LEADER", "PAUSE", "RESET", "events",
        "*", ">", "_INBOX", "$JS", "$KV", "$O", "$SYS",
    }
)  # fmt: skip
_KV_PREFIX, _OBJECT_PREFIX = "KV_", "OBJ_"
_CONFIGURATION_FIELDS = frozenset(
    {"StreamConfiguration.config_json", "ConsumerConfiguration.config_json"}
)
_KEPT_ADVISORY_NUMBERS = ("stream_seq", "consumer_seq", "deliveries")


def _literal_field_names(cls: type) -> frozenset[str]:
    """Return the names of the fields of a dataclass whose type is a Literal."""
    hints = typing.get_type_hints(cls)
    return frozenset(name for name, hint in hints.items() if "Literal[" in str(hint))


class Pseudonyms:
    """Replaces names; the first stream is `stream-1` everywhere."""

    def __init__(self) -> None:
        self._pseudonyms: dict[tuple[str, str], str] = {}
        self._count_by_category: dict[str, int] = {}
        self._literal_field_names_by_class: dict[type, frozenset[str]] = {}

    def pseudonym_of(self, category: str, text: str) -> str:
        """Return the pseudonym of a name in a category; the same name always gets the same
        pseudonym.
        """
        key = (category, text)
        if key not in self._pseudonyms:
            self._count_by_category[category] = self._count_by_category.get(category, 0) + 1
            prefix = next(
                (
                    name_prefix
                    for name_prefix in (_KV_PREFIX, _OBJECT_PREFIX)
                    if text.startswith(name_prefix)
                ),
                "",
            )
            self._pseudonyms[key] = f"{prefix}{category}-{self._count_by_category[category]}"
        return self._pseudonyms[key]

    def redact_subject(self, text: str) -> str:
        """Return a subject of pseudonyms; wildcards and tokens of the server stay."""
        return ".".join(
            token if token in API_TOKENS else self.pseudonym_of("token", token)
            for token in text.split(".")
        )

    def redact(self, value: Any) -> Any:
        """Return a copy of a value with names replaced, also in the values inside it."""
        cls = type(value)
        if cls not in self._literal_field_names_by_class:
            self._literal_field_names_by_class[cls] = _literal_field_names(cls)
        literal_field_names = self._literal_field_names_by_class[cls]
        value_by_field = {
            name: self._redact_value(
                getattr(value, name), self._text_replacement_of(cls, name, literal_field_names)
            )
            for name in value.__struct_fields__
        }
        if isinstance(value, Snapshot):
            value_by_field["unreachable_consumers"] = tuple(
                (
                    self.pseudonym_of(_STREAM_CATEGORY, stream),
                    self.pseudonym_of(_CONSUMER_CATEGORY, consumer),
                )
                for stream, consumer in value.unreachable_consumers
            )
        return cls(**value_by_field)

    def _text_replacement_of(
        self, cls: type, name: str, literal_field_names: frozenset[str]
    ) -> Callable[[str], str]:
        """Return a function that returns the replacement of a text in field `name` of `cls`."""
        full_name = f"{cls.__name__}.{name}"
        if name in literal_field_names or full_name in _KEPT_FIELDS:
            return str
        if full_name in _SUBJECT_FIELDS:
            return self.redact_subject
        if full_name in _CATEGORY_BY_FIELD:
            # What is about no consumer stays so.
            return lambda text: (
                self.pseudonym_of(_CATEGORY_BY_FIELD[full_name], text) if text else text
            )
        if full_name in _CONFIGURATION_FIELDS:
            return self._redact_configuration
        if full_name == "Advisory.body_json":
            return _redact_advisory
        if name.endswith("_json"):
            return lambda text: "{}"
        return lambda text: REDACTED if text else ""

    def _redact_configuration(self, text: str) -> str:
        """Return a replacement of a configuration's JSON, another one for each configuration, so
        that changes are still found.
        """
        return json.dumps({"redacted": self.pseudonym_of("configuration", text)})

    def _redact_value(self, value: Any, redact_text: Callable[[str], str]) -> Any:
        if isinstance(value, str):
            return redact_text(value)
        if isinstance(value, tuple):
            return tuple(self._redact_value(item, redact_text) for item in value)
        if isinstance(value, dict):
            return {}
        return self.redact(value) if isinstance(value, Struct) else value

    def redact_info(self, info: SessionInfo) -> SessionInfo:
        """Return the info of a session with its names replaced."""
        return replace(
            info,
            name="redacted",
            target=REDACTED,
            server_name=info.server_name and self.pseudonym_of(_SERVER_CATEGORY, info.server_name),
            server_url=None,
            cluster=info.cluster and self.pseudonym_of(_SERVER_CATEGORY, info.cluster),
            account=info.account and self.pseudonym_of(_ACCOUNT_CATEGORY, info.account),
            notes=(REDACTED,) * len(info.notes),
            redacted=True,
        )

    def redact_content(self, content: SegmentContent) -> bytes:
        """Return the lines of a segment with names replaced; raises SessionError if a line cannot
        be read.
        """
        lines = []
        splitter = RecordSplitter()
        if content.keyframe is not None:
            lines.append(encode_keyframe(self.redact(content.keyframe)))
        try:
            for entry in content.entries:
                record = self.redact(entry.record())
                lines.extend(splitter.lines(record, entry.line_number))
        except BadLine as error:
            raise SessionError(f"what cannot be read cannot be redacted: {error}") from error
        return b"".join(lines)


def _redact_advisory(text: str) -> str:
    """Return the JSON of an advisory with only the sequences and deliveries of its message."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return "{}"
    numbers = {
        name: body[name]
        for name in _KEPT_ADVISORY_NUMBERS
        if isinstance(body, dict) and type(body.get(name)) is int
    }
    return json.dumps(numbers)
