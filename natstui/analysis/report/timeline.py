"""The timeline of a session: a lane per consumer and stream, and its events as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from natstui.analysis.gold.telling.harm import LOSS_CODES
from natstui.analysis.report.axis import PLOT, Axis, chart_of, plot, text
from natstui.analysis.report.sections import Result, families, family, rows_of
from natstui.model.findings.catalogue import account, consumers, streams
from natstui.units import duration_text, moment_text

LOOKS = {
    "lost": "messages lost, dropped or refused",
    "stuck": "stuck",
    "unreachable": "unreachable or without a leader",
    "redelivering": "redelivering",
    "lagging": "lagging",
    "paused": "paused",
    "other": "other findings",
    "leader": "leader changed",
    "benchmark": "benchmark",
    "recorder": "not recorded",
    "note": "note",
}
"""Look of a span → its label, the worst first."""
_HALF_HEIGHT = ("lost", "redelivering", "paused", "benchmark")
"""Looks that are drawn at half the height, as they accompany others in the same lane."""
MOST_LANES = 30
_ALL = "Everything"
_HEIGHT = 10

_LOOK_OF_CODE: dict[str, str] = {
    **dict.fromkeys(LOSS_CODES, "lost"),
    **{
        kind.code: "unreachable"
        for kind in (consumers.UNREACHABLE, consumers.NO_LEADER, consumers.NO_QUORUM,
                     streams.S_UNREACHABLE, streams.S_NO_LEADER, streams.S_NO_QUORUM)
    },
    **{
        kind.code: "stuck"
        for kind in (consumers.NO_PULLS, consumers.NO_SUBSCRIBER, consumers.OTHER_GROUP,
                     consumers.WITHOUT_GROUP, consumers.ACK_LIMIT, consumers.STALLED,
                     consumers.FLOW_STALL, consumers.NOT_ACKNOWLEDGED)
    },
    **{
        kind.code: "redelivering"
        for kind in (consumers.REDELIVERING, consumers.NEVER_ACKED, consumers.POISON,
                     consumers.ALL_NAKED)
    },
    **{kind.code: "lagging" for kind in (consumers.FALLING_BEHIND, consumers.LATE)},
    **{kind.code: "recorder" for kind in (account.M_NO_LINK, account.M_STALE)},
    consumers.PAUSED.code: "paused",
    streams.S_LEADER_FLAPS.code: "leader",
    consumers.LEADER_FLAPS.code: "leader",
}  # fmt: skip
_LOOK_OF_KIND = {
    "gap": "recorder", "clock_step": "recorder", "disconnected": "recorder",
    "unavailable": "recorder", "unreachable": "unreachable", "leader_absent": "unreachable",
    "leader_change": "leader",
}  # fmt: skip
MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Span:
    """A period in a lane of the timeline; a moment if both ends are equal."""

    lane: str
    look: str
    text: str
    start_us: int
    end_us: int

    @property
    def label(self) -> str:
        """Return the text for the pointer and for screen readers."""
        duration_s = (self.end_us - self.start_us) / 1e6
        duration = f" for {duration_text(duration_s)}" if duration_s > 0 else ""
        return f"{self.text}: {moment_text(self.start_us)} UTC{duration}"


def timeline(result: Result, session: str, axis: Axis) -> str:
    """Return the timeline with its legend; empty without spans."""
    lanes = lanes_of(result, session, axis)
    if not lanes:
        return ""
    shown_lanes = list(lanes.items())[:MOST_LANES]
    rail = f'<path class="rail" d="M0 {_HEIGHT}H{PLOT}"/>'
    lanes_html = "".join(
        f'<div class="lane">{text(name)}</div>'
        + plot("thin", _HEIGHT, [rail, *_bars(spans, axis)])
        for name, spans in shown_lanes
    )
    label = "; ".join(
        f"{name}: {', '.join(s.label for s in spans[:3])}" for name, spans in shown_lanes[:5]
    )
    hidden_count = len(lanes) - len(shown_lanes)
    more_text = (
        f"<p>{hidden_count} more streams and consumers had problems: the tables below list "
        "them.</p>"
        if hidden_count
        else ""
    )
    return (
        chart_of("lanes", "What happened when", label, lanes_html + axis.ticks())
        + _legend({span.look for _, spans in shown_lanes for span in spans})
        + more_text
    )


def _legend(used: set[str]) -> str:
    items = "".join(
        f'<li class="look {look}">{label}</li>' for look, label in LOOKS.items() if look in used
    )
    return f'<ul class="legend">{items}</ul>'


def _bars(spans: list[Span], axis: Axis) -> list[str]:
    """Return the bars of a lane: worse ones above others, and those of half height on top."""
    order = list(LOOKS)

    def depth(span: Span) -> tuple[bool, int]:
        return span.look in _HALF_HEIGHT, -order.index(span.look)

    return [_bar(span, axis) for span in sorted(spans, key=depth)]


def _bar(span: Span, axis: Axis) -> str:
    x, end = axis.x(span.start_us), axis.x(span.end_us)
    title = f"<title>{text(span.label)}</title>"
    if end - x < 1:
        return f'<path class="moment {span.look}" d="M{x:.1f} 0v{_HEIGHT}">{title}</path>'
    y = _HEIGHT // 2 if span.look in _HALF_HEIGHT else 0
    outline = f"M{x:.1f} {y}H{end:.1f}V{_HEIGHT}H{x:.1f}z"
    return f'<path class="bar {span.look}" d="{outline}">{title}</path>'


def lanes_of(result: Result, session: str, axis: Axis) -> dict[str, list[Span]]:
    """Return lane → its spans: first those of everything, then the worst consumers and streams."""
    lanes: dict[str, list[Span]] = {}
    members_count = families(result)
    for span in _spans(result, session, axis):
        stream, _, consumer = span.lane.partition(" > ")
        lane_family = family(
            {"session": session, "stream": stream, "consumer": consumer}, members_count
        )
        if lane_family:
            span_text = f"{consumer}: {span.text}"
            span = replace(span, lane=f"{stream} > {lane_family[2]}", text=span_text)
        lanes.setdefault(span.lane, []).append(span)
    order = list(LOOKS)

    def badness(name: str) -> tuple[object, ...]:
        spans = lanes[name]
        worst = min(order.index(span.look) for span in spans)
        return (name != _ALL, worst, -sum(s.end_us - s.start_us for s in spans), name)

    return {name: lanes[name] for name in sorted(lanes, key=badness)}


def _lane(row: Result) -> str:
    names = [str(row[name]) for name in ("stream", "consumer") if row.get(name)]
    return " > ".join(names) or _ALL


def _spans(result: Result, session: str, axis: Axis) -> Iterator[Span]:
    for row in rows_of(result, "findings", session):
        look = _LOOK_OF_CODE.get(row["code"], "other")
        if row["severity"] != "info" or look != "other":
            span_text = f"{row['word']} ({row['code']}), {row['evidence']}"
            end_us = axis.last_us if row["end_at_us"] is None else row["end_at_us"]
            yield Span(_lane(row), look, span_text, row["start_at_us"], end_us)
    for row in rows_of(result, "stuck", session):
        look = "paused" if row["cause"] == consumers.PAUSED.word else "stuck"
        yield Span(
            _lane(row), look, f"stuck, {row['cause']}", row["start_at_us"], row["end_at_us"]
        )
    for row in rows_of(result, "lag_period", session):
        span_text = f"lagging, up to {row['pending_max_msgs']} pending"
        yield Span(_lane(row), "lagging", span_text, row["start_at_us"], row["end_at_us"])
    for row in rows_of(result, "availability", session):
        look, end_us = _LOOK_OF_KIND.get(row["kind"], "other"), row["end_at_us"]
        span_text = f"{row['kind'].replace('_', ' ')} {row['detail'] or ''}"
        yield Span(_lane(row), look, span_text, row["start_at_us"], end_us or row["start_at_us"])
    for row in rows_of(result, "poison", session):
        if row["given_up"]:
            span_text = f"message {row['stream_seq']} dropped after max deliver"
            yield Span(_lane(row), "lost", span_text, row["last_at_us"], row["last_at_us"])
    yield from _repeats(result, session)
    for row in rows_of(result, "bench_steady", session):
        span_text = f"benchmark {row['run_id']}, {row['role']}"
        yield Span(_ALL, "benchmark", span_text, row["start_at_us"], row["end_at_us"])
    for row in rows_of(result, "note", session):
        yield Span(_ALL, "note", row["text"], row["at_us"], row["at_us"])


def _repeats(result: Result, session: str) -> Iterator[Span]:
    """Yield the periods with redeliveries, with consecutive buckets merged."""
    open_: Span | None = None
    for row in rows_of(result, "picture", session):
        if not row["rank"] or not row["repeated_msgs"]:
            continue
        start, lane = row["bucket_at_us"], _lane(row)
        end = start + row["width_s"] * 1_000_000
        if open_ and open_.lane == lane and open_.end_us == start:
            open_ = Span(lane, "redelivering", open_.text, open_.start_us, end)
            continue
        if open_:
            yield open_
        open_ = Span(lane, "redelivering", "messages came again", start, end)
    if open_:
        yield open_


def events_table(result: Result, session: str, axis: Axis) -> str:
    """Return the table of spans, the earliest first; empty without spans."""
    spans = [span for lane in lanes_of(result, session, axis).values() for span in lane]
    if not spans:
        return ""
    spans.sort(key=lambda span: (span.start_us, span.lane, span.end_us))
    rows = "".join(
        f"\n<tr><td>{moment_text(span.start_us)}<td>{_duration(span.start_us, span.end_us)}"
        f'<td>{text(span.lane)}<td class="long">{text(span.text)}'
        for span in spans[:MOST_SHOWN]
    )
    hidden_count = len(spans) - MOST_SHOWN
    more_text = (
        f"<p>{hidden_count} later events are in the tables below.</p>" if hidden_count > 0 else ""
    )
    titles = "".join(
        f'<th scope="col" tabindex="0">{title}</th>'
        for title in ("time", "lasted", "subject", "event")
    )
    return (
        '<div class="wide" role="region" tabindex="0" aria-label="Events in the order of time">'
        f"<table><thead><tr>{titles}</tr></thead><tbody>{rows}</tbody></table></div>{more_text}"
    )


def _duration(start_us: int, end_us: int) -> str:
    return duration_text((end_us - start_us) / 1e6) if end_us > start_us else ""
