"""The run library: one JSON file per saved benchmark, with its histograms as an HdrHistogram log.

A file has the plan, every repetition's result, the medians of its figures and the environment.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from platformdirs import user_data_path

from natstui.bench.result.environment import Environment
from natstui.bench.result.named_figures import Metrics, medians, metrics
from natstui.decoding import decoder_of
from natstui.errors import NotFound, SessionError
from natstui.files import read_regular_file, write_atomic_file
from natstui.model.bench.counts import (
    LATENCY_FIELDS,
    Counts,
    Latencies,
    main_latency,
    merge_latencies,
    total_counts,
)
from natstui.model.bench.latency import LatencyCounts, TaggedInterval, hdr_log, is_valid_histogram
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import Accounting, BenchmarkResult, PreviousRun
from natstui.model.bench.timeline import Timeline
from natstui.parsing import describe_parse_error
from natstui.paths import create_private_folder, expand_user_path
from natstui.units import is_possible_time
from natstui.values import replace

SCHEMA_VERSION = 1
_TIME_PREFIX_LETTERS = len("20261123-174231-810-")
_MAX_SLUG_LETTERS = 40
"""Maximum of letters of the title in the name of a run; only entire words are included."""


class ListedRun(Struct, frozen=True):
    """A saved run in a list; if its file cannot be read, `problem` has the error, and the values
    are None.
    """

    name: str
    file: str
    title: str | None = None
    at_us: int | None = None
    partial: bool | None = None
    repetitions_count: int | None = None
    problem: str | None = None


_MAX_RUN_BYTES = 256 << 20
"""Limit of a saved run's size."""


class SavedRun(Struct, frozen=True):
    """A saved benchmark with all its repetitions: the JSON object of `--json` and of the file."""

    schema_version: int
    name: str
    title: str
    at_us: int
    partial: bool
    metrics: Metrics
    """Medians over the repetitions; latencies in ns."""
    repetitions: tuple[Metrics, ...]
    plan: BenchmarkPlan
    results: tuple[BenchmarkResult, ...]
    environment: Environment
    timelines: tuple[Timeline, ...] = ()
    """The messages of each repetition by time; missing in files of older versions."""


def library_folder(folder_setting: str | None) -> Path:
    """Return the folder of saved runs: that of the settings, else one in natstui's data folder."""
    return (
        expand_user_path(folder_setting)
        if folder_setting
        else user_data_path("natstui") / "benchmarks"
    )


def make_saved_run(
    plan: BenchmarkPlan,
    results: tuple[BenchmarkResult, ...],
    environment_of_run: Environment,
    timelines: tuple[Timeline, ...] = (),
) -> SavedRun:
    """Return the saved run of these repetitions, at least one; nothing is written.

    It has a new name, and the medians of the figures.
    """
    figures = tuple(metrics(result) for result in results)
    at_us = results[0].started_at_us
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at_us / 1e6))
    slug = re.sub(r"[^a-z0-9]+", "-", plan.title.lower()).strip("-")
    short_slug = (
        slug
        if len(slug) <= _MAX_SLUG_LETTERS
        else slug[: _MAX_SLUG_LETTERS + 1].rpartition("-")[0]
    )
    return SavedRun(
        schema_version=SCHEMA_VERSION,
        name=f"{stamp}-{at_us % 1_000_000 // 1000:03}-{short_slug}",
        title=plan.title,
        at_us=at_us,
        partial=any(result.partial for result in results),
        metrics=medians(list(figures)),
        repetitions=figures,
        plan=plan,
        results=results,
        environment=environment_of_run,
        timelines=timelines,
    )


def encode(run: SavedRun) -> bytes:
    """Return a run as one JSON object in UTF-8."""
    return msgspec.json.encode(run)


def save(run: SavedRun, folder: Path) -> Path:
    """Write a run and its histogram log; return the file. Raises SessionError if that fails."""
    path = folder / f"{run.name}.json"
    try:
        create_private_folder(folder)
        write_atomic_file(path, encode(run))
        write_atomic_file(path.with_suffix(".hlog"), _histogram_log(run).encode())
    except OSError as error:
        raise SessionError(f"the run cannot be saved in {folder}: {error.strerror}") from error
    return path


def run_names(folder: Path) -> list[str]:
    """Return the names of all saved runs, oldest first."""
    return sorted(path.stem for path in folder.glob("*.json"))


def list_runs(folder: Path) -> list[ListedRun]:
    """Return the list entries of all saved runs, oldest first."""
    return [_read_list_entry(folder / f"{name}.json") for name in run_names(folder)]


def _read_list_entry(path: Path) -> ListedRun:
    try:
        run = _read_run(path)
    except SessionError as error:
        return ListedRun(path.stem, str(path), problem=str(error))
    # A run is found by the name of its file.
    return ListedRun(path.stem, str(path), run.title, run.at_us, run.partial, len(run.repetitions))


