"""What leaves a machine: nothing secret is recorded, and a redacted session holds no name."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec import Struct

from natstui.errors import SessionError
from natstui.lines import encode_record
from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.latency import from_latencies
from natstui.model.bench.view import BenchmarkView, make_benchmark_so_far
from natstui.model.records.benchmark import BenchmarkReport
from natstui.model.records.record import (
    NEVER_RECORDED,
    Advisory,
    EngineStarted,
    LinkChanged,
    Outcome,
    Record,
    Unavailable,
)
from natstui.session.files.entry import encode_keyframe, join_parts, parse_part
from natstui.session.files.folder import list_segments
from natstui.session.files.info import SessionInfo, create_info
from natstui.session.files.keyframe import Keyframe
from natstui.session.files.segment import SegmentContent, parse_segment, read_content
from natstui.session.share.redact import API_TOKENS, REDACTED, Pseudonyms
from natstui.session.write.recorder import prepare_for_recording
from natstui.values import replace
from tests.session.any_record import KINDS, any_record
from tests.session.making import made
from tests.session.scenario import START_US, Scenario, stream

SECRET = "secret"
BECOMES = {
    "kept": {
        "EngineStarted.natstui_version", "EngineStarted.theme", "LinkChanged.server_version",
        "Advisory.type", "FindingReport.code",
        "StreamConfiguration.storage", "StreamConfiguration.retention",
        "StreamConfiguration.discard", "ConsumerConfiguration.deliver_policy",
        "ConsumerConfiguration.ack_policy", "ConsumerConfiguration.priority_policy",
        "WorkerResult.pattern", "WorkerResult.latency", "WorkerLatency.name",
        "PreviousRun.latency", "BenchmarkLog.change", "PollCost.backoff_reason",
        "ServerState.version", "AccountServer.version", "ClientConnection.kind",
        "ClientConnection.protocol", "ClientConnection.tls_version",
    },
    "stream-": {
        "StreamColumns.name", "ConsumerColumns.stream", "Upstream.name", "Snapshot.swept_streams",
        "OfflineAsset.stream", "UnlistedConsumers.stream",
        "Snapshot.unreachable_streams", "StreamConfiguration.name", "StreamConfiguration.mirror",
        "StreamConfiguration.sources", "ConsumerConfiguration.stream", "Advisory.stream",
        "AckSample.stream", "AcksCounted.stream", "SubjectsCounted.stream",
        "AdvisoriesCounted.stream",
        "FindingReport.stream", "AdvisoryCounts.stream", "Snapshot.unreachable_consumers[0]",
        "StreamPlan.name",
    },
    "consumer-": {
        "ConsumerColumns.name", "OfflineAsset.consumer", "Snapshot.unreachable_consumers[1]",
        "ConsumerConfiguration.name",
        "ConsumerConfiguration.deliver_group", "Advisory.consumer", "AckSample.consumer",
        "AcksCounted.consumer", "AdvisoriesCounted.consumer", "Role.consumer",
        "FindingReport.consumer", "Subscription.queue", "AdvisoryCounts.consumer",
        "Role.queue",
    },
    "server-": {
        "StreamColumns.leader", "ConsumerColumns.leader", "Peer.name", "Account.domain",
        "LinkChanged.server_name", "LinkChanged.cluster", "LinkChanged.domain",
        "StoredReplica.name", "DesiredPlacement.servers",
        "ServersRead.leaving", "Servers.silent", "ServerState.name", "ServerState.cluster",
        "ServerState.domain", "Meta.cluster", "Meta.leader", "MetaPeer.name",
        "AccountServer.name", "AccountServer.cluster", "Connections.silent",
        "ClientConnection.server_name", "RefusedLogin.server",
    },
    "id-": {"ServerState.server_id", "AccountServer.server_id", "ClientConnection.server_id"},
    "client-": {
        "ConsumerColumns.pinned_client", "ClientConnection.name", "RefusedLogin.client",
    },
    "address-": {"ClientConnection.address"},
    "account-": {"EngineStarted.account", "LinkChanged.account", "AccountTotals.name"},
    "user-": {"LinkChanged.user", "ClientConnection.user", "RefusedLogin.user"},
    "part-": {"FindingReport.part"},
    "role-": {
        "Role.name", "BenchmarkReport.role", "WorkerResult.role", "WorkerSoFar.role", "Fault.role",
    },
    "token-": {
        "StreamConfiguration.subjects", "ConsumerConfiguration.filter_subjects",
        "ConsumerConfiguration.deliver_subject", "Permitted.publish_allow",
        "Permitted.publish_deny", "Permitted.subscribe_allow", "Permitted.subscribe_deny",
        "Unavailable.what", "Unavailable.denied_subject", "Restored.what", "Role.subject",
        "SubjectsCounted.filter_subject", "SubjectsCounted.scheduled_subjects",
        "Subscription.subject", "StreamPlan.subjects",
    },
    "run-": {
        "BenchmarkPlanned.run_id", "BenchmarkPhase.run_id", "BenchmarkReport.run_id",
        "BenchmarkProgress.run_id", "BenchmarkLog.run_id", "BenchmarkFinished.run_id",
        "BenchmarkSoFar.run_id",
    },
    '{"redacted": "configuration-"}': {
        "StreamConfiguration.config_json", "ConsumerConfiguration.config_json",
    },
}  # fmt: skip
"""What the text of a field becomes; a field that is not listed is "(redacted)", or empty JSON."""
PAIRS = {"Snapshot.unreachable_consumers"}
"""Fields whose texts differ in kind by their place in a pair."""


def filled(hint: Any) -> Any:
    """Return a value of a type hint in which every free text is the secret."""
    origin, arguments = typing.get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Struct):
        hints = typing.get_type_hints(hint)
        return hint(**{f: filled(hints[f]) for f in hint.__struct_fields__})
    if origin in (typing.Union, types.UnionType):
        return filled(next(one for one in arguments if one is not type(None)))
    if origin is typing.Literal:
        return arguments[0]
    if origin is tuple:
        return tuple(filled(one) for one in arguments if one is not Ellipsis)
    if origin in (dict, Mapping):
        return {SECRET: filled(arguments[1])}
    return {str: SECRET, int: 7, float: 1.5, bool: True, bytes: b"", object: None}[hint]


def compared(before: Any, after: Any, field: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (class.field, value before, value after) of everything inside a value."""
    if isinstance(before, Struct):
        assert type(after) is type(before)
        for each in before.__struct_fields__:
            name = f"{type(before).__name__}.{each}"
            yield from compared(getattr(before, each), getattr(after, each), name)
    elif isinstance(before, tuple):
        for place, parts in enumerate(zip(before, after, strict=True)):
            in_pair = field in PAIRS and isinstance(parts[0], str)
            yield from compared(*parts, f"{field}[{place}]" if in_pair else field)
    else:
        yield field, before, after


