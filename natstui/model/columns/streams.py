"""The columns of streams."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from msgspec import Struct

from natstui.model.assets.configuration import StreamConfiguration
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
from natstui.model.columns.view import StreamView
from natstui.model.findings.catalogue.kind import Level
from natstui.model.findings.thresholds import FULL_SOON_S
from natstui.model.live.limits import StreamFill, is_near_limit, used_percent
from natstui.model.live.rates import StreamRates, stream_full_in_s, stream_rates
from natstui.model.live.snapshot import Peer, StreamColumns
from natstui.model.servers.replicas import replica_state
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, rate_text

UNLIMITED = "∞"
_KIND_TEXTS = {"stream": "stream", "kv": "KV", "object": "object"}


class StreamRow(Struct, frozen=True):
    """One stream at one time: a row of a view."""

    view: StreamView
    index: int

    @property
    def name(self) -> str:
        """Return the name of the stream."""
        return self.view.columns.name[self.index]

    @property
    def config(self) -> StreamConfiguration | None:
        """Return the configuration; None if unknown."""
        return self.view.config(self.index)

    @property
    def rates(self) -> StreamRates:
        """Return the rates of stored and removed messages."""
        view, row = self.view, self.index
        history = view.state.stream_history
        return view.compute_once("rates", row, lambda: stream_rates(history, view.key(row)))

    @property
    def subjects(self) -> tuple[str, ...]:
        """Return the configured subjects; empty if unknown."""
        return () if self.config is None else self.config.subjects

    @property
    def stored_msgs(self) -> int:
        """Return the number of stored messages."""
        return self.view.columns.stored_msgs[self.index]

    @property
    def stored_bytes(self) -> int:
        """Return the size of the stored messages in bytes."""
        return self.view.columns.stored_bytes[self.index]

    @property
    def last_active_at_us(self) -> int | None:
        """Return the time of the last stored message, UTC; None for never."""
        return self.view.columns.last_at_us[self.index]

    @property
    def sampled_ago_s(self) -> float:
        """Return the age of the row in seconds."""
        return self.view.sampled_ago_s(self.index)

    @property
    def is_stale(self) -> bool:
        """Return whether the row is stale: its newest poll is too long ago."""
        return self.view.stale_s(self.index) is not None

    @property
    def limit_percents(self) -> dict[str, float]:
        """Return the use in % of each set limit, by its name: msgs, bytes, age."""
        config, columns, row = self.config, self.view.columns, self.index
        if config is None:
            return {}
        oldest_age_ns = (self.view.age_s(columns.first_at_us[row]) or 0) * 1e9
        used_percents = {
            "msgs": used_percent(columns.stored_msgs[row], config.max_msgs),
            "bytes": used_percent(columns.stored_bytes[row], config.max_bytes),
            "age": used_percent(oldest_age_ns, config.max_age_ns),
        }
        return {limit: percent for limit, percent in used_percents.items() if percent is not None}

    @property
    def used_percent(self) -> float | None:
        """Return the use in % of the more used limit of messages or bytes; None without limits."""
        percent_by_limit = self.limit_percents
        return max(
            (percent_by_limit[limit] for limit in ("msgs", "bytes") if limit in percent_by_limit),
            default=None,
        )

    @property
    def full_in_s(self) -> float | None:
        """Return the seconds until max messages or max bytes is reached, by the trend."""
        config, columns, row = self.config, self.view.columns, self.index
        if config is None:
            return None
        stream_fill = StreamFill(
            columns.stored_msgs[row], columns.stored_bytes[row], config.max_msgs, config.max_bytes
        )
        return stream_full_in_s(self.view.state.stream_history, self.view.key(row), stream_fill)


_stored = partial(stored_field, StreamColumns)
_setting = partial(config_field, StreamConfiguration)


def _json_stored(name: str, help: str = "", metric: str = "") -> Column[StreamRow]:
    """Return a JSON column with a value of the snapshot; no table shows it."""
    return column("", "", help, format=str, **_stored(name, metric))


def _json_setting(name: str) -> Column[StreamRow]:
    """Return a JSON column with a setting; no table shows it."""
    return column("", "", "", format=str, **_setting(name))


_text: Callable[..., Column[StreamRow]] = partial(column, format=text_or_dash, numeric=False)
_number: Callable[..., Column[StreamRow]] = partial(column, format=count_text)


def _kind_text(row: StreamRow) -> str:
    config = row.config
    return UNKNOWN if config is None else "mirror" if config.mirror else _KIND_TEXTS[config.kind]


def _kind_level(row: StreamRow) -> str:
    return "" if _kind_text(row) == "stream" else "accent"


def _subjects_text(row: StreamRow) -> str:
    config = row.config
    if config is None:
        return UNKNOWN
    if config.mirror:
        return f"mirror of {config.mirror}"
    return ", ".join(config.subjects) or f"from {', '.join(config.sources)}"


def _in_bytes_per_s(row: StreamRow) -> float | None:
    return row.rates.in_bytes_per_s


def _in_bytes_text(row: StreamRow) -> str:
    rates = row.rates
    estimate_prefix = "~" if rates.in_bytes_estimated and rates.in_bytes_per_s else ""
    return estimate_prefix + bytes_text(rates.in_bytes_per_s)


def _age_column(
    key: str, title: str, help: str, time_column: str, priority: int, *, screen_only: bool = False
) -> Column[StreamRow]:
    def age_s(row: StreamRow) -> float | None:
        return row.view.age_s(getattr(row.view.columns, time_column)[row.index])

    return column(key, title, help, age_s, duration_text, dim_level, priority=priority,
                  screen_only=screen_only)  # fmt: skip


def _percent_text(row: StreamRow, percent: float | None) -> str:
    if row.config is None:
        return UNKNOWN
    return UNLIMITED if percent is None else f"{percent:.0f}%"


def _used_column(
    key: str,
    title: str,
    help: str,
    json: JsonField | None = None,
    *,
    warns: bool = True,
    priority: int,
) -> Column[StreamRow]:
    limit = key.removesuffix("_used")

    def percent(row: StreamRow) -> float | None:
        return row.limit_percents.get(limit)

    def level(row: StreamRow) -> str:
        return "warn" if warns and is_near_limit(percent(row) or 0, 100) else ""

    return column(
        key, title, help, percent, str, level,
        text=lambda row: _percent_text(row, percent(row)), json=json, priority=priority,
        screen_only=True,
    )  # fmt: skip


def _time_to_full_text(row: StreamRow) -> str:
    time_to_full_s = row.full_in_s
    return "full" if time_to_full_s == 0 else duration_text(time_to_full_s)


def _time_to_full_level(row: StreamRow) -> str:
    time_to_full_s = row.full_in_s
    return "warn" if time_to_full_s is not None and time_to_full_s < FULL_SOON_S else ""


def _deleted_or_lost_text(row: StreamRow) -> str:
    lost_msgs = row.view.columns.lost_msgs[row.index]
    deleted_msgs = row.view.columns.deleted_msgs[row.index]
    return f"{count_text(lost_msgs)} lost" if lost_msgs else count_text(deleted_msgs)


def _deleted_or_lost_level(row: StreamRow) -> str:
    columns = row.view.columns
    return (
        "bad" if columns.lost_msgs[row.index] else "" if columns.deleted_msgs[row.index] else "dim"
    )


def _peers(row: StreamRow) -> tuple[Peer, ...]:
    return row.view.columns.peers[row.index]


def _leader(row: StreamRow) -> str | None:
    return row.view.columns.leader[row.index]


def _down_peers_count(row: StreamRow) -> int:
    return sum(1 for peer in _peers(row) if not peer.current or peer.offline)


def _leader_text(row: StreamRow) -> str:
    config, server = row.config, _leader(row)
    if server is None:
        is_unreachable = row.name in row.view.state.unreachable_streams
        return "no reply" if is_unreachable else "no leader"
    count = config.replicas_count if config else len(_peers(row)) + 1
    return f"{count - _down_peers_count(row)}/{count} {server}" if count > 1 else server


def _leader_level(row: StreamRow) -> str:
    return "bad" if _leader(row) is None or _down_peers_count(row) else "dim"


def _replicas_text(row: StreamRow) -> str:
    server = _leader(row)
    replica_texts = ["no leader"] if server is None else [f"{server}*"]
    replica_texts += [
        f"{peer.name}{'' if replica_state(peer) == 'current' else '!'}" for peer in _peers(row)
    ]
    return " ".join(replica_texts)


def _replicas_level(row: StreamRow) -> str:
    has_lagging_peer = any(replica_state(peer) != "current" for peer in _peers(row))
    return "bad" if has_lagging_peer or _leader(row) is None else "dim"


def _in_msgs_per_s(row: StreamRow) -> float | None:
    return row.rates.in_msgs_per_s


def _removed_msgs_per_s(row: StreamRow) -> float | None:
    return row.rates.removed_msgs_per_s


STREAM_COLUMNS: tuple[Column[StreamRow], ...] = (
    json_column(JsonField("schema", Literal[1]), lambda row: 1),
    json_column(JsonField("kind", Literal["stream"]), lambda row: "stream"),
    _text("name", "STREAM", "Name of the stream.", level=lambda row: "strong",
          **_stored("name"), priority=0, may_be_cut=True),
    json_column(JsonField("at_us", int), lambda row: row.view.now_at_us),
    _json_stored("created_at_us", "With the name, the identity of a stream."),
    _text("status", "STATUS",
          "What is wrong with it or with its consumers, the worst first; else what it does. "
          "+2: two more are wrong: the stream itself, or consumers.",
          lambda row: row.view.verdict(row.index).word,
          level=lambda row: row.view.verdict(row.index).level,
          json=JsonField("status", str, help="What is wrong with it, or what it does."),
          priority=5),
    json_column(JsonField("status_level", Level),
                lambda row: row.view.verdict(row.index).level),
    json_column(JsonField("status_reason", str),
                lambda row: row.view.verdict(row.index).evidence,
                "The numbers behind the status."),
    _text("kind", "KIND",
          "Stream, mirror, KV bucket or object store (the last two are streams by convention).",
          text=_kind_text, level=_kind_level,
          **_setting("kind", "type",
                     "KV buckets and object stores are streams by the convention of their name."),
          priority=12),
    _json_setting("description"),
    _text("subjects", "SUBJECTS",
          "Subjects that the stream stores, or the stream that it copies.",
          text=_subjects_text, level=dim_level,
          **_setting("subjects", help="Subjects that the stream stores."), priority=15,
          may_be_cut=True),
    _text("storage", "STORE", "File or memory.", level=dim_level, **_setting("storage"),
          priority=18),
    _text("retention", "RETAINS",
          "When messages are removed: by limits, once all consumers acked, or once one acked.",
          level=dim_level, **_setting("retention"), priority=14),
    _json_setting("discard"),
    _number("msgs", "MSGS", "Messages stored now (`state.messages`).",
            **_stored("stored_msgs", "total_messages"), priority=1),
    _number("bytes", "BYTES", "Bytes stored now (`state.bytes`).", format=bytes_text,
            **_stored("stored_bytes", "total_bytes"), priority=3),
    _number("in", "IN/s",
            "Messages stored per second: growth of the last sequence between two polls.",
            _in_msgs_per_s, format=rate_text, dims_zero=True,
            json=JsonField("in_msgs_per_s", float | None), priority=2),
    _number("in_bytes", "B/s",
            "Bytes stored per second: growth of BYTES; ~: messages were removed meanwhile, so "
            "that their mean size is added for each of them.",
            _in_bytes_per_s, text=_in_bytes_text, dims_zero=True,
            json=JsonField("in_bytes_per_s", float | None, help="Growth of the stored bytes."),
            priority=7),
    json_column(JsonField("in_bytes_estimated", bool), lambda row: row.rates.in_bytes_estimated,
                "Messages were removed meanwhile: their bytes are counted by the mean size of "
                "stored ones."),
    _number("removed", "OUT/s",
            "Messages removed per second, by limits, acks, deletes or purges.",
            _removed_msgs_per_s, format=rate_text, dims_zero=True,
            json=JsonField("removed_msgs_per_s", float | None), priority=6),
    _text("trend", "INGEST 1m",
          "Messages stored a second over the last minute, from zero to its own highest.",
          _in_msgs_per_s, format=rate_text, priority=4, screen_only=True),
    _number("consumers", "CONS", "Consumers of the stream (`state.consumer_count`).",
            **_stored("consumers_count", "consumer_count"), priority=8),
    _number("first_seq", "FIRST SEQ", "First sequence stored (`state.first_seq`).", format=str,
            level=dim_level, **_stored("first_seq", "first_seq"), priority=16),
    _age_column("first_age", "OLDEST", "Age of the first message stored (`state.first_ts`).",
                "first_at_us", priority=9, screen_only=True),
    _number("last_seq", "LAST SEQ", "Last sequence stored (`state.last_seq`).", format=str,
            level=dim_level, **_stored("last_seq", "last_seq"), priority=13),
    _age_column("last_age", "NEWEST", "Age of the last message stored (`state.last_ts`).",
                "last_at_us", priority=10),
    _json_stored("first_at_us"),
    _json_stored("last_at_us"),
    _number("used", "USED",
            "Use of the message or byte limit that is nearer to its end; ∞ without both.",
            lambda row: row.used_percent,
            text=lambda row: _percent_text(row, row.used_percent),
            level=lambda row: "warn" if is_near_limit(row.used_percent or 0, 100) else "",
            used_ratio=lambda row: (row.used_percent or 0) / 100, priority=10),
    _used_column("msgs_used", "MSG%", "Use of the message limit in %; ∞ without one.",
                 JsonField("msgs_used_percent", float | None,
                           help="Use of the message limit; null without one."), priority=19),
    _used_column("bytes_used", "BYTE%", "Use of the byte limit in %; ∞ without one.",
                 JsonField("bytes_used_percent", float | None,
                           help="Use of the byte limit; null without one."), priority=19),
    _used_column("age_used", "AGE%",
                 "Age of the first message in % of the age limit; ∞ without one.", warns=False,
                 priority=21),
    _number("full", "FULL IN",
            "Time until the message or byte limit is reached at the trend of the last 30 s.",
            lambda row: row.full_in_s, text=_time_to_full_text, level=_time_to_full_level,
            json=JsonField("full_in_s", float | None,
                           help="Until the message or byte limit is reached at the trend of the "
                                "last 30 s; null if never."), priority=17),
    _number("holes", "HOLES",
            "Messages deleted between first and last, and those lost by damage of the store.",
            text=_deleted_or_lost_text, level=_deleted_or_lost_level,
            **_stored("deleted_msgs", help="Messages deleted between the first and the last."),
            priority=20),
    _json_stored("lost_msgs", "Lost by damage of the store."),
    _json_stored("subjects_count", "Subjects stored in the stream.", "subject_count"),
    _json_setting("max_msgs"),
    _json_setting("max_msgs_per_subject"),
    _json_setting("max_bytes"),
    _json_setting("max_age_ns"),
    _json_setting("duplicate_window_ns"),
    _json_setting("mirror"),
    _json_setting("sources"),
    _json_stored("upstreams", "The mirror or the sources as the leader sees them."),
    _json_setting("replicas_count"),
    _text("leader", "LEADER",
          "Leader, or that it does not reply; before it, how many replicas are current.",
          text=_leader_text, level=_leader_level, dims_unknown=False,
          **_stored("leader", help="null while it has no leader, or the leader does not reply."),
          priority=11, may_be_cut=True),
    _text("replicas", "REPLICAS",
          "Servers with a replica: * leads, ! is offline, behind or without contact to the "
          "leader.",
          _leader, text=_replicas_text, level=_replicas_level, dims_unknown=False, priority=9,
          screen_only=True),
    _json_stored("peers", "Replicas without the leader."),
    json_column(JsonField("sampled_ago_s", float), lambda row: row.sampled_ago_s,
                "The age of these values."),
    json_column(JsonField("stale", bool), lambda row: row.is_stale,
                "They could not be refreshed."),
)  # fmt: skip
