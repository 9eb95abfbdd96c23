"""The flat tables of an export: their columns with unit and meaning, and the rows of a record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import astuple

from natstui.model.bench.counts import LATENCY_FIELDS, Counts
from natstui.model.bench.latency import bucket_high_ns, bucket_low_ns
from natstui.model.clients.watch import ConnectionsRead
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.records.benchmark import (
    BenchmarkFinished,
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkReport,
)
from natstui.model.records.evidence import AcksCounted, AdvisoriesCounted
from natstui.model.records.findings import FindingsChanged
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import (
    AckSample,
    Advisory,
    Configured,
    EngineStarted,
    Noted,
    Outcome,
    Record,
    Restored,
    Unavailable,
)
from natstui.model.records.recording import ClockStepped, Gap
from natstui.model.servers.watch import ServersRead
from natstui.session.files.marks import clock_step_text
from natstui.units import counted

_UNIT_BY_SUFFIX = {
    "_at_us": "µs since 1970, UTC",
    "_mono_us": "µs on the engine's monotonic clock",
    "_us": "µs",
    "_ns": "ns",
    "_ms": "ms",
    "_s": "s",
    "_msgs": "messages",
    "_bytes": "bytes",
    "_seq": "sequence",
    "_count": "count",
    "_ratio": "ratio, 0 to 1",
    "_per_s": "per second",
    "_id": "number",
    "_percent": "percent",
    "_level": "level",
    "_version": "version",
}
_UNIT_BY_NAME = {
    "at_us": _UNIT_BY_SUFFIX["_at_us"],
    "down_since_us": _UNIT_BY_SUFFIX["_at_us"],
    "run_id": "text",
    "server_id": "text",
    "number": "number",
    "max_msgs_per_subject": "messages",
    "msgs_by_subject": "messages",
    "buckets": "number of a bucket",
    "counts": "count",
    "sequences": "sequence",
    "recent": "s since 1970, count",
    "numbers": "as the field name says",
    "members": "bytes",
    "fan_out_ratio": "ratio, from 0",
    "cpu_ratio": "ratio, from 0",
    "server_cpu_ratio": "ratio, from 0",
}
"""Units of columns whose name does not end with one, and of ratios that may exceed 1."""
_OMITTED_FIELDS = {"peers", "upstreams", "replicas", "desired"}


class Column(Struct, frozen=True):
    """A column of an exported table."""

    name: str
    unit: str
    text: str


class Table(Struct, frozen=True):
    """An exported table: a file of rows."""

    name: str
    text: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns, in order."""
        return tuple(column.name for column in self.columns)


def unit_of(name: str) -> str:
    """Return the unit of a column by its name; `text` or `true or false` without numbers."""
    if name in _UNIT_BY_NAME:
        return _UNIT_BY_NAME[name]
    for suffix in sorted(_UNIT_BY_SUFFIX, key=len, reverse=True):
        if name.endswith(suffix):
            return _UNIT_BY_SUFFIX[suffix]
    return "true or false" if name in _BOOLEAN_COLUMNS else "text"


_BOOLEAN_COLUMNS = {"push_bound", "paused", "partial"}
_AT_COLUMN = Column("at_us", _UNIT_BY_SUFFIX["_at_us"], "when this was measured")


def _columns(text_by_name: dict[str, str]) -> tuple[Column, ...]:
    return (
        _AT_COLUMN,
        *(Column(name, unit_of(name), text) for name, text in text_by_name.items()),
    )


def _describe_fields(
    table: type[StreamColumns] | type[ConsumerColumns], entity_noun: str
) -> dict[str, str]:
    """Return name of a column → its meaning, from the fields of streams or consumers."""
    names = [name for name in table.__struct_fields__ if name not in _OMITTED_FIELDS]
    return {
        name: f"{name.rsplit('_', 1)[0].replace('_', ' ')} of the {entity_noun}" for name in names
    }


_COUNT_TEXTS = dict.fromkeys(Counts.__struct_fields__, "in the interval")

