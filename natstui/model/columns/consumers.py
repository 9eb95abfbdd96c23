"""The columns of consumers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from msgspec import Struct

from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.bench.latency import EMPTY_HISTOGRAM, PERCENTILES, LatencyCounts
from natstui.model.columns.column import (
    Column,
    JsonField,
    column,
    config_field,
    dim_level,
    json_column,
    stored_field,
    text_or_dash,
)
from natstui.model.columns.view import ConsumerView
from natstui.model.findings.catalogue.kind import Level
from natstui.model.findings.thresholds import LAG_WARNING_S
from natstui.model.live.ack_times import AckWindow
from natstui.model.live.age import Lag, activity_at_us, consumer_lag
from natstui.model.live.limits import is_near_limit, time_to_drain_s
from natstui.model.live.rates import AckRate, ack_rate, backlog_trend_per_s, counter_per_s
from natstui.model.live.snapshot import ConsumerColumns
from natstui.units import UNKNOWN, count_text, duration_text, rate_text


class ConsumerRow(Struct, frozen=True):
    """One consumer at one time: a row of a view."""

    view: ConsumerView
    index: int

    @property
    def name(self) -> str:
        """Return the name of the consumer."""
        return self.view.columns.name[self.index]

    @property
    def stream(self) -> str:
        """Return the name of the consumer's stream."""
        return self.view.columns.stream[self.index]

    @property
    def config(self) -> ConsumerConfiguration | None:
        """Return the configuration; None if unknown."""
        return self.view.config(self.index)

    @property
    def is_pull(self) -> bool | None:
        """Return whether the consumer is a pull consumer; None if unknown."""
        return None if self.config is None else self.config.pull

    @property
    def pinned_client(self) -> str | None:
        """Return the id of the pinned client; None without one."""
        return self.view.columns.pinned_client[self.index]

    @property
    def pending_msgs(self) -> int:
        """Return the number of matching messages that were never delivered."""
        return self.view.columns.pending_msgs[self.index]

    @property
    def last_active_at_us(self) -> int | None:
        """Return the time of the last delivery or ack, UTC; None for never."""
        columns = self.view.columns
        return activity_at_us(columns.delivered_at_us[self.index], columns.acked_at_us[self.index])

    @property
    def sampled_ago_s(self) -> float:
        """Return the age of the row in seconds."""
        return self.view.sampled_ago_s(self.index)

    @property
    def is_stale(self) -> bool:
        """Return whether the row is stale: its newest poll is too long ago."""
        return self.view.stale_s(self.index) is not None

    @property
    def push_bound(self) -> bool | None:
        """Return whether the deliver subject has a subscriber; None for a pull consumer."""
        config = self.config
        return None if config is None or config.pull else self.view.columns.push_bound[self.index]

    @property
    def acks(self) -> AckRate:
        """Return the acks per second, and whether they are estimated."""
        view, row = self.view, self.index
        history = view.state.consumer_history
        return view.compute_once(
            "acks", row, lambda: ack_rate(history, view.key(row), view.config(row))
        )

    @property
    def delivered_msgs_per_s(self) -> float | None:
        """Return the deliveries per second, with redeliveries; None if unknown."""
        view, row = self.view, self.index
        history, name = view.state.consumer_history, "delivered_consumer_seq"
        return view.compute_once(
            "delivered", row, lambda: counter_per_s(history, view.key(row), name)
        )

    @property
    def ack_window(self) -> AckWindow | None:
        """Return the sampled times from delivery to ack; None without samples."""
        created_at_us = self.view.columns.created_at_us[self.index]
        name = (self.stream, self.name)
        return self.view.state.evidence.acks(name, created_at_us, self.view.now_at_us)

    @property
    def ack_times(self) -> LatencyCounts:
        """Return the histogram of sampled ack times in the last minutes; empty without samples."""
        window = self.ack_window
        return EMPTY_HISTOGRAM if window is None else window.times

    @property
    def lag(self) -> Lag | None:
        """Return the age of the next message to deliver; None if unknown."""
        return consumer_lag(self.view.state, self.index)

    @property
    def backlog_trend_per_s(self) -> float | None:
        """Return the change of the pending messages per second; None if unknown."""
        view, row = self.view, self.index
        history = view.state.consumer_history
        return view.compute_once("trend", row, lambda: backlog_trend_per_s(history, view.key(row)))

    @property
    def drained_in_s(self) -> float | None:
        """Return the seconds until nothing is pending, by the trend; None if never."""
        return time_to_drain_s(self.pending_msgs, self.backlog_trend_per_s)