def outcome(field: str, text: str) -> str:
    """Return what the text of a field becomes, without its number."""
    for becomes, names in BECOMES.items():
        if field in names:
            return text if becomes == "kept" else becomes
    return "{}" if field.endswith("_json") else REDACTED if text else ""


def without_number(text: str) -> str:
    """Return a pseudonym without its number."""
    return re.sub(r'\d+("\})?$', r"\1", text)


CLOSED = {
    field
    for cls in KINDS
    for field, value, _ in compared(filled(cls), filled(cls))
    if isinstance(value, str) and value != SECRET
}
"""Fields whose text is one of a closed list."""
PSEUDONYM = re.compile(
    r"(KV_|OBJ_)?(stream|consumer|server|client|account|user|role|part|token|id|address|run)-\d+|[*>]"
)


@pytest.mark.parametrize("cls", [*KINDS, Keyframe])
def test_every_text_of_a_record_is_replaced_and_every_number_is_kept(cls: Any) -> None:
    record = filled(cls)
    for field, before, after in compared(record, Pseudonyms().redact(record)):
        if before == SECRET:
            assert without_number(after) == outcome(field, SECRET), field
        elif isinstance(before, dict):
            assert after == {}, field
        else:
            assert after == before and type(after) is type(before), field


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(any_record())
def test_any_redacted_record_can_be_read_and_holds_no_text_of_its_own(record: Record) -> None:
    redacted = Pseudonyms().redact(record)
    entry = join_parts([parse_part(encode_record(redacted)[:-1], 0)])
    assert entry is not None and entry.record() == redacted
    for field, before, after in compared(record, redacted):
        if isinstance(before, str) and field not in CLOSED and field not in BECOMES["kept"]:
            becomes = outcome(field, before)
            tokens = {*after.split(".")} - (API_TOKENS if becomes == "token-" else set())
            is_replaced = without_number(after) == becomes
            assert is_replaced or not before or all(map(PSEUDONYM.fullmatch, tokens)), field


def test_the_table_of_this_test_names_only_fields_that_are_recorded() -> None:
    every = [*KINDS, Keyframe]
    met = {field for cls in every for field, _, _ in compared(filled(cls), filled(cls))}
    assert set().union(*BECOMES.values()) <= met