STREAM_SAMPLE = Table(
    "stream_sample",
    "one row per stream and poll",
    _columns({"mono_us": "when the poll began"} | _describe_fields(StreamColumns, "stream")),
)
CONSUMER_SAMPLE = Table(
    "consumer_sample",
    "one row per consumer and poll",
    _columns({"mono_us": "when the poll began"} | _describe_fields(ConsumerColumns, "consumer")),
)
ADVISORY = Table(
    "advisory",
    "one row per advisory of the server",
    _columns(
        {
            "type": "last token of the advisory's type",
            "stream": "stream concerned",
            "consumer": "consumer concerned",
            "text": "one sentence",
            "body_json": "JSON as the server sent it",
        }
    ),
)
ACK_SAMPLE = Table(
    "ack_sample",
    "one row per sampled acknowledgement",
    _columns(
        {
            "stream": "stream of the message",
            "consumer": "consumer that acknowledged",
            "stream_seq": "sequence of the message in the stream",
            "consumer_seq": "of the delivery",
            "deliveries_count": "deliveries of the message so far",
            "ack_ns": "time from delivery to acknowledgement; above 100/s see ack_time",
        }
    ),
)
ACK_TIME = Table(
    "ack_time",
    "one row per histogram bucket of sampled acknowledgements that are not in ack_sample",
    _columns(
        {
            "stream": "stream of the messages",
            "consumer": "consumer that acknowledged",
            "low_ns": "smallest time of the bucket; empty if none was read",
            "high_ns": "largest time of the bucket; empty if none was read",
            "samples_count": "acknowledgements with such a time; none of them is in ack_sample",
            "repeated_count": "redelivered messages of all buckets; only in the first row of them",
            "left_out_count": "further acknowledgements that were not read; only in that row, too",
        }
    ),
)
BENCH_INTERVAL = Table(
    "bench_interval",
    "one row per report of a benchmark worker: what it did since its last one",
    _columns(
        {
            "run_id": "which run",
            "role": "role of the worker",
            "worker_id": "number of the worker in its role, from 0",
            "interval_s": "length of the interval since the last report",
            "cpu_ratio": "CPU time, as a share of one core",
        }
        | _COUNT_TEXTS
    ),
)
BENCH_LATENCY = Table(
    "bench_latency",
    "one row per latency histogram bucket of a report; counts of a bucket can be summed",
    _columns(
        {
            "run_id": "which run",
            "role": "role of the worker",
            "worker_id": "number of the worker in its role, from 0",
            "latency": "kind of latency: ack, e2e, store, rtt, and their uncorrected forms",
            "low_ns": "smallest latency of the bucket",
            "high_ns": "largest latency of the bucket",
            "latencies_count": "messages with such a latency in the interval",
        }
    ),
)
BENCH_RESULT = Table(
    "bench_result",
    "one row per finished run",
    _columns(
        {
            "run_id": "which run",
            "title": "of the scenario",
            "duration_s": "length of the measured part",
            "verdict": "ok, incomplete, failed or stopped",
            "partial": "ended before the planned end",
            "publish_per_s": "messages published",
            "receive_per_s": "messages received",
        }
        | dict.fromkeys(Counts.__struct_fields__, "count in the run")
    ),
)
EVENT = Table(
    "event",
    "one row per note, action, change of the connection, error, gap or phase of a benchmark",
    _columns(
        {
            "kind": "kind of record",
            "what": "what it concerns",
            "status": "state, outcome or phase",
            "text": "one sentence",
        }
    ),
)
CONFIGURATION = Table(
    "configuration",
    "one row per configuration of a stream or consumer: when first seen, and at each change",
    _columns(
        {
            "stream": "stream",
            "consumer": "consumer; empty for a stream",
            "created_at_us": "when it was created",
            "config_json": "JSON as the server sent it",
        }
    ),
)
FINDING = Table(
    "finding",
    "one row each time that a finding began, changed or ended",
    _columns(
        {
            "code": "code in the catalogue: natstui health --list",
            "stream": "stream concerned; empty for the account and for monitoring",
            "consumer": "consumer concerned; empty if none",
            "created_at_us": "when that was created; 0 for the account and for monitoring",
            "part": "part of the stream concerned, as a source",
            "since_at_us": "when the finding began",
            "text": "the evidence",
            "sequences": "messages concerned, the worst first",
            "numbers_json": "the evidence as numbers",
            "until_at_us": "when the finding ended; empty while it is open",
        }
    ),
)
_TEXT_BY_STORAGE_COLUMN = {
    f"{kind}_{amount_name}_bytes": f"{text} in {storage_name}"
    for kind, storage_name in (("file", "files"), ("store", "memory"))
    for amount_name, text in (
        ("used", "storage used by JetStream"),
        ("reserved", "storage reserved by streams with max bytes"),
        ("max", "limit of the storage of JetStream"),
    )
}
_TEXT_BY_JETSTREAM_COLUMN = {
    "ha_assets_count": "streams and consumers with several replicas on the server",
    "streams_count": "streams on the server",
    "consumers_count": "consumers on the server",
    "streams_led_count": "streams that the server leads",
    "consumers_led_count": "consumers that the server leads",
    "api_requests_count": "JetStream API requests since the server started",
    "api_errors_count": "JetStream API requests refused since the server started",
    "api_inflight_count": "JetStream API requests in progress",
}
_TEXT_BY_SERVER_COLUMN = {
    "server_id": "id of the server, new at each start",
    "name": "name of the server",
    "cluster": "cluster of the server",
    "domain": "JetStream domain of the server",
    "version": "version of nats-server",
    "started_at_us": "when the server started",
    "cpu_percent": "of one core",
    "cores_count": "CPU cores that the server may use",
    "memory_bytes": "of the process",
    "connections_count": "client connections (only of the account, if no more is known)",
    "subscriptions_count": "subscriptions (only of the account, if no more is known)",
    "in_msgs": "messages received since the server started",
    "in_bytes": "bytes received since the server started",
    "out_msgs": "messages sent since the server started",
    "out_bytes": "bytes sent since the server started",
    "slow_consumers_count": "clients disconnected because they read too slowly",
    "routes_count": "connections to servers of the same cluster",
    "leafnodes_count": "connections of leafnodes",
    "gateways_count": "connections to other clusters",
}
SERVER_SAMPLE = Table(
    "server_sample",
    "one row per server every 10 s, and when the set of replying servers changes",
    _columns(
        _TEXT_BY_SERVER_COLUMN
        | {"meta_leader": "leader of the meta group"}
        | _TEXT_BY_STORAGE_COLUMN
        | _TEXT_BY_JETSTREAM_COLUMN
    ),
)
_TEXT_BY_CONNECTION_COLUMN = {
    "server_id": "of its server",
    "connection_id": "its number there",
    "server_name": "of its server",
    "kind": "Client or Leafnode",
    "protocol": "nats, mqtt or websocket",
    "name": "name that the client chose",
    "user": "its user",
    "address": "address as the server sees it",
    "language": "of its library",
    "version": "of its library",
    "tls_version": "empty without TLS",
    "rtt_us": "round trip time of the server's last PING",
    "subscriptions_count": "its subscriptions",
    "pending_bytes": "bytes waiting in the server for the client",
    "stalls_count": "times that a publisher had to wait for the client",
    "in_msgs": "messages from the client to the server",
    "in_bytes": "bytes from the client to the server",
    "out_msgs": "messages from the server to the client",
    "out_bytes": "bytes from the server to the client",
    "started_at_us": "when it connected",
    "active_at_us": "last time that the client sent or received something",
}
CONNECTION_SAMPLE = Table(
    "connection_sample",
    "one row per connection every 30 s, if [session] connections = true",
    _columns(_TEXT_BY_CONNECTION_COLUMN),
)
TABLES = (
    STREAM_SAMPLE, CONSUMER_SAMPLE, ADVISORY, ACK_SAMPLE, ACK_TIME, FINDING, BENCH_INTERVAL,
    BENCH_LATENCY, BENCH_RESULT, EVENT, CONFIGURATION, SERVER_SAMPLE, CONNECTION_SAMPLE,
)  # fmt: skip


