"""Makes text for people of a benchmark's result. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from natstui.bench.result.assertions import is_latency
from natstui.bench.result.compare import Difference
from natstui.bench.result.library import SavedRun
from natstui.bench.result.merge_saved_runs import MergedRun, MergedRuns, moment_text
from natstui.bench.result.named_figures import COUNT_AND_RATE_NAMES, LATENCY_NAMES, Metrics
from natstui.clean import clean_line
from natstui.model.bench.counts import LATENCY_MEANINGS, Counts
from natstui.model.bench.latency import SHOWN_PERCENTILES
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import Accounting, BenchmarkResult, WorkerResult
from natstui.units import UNKNOWN, count_text, duration_text, rate_text

ALL_ACCOUNTED_TEXT = "every message accounted for"
_SHOWN_FIGURES = (*SHOWN_PERCENTILES, "max")
LABEL_WIDTH_CELLS = 13
"""Column at which the values of a summary begin."""
_FIGURE_WIDTH_CELLS = 8
"""Width of a latency column, so that the table fits beside the distribution from 110 columns on.
"""
_COUNT_COLUMNS = (
    ("sent", "sent_msgs"),
    ("acked", "acked_msgs"),
    ("received", "received_msgs"),
    ("acks", "acks_sent_msgs"),
    ("again", "redelivered_msgs"),
)
_MIN_COLUMN_CELLS = 8


def summary_text(run: SavedRun) -> str:
    """Return the summary of a run as text: title, verdict, rates, messages, latencies, workers."""
    return "\n".join(_summary_lines(run))


def _summary_lines(run: SavedRun) -> Iterator[str]:
    last_result, figures = run.results[-1], run.metrics
    yield ""
    median_text = f", median of {len(run.results)}" if len(run.results) > 1 else ""
    yield f"{clean_line(run.title)}{median_text}"
    partial = " · PARTIAL" if run.partial else ""
    # A good last repetition must not hide a bad one.
    verdict = next((result.verdict for result in run.results if result.verdict != "ok"), "ok")
    yield f"  verdict    {verdict}{partial} in {duration_text(last_result.duration_s)}"
    yield f"  rates      {_rates_text(last_result, figures)}"
    yield f"  messages   {_messages_text(run)}"
    yield from _latency_lines(figures)
    yield f"  server     {_server_text(last_result)}"
    for number, row in enumerate(worker_rows(last_result.workers, _ms_text)):
        yield f"  {'' if number else 'workers':<{LABEL_WIDTH_CELLS - 2}}{row}"
    for note in dict.fromkeys(note for result in run.results for note in result.notes):
        yield f"  note       {clean_line(note)}"


def _rates_text(result: BenchmarkResult, figures: Metrics) -> str:
    publish_per_s, receive_per_s = figures["publish_rate"], figures["receive_rate"]
    rate_texts = [
        f"published {rate_text(publish_per_s)}/s",
        f"received {rate_text(receive_per_s)}/s",
    ]
    if result.fan_out_ratio is not None:
        rate_texts.append(f"fan-out {result.fan_out_ratio:.4g}")
    if figures["fairness"] is not None:
        rate_texts.append(f"fairness {figures['fairness']:.3f}")
    return ", ".join(rate_texts)


_STREAM_COUNTS = ("acked", "stored", "redelivered")
"""Figures that are only shown if messages are stored."""
_ALWAYS_SHOWN_COUNTS = ("sent", *_STREAM_COUNTS, "received", "lost", "duplicates", "missed")
_COUNTS_SHOWN_IF_NONZERO = (
    "foreign",
    "repeats_refused",
    "refused",
    "unanswered",
    "retried",
    "responses",
    "unresponded",
)


def _messages_text(run: SavedRun) -> str:
    return _counts_text(run.plan, run.metrics, [result.accounting for result in run.results])


def _counts_text(plan: BenchmarkPlan, figures: Metrics, accountings: Sequence[Accounting]) -> str:
    """Return the counts that apply to the plan as text, then a text about missing messages."""
    always_shown_names = (
        _ALWAYS_SHOWN_COUNTS
        if plan.stream
        else set(_ALWAYS_SHOWN_COUNTS).difference(_STREAM_COUNTS)
    )
    shown_names = [
        name
        for name in COUNT_AND_RATE_NAMES
        if name in always_shown_names
        or (name in (*_STREAM_COUNTS, *_COUNTS_SHOWN_IF_NONZERO) and figures.get(name))
    ]
    count_texts = [
        f"{name.replace('_', ' ')} {_integer_text(figures.get(name))}" for name in shown_names
    ]
    return f"{', '.join(count_texts)} · {_loss_text(plan, accountings)}"


def _loss_text(plan: BenchmarkPlan, accountings: Sequence[Accounting]) -> str:
    if not all(accounting.measures for accounting in accountings):
        return "NOTHING WAS MEASURED"
    if not all(accounting.closes for accounting in accountings):
        return "MESSAGE COUNTS DO NOT ADD UP"
    if any(accounting.lost_msgs for accounting in accountings):
        return "MESSAGES WERE LOST"
    has_consumers = any(role.traits.consumes for role in plan.roles)
    if has_consumers and any(accounting.lost_msgs is None for accounting in accountings):
        return "whether messages were lost is unknown"
    stores_messages = plan.stream is not None and any(role.traits.is_stored for role in plan.roles)
    if stores_messages and any(accounting.stored_msgs is None for accounting in accountings):
        return "whether messages were stored is unknown"
    return ALL_ACCOUNTED_TEXT


def _integer_text(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:,.0f}"


def _latency_lines(figures: Metrics) -> Iterator[str]:
    shown_columns = [
        name
        for latency_name in LATENCY_NAMES
        for name in (latency_name, f"{latency_name}.uncorrected")
        if figures.get(f"{name}.p50") is not None
    ]
    if shown_columns:
        column_heads = "".join(f"{part:>{_FIGURE_WIDTH_CELLS}}" for part in _SHOWN_FIGURES)
        yield f"  latency    {'in ms':<16}{column_heads}"
    for name in shown_columns:
        figures_text = "".join(
            f"{_ms_text(figures[f'{name}.{part}']):>{_FIGURE_WIDTH_CELLS}}"
            for part in _SHOWN_FIGURES
        )
        yield f"             {name:<16}{figures_text}"
    for name in shown_columns:
        if name in LATENCY_MEANINGS:
            yield f"             {name:<16}  {LATENCY_MEANINGS[name]}"
    if any(name.endswith(".uncorrected") for name in shown_columns):
        yield f"             {'uncorrected':<16}  counted from sending, not from the due time"


def _ms_text(latency_ns: float | None) -> str:
    if latency_ns is None:
        return UNKNOWN
    latency_ms = latency_ns / 1e6
    return f"{latency_ms:.4g}" if latency_ms < 1000 else f"{latency_ms:.0f}"


def _server_text(result: BenchmarkResult) -> str:
    if result.server_cpu_ratio is None:
        return f"CPU unknown: {result.server_cpu_unknown or 'CPU use was not measured'}"
    return f"CPU {result.server_cpu_ratio:.0%} of one core"


_MERGED_TABLE_HEAD = (
    "", "verdict", "published/s", "received/s", "sent", "received", "lost", "foreign", "account",
)  # fmt: skip


def merged_text(merged_runs: MergedRuns) -> str:
    """Return merged runs as text: their common figures, and a row for each of them."""
    figures, runs = merged_runs.metrics, merged_runs.runs
    begin_text, end_text = moment_text(merged_runs.begin_at_us), moment_text(merged_runs.end_at_us)
    rate_texts = [f"published {rate_text(figures['publish_rate'])}/s"]
    rate_texts.append(f"received {rate_text(figures['receive_rate'])}/s")
    accountings = [run.accounting for run in runs]
    lines = [
        "",
        f"{clean_line(merged_runs.title)}, {len(runs)} runs together",
        f"  interval   {begin_text} … {end_text}, {duration_text(merged_runs.common_s)} "
        "measured by all runs",
        f"  rates      {', '.join(rate_texts)}, in this interval",
        f"  messages   {_counts_text(merged_runs.plan, figures, accountings)}",
        *_latency_lines(figures),
    ]
    rows = [_MERGED_TABLE_HEAD, *(_merged_row(merged_runs.plan, run) for run in runs)]
    column_widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = zip(row[1:], column_widths[1:], strict=True)
        cells_text = "".join(f"  {cell:>{width}}" for cell, width in cells)
        lines.append(
            f"  {'' if number else 'runs':<{LABEL_WIDTH_CELLS - 2}}{row[0]:<{column_widths[0]}}"
            f"{cells_text}"
        )
    notes = (f"{run.name}: {note}" for run in runs for note in run.notes)
    lines += [f"  note       {clean_line(note)}" for note in notes]
    return "\n".join(line.rstrip() for line in lines)


def _merged_row(plan: BenchmarkPlan, run: MergedRun) -> tuple[str, ...]:
    accounting = run.accounting
    return (
        clean_line(run.name),
        f"{run.verdict}{' PARTIAL' if run.partial else ''}",
        rate_text(run.publish_per_s),
        rate_text(run.receive_per_s),
        _integer_text(accounting.sent_msgs),
        _integer_text(accounting.received_msgs),
        _integer_text(accounting.lost_msgs),
        _integer_text(accounting.foreign_msgs),
        "closes"
        if (loss_text := _loss_text(plan, [accounting])) == ALL_ACCOUNTED_TEXT
        else loss_text,
    )


def comparison_text(before: SavedRun, after: SavedRun, differences: list[Difference]) -> str:
    """Return the differences between two runs as text, a row per figure."""
    lines = [f"\n{clean_line(before.name)} → {clean_line(after.name)}"]
    for difference in differences:
        before_text, after_text = (
            _figure_text(difference.metric, value)
            for value in (difference.before, difference.after)
        )
        change_text = f"{difference.change_ratio:+.1%}"
        verdict = "" if difference.low_ratio is None else difference.verdict
        figures_text = f"{before_text:>10} → {after_text:<10}{change_text:>9}"
        lines.append(f"  {difference.metric:<21}{figures_text}  {verdict}".rstrip())
    lines += dict.fromkeys(
        f"  note       {difference.verdict}"
        for difference in differences
        if difference.low_ratio is None
    )
    return "\n".join(lines)


def _figure_text(name: str, value: float) -> str:
    if is_latency(name):
        return f"{_ms_text(value)} ms"
    return f"{value:.3f}" if name == "fairness" else f"{rate_text(value)}/s"


def worker_rows(
    workers: Sequence[WorkerResult], ms_text: Callable[[float | None], str]
) -> Iterator[str]:
    """Yield lines: for each role its name, the heads of its columns, and a row for each worker.

    `ms_text` formats a latency in ns.
    """
    for role in dict.fromkeys(worker.role for worker in workers):
        role_workers = [worker for worker in workers if worker.role == role]
        columns = [column for column in _worker_columns(role_workers, ms_text) if any(column[1:])]
        yield f"{role} ({role_workers[0].pattern})"
        for cells in zip(*columns, strict=True):
            row = zip(cells, columns, strict=True)
            yield "".join(_pad_cell(cell, column[0]) for cell, column in row).rstrip()


def _pad_cell(cell: str, head: str) -> str:
    return cell.rjust(max(len(head) + 2, _MIN_COLUMN_CELLS) if head else 2)


def _worker_columns(
    role_workers: Sequence[WorkerResult], ms_text: Callable[[float | None], str]
) -> Iterator[tuple[str, ...]]:
    """Yield the head and the cells of each column of a role's workers; empty cells are "".

    `ms_text` formats a latency in ns.
    """
    yield ("", *(str(worker.worker_id) for worker in role_workers))
    for head, name in _COUNT_COLUMNS:
        yield (head, *_count_cells([worker.counts for worker in role_workers], name))
    counts = [worker.counts.sent_msgs or worker.counts.received_msgs for worker in role_workers]
    total = sum(counts) if len(role_workers) > 1 else 0
    yield ("share", *(f"{count / total:.0%}" if total else "" for count in counts))
    yield ("msgs/s", *(rate_text(worker.rate_per_s) for worker in role_workers))
    latency_name = next(
        (worker.latency for worker in role_workers if worker.latency is not None), None
    )
    timed_workers = [
        worker if latency_name and worker.latency == latency_name else None
        for worker in role_workers
    ]
    yield (
        f"{latency_name} p50",
        *(ms_text(worker.p50_ns) if worker else "" for worker in timed_workers),
    )
    yield ("p99 ms", *(ms_text(worker.p99_ns) if worker else "" for worker in timed_workers))
    max_in_flight_by_worker = [worker.most_in_flight_msgs for worker in role_workers]
    yield (
        "in flight",
        *("" if msgs is None else count_text(msgs) for msgs in max_in_flight_by_worker),
    )
    cpu_ratios = [worker.cpu_ratio for worker in role_workers]
    yield ("CPU", *(UNKNOWN if ratio is None else f"{ratio:.0%}" for ratio in cpu_ratios))
    yield ("ended", *("" if worker.ended == "done" else worker.ended for worker in role_workers))


def _count_cells(counts: Sequence[Counts], name: str) -> list[str]:
    msgs_by_worker: list[int] = [getattr(count, name) for count in counts]
    return [count_text(amount) if any(msgs_by_worker) else "" for amount in msgs_by_worker]
