"""Texts of a benchmark: title, progress, latencies, message counts and log."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from natstui.clean import clean_line
from natstui.model.bench.counts import (
    LATENCY_FIELDS,
    LATENCY_MEANINGS,
    main_latency,
    total_counts,
)
from natstui.model.bench.latency import PERCENTILES, SHOWN_PERCENTILES, bucket_middle_ns
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.view import BenchmarkView
from natstui.tui.bench.charts import summed_workers
from natstui.tui.kit.sections import Section, line
from natstui.tui.kit.sparkline import bar
from natstui.units import UNKNOWN, count_text, duration_text, local_text

_NARROW_CELLS = 100
_SUMMARY_LABEL = 13
"""Column at which the values of a summary begin."""


def title_text(view: BenchmarkView, width: int = 120) -> str:
    """Return title, phase, progress, remaining time and verdict; a small width has a short bar."""
    if view.planned is None:
        return "no benchmark has run"
    progress = view.progress
    parts = [clean_line(view.planned.plan.title), view.phase]
    if progress is not None and view.is_running:
        if progress.done_ratio is not None:
            cells = 20 if width >= _NARROW_CELLS else 8
            parts.append(f"{bar(progress.done_ratio, cells)} {progress.done_ratio:.0%}")
        parts.append(duration_text(progress.elapsed_s))
        if progress.left_s is not None:
            parts.append(f"{duration_text(progress.left_s)} left")
    if view.finished is not None:
        result = view.finished.result
        parts.append(f"{result.verdict}{' · PARTIAL' if result.partial else ''}")
    elif view.summed is not None:
        parts.append("ended without a result")
    return "  ·  ".join(parts)


def wrap_summary(text: str, width: int) -> str:
    """Return a summary wrapped to `width` cells; lines continue below their value."""
    indent = " " * min(_SUMMARY_LABEL, width // 3)
    lines = []
    for text_line in text.splitlines():
        lines += textwrap.wrap(text_line, max(width, 20), subsequent_indent=indent) or [""]
    return "\n".join(lines)


def controlled_role(plan: BenchmarkPlan) -> str | None:
    """Return the name of the role that keys control: the first that receives, else the first."""
    receiving = [role.name for role in plan.roles if role.traits.receives]
    return next(iter(receiving or [role.name for role in plan.roles]), None)


MAX_LOG_ENTRIES = 200
"""Maximum number of shown log entries; the newest are shown."""

_PERCENTS = tuple(PERCENTILES[name] for name in SHOWN_PERCENTILES)
_FIGURE_WIDTH = 5


def latency_section(
    view: BenchmarkView, *, with_uncorrected: bool = False, is_framed: bool = False
) -> Section:
    """Return a table with the percentiles of every measured latency, from the due time.

    `with_uncorrected` adds latencies from the time of sending, without earlier waiting, and
    explanations. With `is_framed`, the title lacks the word of the frame, Latency.
    """
    lines, latencies = [], view.latencies
    for name in LATENCY_FIELDS:
        histogram = getattr(latencies, name)
        if name.endswith("_uncorrected") and not with_uncorrected:
            continue
        if histogram.total_count:
            values = [histogram.percentile_ns(percent) for percent in _PERCENTS]
            texts = [ms_text(value) for value in (*values, histogram.max_ns)]
            style_name = "dim" if name.endswith("_uncorrected") else ""
            lines.append(
                line(name.replace("_uncorrected", " unc."), _align_columns(texts), style_name)
            )
    if not lines:
        return Section("LATENCY", (line("", "nothing measured yet", "dim"),))
    lines.sort(key=lambda latency_line: latency_line.label)
    head = line("ms", _align_columns([*(f"p{percent:g}" for percent in _PERCENTS), "max"]), "dim")
    explanations = [
        line(latency_line.label, LATENCY_MEANINGS[latency_line.label], "dim")
        for latency_line in lines
        if with_uncorrected and latency_line.label in LATENCY_MEANINGS
    ]
    title = ("" if is_framed else "LATENCY ") + "FROM DUE TIME"
    title += "; unc.: from sending" if with_uncorrected else ""
    return Section(title, (head, *lines, *explanations))


def _align_columns(texts: Sequence[str]) -> str:
    return " ".join(text.rjust(_FIGURE_WIDTH) for text in texts)


def ms_text(latency_ns: int | None) -> str:
    """Return nanoseconds as milliseconds in at most five cells, from 100,000 ms on as seconds."""
    if latency_ns is None:
        return UNKNOWN
    ms = latency_ns / 1e6
    if ms >= 99_999.5:
        return f"{ms / 1000:.0f} s"
    return f"{ms:.0f}" if ms >= 99.95 else f"{ms:.1f}" if ms >= 9.995 else f"{ms:.2f}"


def distribution_section(
    view: BenchmarkView, width: int, max_rows: int = 64, colors: Sequence[str] = ()
) -> Section:
    """Return the number of messages by latency in equal steps, with marks at the percentiles.

    The first row includes all faster messages, the last row all above p99. Bars above p50 and p99
    have the second and third of `colors`.
    """
    main = main_latency(view.latencies)
    if main is None:
        return Section("", ())
    name, histogram = main
    low_ns, p50_ns, p99_ns = (
        histogram.percentile_ns(percentile) or 0 for percentile in (1.0, 50.0, 99.0)
    )
    span_ns = (p99_ns - low_ns + 1) / (min(max_rows, _MAX_ROWS) - 2)
    # The buckets of the histogram have a precision of 0.4 %: shorter steps are useless.
    step_ns = _round_step_ns(max(span_ns, p99_ns / 100))
    first, last = low_ns // step_ns, p99_ns // step_ns + 1

    def row_of(latency_ns: int) -> int:
        return min(last, max(first, latency_ns // step_ns))

    counts = dict.fromkeys(range(first, last + 1), 0)
    for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
        counts[row_of(bucket_middle_ns(bucket))] += count
    marks: dict[int, list[str]] = {}
    for mark in SHOWN_PERCENTILES:
        at_ns = histogram.percentile_ns(PERCENTILES[mark])
        if at_ns is not None:
            marks.setdefault(row_of(at_ns), []).append(f"p{PERCENTILES[mark]:g}")
    max_count, bar_cells = max(counts.values()), max(4, width - _CELLS_BESIDES_BAR)
    lines = []
    for row, count in counts.items():
        if row == last and not count:
            continue
        edge = _ms_in_steps(min(row + 1, last) * step_ns, step_ns)
        bar_text = f"{bar(count / max_count, bar_cells, empty=' ')} {count_text(count):>5}"
        color = sum(row_of(end_ns) < row for end_ns in (p50_ns, p99_ns))
        parts = ((0, bar_cells, colors[color]),) if color < len(colors) else ()
        label = f"≥ {edge}" if row == last else f"< {edge}"
        row_line = line(label, f"{bar_text}  {_marks_text(marks.get(row, []))}")
        lines.append(
            replace(row_line, parts=(*parts, (len(bar_text), len(row_line.text), "strong")))
        )
    return Section(f"DISTRIBUTION {name}, ms", tuple(lines))


_MAX_ROWS = 12


def _round_step_ns(min_ns: float) -> int:
    """Return the next round number of nanoseconds at or above `min_ns`."""
    power: int = 10 ** max(0, math.floor(math.log10(max(1.0, min_ns))) - 1)
    return next(step * power for step in _ROUND if step * power >= min_ns)


_ROUND = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)


def _ms_in_steps(latency_ns: int, step_ns: int) -> str:
    """Return nanoseconds as milliseconds with enough decimals to distinguish the steps."""
    return f"{latency_ns / 1e6:.{max(0, 7 - len(str(step_ns)))}f}"


def _marks_text(marks: Sequence[str]) -> str:
    """Return the text for the percentiles marked in a row."""
    return " ".join(
        f"◂ {mark}" if index == 0 else mark for index, mark in enumerate(_limit_marks(marks))
    )


def _limit_marks(marks: Sequence[str]) -> list[str]:
    return list(marks) if len(marks) <= 2 else [f"{marks[0]}…{marks[-1]}"]


_CELLS_BESIDES_BAR = 30
"""Width of a row of the distribution without its bar: limit, count and two percentiles."""


_NOT_STORED = (
    ("repeats", "duplicate_acked_msgs"),
    ("refused", "refused_msgs"),
    ("unanswered", "unanswered_msgs"),
    ("sent again", "retried_msgs"),
)
"""Label and count of other outcomes of sent messages; `repeats` are duplicates for the stream."""


def flow_section(view: BenchmarkView) -> Section:
    """Return the message totals of the run, and the messages on the server."""
    counts = total_counts(view.totals.values())
    sent_msgs, received_msgs = _sum_counts(view, "sent_msgs"), _sum_counts(view, "received_msgs")
    responses = counts.received_msgs - received_msgs
    stores = view.planned is None or view.planned.plan.stream is not None
    lines = [
        line("sent", f"{sent_msgs:,}"),
        *((line("acked", f"{counts.acked_msgs:,}"),) if stores else ()),
        *(
            line(label, f"{count:,}", "warn")
            for label, name in _NOT_STORED
            if (count := getattr(counts, name))
        ),
        line("received", f"{received_msgs:,}"),
        *((line("responses", f"{responses:,}"),) if responses else ()),
        *((line("foreign", f"{counts.foreign_msgs:,}"),) if counts.foreign_msgs else ()),
    ]
    if stores:
        redelivered_msgs = counts.redelivered_msgs
        lines.append(
            line("redelivered", f"{redelivered_msgs:,}", "warn" if redelivered_msgs else "")
        )
    server_counts = _server_msgs(view, stores=stores).items()
    lines += [line(label, f"{n:,}") for label, n in server_counts if n is not None]
    return Section("MESSAGES", tuple(lines))


def _sum_counts(view: BenchmarkView, name: str) -> int:
    return sum(getattr(view.totals[key], name) for key in summed_workers(view, name))


def _server_msgs(view: BenchmarkView, *, stores: bool) -> dict[str, int | None]:
    """Return label → number of messages on the server: from the newest poll, after the run from
    its result.
    """
    if view.finished is not None:
        accounting = view.finished.result.accounting
        counts: dict[str, int | None] = {"stored": accounting.stored_msgs} if stores else {}
        return counts | {"lost": accounting.lost_msgs}
    if view.progress is None or not stores:
        return {}
    now = view.progress
    return {
        "stored": now.stored_msgs,
        "pending": now.pending_msgs,
        "ack pending": now.ack_pending_msgs,
    }


def log_section(view: BenchmarkView) -> Section:
    """Return the log, newest first."""
    lines = [
        line(local_text(entry.at_us), (f"{entry.worker}: " if entry.worker else "") + entry.text)
        for entry in reversed(view.log[-MAX_LOG_ENTRIES:])
    ]
    return Section("LOG", tuple(lines) or (line("", "nothing yet", "dim"),))
