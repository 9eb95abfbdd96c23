"""Streams, consumers and account as OpenMetrics text.

Names and labels are those of prometheus-nats-exporter's `jetstream_*` family, so that existing
boards work. What the monitoring connection of an account is not told (ids, Raft groups) is an
empty label; a row that is stale is left out, because Prometheus has no other word for unknown.

The text is made here and not by the Python client for Prometheus, which needs some fifty times the
processor time (`python -m benchmarks metrics`); its parser reads it in the tests.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from natstui.clean import escaped
from natstui.model.columns.column import Column, json_fields
from natstui.model.columns.consumers import CONSUMER_COLUMNS
from natstui.model.columns.streams import STREAM_COLUMNS
from natstui.model.findings.attention import preferred
from natstui.model.findings.catalogue.consumers import GONE
from natstui.model.findings.catalogue.streams import S_GONE
from natstui.model.findings.evaluate import judged_after
from natstui.model.findings.finding import Finding
from natstui.model.live.age import row_stale_after_us
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns, Upstream
from natstui.model.live.state import State
from natstui.model.records.record import Record

if TYPE_CHECKING:
    from natstui.jetstream.polling.control import PollControl

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

_CONSUMER_AGES: tuple[tuple[str, str, str], ...] = (
    ("last_delivery_seconds", "delivered_at_us", "Seconds since the last delivery"),
    ("last_ack_seconds", "acked_at_us", "Seconds since the last acknowledgement"),
)

DELETED_COUNT = 100
"""So many findings of deleted streams and consumers have a line: names that churn never end."""
_OF_DELETED = frozenset((GONE, S_GONE))

_K = TypeVar("_K")

_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _label(name: str, value: str | None) -> str:
    value = value or ""
    if not (value.isascii() and value.isprintable()):
        value = "\n".join(map(_visible, value.split("\n")))
    return f'{name}="{value.translate(_ESCAPED)}"'


def _visible(line: str) -> str:
    r"""Return a line in which what controls a terminal is `\u001b`: two names stay two series."""
    return "\\".join(map(escaped, line.split("\\")))


class Latest:
    """A sink that keeps the newest state."""

    def __init__(self, control: PollControl | None = None) -> None:
        """`control` is told which consumers have a finding, so that they are polled first."""
        self.state = State()
        self._control = control

    def add(self, record: Record) -> None:
        """Take one record."""
        self.state = judged_after(self.state, record)
        if self._control is not None and isinstance(record, Snapshot):
            self._control.prefer(frozenset(preferred(self.state.findings)))


class Exposition:
    """Makes the text of a scrape; the labels of a row are made once while it stays the same."""

    def __init__(self) -> None:
        self._server = ""
        self._streams: dict[tuple[str, str | None], str] = {}
        self._consumers: dict[tuple[str, str, str | None, str], str] = {}

    def text(self, state: State, now_mono_us: int | None = None) -> str:
        """Return what is known now; rows that are stale at that moment are left out."""
        now_us = time.monotonic_ns() // 1000 if now_mono_us is None else now_mono_us
        self._take_server(state)
        lines = [
            *_up(state, now_us, self._server),
            *_account(state, self._server),
            *self._stream_lines(state, now_us),
            *self._consumer_lines(state, now_us),
            *finding_lines(state.findings.open()),
            "# EOF\n",
        ]
        return "".join(lines)

    def _take_server(self, state: State) -> None:
        link = state.link
        account = link.account if link else None
        server = ",".join(
            (
                _label("server_id", None),
                _label("server_name", link.server_name if link else None),
                _label("cluster", link.cluster if link else None),
                _label("domain", link.domain if link else None),
                _label("meta_leader", None),
                _label("is_meta_leader", None),
                _label("account", account),
                _label("account_name", account),
                _label("account_id", None),
            )
        )
        if server != self._server:
            self._server = server
            self._streams, self._consumers = {}, {}

    def _stream_labels(self, name: str, leader: str | None) -> str:
        known = self._streams.get((name, leader))
        if known is None:
            known = ",".join(
                (
                    self._server,
                    _label("stream_name", name),
                    _label("stream_leader", leader),
                    'is_stream_leader="true"',
                    _label("stream_raft_group", None),
                )
            )
            self._streams[name, leader] = known
        return known

    def _consumer_labels(
        self, stream: str, name: str, leader: str | None, description: str, of_stream: str
    ) -> str:
        key = (stream, name, leader, description)
        known = self._consumers.get(key)
        if known is None or not known.startswith(of_stream):
            known = ",".join(
                (
                    of_stream,
                    _label("consumer_name", name),
                    _label("consumer_leader", leader),
                    'is_consumer_leader="true"',
                    _label("consumer_desc", description),
                )
            )
            self._consumers[key] = known
        return known

    def _stream_lines(self, state: State, now_us: int) -> Iterator[str]:
        columns = state.streams.columns
        self._streams = _kept(self._streams, len(columns.name))
        rows = _fresh(state, columns, state.unreachable_streams, columns.name, now_us)
        labels = [self._stream_labels(columns.name[row], columns.leader[row]) for row in rows]
        for name, text, stored in _stored_metrics(STREAM_COLUMNS):
            values = getattr(columns, stored)
            yield from _family(
                f"jetstream_stream_{name}", text, labels, [values[row] for row in rows]
            )
        yield from _limits(state, columns, rows, labels)
        yield from _upstreams(columns, rows, labels)

    def _consumer_lines(self, state: State, now_us: int) -> Iterator[str]:
        columns = state.consumers.columns
        self._consumers = _kept(self._consumers, len(columns.name))
        keys = list(zip(columns.stream, columns.name, strict=True))
        rows = _fresh(state, columns, state.unreachable_consumers, keys, now_us)
        streams = dict(zip(state.streams.columns.name, state.streams.columns.leader, strict=True))
        known, labels = state.consumer_configurations, []
        for row in rows:
            stream, name = keys[row]
            config = known.get((stream, name))
            of_stream = self._stream_labels(stream, streams.get(stream))
            described = config.description if config else ""
            labels.append(
                self._consumer_labels(stream, name, columns.leader[row], described, of_stream)
            )
        for name, text, stored in _stored_metrics(CONSUMER_COLUMNS):
            values = getattr(columns, stored)
            yield from _family(
                f"jetstream_consumer_{name}", text, labels, [values[row] for row in rows]
            )
        for name, column, text in _CONSUMER_AGES:
            at = getattr(columns, column)
            since = [(labels[n], at[row]) for n, row in enumerate(rows) if at[row] is not None]
            ages = [max(0.0, (state.now_at_us - at_us) / 1e6) for _, at_us in since]
            yield from _family(
                f"jetstream_consumer_{name}", text, [label for label, _ in since], ages
            )


def _stored_metrics(columns: Iterable[Column[Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield name, help and column of the snapshot of each metric."""
    for field in json_fields(columns):
        if field.metric:
            yield field.metric, field.help.rstrip("."), field.name


