"""Saved runs of several hosts as one: histograms added, rates over the time all of them measured.

The accounts are not added up: each run closes its own, with what others sent left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime

from natstui.bench.result.library import SavedRun
from natstui.bench.result.metrics import COUNTS, Metrics, latency_metrics
from natstui.clean import clean_line
from natstui.errors import Refused, UsageError
from natstui.model.bench.counts import Latencies, merge_latencies
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import Accounting, Verdict
from natstui.model.bench.timeline import Timeline
from natstui.units import is_possible_time


@dataclass(frozen=True, slots=True)
class MergedPart:
    """One run in a merged table; rates are those of the common interval."""

    name: str
    verdict: Verdict
    partial: bool
    measured_s: float
    publish_per_s: float | None
    receive_per_s: float | None
    metrics: Metrics
    """Of the run alone, over its own time."""
    accounting: Accounting
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MergedRuns:
    """Several runs of one plan at one time: the object of `--json`."""

    title: str
    natstui_version: str
    begin_at_us: int
    """Of the common interval."""
    end_at_us: int
    metrics: Metrics
    """Counts are sums, rates those of the common interval, latencies of all messages."""
    latencies: Latencies
    runs: tuple[MergedPart, ...]
    plan: BenchmarkPlan

    @property
    def common_s(self) -> float:
        """The length of the common interval."""
        return (self.end_at_us - self.begin_at_us) / 1e6


def merge_runs(named: Sequence[tuple[str, SavedRun]]) -> MergedRuns:
    """Return runs as one; each comes with the name it is shown by.

    Raises UsageError for fewer than two, and Refused for runs that do not belong together.
    """
    if len(named) < 2:
        raise UsageError("merge needs two runs or more: see natstui bench runs")
    first_name, first = named[0]
    for number, (name, run) in enumerate(named):
        if any(run.results == other.results for _, other in named[:number]):
            raise Refused(f"{name} is given twice: merge needs each run once")
        if len(run.results) != 1 or len(run.timelines) != 1:
            raise Refused(_not_single(name, run))
        if not _is_sound(run.timelines[0]):
            raise Refused(f"{name} is damaged: the times of its messages make no sense")
        version, first_version = (one.environment.natstui_version for one in (run, first))
        if version != first_version:
            raise Refused(
                f"{name} was measured by natstui {version}, and {first_name} by {first_version}:"
                " use one version on all hosts"
            )
        if run.plan != first.plan:
            difference = _difference(first.plan, run.plan)
            raise Refused(f"{name} ran another plan than {first_name}: {difference}")
    timelines = [run.timelines[0] for _, run in named]
    begin_at_us, end_at_us = _common(named, timelines)
    parts = tuple(
        _part(name, run, timeline.between(begin_at_us, end_at_us), end_at_us - begin_at_us)
        for (name, run), timeline in zip(named, timelines, strict=True)
    )
    latencies = merge_latencies(run.results[0].latencies for _, run in named)
    figures: Metrics = {name: _sum(part.metrics[name] for part in parts) for name in COUNTS}
    figures |= {
        "publish_rate": _sum(part.publish_per_s for part in parts),
        "receive_rate": _sum(part.receive_per_s for part in parts),
        "fairness": None,
    }
    figures |= latency_metrics(latencies)
    return MergedRuns(
        title=first.title,
        natstui_version=first.environment.natstui_version,
        begin_at_us=begin_at_us,
        end_at_us=end_at_us,
        metrics=figures,
        latencies=latencies,
        runs=parts,
        plan=first.plan,
    )


def _is_sound(timeline: Timeline) -> bool:
    times_us = (timeline.began_at_us, timeline.ended_at_us)
    return (
        timeline.slice_us > 0
        and all(map(is_possible_time, times_us))
        and sorted(times_us) == list(times_us)
    )


def _not_single(name: str, run: SavedRun) -> str:
    if len(run.results) != 1:
        return f"{name} has {len(run.results)} repetitions: merge takes runs without --repeat"
    return f"{name} has no times of its messages: an older natstui saved it"


def _common(
    named: Sequence[tuple[str, SavedRun]], timelines: Sequence[Timeline]
) -> tuple[int, int]:
    """Return the whole slices that every run measured. Raises Refused."""
    slice_us = max(timeline.slice_us for timeline in timelines)
    latest = max(range(len(named)), key=lambda number: timelines[number].began_at_us)
    soonest = min(range(len(named)), key=lambda number: timelines[number].ended_at_us)
    begin = -(-timelines[latest].began_at_us // slice_us)
    end = timelines[soonest].ended_at_us // slice_us
    if end <= begin:
        raise Refused(
            f"{named[latest][0]} began to measure at {moment_text(timelines[latest].began_at_us)},"
            f" and {named[soonest][0]} ended at {moment_text(timelines[soonest].ended_at_us)}:"
            " runs must measure at the same time, so start each with --at"
        )
    return begin * slice_us, end * slice_us


def moment_text(at_us: int) -> str:
    """Return a moment as UTC, to a tenth of a second."""
    moment = datetime.fromtimestamp(at_us / 1e6, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 100_000}Z"


def _part(name: str, run: SavedRun, msgs: tuple[int, int], common_us: int) -> MergedPart:
    (result,), (timeline,) = run.results, run.timelines
    publishes, receives = result.publish_per_s is not None, result.receive_per_s is not None
    return MergedPart(
        name=name,
        verdict=result.verdict,
        partial=result.partial,
        measured_s=(timeline.ended_at_us - timeline.began_at_us) / 1e6,
        publish_per_s=msgs[0] / common_us * 1e6 if publishes else None,
        receive_per_s=msgs[1] / common_us * 1e6 if receives else None,
        metrics=run.metrics,
        accounting=result.accounting,
        notes=result.notes,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum; None where a part of it is unknown."""
    total = 0.0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _difference(one: object, other: object, path: str = "") -> str | None:
    """Return a sentence about the first field in which two plans differ, or None."""
    if is_dataclass(one) and is_dataclass(other):
        for part in fields(one):
            name = f"{path} {part.name}".strip()
            found = _difference(getattr(one, part.name), getattr(other, part.name), name)
            if found is not None:
                return found
        return None
    if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True), 1):
            found = _difference(*pair, f"{path} {number}")
            if found is not None:
                return found
        return None
    if one == other:
        return None
    return f"{path} is {_short(other)}, not {_short(one)}"


def _short(value: object) -> str:
    if isinstance(value, tuple) or is_dataclass(value):
        return "something else"
    return clean_line(repr(value))
