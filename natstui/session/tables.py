"""The flat tables an export writes: every column with its unit and what it means."""

from __future__ import annotations

from dataclasses import dataclass, fields

from natstui.model.benchmark_counts import Counts
from natstui.model.snapshot import ConsumerColumns, StreamColumns

_UNITS = {
    "_at_us": "µs since 1970, UTC",
    "_mono_us": "µs on the engine's monotonic clock",
    "_us": "µs",
    "_ns": "ns",
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
_LEFT_OUT = {"peers", "upstreams"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of an exported table."""

    name: str
    unit: str
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """One exported file."""

    name: str
    text: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(column.name for column in self.columns)


def unit_of(name: str) -> str:
    """Return the unit a column's name ends with; `text` when it is no number."""
    if name == "number":
        return "number"
    if name == "at_us":
        return _UNITS["_at_us"]
    for suffix in sorted(_UNITS, key=len, reverse=True):
        if name.endswith(suffix):
            return _UNITS[suffix]
    return "true or false" if name in _FLAGS else "text"


_FLAGS = {"push_bound", "paused", "partial"}
_AT = Column("at_us", _UNITS["_at_us"], "when it was seen")


def _columns(text_of: dict[str, str]) -> tuple[Column, ...]:
    return (_AT, *(Column(name, unit_of(name), text) for name, text in text_of.items()))


def _fields_of(table: type[StreamColumns] | type[ConsumerColumns], what: str) -> dict[str, str]:
    names = [field.name for field in fields(table) if field.name not in _LEFT_OUT]
    return {name: f"{name.rsplit('_', 1)[0].replace('_', ' ')} of the {what}" for name in names}


_COUNTS = {field.name: "in the interval" for field in fields(Counts)}

STREAM_SAMPLE = Table(
    "stream_sample",
    "one row per stream and poll",
    _columns({"mono_us": "when the poll began"} | _fields_of(StreamColumns, "stream")),
)
CONSUMER_SAMPLE = Table(
    "consumer_sample",
    "one row per consumer and poll",
    _columns({"mono_us": "when the poll began"} | _fields_of(ConsumerColumns, "consumer")),
)
ADVISORY = Table(
    "advisory",
    "one row per advisory of the server",
    _columns(
        {
            "type": "last word of its type",
            "stream": "stream concerned",
            "consumer": "consumer concerned",
            "text": "one sentence",
            "body_json": "as the server wrote it",
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
            "stream_seq": "of the message in the stream",
            "consumer_seq": "of the delivery",
            "deliveries_count": "times it was delivered",
            "ack_ns": "from delivery to acknowledgement",
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
            "worker_id": "worker in the role, from 0",
            "interval_s": "since the last report",
            "cpu_ratio": "share of one core",
        }
        | _COUNTS
    ),
)
BENCH_LATENCY = Table(
    "bench_latency",
    "one row per bucket of the latencies in a report; counts of a bucket may be added up",
    _columns(
        {
            "run_id": "which run",
            "role": "role of the worker",
            "worker_id": "worker in the role, from 0",
            "latency": "which one: ack, e2e, store, rtt, and their uncorrected forms",
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
            "duration_s": "of the measured part",
            "verdict": "ok, incomplete, failed or stopped",
            "partial": "ended before its time",
            "publish_per_s": "messages published",
            "receive_per_s": "messages received",
        }
        | {field.name: "in the whole run" for field in fields(Counts)}
    ),
)
EVENT = Table(
    "event",
    "one row per note, action, change of the link, trouble, gap or phase of a benchmark",
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
            "config_json": "as the server wrote it",
        }
    ),
)
TABLES = (
    STREAM_SAMPLE, CONSUMER_SAMPLE, ADVISORY, ACK_SAMPLE, BENCH_INTERVAL, BENCH_LATENCY,
    BENCH_RESULT, EVENT, CONFIGURATION,
)  # fmt: skip