_stored = partial(stored_field, ConsumerColumns)
_setting = partial(config_field, ConsumerConfiguration)


def _json_stored(name: str, help: str = "", metric: str = "") -> Column[ConsumerRow]:
    """Return a JSON column with a value of the snapshot; no table shows it."""
    return column("", "", help, format=str, **_stored(name, metric))


def _json_setting(name: str, help: str = "") -> Column[ConsumerRow]:
    """Return a JSON column with a setting; no table shows it."""
    return column("", "", help, format=str, **_setting(name))


_text: Callable[..., Column[ConsumerRow]] = partial(column, format=text_or_dash, numeric=False)
_number: Callable[..., Column[ConsumerRow]] = partial(column, format=count_text)


def _mode_text(pull: bool | None) -> str:
    return UNKNOWN if pull is None else "pull" if pull else "push"


def _durability_text(durable: bool | None) -> str:
    return UNKNOWN if durable is None else "durable" if durable else "ephem"


def _max_ack_pending(row: ConsumerRow) -> int | None:
    config = row.config
    has_limit = config is not None and config.ack_policy != "none"
    return config.max_ack_pending_msgs if config is not None and has_limit else None


def _ack_pending_text(row: ConsumerRow) -> str:
    count, limit = row.view.columns.ack_pending_msgs[row.index], _max_ack_pending(row)
    return f"{count_text(count)}/{count_text(limit)}" if limit else count_text(count)


def _ack_pending_level(row: ConsumerRow) -> str:
    count, limit = row.view.columns.ack_pending_msgs[row.index], _max_ack_pending(row)
    default_level = "" if count else "dim"
    if not limit:
        return default_level
    return "bad" if count >= limit else "warn" if is_near_limit(count, limit) else default_level


def _redelivered_level(row: ConsumerRow) -> str:
    return "warn" if row.view.columns.redelivered_msgs[row.index] else "dim"


def _waiting_pulls_text(row: ConsumerRow) -> str:
    is_bound = row.push_bound
    if is_bound is None:
        return count_text(row.view.columns.waiting_pulls_count[row.index])
    return "bound" if is_bound else "unbound"


def _waiting_pulls_level(row: ConsumerRow) -> str:
    is_bound = row.push_bound
    if is_bound is None:
        return "" if row.view.columns.waiting_pulls_count[row.index] else "dim"
    return "" if is_bound else "warn"


def _acked_text(row: ConsumerRow) -> str:
    acks = row.acks
    return ("~" if acks.is_estimated and acks.acks_per_s else "") + rate_text(acks.acks_per_s)


def _lag_s(row: ConsumerRow) -> float | None:
    lag = row.lag
    return None if lag is None else lag.time_s


def _lag_text(row: ConsumerRow) -> str:
    lag = row.lag
    if lag is None:
        return UNKNOWN
    return ("~" if lag.is_estimated else "") + duration_text(lag.time_s)


def _lag_level(row: ConsumerRow) -> str:
    lag_s = _lag_s(row)
    return "dim" if not lag_s else "warn" if lag_s > LAG_WARNING_S else ""


def _drain_text(row: ConsumerRow) -> str:
    drained_in_s, backlog_change_per_s = row.drained_in_s, row.backlog_trend_per_s
    if drained_in_s is not None or backlog_change_per_s is None:
        return duration_text(drained_in_s)
    return "growing" if backlog_change_per_s > 0 else "steady"