CellValue = str | int | float | bool | None


class TableRow(NamedTuple):
    """A row of an export, with its table."""

    table: Table
    values: tuple[CellValue, ...]


def rows(record: Record) -> Iterator[TableRow]:
    """Yield the rows of a record, each with its table; some kinds of records have none."""
    match record:
        case Snapshot():
            yield from _sample_rows(STREAM_SAMPLE, record, record.streams)
            yield from _sample_rows(CONSUMER_SAMPLE, record, record.consumers)
        case Advisory():
            yield TableRow(ADVISORY, astuple(record))
        case AckSample():
            yield TableRow(ACK_SAMPLE, astuple(record))
        case AcksCounted():
            yield from _ack_time_rows(record)
        case FindingsChanged():
            yield from _finding_rows(record)
        case Configured():
            yield from _configuration_rows(record)
        case BenchmarkReport():
            yield from _report_rows(record)
        case BenchmarkFinished():
            yield from _result_rows(record)
        case ServersRead():
            yield from _server_rows(record)
        case ConnectionsRead():
            for connection in record.connections.rows:
                values = tuple(getattr(connection, name) for name in _TEXT_BY_CONNECTION_COLUMN)
                yield TableRow(CONNECTION_SAMPLE, (record.at_us, *values))
        case _:
            yield from _event_rows(record)


def _sample_rows(
    table: Table, poll: Snapshot, columns: StreamColumns | ConsumerColumns
) -> Iterator[TableRow]:
    column_values = [getattr(columns, name) for name in table.names[2:]]
    for values in zip(*column_values, strict=True):
        yield TableRow(table, (poll.taken_at_us, poll.taken_mono_us, *values))


def _ack_time_rows(record: AcksCounted) -> Iterator[TableRow]:
    consumer_values = (record.at_us, record.stream, record.consumer)
    other_counts = (record.repeated_count, record.left_out_count)
    if not record.times.buckets:
        yield TableRow(ACK_TIME, (*consumer_values, None, None, 0, *other_counts))
    for bucket, count in zip(record.times.buckets, record.times.counts, strict=False):
        yield TableRow(
            ACK_TIME,
            (
                *consumer_values,
                bucket_low_ns(bucket),
                bucket_high_ns(bucket),
                count,
                *other_counts,
            ),
        )
        other_counts = (0, 0)