def load(name: str, folder: Path) -> SavedRun:
    """Return the saved run with this name, part of a name, or file; `-1` is the newest.

    Raises NotFound, and SessionError for a file that is no run or has impossible values.
    """
    path = Path(name)
    if not (name.endswith(".json") and path.is_file()):
        path = folder / f"{_resolve_run_name(name, run_names(folder))}.json"
    return _read_run(path)


def previous_run(run: SavedRun, folder: Path) -> PreviousRun | None:
    """Return the figures of the last complete run of the same plan before `run`, if any."""
    title = run.name[_TIME_PREFIX_LETTERS:]
    for name in reversed(run_names(folder)):
        if name >= run.name or not name.endswith(title):
            continue
        try:
            saved_run = _read_run(folder / f"{name}.json")
        except SessionError:
            continue  # A file that is no run is reported by the list of runs.
        if saved_run.plan == run.plan and not saved_run.partial:
            return _make_previous_run(saved_run)
    return None


def _make_previous_run(run: SavedRun) -> PreviousRun:
    last_result = run.results[-1]
    main_name_and_latency = main_latency(last_result.latencies)
    return PreviousRun(
        name=run.name,
        at_us=run.at_us,
        publish_per_s=last_result.publish_per_s,
        receive_per_s=last_result.receive_per_s,
        latency=main_name_and_latency and main_name_and_latency[0],
        p99_ns=main_name_and_latency and main_name_and_latency[1].percentile_ns(99),
        lost_msgs=last_result.accounting.lost_msgs,
    )


def _read_run(path: Path) -> SavedRun:
    try:
        run = decoder_of(SavedRun).decode(read_regular_file(path, _MAX_RUN_BYTES))
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise SessionError(
            f"{path} is not a saved benchmark: {describe_parse_error(error)}"
        ) from error
    if run.schema_version != SCHEMA_VERSION:
        raise SessionError(f"{path} was saved by another version of natstui")
    problem = next(_find_run_errors(run), None)
    if problem is not None:
        raise SessionError(f"{path} is not a saved benchmark: {problem}")
    figures = tuple(metrics(result) for result in run.results)
    return replace(run, metrics=medians(list(figures)), repetitions=figures)


def _find_run_errors(run: SavedRun) -> Iterator[str]:
    """Yield a sentence for each impossible value of a saved run, with the name of its field."""
    if not run.results:
        yield "results is empty"
        return
    if not is_possible_time(run.at_us):
        yield "its time is not possible"
    for number, result in enumerate(run.results):
        yield from find_impossible_values(result, f"results[{number}]")
    for number, timeline in enumerate(run.timelines):
        yield from find_impossible_values(timeline, f"timelines[{number}]")
    if len(run.repetitions) != len(run.results):
        yield f"repetitions has {len(run.repetitions)} entries, and results {len(run.results)}"
        return
    figures = [metrics(result) for result in run.results]
    for number, saved in enumerate(run.repetitions):
        yield from _find_wrong_figures(saved, figures[number], f"repetitions[{number}]")
    yield from _find_wrong_figures(run.metrics, medians(figures), "metrics")


def _find_wrong_figures(saved_figures: Metrics, figures: Metrics, field: str) -> Iterator[str]:
    """Yield a sentence for each saved figure that differs from the figure of the results."""
    for name, value in saved_figures.items():
        if name in figures and value != figures[name]:
            yield f"{field}.{name} is {value}, and {figures[name]} by its results"


_TOTAL_NAMES_BY_COUNT: dict[str, tuple[str, ...]] = {
    "duplicate_msgs": ("received_msgs",),
    "out_of_order_msgs": ("received_msgs",),
    "steady_sent_msgs": ("sent_msgs",),
    "steady_acked_msgs": ("acked_msgs", "duplicate_acked_msgs"),
    "steady_received_msgs": ("received_msgs",),
    "steady_received_bytes": ("received_bytes",),
}
"""Count of a worker → the counts whose sum it cannot exceed."""
_TOTAL_NAMES_BY_ACCOUNTING_COUNT: dict[str, tuple[str, ...]] = {
    "duplicate_msgs": ("received_msgs",),
    "lost_msgs": ("expected_msgs",),
    "unread_msgs": ("delivered_msgs",),
    "unresponded_msgs": ("stored_msgs",),
}
"""Count of an accounting → the counts whose sum it cannot exceed."""
_COUNTS_OF_ALL_WORKERS = (
    "acked_msgs",
    "duplicate_acked_msgs",
    "refused_msgs",
    "unanswered_msgs",
    "missed_msgs",
    "out_of_order_msgs",
    "retried_msgs",
    "foreign_msgs",
)
"""Counts of an accounting that are sums over all workers."""
_COUNTS_OF_SOME_WORKERS = ("sent_msgs", "received_msgs")
"""Counts of an accounting that are sums over some workers."""
_ROUNDING_TOLERANCE_RATIO = 1e-9


