"""Streams, consumers and account as OpenMetrics text.

Names and labels are those of prometheus-nats-exporter's `jetstream_*` family, so that existing
boards work. Values that a monitoring connection of an account cannot read (ids, Raft groups) are
empty labels; a stale row is left out, because Prometheus has no other way to mark unknown values.

The text is formatted here and not by the Python client for Prometheus, which needs some fifty
times the processor time (`python -m benchmarks metrics`); its parser reads it in the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from natstui.clean import escape_line
from natstui.clock import steady_us
from natstui.model.columns.column import Column
from natstui.model.columns.consumers import CONSUMER_COLUMNS, ConsumerRow
from natstui.model.columns.streams import STREAM_COLUMNS, StreamRow
from natstui.model.columns.view import ConsumerView, StreamView
from natstui.model.findings.attention import find_preferred_consumers
from natstui.model.findings.catalogue.consumers import CONSUMER_DELETED
from natstui.model.findings.catalogue.streams import STREAM_DELETED
from natstui.model.findings.evaluate import apply_and_evaluate
from natstui.model.findings.finding import Finding
from natstui.model.live.age import polls_are_missing, row_stale_after_us
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns, Upstream
from natstui.model.live.state import State
from natstui.model.records.record import Record

if TYPE_CHECKING:
    from natstui.jetstream.polling.control import PollControl

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class _AgeMetric(NamedTuple):
    """A metric with the seconds since a time that a column of the snapshot has."""

    name: str
    column_name: str
    help: str


_CONSUMER_AGE_METRICS = (
    _AgeMetric("last_delivery_seconds", "delivered_at_us", "Seconds since the last delivery"),
    _AgeMetric("last_ack_seconds", "acked_at_us", "Seconds since the last acknowledgement"),
)

MAX_DELETION_FINDINGS = 100
"""Limit of findings about deleted streams and consumers, whose names may change without end."""
_DELETION_KINDS = frozenset((CONSUMER_DELETED, STREAM_DELETED))

_K = TypeVar("_K")
RowT = TypeVar("RowT")
ViewT = TypeVar("ViewT", StreamView, ConsumerView)

_LABEL_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _format_label(name: str, value: str | None) -> str:
    value = value or ""
    if not (value.isascii() and value.isprintable()):
        value = "\n".join(map(_escape_line, value.split("\n")))
    return f'{name}="{value.translate(_LABEL_ESCAPES)}"'


def _escape_line(line: str) -> str:
    r"""Return a line with control characters as `\u001b`, so that different names have different
    series.
    """
    return "\\".join(map(escape_line, line.split("\\")))


class LatestState:
    """A sink of records that keeps the newest state, with its findings."""

    def __init__(self, control: PollControl | None = None) -> None:
        """Create a sink with an empty state; `control` gets the consumers with a finding, to poll
        them first.
        """
        self.state = State()
        self._control = control

    def add(self, record: Record) -> None:
        """Apply a record to `state`; after a poll, `control` gets the rows to poll first."""
        self.state = apply_and_evaluate(self.state, record)
        if self._control is not None and isinstance(record, Snapshot):
            self._control.set_preferred(frozenset(find_preferred_consumers(self.state.findings)))


class _ConsumerLabelKey(NamedTuple):
    """The values that the labels of a consumer depend on, besides those of its stream."""

    stream: str
    name: str
    leader: str | None
    description: str


class Exposition:
    """Formats the state as OpenMetrics text; caches the labels of unchanged rows between calls."""

    def __init__(self) -> None:
        self._server_labels = ""
        self._labels_by_stream_and_leader: dict[tuple[str, str | None], str] = {}
        self._labels_by_consumer: dict[_ConsumerLabelKey, str] = {}

    def text(self, state: State, now_mono_us: int | None = None) -> str:
        """Return the metrics of a state as OpenMetrics text, without stale rows.

        `now_mono_us` is the time of the steady clock in µs; None: now. Without a connection, or if
        a poll is overdue, there are only `natstui_up`, the age of the last poll, and the findings.
        """
        now_us = steady_us() if now_mono_us is None else now_mono_us
        self._update_server_labels(state)
        is_up = _is_up(state, now_us)
        lines = [*_up_lines(state, now_us, self._server_labels, is_up=is_up)]
        if is_up:
            lines += _account_lines(state, self._server_labels)
            lines += self._stream_lines(state, now_us)
            lines += self._consumer_lines(state, now_us)
        return "".join([*lines, *finding_lines(state.findings.list_open_findings()), "# EOF\n"])

    def _update_server_labels(self, state: State) -> None:
        link = state.link
        account = link.account if link else None
        server_labels = ",".join(
            (
                _format_label("server_id", None),
                _format_label("server_name", link.server_name if link else None),
                _format_label("cluster", link.cluster if link else None),
                _format_label("domain", link.domain if link else None),
                _format_label("meta_leader", None),
                _format_label("is_meta_leader", None),
                _format_label("account", account),
                _format_label("account_name", account),
                _format_label("account_id", None),
            )
        )
        if server_labels != self._server_labels:
            self._server_labels = server_labels
            self._labels_by_stream_and_leader, self._labels_by_consumer = {}, {}

    def _stream_labels(self, name: str, leader: str | None) -> str:
        row_labels = self._labels_by_stream_and_leader.get((name, leader))
        if row_labels is None:
            row_labels = ",".join(
                (
                    self._server_labels,
                    _format_label("stream_name", name),
                    _format_label("stream_leader", leader),
                    'is_stream_leader="true"',
                    _format_label("stream_raft_group", None),
                )
            )
            self._labels_by_stream_and_leader[name, leader] = row_labels
        return row_labels

    def _consumer_labels(
        self, stream: str, name: str, leader: str | None, description: str, stream_labels: str
    ) -> str:
        key = _ConsumerLabelKey(stream, name, leader, description)
        row_labels = self._labels_by_consumer.get(key)
        if row_labels is None or not row_labels.startswith(stream_labels):
            row_labels = ",".join(
                (
                    stream_labels,
                    _format_label("consumer_name", name),
                    _format_label("consumer_leader", leader),
                    'is_consumer_leader="true"',
                    _format_label("consumer_desc", description),
                )
            )
            self._labels_by_consumer[key] = row_labels
        return row_labels

    def _stream_lines(self, state: State, now_us: int) -> Iterator[str]:
        columns = state.streams.columns
        self._labels_by_stream_and_leader = _prune_labels(
            self._labels_by_stream_and_leader, len(columns.name)
        )
        rows = _fresh_rows(state, columns, state.unreachable_streams, columns.name, now_us)
        labels = [self._stream_labels(columns.name[row], columns.leader[row]) for row in rows]
        yield from _column_lines(
            "jetstream_stream", STREAM_COLUMNS, StreamView(state), StreamRow, rows, labels
        )
        yield from _limit_lines(state, columns, rows, labels)
        yield from _upstream_lines(columns, rows, labels)

    def _consumer_lines(self, state: State, now_us: int) -> Iterator[str]:
        columns = state.consumers.columns
        self._labels_by_consumer = _prune_labels(self._labels_by_consumer, len(columns.name))
        keys = list(zip(columns.stream, columns.name, strict=True))
        rows = _fresh_rows(state, columns, state.unreachable_consumers, keys, now_us)
        streams = dict(zip(state.streams.columns.name, state.streams.columns.leader, strict=True))
        configurations, labels = state.consumer_configurations, []
        for row in rows:
            stream, name = keys[row]
            config = configurations.get((stream, name))
            stream_labels = self._stream_labels(stream, streams.get(stream))
            description = config.description if config else ""
            labels.append(
                self._consumer_labels(
                    stream, name, columns.leader[row], description, stream_labels
                )
            )
        yield from _column_lines(
            "jetstream_consumer", CONSUMER_COLUMNS, ConsumerView(state), ConsumerRow, rows, labels
        )
        for name, column_name, text in _CONSUMER_AGE_METRICS:
            column_values = getattr(columns, column_name)
            labels_and_times = [
                (labels[index], column_values[row])
                for index, row in enumerate(rows)
                if column_values[row] is not None
            ]
            ages_s = [max(0.0, (state.now_at_us - at_us) / 1e6) for _, at_us in labels_and_times]
            yield from _gauge_lines(
                f"jetstream_consumer_{name}",
                text,
                [label for label, _ in labels_and_times],
                ages_s,
            )


def _column_lines(
    prefix: str,
    columns: Iterable[Column[RowT]],
    view: ViewT,
    row_of: Callable[[ViewT, int], RowT],
    rows: Sequence[int],
    labels: Sequence[str],
) -> Iterator[str]:
    """Yield a gauge for each column with a metric; unknown values have no line.

    `row_of` returns a row of the view, `labels` are those of `rows`.
    """
    for column in columns:
        if column.json is None or not column.json.metric:
            continue
        if column.values is not None:
            # The rows of the view are created only for derived values: three times as fast.
            all_values = column.values(view)
            values = [all_values[row] for row in rows]
        else:
            values = [column.value(row_of(view, row)) for row in rows]
        known_values = [
            (label, value)
            for label, value in zip(labels, values, strict=True)
            if isinstance(value, int | float)
        ]
        yield from _gauge_lines(
            f"{prefix}_{column.json.metric}",
            (column.json.help or column.help).rstrip("."),
            [label for label, _ in known_values],
            [value for _, value in known_values],
        )


def _limit_deletion_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings; of those about deleted streams and consumers, only the newest 100."""
    all_findings = list(findings)
    deletions_since_us = [
        finding.since_us for finding in all_findings if finding.kind in _DELETION_KINDS
    ]
    if len(deletions_since_us) <= MAX_DELETION_FINDINGS:
        return all_findings
    oldest_kept_us, selected_findings, deletions_count = (
        sorted(deletions_since_us)[-MAX_DELETION_FINDINGS],
        [],
        0,
    )
    for finding in all_findings:
        is_deletion = finding.kind in _DELETION_KINDS
        if is_deletion and (
            finding.since_us < oldest_kept_us or deletions_count >= MAX_DELETION_FINDINGS
        ):
            continue
        deletions_count += is_deletion
        selected_findings.append(finding)
    return selected_findings


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a gauge with a line per finding; its value is the start in Unix seconds.

    Of the findings about deleted streams and consumers, only the newest `MAX_DELETION_FINDINGS`
    have a line.
    """
    labels, values = [], []
    for finding in _limit_deletion_findings(findings):
        kind, entity = finding.kind, finding.entity
        labels.append(
            ",".join(
                (
                    _format_label("code", kind.code),
                    _format_label("severity", kind.severity),
                    _format_label("stream_name", entity.stream),
                    _format_label("consumer_name", entity.consumer),
                    _format_label("part", entity.part),
                    _format_label("finding", kind.word),
                )
            )
        )
        values.append(finding.since_us / 1e6)
    text = "Start of the finding, in Unix seconds"
    yield from _gauge_lines("natstui_finding_since_seconds", text, labels, values)


def _prune_labels(labels: dict[_K, str], rows_count: int) -> dict[_K, str]:
    """Return the labels, or an empty dictionary if most of them belong to deleted rows."""
    return labels if len(labels) <= 2 * rows_count + 100 else {}


def _fresh_rows(
    state: State,
    columns: StreamColumns | ConsumerColumns,
    unreachable_names: frozenset[_K],
    names: Sequence[_K],
    now_us: int,
) -> list[int]:
    """Return the indexes of the rows that are neither stale nor unreachable."""
    oldest_fresh_mono_us = now_us - row_stale_after_us(state)
    sampled_us = columns.sampled_mono_us
    return [
        row
        for row, mono_us in enumerate(sampled_us)
        if mono_us >= oldest_fresh_mono_us and names[row] not in unreachable_names
    ]


def _gauge_lines(
    name: str, text: str, labels: Sequence[str], values: Sequence[float]
) -> Iterator[str]:
    """Yield a gauge: its help and type, and a line per label; nothing without labels."""
    if labels:
        yield f"# HELP {name} {text}\n# TYPE {name} gauge\n"
        yield "".join(
            [f"{name}{{{label}}} {value}\n" for label, value in zip(labels, values, strict=True)]
        )


def _limit_lines(
    state: State, columns: StreamColumns, rows: Sequence[int], labels: Sequence[str]
) -> Iterator[str]:
    """Yield the gauges of the limits of streams; -1 means unlimited, as in the server's JSON."""
    configurations = state.stream_configurations
    label_config_pairs = [
        (label, config)
        for label, row in zip(labels, rows, strict=True)
        if (config := configurations.get(columns.name[row])) is not None
    ]
    config_labels = [label for label, _ in label_config_pairs]
    max_bytes_values = [
        -1 if config.max_bytes is None else config.max_bytes for _, config in label_config_pairs
    ]
    max_msgs_values = [
        -1 if config.max_msgs is None else config.max_msgs for _, config in label_config_pairs
    ]
    yield from _gauge_lines(
        "jetstream_stream_limit_bytes",
        "Maximum bytes that a stream may store",
        config_labels,
        max_bytes_values,
    )
    yield from _gauge_lines(
        "jetstream_stream_limit_messages",
        "Maximum messages that a stream may store",
        config_labels,
        max_msgs_values,
    )