def _finding_rows(record: FindingsChanged) -> Iterator[TableRow]:
    for finding in record.findings:
        values = list(astuple(finding))
        values[-3:-1] = [
            " ".join(map(str, finding.sequences)),
            json.dumps(finding.numbers or {}),
        ]
        yield TableRow(FINDING, (record.at_us, *values))


def _server_rows(record: ServersRead) -> Iterator[TableRow]:
    for server in record.servers.rows:
        meta, jetstream = record.servers.meta_of(server), server.jetstream
        values: list[CellValue] = [getattr(server, name) for name in _TEXT_BY_SERVER_COLUMN]
        values.append(None if meta is None else meta.leader)
        if jetstream is None:
            values += [None] * (len(_TEXT_BY_STORAGE_COLUMN) + len(_TEXT_BY_JETSTREAM_COLUMN))
        else:
            values += [*astuple(jetstream.file), *astuple(jetstream.memory)]
            values += [getattr(jetstream, name) for name in _TEXT_BY_JETSTREAM_COLUMN]
        yield TableRow(SERVER_SAMPLE, (record.at_us, *values))


def _configuration_rows(record: Configured) -> Iterator[TableRow]:
    for stream in record.streams:
        values = (record.at_us, stream.name, None, stream.created_at_us, stream.config_json)
        yield TableRow(CONFIGURATION, values)
    for consumer in record.consumers:
        yield TableRow(
            CONFIGURATION,
            (
                record.at_us,
                consumer.stream,
                consumer.name,
                consumer.created_at_us,
                consumer.config_json,
            ),
        )


def _report_rows(record: BenchmarkReport) -> Iterator[TableRow]:
    worker_values = (record.at_us, record.run_id, record.role, record.worker_id)
    yield TableRow(
        BENCH_INTERVAL,
        (*worker_values, record.interval_s, record.cpu_ratio, *_count_values(record.counts)),
    )
    for name in LATENCY_FIELDS:
        histogram = getattr(record.latencies, name)
        for bucket, count in zip(histogram.buckets, histogram.counts, strict=False):
            bucket_range_ns = (bucket_low_ns(bucket), bucket_high_ns(bucket))
            yield TableRow(BENCH_LATENCY, (*worker_values, name, *bucket_range_ns, count))


def _count_values(counts: Counts) -> tuple[CellValue, ...]:
    return astuple(counts)


def _result_rows(record: BenchmarkFinished) -> Iterator[TableRow]:
    result = record.result
    yield TableRow(
        BENCH_RESULT,
        (
            record.at_us,
            record.run_id,
            result.title,
            result.duration_s,
            result.verdict,
            result.partial,
            result.publish_per_s,
            result.receive_per_s,
            *_count_values(result.counts),
        ),
    )


def _event_rows(record: Record) -> Iterator[TableRow]:
    event = _event_cells(record)
    if event is not None:
        kind, object_text, status, text = event
        yield TableRow(EVENT, (record.at_us, kind, object_text, status, text))  # type: ignore[union-attr]


class EventCells(NamedTuple):
    """The cells of an event, without its time."""

    kind: str
    object_text: str | None
    status: str | None
    text: str | None


def _event_cells(record: Record) -> EventCells | None:
    """Return the cells of an event; None if a record is no event."""
    match record:
        case Noted():
            return EventCells("note", None, None, record.text)
        case Outcome():
            return EventCells("action", None, record.status, record.text)
        case LinkChanged():
            return EventCells("link", record.server_name, record.state, record.reason)
        case Unavailable():
            return EventCells("unavailable", record.what, "unavailable", record.reason)
        case Restored():
            return EventCells("unavailable", record.what, "restored", None)
        case Gap():
            return EventCells(
                "gap",
                None,
                f"{counted(record.lost_records_count, 'record')} lost",
                record.reason,
            )
        case ClockStepped():
            return EventCells("gap", None, "clock", clock_step_text(record.step_us))
        case AdvisoriesCounted():
            count_text = counted(record.said_count, record.type.replace("_", " "))
            text = f"{count_text} not listed individually"
            return EventCells(
                "advisory", f"{record.stream} > {record.consumer}", record.type, text
            )
        case EngineStarted():
            return EventCells("engine", record.target, "started", record.natstui_version)
        case _:
            return _benchmark_cells(record)


def _benchmark_cells(record: Record) -> EventCells | None:
    match record:
        case BenchmarkPlanned():
            return EventCells("benchmark", record.run_id, "planned", None)
        case BenchmarkPhase():
            return EventCells("benchmark", record.run_id, record.phase, None)
        case BenchmarkLog():
            return EventCells("benchmark", record.run_id, record.worker, record.text)
        case _:
            return None
