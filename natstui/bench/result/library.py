"""The run library: one JSON file per saved benchmark, with its histograms as an HdrHistogram log.

A file holds the plan, every repetition's result, the medians of its figures and the environment.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
from platformdirs import user_data_path

from natstui.bench.result.environment import Environment
from natstui.bench.result.metrics import Metrics, medians, metrics
from natstui.decoding import decoder_of
from natstui.errors import NotFound, SessionError
from natstui.files import read_plain, write_complete
from natstui.model.bench.counts import LATENCY_FIELDS, Latencies, main_latency, merge_latencies
from natstui.model.bench.latency import TaggedInterval, hdr_log, is_histogram
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import BenchmarkResult, PreviousRun
from natstui.model.bench.timeline import Timeline
from natstui.parsing import reason
from natstui.paths import private_folder, user_path
from natstui.units import is_possible_time

SCHEMA_VERSION = 1
_STAMP_LETTERS = len("20261123-174231-810-")
_WORDS_MOST = 40
"""Letters of the title in a name, whole words only."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """What a list tells of one saved run; what is unknown is None, and `problem` says why."""

    name: str
    file: str
    title: str | None = None
    at_us: int | None = None
    partial: bool | None = None
    repetitions_count: int | None = None
    problem: str | None = None


_MOST_BYTES = 256 << 20
"""Of a saved run."""


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
    """When the messages of each repetition came; missing in files of older versions."""


def library_folder(named: str | None) -> Path:
    """Return where runs are saved: the folder of the settings, or natstui's data folder."""
    return user_path(named) if named else user_data_path("natstui") / "benchmarks"


def saved_run(
    plan: BenchmarkPlan,
    results: tuple[BenchmarkResult, ...],
    where: Environment,
    timelines: tuple[Timeline, ...] = (),
) -> SavedRun:
    """Return what is saved and printed of a benchmark."""
    figures = tuple(metrics(result) for result in results)
    at_us = results[0].started_at_us
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(at_us / 1e6))
    words = re.sub(r"[^a-z0-9]+", "-", plan.title.lower()).strip("-")
    word = words if len(words) <= _WORDS_MOST else words[: _WORDS_MOST + 1].rpartition("-")[0]
    return SavedRun(
        schema_version=SCHEMA_VERSION,
        name=f"{stamp}-{at_us % 1_000_000 // 1000:03}-{word}",
        title=plan.title,
        at_us=at_us,
        partial=any(result.partial for result in results),
        metrics=medians(list(figures)),
        repetitions=figures,
        plan=plan,
        results=results,
        environment=where,
        timelines=timelines,
    )


def encode(run: SavedRun) -> bytes:
    """Return a run as one JSON object."""
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
    """Return what a list tells of all saved runs, oldest first."""
    return [_listed(folder / f"{name}.json") for name in runs(folder)]


def _listed(path: Path) -> ListedRun:
    try:
        run = _decoded(path)
    except SessionError as error:
        return ListedRun(path.stem, str(path), problem=str(error))
    # The name it is found by is that of its file.
    return ListedRun(path.stem, str(path), run.title, run.at_us, run.partial, len(run.repetitions))


def load(name: str, folder: Path) -> SavedRun:
    """Return a run by its name, by the end of it, or by its file; `-1` is the newest.

    Raises NotFound, or SessionError for a file that is no run.
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
            found = _decoded(folder / f"{name}.json")
        except SessionError:
            continue  # A file that is no run is reported by the list of runs.
        if found.plan == run.plan and not found.partial:
            return _as_previous(found)
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
    for result in run.results:
        for name in LATENCY_FIELDS:
            if not is_histogram(getattr(result.latencies, name)):
                raise SessionError(f"{path} is not a saved benchmark: {name} is no histogram")
    if not is_possible_time(run.at_us):
        raise SessionError(f"{path} is not a saved benchmark: its time is not possible")
    if run.schema_version != SCHEMA_VERSION:
        raise SessionError(f"{path} was saved by another version of natstui")
    return run


def _find(name: str, names: list[str]) -> str:
    if re.fullmatch(r"-\d+", name) and int(name[1:]) <= len(names):
        return names[int(name)]
    found = [one for one in names if one == name] or [one for one in names if name in one]
    if len(found) != 1:
        raise NotFound(f"{len(found) or 'no'} saved runs match {name!r}: see natstui bench runs")
    return found[0]


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
