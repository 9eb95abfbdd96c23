"""A benchmark as text and series: workers, throughput, latencies, progress, account, log."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from natstui.clean import clean_line
from natstui.model.bench.counts import (
    LATENCY_FIELDS,
    LATENCY_WORDS,
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

_NARROW = 100
_SUMMARY_LABEL = 13
"""Where values of a summary begin."""


def title_text(view: BenchmarkView, width: int = 120) -> str:
    """Return title, phase, progress and time left, a shorter bar where there is little room."""
    if view.planned is None:
        return "no benchmark has run"
    progress = view.progress
    parts = [clean_line(view.planned.plan.title), view.phase]
    if progress is not None and view.finished is None:
        if progress.done_ratio is not None:
            cells = 20 if width >= _NARROW else 8
            parts.append(f"{bar(progress.done_ratio, cells)} {progress.done_ratio:.0%}")
        parts.append(duration_text(progress.elapsed_s))
        if progress.left_s is not None:
            parts.append(f"{duration_text(progress.left_s)} left")
    if view.finished is not None:
        result = view.finished.result
        parts.append(f"{result.verdict}{' · PARTIAL' if result.partial else ''}")
    return "  ·  ".join(parts)


def hanging(text: str, width: int) -> str:
    """Return a summary with lines too long for `width` cells continued below their value."""
    indent = " " * min(_SUMMARY_LABEL, width // 3)
    lines = []
    for text_line in text.splitlines():
        lines += textwrap.wrap(text_line, max(width, 20), subsequent_indent=indent) or [""]
    return "\n".join(lines)


def steered_role(plan: BenchmarkPlan) -> str | None:
    """Return the role that add and kill act on: the first that receives, else the first."""
    receiving = [role.name for role in plan.roles if role.traits.receives]
    return next(iter(receiving or [role.name for role in plan.roles]), None)


LOG_SHOWN = 200

_PERCENTS = tuple(PERCENTILES[name] for name in SHOWN_PERCENTILES)
_FIGURE_WIDTH = 5


def latency_section(
    view: BenchmarkView, *, uncorrected: bool = False, framed: bool = False
) -> Section:
    """Return a table of percentiles of every latency that was measured, since messages were due.

    `uncorrected` adds those since they were sent, in which what waited before is missing, and
    what each is. `framed` is below a frame's title, Latency.
    """
    lines, latencies = [], view.latencies
    for name in LATENCY_FIELDS:
        histogram = getattr(latencies, name)
        if name.endswith("_uncorrected") and not uncorrected:
            continue
        if histogram.total_count:
            values = [histogram.percentile_ns(percent) for percent in _PERCENTS]
            texts = [ms_text(value) for value in (*values, histogram.max_ns)]
            look = "dim" if name.endswith("_uncorrected") else ""
            lines.append(line(name.replace("_uncorrected", " unc."), _columns(texts), look))
    if not lines:
        return Section("LATENCY", (line("", "nothing measured yet", "dim"),))
    lines.sort(key=lambda one: one.label)
    head = line("ms", _columns([*(f"p{percent:g}" for percent in _PERCENTS), "max"]), "dim")
    words = [
        line(one.label, LATENCY_WORDS[one.label], "dim")
        for one in lines
        if uncorrected and one.label in LATENCY_WORDS
    ]
    title = ("" if framed else "LATENCY ") + "FROM DUE TIME"
    title += "; unc.: from sending" if uncorrected else ""
    return Section(title, (head, *lines, *words))


def _columns(texts: Sequence[str]) -> str:
    return " ".join(text.rjust(_FIGURE_WIDTH) for text in texts)


def ms_text(latency_ns: int | None) -> str:
    """Return milliseconds in at most five cells, never as a power of ten."""
    if latency_ns is None:
        return UNKNOWN
    ms = latency_ns / 1e6
    if ms >= 99_999.5:
        return f"{ms / 1000:.0f} s"
    return f"{ms:.0f}" if ms >= 99.95 else f"{ms:.1f}" if ms >= 9.995 else f"{ms:.2f}"


def distribution_section(
    view: BenchmarkView, width: int, most_rows: int = 64, colors: Sequence[str] = ()
) -> Section:
    """Return how many messages had which latency, in equal steps, percentiles marked.

    What is quicker than nearly all shares the first row, what is slower than p99 the last. Bars
    are as long as their counts; beyond p50 and p99 they have the second and third of `colors`.
    """
    main = main_latency(view.latencies)
    if main is None:
        return Section("", ())
    name, histogram = main
    low_ns, p50_ns, p99_ns = (histogram.percentile_ns(at) or 0 for at in (1.0, 50.0, 99.0))
    span_ns = (p99_ns - low_ns + 1) / (min(most_rows, _MOST_ROWS) - 2)
    # A bucket is known to 0.4 %: shorter steps would tell of nothing.
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
    most, room = max(counts.values()), max(4, width - _BESIDE_BAR)
    lines = []
    for row, count in counts.items():
        if row == last and not count:
            continue
        edge = _ms_in_steps(min(row + 1, last) * step_ns, step_ns)
        told = f"{bar(count / most, room, empty=' ')} {count_text(count):>5}"
        color = sum(row_of(end_ns) < row for end_ns in (p50_ns, p99_ns))
        parts = ((0, room, colors[color]),) if color < len(colors) else ()
        label = f"≥ {edge}" if row == last else f"< {edge}"
        shown = line(label, f"{told}  {_together(marks.get(row, []))}")
        lines.append(replace(shown, parts=(*parts, (len(told), len(shown.text), "strong"))))
    return Section(f"DISTRIBUTION {name}, ms", tuple(lines))


_MOST_ROWS = 12


def _round_step_ns(least_ns: float) -> int:
    """Return the next round number of nanoseconds."""
    power: int = 10 ** max(0, math.floor(math.log10(max(1.0, least_ns))) - 1)
    return next(step * power for step in _ROUND if step * power >= least_ns)


_ROUND = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100)


def _ms_in_steps(latency_ns: int, step_ns: int) -> str:
    """Return milliseconds with as many decimals as tell the steps apart."""
    return f"{latency_ns / 1e6:.{max(0, 7 - len(str(step_ns)))}f}"


def _together(marks: Sequence[str]) -> str:
    """Return the percentiles in one row: there is room for two."""
    return " ".join(f"◂ {mark}" if at == 0 else mark for at, mark in enumerate(_few(marks)))


def _few(marks: Sequence[str]) -> list[str]:
    return list(marks) if len(marks) <= 2 else [f"{marks[0]}…{marks[-1]}"]


_BESIDE_BAR = 30
"""Cells of a row of the distribution beside its bar: limit, count and two percentiles."""


_NOT_STORED = (
    ("repeats", "duplicate_acked_msgs"),
    ("refused", "refused_msgs"),
    ("unanswered", "unanswered_msgs"),
    ("sent again", "retried_msgs"),
)
"""Where else a message that was sent may be; `repeats` are those the stream had already."""


def flow_section(view: BenchmarkView) -> Section:
    """Return the sums so far and what the server holds; at the end, what the result says of it."""
    counts = total_counts(view.totals.values())
    sent, received = _sum(view, "sent_msgs"), _sum(view, "received_msgs")
    responses = counts.received_msgs - received
    stores = view.planned is None or view.planned.plan.stream is not None
    lines = [
        line("sent", f"{sent:,}"),
        *((line("acked", f"{counts.acked_msgs:,}"),) if stores else ()),
        *(
            line(label, f"{count:,}", "warn")
            for label, name in _NOT_STORED
            if (count := getattr(counts, name))
        ),
        line("received", f"{received:,}"),
        *((line("responses", f"{responses:,}"),) if responses else ()),
        *((line("foreign", f"{counts.foreign_msgs:,}"),) if counts.foreign_msgs else ()),
    ]
    if stores:
        again = counts.redelivered_msgs
        lines.append(line("redelivered", f"{again:,}", "warn" if again else ""))
    held = _held_msgs(view, stores=stores).items()
    lines += [line(label, f"{n:,}") for label, n in held if n is not None]
    return Section("MESSAGES", tuple(lines))


def _sum(view: BenchmarkView, name: str) -> int:
    return sum(getattr(view.totals[key], name) for key in summed_workers(view, name))


def _held_msgs(view: BenchmarkView, *, stores: bool) -> dict[str, int | None]:
    """Return what the server holds: of a run that is over, its result, as polls end before it."""
    if view.finished is not None:
        books = view.finished.result.accounting
        stored: dict[str, int | None] = {"stored": books.stored_msgs} if stores else {}
        return stored | {"lost": books.lost_msgs}
    if view.progress is None or not stores:
        return {}
    now = view.progress
    return {
        "stored": now.stored_msgs,
        "pending": now.pending_msgs,
        "ack pending": now.ack_pending_msgs,
    }


def log_section(view: BenchmarkView) -> Section:
    """Return what happened, newest first."""
    lines = [
        line(local_text(it.at_us), (f"{it.worker}: " if it.worker else "") + it.text)
        for it in reversed(view.log[-LOG_SHOWN:])
    ]
    return Section("LOG", tuple(lines) or (line("", "nothing yet", "dim"),))
