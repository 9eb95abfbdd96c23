"""Texts of a benchmark: title, progress, latencies, message counts and log."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

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
from natstui.values import replace

_NARROW_CELLS = 100
_SUMMARY_INDENT_CELLS = 13
"""Column at which the values of a summary begin."""


def run_title_text(view: BenchmarkView, width: int = 120) -> str:
    """Return title, phase, progress, remaining time and verdict; the bar is short if `width` is
    below 100 cells.
    """
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
    indent = " " * min(_SUMMARY_INDENT_CELLS, width // 3)
    lines = []
    for text_line in text.splitlines():
        lines += textwrap.wrap(text_line, max(width, 20), subsequent_indent=indent) or [""]
    return "\n".join(lines)


def controlled_role(plan: BenchmarkPlan) -> str | None:
    """Return the name of the role that keys control: the first that receives, else the first."""
    receiving_roles = [role.name for role in plan.roles if role.traits.receives]
    return next(iter(receiving_roles or [role.name for role in plan.roles]), None)


MAX_LOG_ENTRIES = 200
"""Maximum number of shown log entries; the newest are shown."""

_SHOWN_PERCENTS = tuple(PERCENTILES[name] for name in SHOWN_PERCENTILES)
_LATENCY_CELLS = 5


def latency_section(
    view: BenchmarkView, *, with_uncorrected_latency: bool = False, is_framed: bool = False
) -> Section:
    """Return a table with the percentiles of every measured latency, from the due time.

    `with_uncorrected_latency` adds explanations, and latencies from the time of sending, without
    earlier waiting. With `is_framed`, the title omits LATENCY, which is the title of the frame.
    """
    lines, latencies = [], view.latencies
    for name in LATENCY_FIELDS:
        histogram = getattr(latencies, name)
        if name.endswith("_uncorrected") and not with_uncorrected_latency:
            continue
        if histogram.total_count:
            values = [histogram.percentile_ns(percent) for percent in _SHOWN_PERCENTS]
            texts = [ms_text(value) for value in (*values, histogram.max_ns)]
            style_name = "dim" if name.endswith("_uncorrected") else ""
            lines.append(
                line(name.replace("_uncorrected", " unc."), _align_columns(texts), style_name)
            )
    if not lines:
        return Section("LATENCY", (line("", "nothing measured yet", "dim"),))
    lines.sort(key=lambda latency_line: latency_line.label)
    header_line = line(
        "ms", _align_columns([*(f"p{percent:g}" for percent in _SHOWN_PERCENTS), "max"]), "dim"
    )
    explanations = [
        line(latency_line.label, LATENCY_MEANINGS[latency_line.label], "dim")
        for latency_line in lines
        if with_uncorrected_latency and latency_line.label in LATENCY_MEANINGS
    ]
    title = ("" if is_framed else "LATENCY ") + "FROM DUE TIME"
    title += "; unc.: from sending" if with_uncorrected_latency else ""
    return Section(title, (header_line, *lines, *explanations))


def _align_columns(texts: Sequence[str]) -> str:
    return " ".join(text.rjust(_LATENCY_CELLS) for text in texts)


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
    name_and_histogram = main_latency(view.latencies)
    if name_and_histogram is None:
        return Section("", ())
    name, histogram = name_and_histogram
    p1_ns, p50_ns, p99_ns = (
        histogram.percentile_ns(percentile) or 0 for percentile in (1.0, 50.0, 99.0)
    )
    span_ns = (p99_ns - p1_ns + 1) / (min(max_rows, _MAX_DISTRIBUTION_ROWS) - 2)
    # The buckets of the histogram have a precision of 0.4 %: shorter steps are useless.
    step_ns = _round_step_ns(max(span_ns, p99_ns / 100))
    first_row, last_row = p1_ns // step_ns, p99_ns // step_ns + 1

    def row_of(latency_ns: int) -> int:
        return min(last_row, max(first_row, latency_ns // step_ns))

    count_by_row = dict.fromkeys(range(first_row, last_row + 1), 0)
    for bucket, count in zip(histogram.buckets, histogram.counts, strict=True):
        count_by_row[row_of(bucket_middle_ns(bucket))] += count
    percentiles_by_row: dict[int, list[str]] = {}
    for percentile_name in SHOWN_PERCENTILES:
        percentile_ns = histogram.percentile_ns(PERCENTILES[percentile_name])
        if percentile_ns is not None:
            percentiles_by_row.setdefault(row_of(percentile_ns), []).append(
                f"p{PERCENTILES[percentile_name]:g}"
            )
    max_count, bar_cells = max(count_by_row.values()), max(4, width - _CELLS_BESIDES_BAR)
    lines = []
    for row, count in count_by_row.items():
        if row == last_row and not count:
            continue
        limit_text = _ms_in_steps(min(row + 1, last_row) * step_ns, step_ns)
        bar_text = f"{bar(count / max_count, bar_cells, empty=' ')} {count_text(count):>5}"
        color_index = sum(row_of(end_ns) < row for end_ns in (p50_ns, p99_ns))
        parts = ((0, bar_cells, colors[color_index]),) if color_index < len(colors) else ()
        label = f"≥ {limit_text}" if row == last_row else f"< {limit_text}"
        row_line = line(label, f"{bar_text}  {_percentiles_text(percentiles_by_row.get(row, []))}")
        lines.append(
            replace(row_line, parts=(*parts, (len(bar_text), len(row_line.text), "strong")))
        )
    return Section(f"DISTRIBUTION {name}, ms", tuple(lines))


_MAX_DISTRIBUTION_ROWS = 12


def _round_step_ns(min_ns: float) -> int:
    """Return the next round number of nanoseconds at or above `min_ns`."""
    power: int = 10 ** max(0, math.floor(math.log10(max(1.0, min_ns))) - 1)
    return next(step * power for step in _ROUND_STEP_FACTORS if step * power >= min_ns)


_ROUND_STEP_FACTORS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)


def _ms_in_steps(latency_ns: int, step_ns: int) -> str:
    """Return nanoseconds as milliseconds with enough decimals to distinguish the steps."""
    return f"{latency_ns / 1e6:.{max(0, 7 - len(str(step_ns)))}f}"


def _percentiles_text(percentiles: Sequence[str]) -> str:
    """Return the percentiles that are in a row, as `◂ p50 p75`; of more than two only the first
    and the last.
    """
    return " ".join(
        f"◂ {percentile}" if index == 0 else percentile
        for index, percentile in enumerate(_shorten_percentiles(percentiles))
    )


def _shorten_percentiles(percentiles: Sequence[str]) -> list[str]:
    return list(percentiles) if len(percentiles) <= 2 else [f"{percentiles[0]}…{percentiles[-1]}"]


_CELLS_BESIDES_BAR = 30
"""Width of a row of the distribution without its bar: limit, count and two percentiles."""


_OTHER_OUTCOME_COUNTS = (
    ("repeats", "duplicate_acked_msgs"),
    ("refused", "refused_msgs"),
    ("unanswered", "unanswered_msgs"),
    ("sent again", "retried_msgs"),
)
"""Label and count of other outcomes of sent messages; `repeats` are duplicates for the stream."""


def message_counts_section(view: BenchmarkView) -> Section:
    """Return the message totals of the run, and the messages on the server."""
    counts = total_counts(view.totals.values())
    sent_msgs, received_msgs = _sum_counts(view, "sent_msgs"), _sum_counts(view, "received_msgs")
    response_msgs = counts.received_msgs - received_msgs
    has_stream = view.planned is None or view.planned.plan.stream is not None
    lines = [
        line("sent", f"{sent_msgs:,}"),
        *((line("acked", f"{counts.acked_msgs:,}"),) if has_stream else ()),
        *(
            line(label, f"{count:,}", "warn")
            for label, name in _OTHER_OUTCOME_COUNTS
            if (count := getattr(counts, name))
        ),
        line("received", f"{received_msgs:,}"),
        *((line("responses", f"{response_msgs:,}"),) if response_msgs else ()),
        *((line("foreign", f"{counts.foreign_msgs:,}"),) if counts.foreign_msgs else ()),
    ]
    if has_stream:
        redelivered_msgs = counts.redelivered_msgs
        lines.append(
            line("redelivered", f"{redelivered_msgs:,}", "warn" if redelivered_msgs else "")
        )
    server_counts = _server_msgs(view, has_stream=has_stream).items()
    lines += [line(label, f"{msgs:,}") for label, msgs in server_counts if msgs is not None]
    return Section("MESSAGES", tuple(lines))


def _sum_counts(view: BenchmarkView, name: str) -> int:
    return sum(getattr(view.totals[key], name) for key in summed_workers(view, name))


def _server_msgs(view: BenchmarkView, *, has_stream: bool) -> dict[str, int | None]:
    """Return label → number of messages on the server: from the newest poll, after the run from
    its result.
    """
    if view.finished is not None:
        accounting = view.finished.result.accounting
        counts: dict[str, int | None] = {"stored": accounting.stored_msgs} if has_stream else {}
        return counts | {"lost": accounting.lost_msgs}
    if view.progress is None or not has_stream:
        return {}
    progress = view.progress
    return {
        "stored": progress.stored_msgs,
        "pending": progress.pending_msgs,
        "ack pending": progress.ack_pending_msgs,
    }


def log_section(view: BenchmarkView) -> Section:
    """Return the section with the log of the run, the newest entry first."""
    lines = [
        line(local_text(entry.at_us), (f"{entry.worker}: " if entry.worker else "") + entry.text)
        for entry in reversed(view.log[-MAX_LOG_ENTRIES:])
    ]
    return Section("LOG", tuple(lines) or (line("", "nothing yet", "dim"),))
