"""Replaces names by pseudonyms, the same everywhere in a session, before the session is shared.

Every text that is not listed here becomes "(redacted)", also in records of later versions.
Numbers, times and texts of a closed list stay.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from natstui.errors import SessionError
from natstui.lines import BadLine
from natstui.model.live.snapshot import Snapshot
from natstui.session.files.entry import RecordSplitter, encode_keyframe
from natstui.session.files.info import SessionInfo
from natstui.session.files.segment import SegmentContent

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
_STREAM, _CONSUMER, _SERVER, _ACCOUNT, _USER, _ROLE, _CLIENT, _FINDING_PART, _RUN = (
    "stream", "consumer", "server", "account", "user", "role", "client", "part", "run"
)  # fmt: skip
_SERVER_ID, _ADDRESS = "id", "address"
_CATEGORY_BY_FIELD = {
    "EngineStarted.account": _ACCOUNT,
    "StreamColumns.name": _STREAM,
    "StreamColumns.leader": _SERVER,
    "ConsumerColumns.stream": _STREAM,
    "ConsumerColumns.name": _CONSUMER,
    "ConsumerColumns.leader": _SERVER,
    "ConsumerColumns.pinned_client": _CLIENT,
    "Peer.name": _SERVER,
    "StoredReplica.name": _SERVER,
    "DesiredPlacement.servers": _SERVER,
    "Upstream.name": _STREAM,
    "Snapshot.swept_streams": _STREAM,
    "Snapshot.unreachable_streams": _STREAM,
    "OfflineAsset.stream": _STREAM,
    "OfflineAsset.consumer": _CONSUMER,
    "UnlistedConsumers.stream": _STREAM,
    "Account.domain": _SERVER,
    "StreamConfiguration.name": _STREAM,
    "StreamConfiguration.mirror": _STREAM,
    "StreamConfiguration.sources": _STREAM,
    "ConsumerConfiguration.stream": _STREAM,
    "ConsumerConfiguration.name": _CONSUMER,
    "ConsumerConfiguration.deliver_group": _CONSUMER,
    "Advisory.stream": _STREAM,
    "Advisory.consumer": _CONSUMER,
    "AdvisoriesCounted.stream": _STREAM,
    "AdvisoriesCounted.consumer": _CONSUMER,
    "FindingReport.stream": _STREAM,
    "FindingReport.consumer": _CONSUMER,
    "FindingReport.part": _FINDING_PART,
    "AdvisoryCounts.stream": _STREAM,
    "AdvisoryCounts.consumer": _CONSUMER,
    "AckSample.stream": _STREAM,
    "AckSample.consumer": _CONSUMER,
    "AcksCounted.stream": _STREAM,
    "SubjectsCounted.stream": _STREAM,
    "AcksCounted.consumer": _CONSUMER,
    "LinkChanged.server_name": _SERVER,
    "LinkChanged.cluster": _SERVER,
    "LinkChanged.domain": _SERVER,
    "LinkChanged.account": _ACCOUNT,
    "LinkChanged.user": _USER,
    "Role.name": _ROLE,
    "Role.consumer": _CONSUMER,
    "Role.queue": _CONSUMER,
    "StreamPlan.name": _STREAM,
    "BenchmarkPlanned.run_id": _RUN,
    "BenchmarkPhase.run_id": _RUN,
    "BenchmarkReport.run_id": _RUN,
    "BenchmarkProgress.run_id": _RUN,
    "BenchmarkLog.run_id": _RUN,
    "BenchmarkFinished.run_id": _RUN,
    "BenchmarkSoFar.run_id": _RUN,
    "BenchmarkReport.role": _ROLE,
    "WorkerResult.role": _ROLE,
    "WorkerSoFar.role": _ROLE,
    "Fault.role": _ROLE,
    "ServersRead.leaving": _SERVER,
    "RefusedLogin.server": _SERVER,
    "RefusedLogin.client": _CLIENT,
    "RefusedLogin.user": _USER,
    "Servers.silent": _SERVER,
    "ServerState.server_id": _SERVER_ID,
    "ServerState.name": _SERVER,
    "ServerState.cluster": _SERVER,
    "ServerState.domain": _SERVER,
    "Meta.cluster": _SERVER,
    "Meta.leader": _SERVER,
    "MetaPeer.name": _SERVER,
    "AccountTotals.name": _ACCOUNT,
    "AccountServer.server_id": _SERVER_ID,
    "AccountServer.name": _SERVER,
    "AccountServer.cluster": _SERVER,
    "Connections.silent": _SERVER,
    "ClientConnection.server_id": _SERVER_ID,
    "ClientConnection.server_name": _SERVER,
    "ClientConnection.name": _CLIENT,
    "ClientConnection.user": _USER,
    "ClientConnection.address": _ADDRESS,
    "Subscription.queue": _CONSUMER,
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
        """Return a dataclass with its names replaced."""
        cls = type(value)
        if cls not in self._literal_field_names_by_class:
            self._literal_field_names_by_class[cls] = _literal_field_names(cls)
        literal_field_names = self._literal_field_names_by_class[cls]
        value_by_field = {
            field.name: self._redact_value(
                getattr(value, field.name),
                self._text_replacement_of(cls, field.name, literal_field_names),
            )
            for field in dataclasses.fields(value)
        }
        if isinstance(value, Snapshot):
            value_by_field["unreachable_consumers"] = tuple(
                (self.pseudonym_of(_STREAM, stream), self.pseudonym_of(_CONSUMER, consumer))
                for stream, consumer in value.unreachable_consumers
            )
        return cls(**value_by_field)

    def _text_replacement_of(
        self, cls: type, name: str, literal_field_names: frozenset[str]
    ) -> Callable[[str], str]:
        """Return the function that replaces the text of a field."""
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
        """Return JSON that differs as configurations do, so that their changes are found."""
        return json.dumps({"redacted": self.pseudonym_of("configuration", text)})

    def _redact_value(self, value: Any, redact_text: Callable[[str], str]) -> Any:
        if isinstance(value, str):
            return redact_text(value)
        if isinstance(value, tuple):
            return tuple(self._redact_value(item, redact_text) for item in value)
        if isinstance(value, dict):
            return {}
        return self.redact(value) if dataclasses.is_dataclass(value) else value

    def redact_info(self, info: SessionInfo) -> SessionInfo:
        """Return the info of a session with its names replaced."""
        return replace(
            info,
            name="redacted",
            target=REDACTED,
            server_name=info.server_name and self.pseudonym_of(_SERVER, info.server_name),
            server_url=None,
            cluster=info.cluster and self.pseudonym_of(_SERVER, info.cluster),
            account=info.account and self.pseudonym_of(_ACCOUNT, info.account),
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
