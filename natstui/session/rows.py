"""A record → rows of the exported tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, fields

from natstui.model.benchmark import (
    BenchmarkFinished,
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkReport,
)
from natstui.model.benchmark_counts import LATENCY_FIELDS
from natstui.model.latency import bucket_high_ns, bucket_low_ns
from natstui.model.record import (
    AckSample,
    Advisory,
    Configured,
    EngineStarted,
    LinkChanged,
    Noted,
    Outcome,
    Record,
    Restored,
    Unavailable,
)
from natstui.model.recording import ClockStepped, Gap
from natstui.model.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.session.marks import step_text
from natstui.session.tables import (
    ACK_SAMPLE,
    ADVISORY,
    BENCH_INTERVAL,
    BENCH_LATENCY,
    BENCH_RESULT,
    CONFIGURATION,
    CONSUMER_SAMPLE,
    EVENT,
    STREAM_SAMPLE,
    Table,
)
from natstui.units import counted

Value = str | int | float | bool | None
Row = tuple[Table, tuple[Value, ...]]


def rows(record: Record) -> Iterator[Row]:
    """Yield the rows a record becomes; some kinds become none."""
    match record:
        case Snapshot():
            yield from _samples(STREAM_SAMPLE, record, record.streams)
            yield from _samples(CONSUMER_SAMPLE, record, record.consumers)
        case Advisory():
            yield ADVISORY, astuple(record)
        case AckSample():
            yield ACK_SAMPLE, astuple(record)
        case Configured():
            yield from _configurations(record)
        case BenchmarkReport():
            yield from _report(record)
        case BenchmarkFinished():
            yield from _result(record)
        case _:
            yield from _event(record)


def _samples(
    table: Table, poll: Snapshot, columns: StreamColumns | ConsumerColumns
) -> Iterator[Row]:
    sequences = [getattr(columns, name) for name in table.names[2:]]
    for values in zip(*sequences, strict=True):
        yield table, (poll.taken_at_us, poll.taken_mono_us, *values)


def _configurations(record: Configured) -> Iterator[Row]:
    for stream in record.streams:
        values = (record.at_us, stream.name, None, stream.created_at_us, stream.config_json)
        yield CONFIGURATION, values
    for consumer in record.consumers:
        yield (
            CONFIGURATION,
            (
                record.at_us,
                consumer.stream,
                consumer.name,
                consumer.created_at_us,
                consumer.config_json,
            ),
        )


def _report(record: BenchmarkReport) -> Iterator[Row]:
    worker = (record.at_us, record.run_id, record.role, record.worker_id)
    yield (
        BENCH_INTERVAL,
        (*worker, record.interval_s, record.cpu_ratio, *_values(record.counts)),
    )
    for name in LATENCY_FIELDS:
        histogram = getattr(record.latencies, name)
        for bucket, count in zip(histogram.buckets, histogram.counts, strict=False):
            edges = (bucket_low_ns(bucket), bucket_high_ns(bucket))
            yield BENCH_LATENCY, (*worker, name, *edges, count)


def _values(counts: object) -> tuple[Value, ...]:
    return tuple(getattr(counts, field.name) for field in fields(counts))  # type: ignore[arg-type]


def _result(record: BenchmarkFinished) -> Iterator[Row]:
    result = record.result
    yield (
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
            *_values(result.counts),
        ),
    )


def _event(record: Record) -> Iterator[Row]:
    event = _told(record)
    if event is not None:
        kind, what, status, text = event
        yield EVENT, (record.at_us, kind, what, status, text)  # type: ignore[union-attr]


Told = tuple[str, str | None, str | None, str | None]


def _told(record: Record) -> Told | None:
    """Return kind, what it concerns, status and sentence of an event."""
    match record:
        case Noted():
            return "note", None, None, record.text
        case Outcome():
            return "action", None, record.status, record.text
        case LinkChanged():
            return "link", record.server_name, record.state, record.reason
        case Unavailable():
            return "unavailable", record.what, "unavailable", record.reason
        case Restored():
            return "unavailable", record.what, "restored", None
        case Gap():
            return (
                "gap",
                None,
                f"{counted(record.lost_records_count, 'record')} lost",
                record.reason,
            )
        case ClockStepped():
            return "gap", None, "clock", step_text(record.step_us)
        case EngineStarted():
            return "engine", record.target, "started", record.natstui_version
        case _:
            return _told_of_benchmark(record)


def _told_of_benchmark(record: Record) -> Told | None:
    match record:
        case BenchmarkPlanned():
            return "benchmark", record.run_id, "planned", None
        case BenchmarkPhase():
            return "benchmark", record.run_id, record.phase, None
        case BenchmarkLog():
            return "benchmark", record.run_id, record.worker, record.text
        case _:
            return None