def test_a_name_has_one_pseudonym_wherever_it_stands_and_no_other_name_has_it() -> None:
    names = Pseudonyms()
    first, second = (names.redact(stream(name, START_US)) for name in ("ORDERS", "KV_users"))
    poll = names.redact(replace(Scenario().poll(1), swept_streams=("KV_users", "X")))
    assert (first.name, second.name) == ("stream-1", "KV_stream-2")
    assert poll.swept_streams == ("KV_stream-2", poll.swept_streams[1])
    assert len({first.name, second.name, *poll.swept_streams, *poll.streams.name}) == 6
    assert names.pseudonym_of("stream", "OBJ_files").startswith("OBJ_stream-")
    assert names.pseudonym_of("consumer", "ORDERS") == f"consumer-{1 + len(poll.consumers.name)}"


def test_a_changed_configuration_differs_and_an_unchanged_one_does_not() -> None:
    first, names = stream("ORDERS", START_US, 10**9), Pseudonyms()
    changed = replace(first, config_json='{"name":"ORDERS","max_bytes":9}')
    before, after, again = (
        json.loads(names.redact(config).config_json) for config in (first, changed, first)
    )
    assert before == again != after


def test_a_redacted_advisory_keeps_the_numbers_of_its_message() -> None:
    names = Pseudonyms()
    for body, kept in (
        ({"stream": "ORDERS", "stream_seq": 7, "deliveries": 5, "reason": SECRET},
         {"stream_seq": 7, "deliveries": 5}),
        ({"stream_seq": SECRET, "deliveries": True, "leader": "n1", SECRET: 1}, {}),
        ([7], {}),
    ):  # fmt: skip
        advisory = Advisory(START_US, "max_deliver", "ORDERS", "billing", "", json.dumps(body))
        assert json.loads(names.redact(advisory).body_json) == kept


def test_an_unreachable_consumer_has_the_pseudonyms_of_its_row() -> None:
    poll = Scenario().poll(1)
    name = (poll.consumers.stream[0], poll.consumers.name[0])
    redacted = Pseudonyms().redact(replace(poll, unreachable_consumers=(name,)))
    rows = zip(redacted.consumers.stream, redacted.consumers.name, strict=True)
    assert redacted.unreachable_consumers == (next(rows),)


def test_the_workers_of_a_benchmark_are_the_same_before_and_after_a_keyframe() -> None:
    latencies = Latencies(ack=from_latencies([1000, 2000]))
    reports = [
        BenchmarkReport(START_US + n, "r", role, 0, 1.0, Counts(sent_msgs=n), latencies, 0.5)
        for n, role in enumerate(("orders", "billing", "orders", "billing"), 1)
    ]
    lived = BenchmarkView()
    for report in reports[:2]:
        lived = lived.after(report)
    names = Pseudonyms()
    shown = names.redact(make_benchmark_so_far(lived, START_US)).view()
    for report in reports[2:]:
        lived, shown = lived.after(report), shown.after(names.redact(report))
    became = {names.redact(report).role: report.role for report in reports}
    assert set(became.values()) == {"orders", "billing"}
    for name in ("series", "totals", "measured"):
        workers = {(became[role], n): value for (role, n), value in getattr(shown, name).items()}
        assert workers == getattr(lived, name), name


def test_a_subject_keeps_its_wildcards_and_the_words_of_the_server() -> None:
    names = Pseudonyms()
    assert names.redact_subject("$JS.API.CONSUMER.LIST.ORDERS") == "$JS.API.CONSUMER.LIST.token-1"
    assert names.redact_subject("eu.ORDERS.*.>") == "token-2.token-1.*.>"
    # Also where the subject is none of the server: the word tells nothing of whose it is.
    assert names.redact_subject("DIRECT") == "DIRECT"


def test_empty_and_unknown_text_stays_empty_and_unknown() -> None:
    names = Pseudonyms()
    trouble = names.redact(Unavailable(START_US, "STREAM.LIST", "", None))
    assert trouble == Unavailable(START_US, "STREAM.LIST", "", None)


def content_of(folder: Path, sessions_records: list[Any]) -> SegmentContent:
    file = list_segments(made(folder, sessions_records, 1000))[0]
    return read_content(file.path, sealed=file.sealed)