def find_impossible_values(value: object, field: str) -> Iterator[str]:
    """Yield a sentence for each impossible part of a value; `field` is the name of its field."""
    if isinstance(value, LatencyCounts):
        if not is_valid_histogram(value):
            yield f"{field} is no histogram"
        return
    if isinstance(value, tuple):
        for number, part_value in enumerate(value):
            yield from find_impossible_values(part_value, f"{field}[{number}]")
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from find_impossible_values(getattr(value, name), f"{field}.{name}")
    elif isinstance(value, int | float) and value < 0:
        yield f"{field} is {value}, which is negative"
    match value:
        case Counts():
            yield from _find_excessive_counts(value, _TOTAL_NAMES_BY_COUNT, field)
        case Accounting():
            yield from _find_accounting_contradictions(value, field)
        case BenchmarkResult():
            yield from _find_result_contradictions(value, field)
        case Timeline():
            times_us = (value.began_at_us, value.ended_at_us)
            if not all(map(is_possible_time, times_us)) or times_us[0] > times_us[1]:
                yield f"{field} has times that are not possible"
            if value.slice_us == 0:
                yield f"{field}.slice_us is 0"


def _find_accounting_contradictions(accounting: Accounting, field: str) -> Iterator[str]:
    yield from _find_excessive_counts(accounting, _TOTAL_NAMES_BY_ACCOUNTING_COUNT, field)
    if accounting.closes == bool(accounting.missing):
        yield f"{field}.closes is {str(accounting.closes).lower()}, which its missing contradicts"
    # Without the last reports of a worker the sums do not add up, and it received more.
    if accounting.closes:
        yield from _find_excessive_counts(accounting, {"distinct_msgs": ("received_msgs",)}, field)


def _find_result_contradictions(result: BenchmarkResult, field: str) -> Iterator[str]:
    """Yield a sentence for each part of a result that contradicts another part."""
    accounting, counts = result.accounting, result.counts
    if counts != total_counts(worker.counts for worker in result.workers):
        yield f"{field}.counts is not the sum of the workers"
    for name in (*_COUNTS_OF_ALL_WORKERS, *_COUNTS_OF_SOME_WORKERS):
        msgs, workers_msgs = getattr(accounting, name), getattr(counts, name)
        if msgs > workers_msgs or (name in _COUNTS_OF_ALL_WORKERS and msgs != workers_msgs):
            yield f"{field}.accounting.{name} is {msgs}, but that of all workers is {workers_msgs}"
    if result.verdict == "ok" and accounting.incomplete_reasons:
        yield f"{field}.verdict is ok, but {accounting.incomplete_reasons[0]}"
    if (result.fairness_ratio or 0) > 1 + _ROUNDING_TOLERANCE_RATIO:
        yield f"{field}.fairness_ratio is {result.fairness_ratio}, which is above 1"


def _find_excessive_counts(
    counts: Counts | Accounting, totals: Mapping[str, tuple[str, ...]], field: str
) -> Iterator[str]:
    """Yield a sentence for each count that exceeds the sum of its totals."""
    for name, total_names in totals.items():
        part_msgs = getattr(counts, name)
        total_msgs = [getattr(counts, total_name) for total_name in total_names]
        if part_msgs is not None and None not in total_msgs and part_msgs > sum(total_msgs):
            total_text = f"{' + '.join(total_names)}, which is {sum(total_msgs)}"
            yield f"{field}.{name} is {part_msgs}, more than {total_text}"


def _resolve_run_name(name: str, names: list[str]) -> str:
    """Return the name of the run that `name` means: equal, a part of it, or `-1` for the newest.

    Raises NotFound unless exactly one run matches.
    """
    if re.fullmatch(r"-\d+", name) and int(name[1:]) <= len(names):
        return names[int(name)]
    matches = [run_name for run_name in names if run_name == name] or [
        run_name for run_name in names if name in run_name
    ]
    if len(matches) != 1:
        raise NotFound(f"{len(matches) or 'no'} saved runs match {name!r}: see natstui bench runs")
    return matches[0]


def _histogram_log(run: SavedRun) -> str:
    """Return the histograms of all repetitions, merged, as the text of an HdrHistogram log."""
    merged_latencies: Latencies = merge_latencies(result.latencies for result in run.results)
    total_duration_s = sum(result.duration_s for result in run.results)
    return hdr_log(
        run.at_us,
        [
            TaggedInterval(name, 0.0, total_duration_s, getattr(merged_latencies, name))
            for name in LATENCY_FIELDS
            if getattr(merged_latencies, name).total_count
        ],
    )