def _drain_level(row: ConsumerRow) -> str:
    if row.drained_in_s is not None:
        return "" if row.pending_msgs else "dim"
    return "dim" if row.backlog_trend_per_s is None else "warn"


def _sequences_text(prefix: str) -> Callable[[ConsumerRow], str]:
    def text(row: ConsumerRow) -> str:
        columns = row.view.columns
        stream_seq = getattr(columns, f"{prefix}_stream_seq")[row.index]
        return f"{stream_seq}/{getattr(columns, f'{prefix}_consumer_seq')[row.index]}"

    return text


def _inactive_s(row: ConsumerRow) -> float | None:
    return row.view.age_s(row.last_active_at_us)


def _json_ack_time(
    name: str, get: Callable[[LatencyCounts], int | None], help: str = ""
) -> Column[ConsumerRow]:
    return json_column(JsonField(name, int | None), lambda row: get(row.ack_times), help)


CONSUMER_COLUMNS: tuple[Column[ConsumerRow], ...] = (
    json_column(JsonField("schema", Literal[1]), lambda row: 1),
    json_column(JsonField("kind", Literal["consumer"]), lambda row: "consumer"),
    _text("name", "CONSUMER", "Name of the consumer.", level=lambda row: "strong",
          **_stored("name"), priority=0, may_be_cut=True),
    _text("stream", "STREAM", "Stream that the consumer reads.", **_stored("stream"),
          priority=4, may_be_cut=True),
    json_column(JsonField("at_us", int), lambda row: row.view.now_at_us),
    _json_stored("created_at_us", "With stream and name, the identity of a consumer."),
    _json_setting("description"),
    _text("status", "STATUS",
          "What it is doing, or what holds it back; the detail screen shows the evidence.",
          lambda row: row.view.verdict(row.index).word,
          level=lambda row: row.view.verdict(row.index).level,
          json=JsonField("status", str, help="What it is doing, or what holds it back."),
          priority=1),
    json_column(JsonField("status_level", Level),
                lambda row: row.view.verdict(row.index).level),
    json_column(JsonField("status_reason", str),
                lambda row: row.view.verdict(row.index).evidence,
                "The numbers behind the status."),
    _text("mode", "MODE", "Pull or push.", format=_mode_text, level=dim_level,
          **_setting("pull", help="Clients pull; else the server pushes."), priority=16),
    _text("life", "LIFE", "Durable, or ephemeral: deleted when no client uses it.",
          format=_durability_text, level=dim_level,
          **_setting("durable", help="Stays when no client uses it."), priority=17),
    _text("ack", "ACK", "Which messages must be acknowledged: explicit, all, none.",
          level=dim_level, **_setting("ack_policy"), priority=15),
    _json_setting("filter_subjects", "Empty: everything in the stream."),
    _number("pending", "PENDING",
            "Unprocessed: messages that match and were never delivered (`num_pending`).",
            dims_zero=True, **_stored("pending_msgs", "num_pending"), priority=2),
    _number("ack_pending", "ACK PEND",
            "Delivered and waiting for their acknowledgement, of how many allowed "
            "(`num_ack_pending`).",
            text=_ack_pending_text, level=_ack_pending_level,
            **_stored("ack_pending_msgs", "num_ack_pending",
                      "Delivered and waiting for their acknowledgement."), priority=3),
    _json_setting("max_ack_pending_msgs"),
    _number("redelivered", "REDEL",
            "Messages delivered more than once and not acked (`num_redelivered`).",
            level=_redelivered_level, **_stored("redelivered_msgs", "num_redelivered"),
            priority=7),
    _number("waiting", "WAITING",
            "Open pull requests (`num_waiting`); for push: whether a client is subscribed.",
            text=_waiting_pulls_text, level=_waiting_pulls_level,
            **_stored("waiting_pulls_count", "num_waiting", "Open pull requests."), priority=10),
    json_column(JsonField("push_bound", bool | None), lambda row: row.push_bound,
                "A subscriber listens on the deliver subject; null for a pull consumer."),
    _json_stored("paused"),
    _number("delivered_rate", "DELIV/s",
            "Deliveries per second, redeliveries included: growth of the delivered consumer "
            "sequence.",
            lambda row: row.delivered_msgs_per_s, format=rate_text, dims_zero=True,
            json=JsonField("delivered_msgs_per_s", float | None), priority=5),
    _number("acked_rate", "ACK/s",
            "Acks per second: first deliveries minus the growth of ACK PEND and, with max "
            "deliver, of REDEL, which includes dropped messages; ~: inexact, because of filters "
            "or gaps.",
            lambda row: row.acks.acks_per_s, text=_acked_text, dims_zero=True,
            json=JsonField("acked_msgs_per_s", float | None,
                           help="First deliveries minus the growth of what waits, and of "
                                "dropped messages."), priority=6),
    json_column(JsonField("acked_estimated", bool), lambda row: row.acks.is_estimated,
                "Whether acked_msgs_per_s is not exact: with redeliveries and filters, gaps or "
                "a limit of deliveries."),
    json_column(JsonField("ack_samples_count", int), lambda row: row.ack_times.total_count,
                "Sampled acknowledgements of the last five minutes."),
    _json_ack_time("ack_p50_ns", lambda times: times.percentile_ns(PERCENTILES["p50"]),
                   "From delivery to acknowledgement, of those samples."),
    _json_ack_time("ack_p99_ns", lambda times: times.percentile_ns(PERCENTILES["p99"])),
    _json_ack_time("ack_max_ns", lambda times: times.max_ns),
    _number("lag", "LAG",
            "Age of the next message to deliver; ~: estimated from the stream's sequence.",
            _lag_s, text=_lag_text, level=_lag_level,
            json=JsonField("lag_s", float | None,
                           help="Age of the next message to deliver; 0 with nothing pending."),
            priority=8),
    _number("drain", "DRAIN",
            "Time until nothing is pending at the trend of the last 30 s; growing: it increases.",
            lambda row: row.drained_in_s, text=_drain_text, level=_drain_level,
            dims_unknown=False,
            json=JsonField("drained_in_s", float | None,
                           help="Until nothing is pending at the present trend; null if it "
                                "does not shrink."), priority=9),
    _text("trend", "PENDING 1m",
          "Pending messages over the last minute, from zero to their own highest.",
          lambda row: row.pending_msgs, format=count_text, priority=11, screen_only=True),
    _number("floor", "ACK FLOOR s/c",
            "Ack floor, stream and consumer sequence: all up to here is acked or dropped.",
            text=_sequences_text("ack_floor"), level=dim_level,
            **_stored("ack_floor_stream_seq", "ack_floor_stream_seq",
                      "Stream sequence up to which all messages were acked, terminated or "
                      "dropped."), priority=13),
    _json_stored("ack_floor_consumer_seq",
                 "Delivery sequence up to which all deliveries were acked, terminated or "
                 "dropped.",
                 "ack_floor_consumer_seq"),
    _number("delivered", "DELIVERED s/c",
            "Delivered so far, stream and consumer sequence (the latter counts redeliveries).",
            text=_sequences_text("delivered"), level=dim_level,
            **_stored("delivered_stream_seq", "delivered_stream_seq",
                      "Highest stream sequence delivered."), priority=14),
    _json_stored("delivered_consumer_seq", "Deliveries, redeliveries included.",
                 "delivered_consumer_seq"),
    _number("activity", "ACTIVE",
            "Time since the last delivery or acknowledgement, whichever is later.",
            _inactive_s, format=duration_text, level=dim_level, priority=12),
    _json_stored("delivered_at_us"),
    _json_stored("acked_at_us"),
    _json_stored("pinned_client"),
    _json_setting("replicas_count"),
    _json_stored("leader"),
    _json_stored("peers"),
    json_column(JsonField("sampled_ago_s", float), lambda row: row.sampled_ago_s,
                "The age of these values."),
    json_column(JsonField("stale", bool), lambda row: row.is_stale,
                "They could not be refreshed."),
)  # fmt: skip