def _newest_of_deleted(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without the older ones of streams and consumers that were deleted."""
    listed = list(findings)
    deleted = [one.since_us for one in listed if one.kind in _OF_DELETED]
    if len(deleted) <= DELETED_COUNT:
        return listed
    oldest_us, kept, count = sorted(deleted)[-DELETED_COUNT], [], 0
    for one in listed:
        of_deleted = one.kind in _OF_DELETED
        if of_deleted and (one.since_us < oldest_us or count >= DELETED_COUNT):
            continue
        count += of_deleted
        kept.append(one)
    return kept


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a gauge with a line per open finding; its value is since when, in Unix seconds.

    Of deleted streams and consumers only the newest `DELETED_COUNT` have a line.
    """
    labels, values = [], []
    for one in _newest_of_deleted(findings):
        kind, entity = one.kind, one.entity
        labels.append(
            ",".join(
                (
                    _label("code", kind.code),
                    _label("severity", kind.severity),
                    _label("stream_name", entity.stream),
                    _label("consumer_name", entity.consumer),
                    _label("part", entity.part),
                    _label("finding", kind.word),
                )
            )
        )
        values.append(one.since_us / 1e6)
    text = "Start of the finding, in Unix seconds"
    yield from _family("natstui_finding_since_seconds", text, labels, values)


def _kept(labels: dict[_K, str], rows_count: int) -> dict[_K, str]:
    """Return the labels, or none once most of them belong to rows that are gone."""
    return labels if len(labels) <= 2 * rows_count + 100 else {}


def _fresh(
    state: State,
    columns: StreamColumns | ConsumerColumns,
    away: frozenset[_K],
    names: Sequence[_K],
    now_us: int,
) -> list[int]:
    """Return the rows that are not stale, by the one rule of every screen."""
    oldest = now_us - row_stale_after_us(state)
    sampled = columns.sampled_mono_us
    return [row for row, at in enumerate(sampled) if at >= oldest and names[row] not in away]


def _family(name: str, text: str, labels: Sequence[str], values: Sequence[float]) -> Iterator[str]:
    """Yield a gauge: its head and a line per row; nothing without rows."""
    if labels:
        yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
        yield "".join(
            [f"{name}{{{label}}} {value}\n" for label, value in zip(labels, values, strict=True)]
        )


def _limits(
    state: State, columns: StreamColumns, rows: Sequence[int], labels: Sequence[str]
) -> Iterator[str]:
    """Yield the limits of streams; -1 is unlimited, as the server says it."""
    known = state.stream_configurations
    found = [
        (label, config)
        for label, row in zip(labels, rows, strict=True)
        if (config := known.get(columns.name[row])) is not None
    ]
    of = [label for label, _ in found]
    size = [-1 if one.max_bytes is None else one.max_bytes for _, one in found]
    count = [-1 if one.max_msgs is None else one.max_msgs for _, one in found]
    yield from _family(
        "jetstream_stream_limit_bytes", "Maximum bytes that a stream may store", of, size
    )
    yield from _family(
        "jetstream_stream_limit_messages", "Maximum messages that a stream may store", of, count
    )


def _upstreams(
    columns: StreamColumns, rows: Sequence[int], labels: Sequence[str]
) -> Iterator[str]:
    """Yield how far mirrors and sources are behind."""
    found: dict[str, list[tuple[str, Upstream]]] = {"mirror": [], "source": []}
    for label, row in zip(labels, rows, strict=True):
        for one in columns.upstreams[row]:
            kind = "mirror" if one.mirror else "source"
            names = (("name", one.name), ("api", None), ("deliver", None))
            more = ",".join(_label(f"{kind}_{name}", value) for name, value in names)
            found[kind].append((f"{label},{more}", one))
    for kind, pairs in found.items():
        lags = [one.lag_msgs for _, one in pairs]
        text = f"Messages that a {kind} lags behind"
        yield from _family(f"jetstream_stream_{kind}_lag", text, [of for of, _ in pairs], lags)
        heard = [(of, one.active_ns) for of, one in pairs if one.active_ns is not None]
        text = f"Nanoseconds since the last contact with a {kind}"
        name = f"jetstream_stream_{kind}_active_duration_ns"
        yield from _family(name, text, [of for of, _ in heard], [ns for _, ns in heard])


def _account(state: State, server: str) -> Iterator[str]:
    account = state.account
    if account is None:
        return
    for name, text, value in (
        ("account_max_memory", "Memory limit in bytes; -1: unlimited", account.max_memory_bytes),
        (
            "account_max_storage",
            "File storage limit in bytes; -1: unlimited",
            account.max_storage_bytes,
        ),
        ("account_memory_used", "Bytes in memory", account.memory_bytes),
        ("account_storage_used", "Bytes in files", account.storage_bytes),
    ):
        yield from _family(f"jetstream_{name}", text, [server], [-1 if value is None else value])


def _up(state: State, now_us: int, server: str) -> Iterator[str]:
    """Yield whether there is a connection, and how old the newest poll is."""
    connected = state.link is not None and state.link.state == "connected"
    text = "1 while there is a connection to the server"
    yield from _family("natstui_up", text, [server], [int(connected)])
    if state.costs:
        age_s = max(0.0, (now_us - state.costs[-1].mono_us) / 1e6)
        text = "Seconds since the newest poll"
        yield from _family("natstui_poll_age_seconds", text, [server], [age_s])