def _upstream_lines(
    columns: StreamColumns, rows: Sequence[int], labels: Sequence[str]
) -> Iterator[str]:
    """Yield the gauges of the lag of mirrors and sources, and of the time since the last contact.

    Several sources of the same stream have the same labels: the largest value is yielded.
    """
    upstreams_by_kind: dict[str, dict[str, list[Upstream]]] = {"mirror": {}, "source": {}}
    for label, row in zip(labels, rows, strict=True):
        for upstream in columns.upstreams[row]:
            kind = "mirror" if upstream.mirror else "source"
            names = (("name", upstream.name), ("api", None), ("deliver", None))
            upstream_labels = ",".join(
                _format_label(f"{kind}_{name}", value) for name, value in names
            )
            upstreams_by_label = upstreams_by_kind[kind]
            upstreams_by_label.setdefault(f"{label},{upstream_labels}", []).append(upstream)
    for kind, upstreams_by_label in upstreams_by_kind.items():
        lag_msgs_by_label = {
            label: max(upstream.lag_msgs for upstream in upstreams)
            for label, upstreams in upstreams_by_label.items()
        }
        text = f"Messages that a {kind} lags behind"
        name = f"jetstream_stream_{kind}_lag"
        yield from _gauge_lines(
            name, text, list(lag_msgs_by_label), list(lag_msgs_by_label.values())
        )
        active_ns_by_label = {
            label: max(values_ns)
            for label, upstreams in upstreams_by_label.items()
            if (
                values_ns := [
                    upstream.active_ns for upstream in upstreams if upstream.active_ns is not None
                ]
            )
        }
        text = f"Nanoseconds since the last contact with a {kind}"
        name = f"jetstream_stream_{kind}_active_duration_ns"
        yield from _gauge_lines(
            name, text, list(active_ns_by_label), list(active_ns_by_label.values())
        )


def _account_lines(state: State, server_labels: str) -> Iterator[str]:
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
        yield from _gauge_lines(
            f"jetstream_{name}", text, [server_labels], [-1 if value is None else value]
        )


def _is_up(state: State, now_us: int) -> bool:
    """Return whether there is a connection, and a newest poll that is not stale."""
    if state.link is None or state.link.state != "connected" or not state.costs:
        return False
    return not polls_are_missing(state, now_us - state.costs[-1].mono_us)


def _up_lines(state: State, now_us: int, server_labels: str, *, is_up: bool) -> Iterator[str]:
    """Yield the gauges of the connection (`natstui_up`) and of the age of the newest poll."""
    text = "1 while there is a connection to the server and polls are not stale"
    yield from _gauge_lines("natstui_up", text, [server_labels], [int(is_up)])
    if state.costs:
        age_s = max(0.0, (now_us - state.costs[-1].mono_us) / 1e6)
        text = "Seconds since the newest poll"
        yield from _gauge_lines("natstui_poll_age_seconds", text, [server_labels], [age_s])
