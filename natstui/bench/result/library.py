"""The run library: one JSON file per saved benchmark, with its histograms as an HdrHistogram log.

A file holds the plan, every repetition's result, the medians of its figures and the environment.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from platformdirs import user_data_path

from natstui.bench.result.environment import Environment
from natstui.bench.result.metrics import Metrics, medians, metrics
from natstui.bench.result.possible import impossible_values
from natstui.decoding import decoder_of
from natstui.errors import NotFound, SessionError
from natstui.files import read_plain, write_complete
from natstui.model.bench.counts import LATENCY_FIELDS, Latencies, main_latency, merge_latencies
from natstui.model.bench.latency import TaggedInterval, hdr_log
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import BenchmarkResult, PreviousRun
from natstui.model.bench.timeline import Timeline
from natstui.parsing import reason
from natstui.paths import private_folder, user_path
from natstui.units import is_possible_time

SCHEMA_VERSION = 1
_STAMP_LETTERS = len("20261123-174231-810-")
_WORDS_MOST = 40
"""Maximum letters of the title in a name, entire words only."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A saved run in a list; unknown values are None, and `problem` is the reason."""

    name: str
    file: str
    title: str | None = None
    at_us: int | None = None
    partial: bool | None = None
    repetitions_count: int | None = None
    problem: str | None = None


_MOST_BYTES = 256 << 20
"""Limit of a saved run's size."""


@dataclass(frozen=True, slots=True)
class SavedRun:
    """One benchmark with all its repetitions: the object of `--json`, and the file."""

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
    """Times of the received messages of each repetition; missing in files of older versions."""


def library_folder(folder_setting: str | None) -> Path:
    """Return the folder of saved runs: from the settings, or natstui's data folder."""
    return (
        user_path(folder_setting) if folder_setting else user_data_path("natstui") / "benchmarks"
    )


def saved_run(
    plan: BenchmarkPlan,
    results: tuple[BenchmarkResult, ...],
    environment_of_run: Environment,
    timelines: tuple[Timeline, ...] = (),
) -> SavedRun:
    """Return the run of these repetitions: its name, the medians of the figures, and all results.

    There is at least one result; nothing is written.
    """
    figures = tuple(metrics(result) for result in results)
    at_us = results[0].started_at_us
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at_us / 1e6))
    slug = re.sub(r"[^a-z0-9]+", "-", plan.title.lower()).strip("-")
    short_slug = slug if len(slug) <= _WORDS_MOST else slug[: _WORDS_MOST + 1].rpartition("-")[0]
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
    """Write a run and its histogram log; return the file. Raises SessionError."""
    path = folder / f"{run.name}.json"
    try:
        private_folder(folder)
        write_complete(path, encode(run))
        write_complete(path.with_suffix(".hlog"), _log(run).encode())
    except OSError as error:
        raise SessionError(f"the run cannot be saved in {folder}: {error.strerror}") from error
    return path


def runs(folder: Path) -> list[str]:
    """Return the names of all saved runs, oldest first."""
    return sorted(path.stem for path in folder.glob("*.json"))


def listed(folder: Path) -> list[ListedRun]:
    """Return the list entries of all saved runs, oldest first."""
    return [_listed(folder / f"{name}.json") for name in runs(folder)]


def _listed(path: Path) -> ListedRun:
    try:
        run = _decoded(path)
    except SessionError as error:
        return ListedRun(path.stem, str(path), problem=str(error))
    # The name it is found by is that of its file.
    return ListedRun(path.stem, str(path), run.title, run.at_us, run.partial, len(run.repetitions))


def load(name: str, folder: Path) -> SavedRun:
    """Return a saved run by its name, a part of its name, or its file; `-1` is the newest.

    Raises NotFound, and SessionError for a file that is no run or has impossible values.
    """
    path = Path(name)
    if not (name.endswith(".json") and path.is_file()):
        path = folder / f"{_find(name, runs(folder))}.json"
    return _decoded(path)


def previous_run(run: SavedRun, folder: Path) -> PreviousRun | None:
    """Return the figures of the last complete run of the same plan before this one, if any."""
    title = run.name[_STAMP_LETTERS:]
    for name in reversed(runs(folder)):
        if name >= run.name or not name.endswith(title):
            continue
        try:
            saved = _decoded(folder / f"{name}.json")
        except SessionError:
            continue  # A file that is no run is reported by the list of runs.
        if saved.plan == run.plan and not saved.partial:
            return _as_previous(saved)
    return None


def _as_previous(run: SavedRun) -> PreviousRun:
    last = run.results[-1]
    main = main_latency(last.latencies)
    return PreviousRun(
        name=run.name,
        at_us=run.at_us,
        publish_per_s=last.publish_per_s,
        receive_per_s=last.receive_per_s,
        latency=main and main[0],
        p99_ns=main and main[1].percentile_ns(99),
        lost_msgs=last.accounting.lost_msgs,
    )


def _decoded(path: Path) -> SavedRun:
    try:
        run = decoder_of(SavedRun).decode(read_plain(path, _MOST_BYTES))
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise SessionError(f"{path} is not a saved benchmark: {reason(error)}") from error
    if run.schema_version != SCHEMA_VERSION:
        raise SessionError(f"{path} was saved by another version of natstui")
    problem = next(_impossible(run), None)
    if problem is not None:
        raise SessionError(f"{path} is not a saved benchmark: {problem}")
    figures = tuple(metrics(result) for result in run.results)
    return replace(run, metrics=medians(list(figures)), repetitions=figures)


def _impossible(run: SavedRun) -> Iterator[str]:
    """Yield a sentence for each value that no run has, with its field."""
    if not run.results:
        yield "results is empty"
        return
    if not is_possible_time(run.at_us):
        yield "its time is not possible"
    for number, result in enumerate(run.results):
        yield from impossible_values(result, f"results[{number}]")
    for number, timeline in enumerate(run.timelines):
        yield from impossible_values(timeline, f"timelines[{number}]")
    if len(run.repetitions) != len(run.results):
        yield f"repetitions has {len(run.repetitions)} entries, and results {len(run.results)}"
        return
    figures = [metrics(result) for result in run.results]
    for number, saved in enumerate(run.repetitions):
        yield from _other_figures(saved, figures[number], f"repetitions[{number}]")
    yield from _other_figures(run.metrics, medians(figures), "metrics")


def _other_figures(saved: Metrics, figures: Metrics, field: str) -> Iterator[str]:
    """Yield a sentence for each saved figure that is not that of the results."""
    for name, value in saved.items():
        if name in figures and value != figures[name]:
            yield f"{field}.{name} is {value}, and {figures[name]} by its results"


def _find(name: str, names: list[str]) -> str:
    if re.fullmatch(r"-\d+", name) and int(name[1:]) <= len(names):
        return names[int(name)]
    matches = [run_name for run_name in names if run_name == name] or [
        run_name for run_name in names if name in run_name
    ]
    if len(matches) != 1:
        raise NotFound(f"{len(matches) or 'no'} saved runs match {name!r}: see natstui bench runs")
    return matches[0]


def _log(run: SavedRun) -> str:
    """Return the histograms of all repetitions together."""
    together: Latencies = merge_latencies(result.latencies for result in run.results)
    length_s = sum(result.duration_s for result in run.results)
    return hdr_log(
        run.at_us,
        [
            TaggedInterval(name, 0.0, length_s, getattr(together, name))
            for name in LATENCY_FIELDS
            if getattr(together, name).total_count
        ],
    )
