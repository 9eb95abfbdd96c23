"""The streams table: every column's text, place, order and help, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from natstui.clean import clean_line
from natstui.model.columns.streams import STREAM_TITLES
from natstui.model.findings.thresholds import FULL_SOON_S
from natstui.model.live.history import Point
from natstui.model.live.limits import Fill, is_near, used_percent
from natstui.model.live.rates import rate_column, rates_of_series, stream_full_in_s
from natstui.model.servers.replicas import state_of
from natstui.tui.frame.columns import ColumnSpec, natural
from natstui.tui.frame.view import GLYPHS, LOOKS, TREND_WIDTH, StreamView, subjects_text
from natstui.tui.kit.sparkline import bar, scaled_sparkline, sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, rate_text

_KINDS = {"stream": "stream", "kv": "KV", "object": "object"}


def name(view: StreamView, row: int) -> Cell:
    """Name of the stream."""
    return Cell(clean_line(view.columns.name[row]), "strong")


def status(view: StreamView, row: int) -> Cell:
    """What is wrong with it or with its consumers, the worst first; else what it does.

    +2: two more are wrong: the stream itself, or consumers.
    """
    verdict = view.verdict(row)
    own = Cell(f"{GLYPHS[verdict.level]} {verdict.word}", LOOKS[verdict.level])
    below = view.below(row)
    if below is None:
        return own
    consumers = Cell(below.text, LOOKS[below.kind.level])
    if verdict.finding is None:
        return consumers
    is_worse = verdict.finding.severity_level >= below.kind.severity_level
    first, second, more = (
        (own, consumers, below.consumers_count) if is_worse else (consumers, own, 1)
    )
    return Cell(f"{first.text} +{more}", first.look, len(first.text), second.look)


def kind(view: StreamView, row: int) -> Cell:
    """Stream, mirror, KV bucket or object store (the last two are streams by convention)."""
    config = view.config(row)
    if config is None:
        return Cell(UNKNOWN, "dim")
    if config.mirror:
        return Cell("mirror", "accent")
    return Cell(_KINDS[config.kind], "" if config.kind == "stream" else "accent")


def subjects(view: StreamView, row: int) -> Cell:
    """Subjects that the stream stores, or the stream that it copies."""
    config = view.config(row)
    if config is None:
        return Cell(UNKNOWN, "dim")
    if config.mirror:
        return Cell(clean_line(f"mirror of {config.mirror}"), "dim")
    text = subjects_text(config.subjects)
    return Cell(text or clean_line(f"from {', '.join(config.sources)}"), "dim")


def storage(view: StreamView, row: int) -> Cell:
    """File or memory."""
    config = view.config(row)
    return Cell(clean_line(config.storage) if config else UNKNOWN, "dim")


def retention(view: StreamView, row: int) -> Cell:
    """When messages are removed: by limits, once all consumers acked, or once one acked."""
    config = view.config(row)
    return Cell(clean_line(config.retention) if config else UNKNOWN, "dim")


def msgs(view: StreamView, row: int) -> Cell:
    """Messages stored now (`state.messages`)."""
    return Cell(count_text(view.columns.stored_msgs[row]))


def size(view: StreamView, row: int) -> Cell:
    """Bytes stored now (`state.bytes`)."""
    return Cell(bytes_text(view.columns.stored_bytes[row]))


def in_rate(view: StreamView, row: int) -> Cell:
    """Messages stored per second: growth of the last sequence between two polls."""
    rate = view.rates(row).in_msgs_per_s
    return Cell(rate_text(rate), "" if rate else "dim")


def in_bytes(view: StreamView, row: int) -> Cell:
    """Bytes stored per second: growth of BYTES; ~: messages were removed meanwhile, so that their
    mean size is added for each of them."""
    rates = view.rates(row)
    mark = "~" if rates.in_bytes_estimated and rates.in_bytes_per_s else ""
    return Cell(mark + bytes_text(rates.in_bytes_per_s), "" if rates.in_bytes_per_s else "dim")


def removed(view: StreamView, row: int) -> Cell:
    """Messages removed per second, by limits, acks, deletes or purges."""
    rate = view.rates(row).removed_msgs_per_s
    return Cell(rate_text(rate), "" if rate else "dim")


def ingest_points(view: StreamView, row: int, window_s: int = 60) -> list[Point]:
    """Return the ingest rate over a window; a pause in polling is a gap."""
    longest_us = max(view.stale_us, window_s * 1_000_000 // 12)
    return rates_of_series(view.series(row, "last_seq", window_s), longest_us)


def trend(view: StreamView, row: int) -> Cell:
    """Messages stored a second over the last minute, from zero to its own highest."""
    values = view.minute(ingest_points(view, row))
    return Cell(sparkline(values, TREND_WIDTH), "accent")


def trend_with_scale(view: StreamView, row: int) -> Cell:
    """Messages stored a second over the last minute, and what the highest mark stands for."""
    values = view.minute(ingest_points(view, row))
    return Cell(scaled_sparkline(values, TREND_WIDTH, rate_text), "accent")


def consumers(view: StreamView, row: int) -> Cell:
    """Consumers of the stream (`state.consumer_count`)."""
    return Cell(count_text(view.columns.consumers_count[row]))


def first_seq(view: StreamView, row: int) -> Cell:
    """First sequence stored (`state.first_seq`)."""
    return Cell(str(view.columns.first_seq[row]), "dim")


def last_seq(view: StreamView, row: int) -> Cell:
    """Last sequence stored (`state.last_seq`)."""
    return Cell(str(view.columns.last_seq[row]), "dim")


def first_age(view: StreamView, row: int) -> Cell:
    """Age of the first message stored (`state.first_ts`)."""
    return Cell(view.age_text(view.columns.first_at_us[row]), "dim")


def last_age(view: StreamView, row: int) -> Cell:
    """Age of the last message stored (`state.last_ts`)."""
    return Cell(view.age_text(view.columns.last_at_us[row]), "dim")


def limit_percents(view: StreamView, row: int) -> dict[str, float]:
    """Return the use in % of each limit that is set: msgs, bytes, age."""
    config = view.config(row)
    if config is None:
        return {}
    columns = view.columns
    oldest_ns = (view.age_s(columns.first_at_us[row]) or 0) * 1e9
    percents = {
        "msgs": used_percent(columns.stored_msgs[row], config.max_msgs),
        "bytes": used_percent(columns.stored_bytes[row], config.max_bytes),
        "age": used_percent(oldest_ns, config.max_age_ns),
    }
    return {which: percent for which, percent in percents.items() if percent is not None}


def _used(view: StreamView, row: int, which: str, *, warns: bool = True) -> Cell:
    if view.config(row) is None:
        return Cell(UNKNOWN, "dim")
    percent = limit_percents(view, row).get(which)
    if percent is None:
        return Cell("∞", "dim")
    return Cell(f"{percent:.0f}%", "warn" if warns and is_near(percent, 100) else "")


def msgs_used(view: StreamView, row: int) -> Cell:
    """Use of the message limit in %; ∞ without one."""
    return _used(view, row, "msgs")


def bytes_used(view: StreamView, row: int) -> Cell:
    """Use of the byte limit in %; ∞ without one."""
    return _used(view, row, "bytes")


def age_used(view: StreamView, row: int) -> Cell:
    """Age of the first message in % of the age limit; ∞ without one."""
    return _used(view, row, "age", warns=False)


USED_WIDTH = 6


def used(view: StreamView, row: int) -> Cell:
    """Use of the message or byte limit that is nearer to its end; ∞ without both."""
    if view.config(row) is None:
        return Cell(UNKNOWN, "dim")
    percent = _most_used(view, row)
    if percent is None:
        return Cell("∞", "dim")
    text = f"{bar(percent / 100, USED_WIDTH)} {percent:.0f}%"
    return Cell(text, "warn" if is_near(percent, 100) else "")


def _most_used(view: StreamView, row: int) -> float | None:
    percents = limit_percents(view, row)
    return max((percents[it] for it in ("msgs", "bytes") if it in percents), default=None)


def full_s(view: StreamView, row: int) -> float | None:
    """Return seconds until the first of the message and byte limits is reached, by the trend."""
    config = view.config(row)
    if config is None:
        return None
    columns = view.columns
    fill = Fill(
        columns.stored_msgs[row], columns.stored_bytes[row], config.max_msgs, config.max_bytes
    )
    return stream_full_in_s(view.state.stream_history, view.key(row), fill)


def full(view: StreamView, row: int) -> Cell:
    """Time until the message or byte limit is reached at the trend of the last 30 s."""
    time_s = full_s(view, row)
    if time_s is None:
        return Cell(UNKNOWN, "dim")
    return Cell(
        duration_text(time_s) if time_s else "full", "warn" if time_s < FULL_SOON_S else ""
    )


def leader(view: StreamView, row: int) -> Cell:
    """Leader, or that it does not reply; before it, how many replicas are current."""
    config, peers = view.config(row), view.columns.peers[row]
    server = view.columns.leader[row]
    if server is None:
        away = view.columns.name[row] in view.state.unreachable_streams
        return Cell("no reply" if away else "no leader", "bad")
    down = sum(1 for peer in peers if not peer.current or peer.offline)
    count = config.replicas_count if config else len(peers) + 1
    text = f"{count - down}/{count} {server}" if count > 1 else server
    return Cell(clean_line(text), "bad" if down else "dim")


def replicas(view: StreamView, row: int) -> Cell:
    """Servers with a replica: * leads, ! is offline, behind or without contact to the leader."""
    peers, server = view.columns.peers[row], view.columns.leader[row]
    names = [] if server is None else [f"{server}*"]
    away = [peer.name for peer in peers if state_of(peer) != "current"]
    names += [f"{peer.name}{'!' if peer.name in away else ''}" for peer in peers]
    if server is None:
        names = ["no leader", *names]
    return Cell(clean_line(" ".join(names)), "bad" if away or server is None else "dim")


def holes(view: StreamView, row: int) -> Cell:
    """Messages deleted between first and last, and those lost by damage of the store."""
    deleted, lost = view.columns.deleted_msgs[row], view.columns.lost_msgs[row]
    if lost:
        return Cell(f"{count_text(lost)} lost", "bad")
    return Cell(count_text(deleted), "dim" if not deleted else "")


Sort = Callable[[StreamView], Sequence[object]]


def _by(column: str) -> Sort:
    return attrgetter(f"columns.{column}")


def _by_age(column: str) -> Sort:
    return lambda view: [None if at is None else -at for at in getattr(view.columns, column)]


def _by_name(view: StreamView) -> Sequence[object]:
    return list(map(natural, view.columns.name))


def _by_status(view: StreamView) -> Sequence[object]:
    return view.severity_levels()


def _by_rate(view: StreamView) -> Sequence[object]:
    return rate_column(view.state.stream_history, "last_seq")


def _by_config(name: str) -> Sort:
    return lambda view: view.configured(attrgetter(name))


def _by_used(which: str) -> Sort:
    return lambda view: [limit_percents(view, row).get(which) for row in range(len(view))]


def _by_most_used(view: StreamView) -> Sequence[object]:
    return [_most_used(view, row) for row in range(len(view))]


def _by_full(view: StreamView) -> Sequence[object]:
    return [full_s(view, row) for row in range(len(view))]


def _by_rates(name: str) -> Sort:
    return lambda view: [getattr(view.rates(row), name) for row in range(len(view))]


def _number(key: str, *place: Any, **more: Any) -> ColumnSpec[StreamView]:
    return ColumnSpec(key, STREAM_TITLES[key], *place, **more)


_words = partial(_number, align="left", descends=False)

STREAM_COLUMNS: tuple[ColumnSpec[StreamView], ...] = (
    _words("name", 17, 0, name, _by_name, flex=1),
    _words("status", 22, 5, status, _by_status, flex=1, max_width=26, descends=True),
    _words("kind", 6, 12, kind, _by_config("kind")),
    _words("subjects", 14, 15, subjects, _by_config("subjects"), flex=3),
    _words("storage", 6, 18, storage, _by_config("storage")),
    _words("retention", 9, 14, retention, _by_config("retention")),
    _number("msgs", 6, 1, msgs, _by("stored_msgs")),
    _number("bytes", 8, 3, size, _by("stored_bytes")),
    _number("in", 6, 2, in_rate, _by_rate),
    _number("in_bytes", 9, 7, in_bytes, _by_rates("in_bytes_per_s")),
    _number("removed", 6, 6, removed, _by_rates("removed_msgs_per_s")),
    _words("trend", TREND_WIDTH, 4, trend, _by_rate),
    _number("consumers", 5, 8, consumers, _by("consumers_count")),
    _number("first_seq", 10, 16, first_seq, _by("first_seq")),
    _number("first_age", 7, 9, first_age, _by_age("first_at_us")),
    _number("last_seq", 10, 13, last_seq, _by("last_seq")),
    _number("last_age", 7, 10, last_age, _by_age("last_at_us")),
    _words("used", USED_WIDTH + 5, 10, used, _by_most_used, descends=True,
           from_width=120),
    _number("msgs_used", 5, 19, msgs_used, _by_used("msgs")),
    _number("bytes_used", 6, 19, bytes_used, _by_used("bytes")),
    _number("age_used", 5, 21, age_used, _by_used("age")),
    _number("full", 7, 17, full, _by_full, descends=False),
    _number("holes", 8, 20, holes, _by("deleted_msgs")),
    _words("leader", 12, 11, leader, _by("leader"), flex=1),
    _words("replicas", 14, 9, replicas, _by("leader"), flex=1, max_width=40,
           from_width=160),
)  # fmt: skip
