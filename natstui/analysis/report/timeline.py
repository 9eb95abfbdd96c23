"""The timeline of a session: a lane per consumer and stream, and a table of its events."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from natstui.analysis.gold.shared.harm import LOSS_CODES
from natstui.analysis.report.axis import (
    PLOT_WIDTH,
    Axis,
    chart_frame_html,
    escape_text,
    render_plot,
)
from natstui.analysis.report.sections import (
    Result,
    ResultRow,
    family_sizes,
    find_family,
    is_cut,
    rows_of,
)
from natstui.model.findings.catalogue import account, consumers, streams
from natstui.units import duration_text, moment_text
from natstui.values import replace

LABEL_BY_STYLE = {
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
"""Style (CSS class) of a span → its label in the legend, the worst first."""
_HALF_HEIGHT_STYLES = ("lost", "redelivering", "paused", "benchmark")
"""Styles that are drawn at half the height, as they overlap others in the same lane."""
MAX_LANES_COUNT = 30
_COMMON_LANE = "Everything"
_LANE_HEIGHT = 10

_STYLE_BY_FINDING_CODE: dict[str, str] = {
    **dict.fromkeys(LOSS_CODES, "lost"),
    **{
        kind.code: "unreachable"
        for kind in (consumers.UNREACHABLE, consumers.NO_LEADER, consumers.NO_QUORUM,
                     streams.STREAM_UNREACHABLE, streams.STREAM_WITHOUT_LEADER,
                     streams.STREAM_WITHOUT_QUORUM)
    },
    **{
        kind.code: "stuck"
        for kind in (consumers.NO_PULLS, consumers.NO_SUBSCRIBER, consumers.OTHER_QUEUE_GROUP,
                     consumers.WITHOUT_QUEUE_GROUP, consumers.MAX_ACK_PENDING_REACHED,
                     consumers.PULL_STALLED,
                     consumers.FLOW_STALL, consumers.NOT_ACKED_WITHIN_ACK_WAIT)
    },
    **{
        kind.code: "redelivering"
        for kind in (consumers.REDELIVERING, consumers.NEVER_ACKED, consumers.POISON,
                     consumers.ALL_NAKD)
    },
    **{kind.code: "lagging" for kind in (consumers.LAGGING, consumers.NEXT_MESSAGE_OLD)},
    **{kind.code: "recorder" for kind in (account.NOT_CONNECTED, account.ROWS_STALE)},
    consumers.PAUSED.code: "paused",
    streams.STREAM_LEADER_CHANGES_OFTEN.code: "leader",
    consumers.LEADER_CHANGES_OFTEN.code: "leader",
}  # fmt: skip
_STYLE_BY_AVAILABILITY_KIND = {
    "gap": "recorder", "clock_step": "recorder", "disconnected": "recorder",
    "unavailable": "recorder", "unreachable": "unreachable", "leader_absent": "unreachable",
    "leader_change": "leader",
}  # fmt: skip
MAX_EVENTS_COUNT = 200


class Span(Struct, frozen=True):
    """A period in a lane of the timeline, or a moment if start and end are equal."""

    lane: str
    style: str
    text: str
    start_us: int
    end_us: int

    @property
    def label(self) -> str:
        """Return the text for the tooltip and for screen readers."""
        duration_s = (self.end_us - self.start_us) / 1e6
        duration = f" for {duration_text(duration_s)}" if duration_s > 0 else ""
        return f"{self.text}: {moment_text(self.start_us)} UTC{duration}"


def render_timeline(result: Result, session: str, axis: Axis) -> str:
    """Return the HTML of the timeline with its legend; empty if nothing happened."""
    lanes = lanes_of(result, session, axis)
    cut_tables_html = _cut_tables_html(result)
    if not lanes:
        return cut_tables_html
    shown_lanes = list(lanes.items())[:MAX_LANES_COUNT]
    base_line_html = f'<path class="rail" d="M0 {_LANE_HEIGHT}H{PLOT_WIDTH}"/>'
    lanes_html = "".join(
        f'<div class="lane">{escape_text(name)}</div>'
        + render_plot("thin", _LANE_HEIGHT, [base_line_html, *_render_bars(spans, axis)])
        for name, spans in shown_lanes
    )
    label = "; ".join(
        f"{name}: {', '.join(s.label for s in spans[:3])}" for name, spans in shown_lanes[:5]
    )
    hidden_lanes_count = len(lanes) - len(shown_lanes)
    more_text = (
        f"<p>{hidden_lanes_count} more streams and consumers had problems: the tables below list "
        "them.</p>"
        if hidden_lanes_count
        else ""
    )
    return (
        chart_frame_html("lanes", "What happened when", label, lanes_html + axis.ticks())
        + _render_legend({span.style for _, spans in shown_lanes for span in spans})
        + more_text
        + cut_tables_html
    )


_DRAWN_TABLES = (
    "findings", "stuck", "lag_period", "availability", "poison", "bench_steady", "note",
)  # fmt: skip
"""Tables whose rows are drawn; those of `picture` are complete for each charted session."""


def _cut_tables_html(result: Result) -> str:
    """Return HTML with the names of tables of which not all rows are drawn; empty without any."""
    names = [name.replace("_", " ") for name in _DRAWN_TABLES if is_cut(result, name)]
    if not names:
        return ""
    return (
        "<p>This timeline is not complete: more happened than is drawn, in this session or in "
        f"another one. Only the first rows were read of: {', '.join(names)}. The tables of the "
        "analysis have all of them.</p>"
    )


def _render_legend(used_styles: set[str]) -> str:
    items_html = "".join(
        f'<li class="look {style}">{label}</li>'
        for style, label in LABEL_BY_STYLE.items()
        if style in used_styles
    )
    return f'<ul class="legend">{items_html}</ul>'


def _render_bars(spans: list[Span], axis: Axis) -> list[str]:
    """Return the SVG of the bars of a lane: full height before half height, the worst last."""
    order = list(LABEL_BY_STYLE)

    def drawing_order(span: Span) -> tuple[bool, int]:
        return span.style in _HALF_HEIGHT_STYLES, -order.index(span.style)

    return [_render_bar(span, axis) for span in sorted(spans, key=drawing_order)]


def _render_bar(span: Span, axis: Axis) -> str:
    x, end = axis.x(span.start_us), axis.x(span.end_us)
    title = f"<title>{escape_text(span.label)}</title>"
    if end - x < 1:
        return f'<path class="moment {span.style}" d="M{x:.1f} 0v{_LANE_HEIGHT}">{title}</path>'
    y = _LANE_HEIGHT // 2 if span.style in _HALF_HEIGHT_STYLES else 0
    outline = f"M{x:.1f} {y}H{end:.1f}V{_LANE_HEIGHT}H{x:.1f}z"
    return f'<path class="bar {span.style}" d="{outline}">{title}</path>'


def lanes_of(result: Result, session: str, axis: Axis) -> dict[str, list[Span]]:
    """Return lane → its spans: first `Everything`, then the worst consumers and streams."""
    lanes: dict[str, list[Span]] = {}
    sizes = family_sizes(result)
    for span in _find_spans(result, session, axis):
        stream, _, consumer = span.lane.partition(" > ")
        lane_family = find_family(
            {"session": session, "stream": stream, "consumer": consumer}, sizes
        )
        if lane_family:
            span_text = f"{consumer}: {span.text}"
            span = replace(span, lane=f"{stream} > {lane_family.name}", text=span_text)
        lanes.setdefault(span.lane, []).append(span)
    order = list(LABEL_BY_STYLE)

    def lane_order(name: str) -> tuple[object, ...]:
        spans = lanes[name]
        worst_style_index = min(order.index(span.style) for span in spans)
        return (
            name != _COMMON_LANE,
            worst_style_index,
            -sum(s.end_us - s.start_us for s in spans),
            name,
        )

    return {name: lanes[name] for name in sorted(lanes, key=lane_order)}


def _asset_name(row: ResultRow) -> str:
    """Return the name of the stream or consumer of a row; empty without one."""
    return " > ".join(str(row[name]) for name in ("stream", "consumer") if row.get(name))


def _lane_name(row: ResultRow) -> str:
    return _asset_name(row) or _COMMON_LANE


def _find_spans(result: Result, session: str, axis: Axis) -> Iterator[Span]:
    for row in rows_of(result, "findings", session):
        style = _STYLE_BY_FINDING_CODE.get(row["code"], "other")
        if row["severity"] != "info" or style != "other":
            span_text = f"{row['word']} ({row['code']}), {row['evidence']}"
            end_us = axis.last_us if row["end_at_us"] is None else row["end_at_us"]
            yield Span(_lane_name(row), style, span_text, row["start_at_us"], end_us)
    for row in rows_of(result, "stuck", session):
        style = "paused" if row["cause"] == consumers.PAUSED.word else "stuck"
        yield Span(
            _lane_name(row), style, f"stuck, {row['cause']}", row["start_at_us"], row["end_at_us"]
        )
    for row in rows_of(result, "lag_period", session):
        span_text = f"lagging, up to {row['pending_max_msgs']} pending"
        yield Span(_lane_name(row), "lagging", span_text, row["start_at_us"], row["end_at_us"])
    for row in rows_of(result, "availability", session):
        style, end_us = _STYLE_BY_AVAILABILITY_KIND.get(row["kind"], "other"), row["end_at_us"]
        span_text = f"{row['kind'].replace('_', ' ')} {row['detail'] or ''}"
        yield Span(
            _lane_name(row), style, span_text, row["start_at_us"], end_us or row["start_at_us"]
        )
    for row in rows_of(result, "poison", session):
        if row["given_up"]:
            span_text = f"message {row['stream_seq']} dropped after max deliver"
            yield Span(_lane_name(row), "lost", span_text, row["last_at_us"], row["last_at_us"])
    yield from _redelivery_spans(result, session)
    for row in rows_of(result, "bench_steady", session):
        span_text = f"benchmark {row['run_id']}, {row['role']}"
        yield Span(_COMMON_LANE, "benchmark", span_text, row["start_at_us"], row["end_at_us"])
    for row in rows_of(result, "note", session):
        yield Span(_COMMON_LANE, "note", row["text"], row["at_us"], row["at_us"])


def _redelivery_spans(result: Result, session: str) -> Iterator[Span]:
    """Yield a span per period with redeliveries of a charted consumer."""
    open_span: Span | None = None
    for row in rows_of(result, "picture", session):
        if not row["rank"] or not row["repeated_msgs"]:
            continue
        start, lane = row["bucket_at_us"], _lane_name(row)
        end = start + row["width_s"] * 1_000_000
        if open_span and open_span.lane == lane and open_span.end_us == start:
            open_span = Span(lane, "redelivering", open_span.text, open_span.start_us, end)
            continue
        if open_span:
            yield open_span
        open_span = Span(lane, "redelivering", "messages were redelivered", start, end)
    if open_span:
        yield open_span


def events_table(result: Result, session: str) -> str:
    """Return the HTML table of the events with the lowest ranks by time; empty without events."""
    events = rows_of(result, "timeline_event", session)
    if not events:
        return ""
    shown_events = sorted(events, key=lambda row: row["rank"])[:MAX_EVENTS_COUNT]
    shown_events.sort(key=lambda row: (row["at_us"], row["rank"]))
    rows = "".join(
        f"\n<tr><td>{moment_text(row['at_us'])}"
        f"<td>{_duration_text(row['at_us'], row['end_at_us'] or row['at_us'])}"
        f"<td>{escape_text(row['kind'])}<td>{escape_text(_asset_name(row))}"
        f'<td class="event">{escape_text(row["text"])}'
        for row in shown_events
    )
    is_complete = len(events) == len(shown_events) and not is_cut(result, "timeline_event")
    more_text = (
        ""
        if is_complete
        else f"<p>These are {len(shown_events)} events, the first of each kind: the table "
        "timeline_event of the analysis has all of them.</p>"
    )
    titles_html = "".join(
        f'<th scope="col" tabindex="0">{title}</th>'
        for title in ("time", "lasted", "kind", "subject", "event")
    )
    return (
        '<div class="wide" role="region" tabindex="0" aria-label="Events in the order of time">'
        f"<table><thead><tr>{titles_html}</tr></thead><tbody>{rows}</tbody></table></div>{more_text}"
    )


def _duration_text(start_us: int, end_us: int) -> str:
    return duration_text((end_us - start_us) / 1e6) if end_us > start_us else ""