@pytest.mark.slow
def test_a_redacted_segment_keeps_its_keyframe_its_records_and_their_order(tmp_path: Path) -> None:
    scenario = Scenario(streams=40, consumers=400)
    content = content_of(tmp_path, [*scenario.beginning(), *scenario.records(0, 3)])
    text = Pseudonyms().redact_content(content)
    redacted = parse_segment(text)
    assert redacted.damaged_lines_count == 0
    assert redacted.keyframe is not None
    assert [(e.kind, e.at_us, e.line_number, len(e.parts)) for e in redacted.entries] == [
        (e.kind, e.at_us, e.line_number, len(e.parts)) for e in content.entries
    ]
    for name in (*scenario.streams, *scenario.names, "gave up"):
        assert name.encode() not in text
    headless = replace(content, keyframe=None)
    assert parse_segment(Pseudonyms().redact_content(headless)).keyframe is None


def test_a_redacted_keyframe_holds_no_name(tmp_path: Path) -> None:
    scenario = Scenario()
    content = content_of(tmp_path, [*scenario.beginning(), *scenario.records(0, 3)])
    file = list_segments(
        made(tmp_path / "more", [*scenario.beginning(), *scenario.records(0, 6)], 2)
    )[1]
    keyframe = read_content(file.path, sealed=file.sealed).keyframe
    assert keyframe is not None and b"ORDERS" in encode_keyframe(keyframe)
    redacted = Pseudonyms().redact_content(replace(content, keyframe=keyframe))
    assert b"ORDERS" not in redacted and b"worker-" not in redacted
    again = parse_segment(redacted).keyframe
    assert again is not None and again.snapshot is not None and keyframe.snapshot is not None
    assert again.snapshot.streams.stored_msgs == keyframe.snapshot.streams.stored_msgs


def test_a_segment_with_a_damaged_record_is_refused(tmp_path: Path) -> None:
    content = content_of(tmp_path, Scenario().beginning())
    entry = content.entries[0]
    piece = entry.parts[0]
    broken = replace(piece, numbered_line=piece.numbered_line.replace(b'"target":', b'"tar":'))
    damaged = replace(content, entries=(replace(entry, parts=(broken,)),))
    with pytest.raises(SessionError, match=r"^what cannot be read cannot be redacted: .*target"):
        Pseudonyms().redact_content(damaged)


def test_what_is_written_about_a_session_is_redacted() -> None:
    info = replace(
        create_info("incident at ACME", START_US),
        target="acme-prod",
        server_name="n1",
        server_version="2.15.1",
        server_url="nats://acme:4222",
        cluster="c1",
        account="ACME",
        interval_s=2.0,
        notes=("the boss called", "again"),
        records_count={"snapshot": 5},
    )
    names = Pseudonyms()
    assert names.pseudonym_of("server", "n1") == "server-1"
    assert names.redact_info(info) == replace(
        info,
        name="redacted",
        target=REDACTED,
        server_name="server-1",
        server_url=None,
        cluster="server-2",
        account="account-1",
        notes=(REDACTED, REDACTED),
        redacted=True,
    )
    unknown: SessionInfo = names.redact_info(create_info("x", START_US))
    assert (unknown.server_name, unknown.cluster, unknown.account) == (None, None, None)


@pytest.mark.parametrize("cls", NEVER_RECORDED)
def test_what_is_about_recordings_themselves_is_never_recorded(cls: Any) -> None:
    assert prepare_for_recording(filled(cls), payloads=True) is None


@pytest.mark.parametrize("cls", KINDS)
def test_every_other_record_is_recorded(cls: Any) -> None:
    record = filled(cls)
    assert prepare_for_recording(record, payloads=True) is record


def test_payloads_are_recorded_only_when_asked_for() -> None:
    answer = Outcome(START_US, 1, "done", "one message", '{"data":"secret"}')
    assert prepare_for_recording(answer, payloads=True) is answer
    assert prepare_for_recording(answer, payloads=False) == Outcome(
        START_US, 1, "done", "one message", None
    )
    bare = Outcome(START_US, 1, "done", "one message")
    assert prepare_for_recording(bare, payloads=False) is bare


def test_no_password_in_an_address_is_recorded() -> None:
    link = LinkChanged(START_US, "connected", None, server_url="nats://user:pw@host:4222")
    kept = prepare_for_recording(link, payloads=True)
    assert kept == replace(link, server_url="nats://host:4222")
    for url in (None, "", "nats://host:4222"):
        harmless = replace(link, server_url=url)
        assert prepare_for_recording(harmless, payloads=True) is harmless
    started = replace(filled(EngineStarted), target="nats://token@host:4222")
    kept = prepare_for_recording(started, payloads=True)
    assert kept == replace(started, target="nats://host:4222")
