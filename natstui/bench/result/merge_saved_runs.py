"""Merges saved runs of several hosts: adds their histograms, and the rates of their common time.

Each run keeps its own accounting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from natstui.bench.result.library import SavedRun
from natstui.bench.result.named_figures import COUNT_AND_RATE_NAMES, Metrics, latency_metrics
from natstui.clean import clean_line
from natstui.errors import ActionRefusal, UsageError
from natstui.model.bench.counts import Latencies, merge_latencies
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import Accounting, Verdict
from natstui.model.bench.timeline import Timeline


class MergedRun(Struct, frozen=True):
    """One of several merged runs; its rates are those of the common interval."""

    name: str
    verdict: Verdict
    partial: bool
    measured_s: float
    publish_per_s: float | None
    receive_per_s: float | None
    metrics: Metrics
    """The metrics of this run, over its own time."""
    accounting: Accounting
    notes: tuple[str, ...] = ()


class MergedRuns(Struct, frozen=True):
    """The merged result of runs of one plan at the same time; `--json` prints it as JSON."""

    title: str
    natstui_version: str
    begin_at_us: int
    """Start of the common interval, in which all runs measured."""
    end_at_us: int
    metrics: Metrics
    """Counts are sums, rates those of the common interval, latencies of all messages."""
    latencies: Latencies
    runs: tuple[MergedRun, ...]
    plan: BenchmarkPlan

    @property
    def common_s(self) -> float:
        """Return the length in s of the interval in which all runs measured."""
        return (self.end_at_us - self.begin_at_us) / 1e6


def merge_runs(named_runs: Sequence[tuple[str, SavedRun]]) -> MergedRuns:
    """Return runs of several hosts as one; `named_runs` are pairs of display name and run.

    Raises UsageError for fewer than two, and ActionRefusal for runs that cannot be merged.
    """
    if len(named_runs) < 2:
        raise UsageError("merge needs two runs or more: see natstui bench runs")
    first_name, first_run = named_runs[0]
    for number, (name, run) in enumerate(named_runs):
        if any(run.results == other_run.results for _, other_run in named_runs[:number]):
            raise ActionRefusal(f"{name} is given twice: merge needs each run once")
        if len(run.results) != 1 or len(run.timelines) != 1:
            raise ActionRefusal(_merge_obstacle(name, run))
        version, first_version = (
            run_compared.environment.natstui_version for run_compared in (run, first_run)
        )
        if version != first_version:
            raise ActionRefusal(
                f"{name} was measured by natstui {version}, and {first_name} by {first_version}:"
                " use one version on all hosts"
            )
        if run.plan != first_run.plan:
            difference = _describe_difference(first_run.plan, run.plan)
            raise ActionRefusal(f"{name} ran another plan than {first_name}: {difference}")
    timelines = [run.timelines[0] for _, run in named_runs]
    begin_at_us, end_at_us = _common_interval(named_runs, timelines)
    merged_runs = tuple(
        _make_merged_run(
            name, run, timeline.between(begin_at_us, end_at_us), end_at_us - begin_at_us
        )
        for (name, run), timeline in zip(named_runs, timelines, strict=True)
    )
    latencies = merge_latencies(run.results[0].latencies for _, run in named_runs)
    figures: Metrics = {
        name: _sum_or_none(merged_run.metrics[name] for merged_run in merged_runs)
        for name in COUNT_AND_RATE_NAMES
    }
    figures |= {
        "publish_rate": _sum_or_none(merged_run.publish_per_s for merged_run in merged_runs),
        "receive_rate": _sum_or_none(merged_run.receive_per_s for merged_run in merged_runs),
        "fairness": None,
    }
    figures |= latency_metrics(latencies)
    return MergedRuns(
        title=first_run.title,
        natstui_version=first_run.environment.natstui_version,
        begin_at_us=begin_at_us,
        end_at_us=end_at_us,
        metrics=figures,
        latencies=latencies,
        runs=merged_runs,
        plan=first_run.plan,
    )


def _merge_obstacle(name: str, run: SavedRun) -> str:
    if len(run.results) != 1:
        return f"{name} has {len(run.results)} repetitions: merge takes runs without --repeat"
    return f"{name} has no times of its messages: an older natstui saved it"


def _common_interval(
    named_runs: Sequence[tuple[str, SavedRun]], timelines: Sequence[Timeline]
) -> tuple[int, int]:
    """Return the start and end (UTC µs) of the complete slices that every run measured.

    Raises ActionRefusal without a common slice.
    """
    slice_us = max(timeline.slice_us for timeline in timelines)
    latest_start_index = max(
        range(len(named_runs)), key=lambda number: timelines[number].began_at_us
    )
    earliest_end_index = min(
        range(len(named_runs)), key=lambda number: timelines[number].ended_at_us
    )
    start_slice = -(-timelines[latest_start_index].began_at_us // slice_us)
    end = timelines[earliest_end_index].ended_at_us // slice_us
    if end <= start_slice:
        raise ActionRefusal(
            f"{named_runs[latest_start_index][0]} began to measure at "
            f"{moment_text(timelines[latest_start_index].began_at_us)},"
            f" and {named_runs[earliest_end_index][0]} ended at "
            f"{moment_text(timelines[earliest_end_index].ended_at_us)}:"
            " runs must measure at the same time, so start each with --at"
        )
    return start_slice * slice_us, end * slice_us


def moment_text(at_us: int) -> str:
    """Return a time (UTC µs) as UTC text, to a tenth of a second."""
    moment = datetime.fromtimestamp(at_us / 1e6, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 100_000}Z"


def _make_merged_run(
    name: str, run: SavedRun, published_received_msgs: tuple[int, int], common_us: int
) -> MergedRun:
    """Return one run of a merge.

    `published_received_msgs` are its messages in the common interval, which takes `common_us`.
    """
    (result,), (timeline,) = run.results, run.timelines
    has_publishers, has_receivers = (
        result.publish_per_s is not None,
        result.receive_per_s is not None,
    )
    return MergedRun(
        name=name,
        verdict=result.verdict,
        partial=result.partial,
        measured_s=(timeline.ended_at_us - timeline.began_at_us) / 1e6,
        publish_per_s=published_received_msgs[0] / common_us * 1e6 if has_publishers else None,
        receive_per_s=published_received_msgs[1] / common_us * 1e6 if has_receivers else None,
        metrics=run.metrics,
        accounting=result.accounting,
        notes=result.notes,
    )


def _sum_or_none(values: Iterable[float | None]) -> float | None:
    """Return the sum of values; None if one of them is None."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _describe_difference(first_value: object, second_value: object, path: str = "") -> str | None:
    """Return a text about the first field in which two plans differ; None if they are equal.

    `path` names the field that has the values.
    """
    if isinstance(first_value, Struct) and isinstance(second_value, Struct):
        for field in first_value.__struct_fields__:
            sentence = _describe_difference(
                getattr(first_value, field),
                getattr(second_value, field),
                f"{path} {field}".strip(),
            )
            if sentence is not None:
                return sentence
        return None
    if (
        isinstance(first_value, tuple)
        and isinstance(second_value, tuple)
        and len(first_value) == len(second_value)
    ):
        for number, item_pair in enumerate(zip(first_value, second_value, strict=True), 1):
            sentence = _describe_difference(*item_pair, f"{path} {number}")
            if sentence is not None:
                return sentence
        return None
    if first_value == second_value:
        return None
    return f"{path} is {_short_text(second_value)}, not {_short_text(first_value)}"


def _short_text(value: object) -> str:
    if isinstance(value, tuple | Struct):
        return "something else"
    return clean_line(repr(value))
