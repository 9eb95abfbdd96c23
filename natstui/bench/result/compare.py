"""Two benchmarks side by side: differences of medians, with intervals from their repetitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from natstui.bench.result.assertions import is_latency
from natstui.bench.result.library import SavedRun
from natstui.model.bench.latency import COMPARED_PERCENTILES

_RESAMPLES = 4000
_SEED = 20
_LOW, _HIGH = 2.5, 97.5
_FIGURES = ("publish_rate", "receive_rate", "fairness")


@dataclass(frozen=True, slots=True)
class Difference:
    """How one figure changed; ratios are changes: 0.05 is 5 % more."""

    metric: str
    before: float
    after: float
    change_ratio: float
    low_ratio: float | None
    """Lower end of the 95 % interval; None with a single repetition."""
    high_ratio: float | None
    verdict: str

    @property
    def unit(self) -> str:
        """The unit of both values."""
        if is_latency(self.metric):
            return "ns"
        return "ratio" if self.metric == "fairness" else "msgs_per_s"


def compare(before: SavedRun, after: SavedRun) -> list[Difference]:
    """Return the differences of all figures both runs have."""
    return list(_differences(before, after))


def _differences(before: SavedRun, after: SavedRun) -> Iterator[Difference]:
    latencies = [
        name
        for name in before.metrics
        if is_latency(name) and name.rpartition(".")[2] in COMPARED_PERCENTILES
    ]
    for name in (*_FIGURES, *latencies):
        left, right = _values(before, name), _values(after, name)
        if len(left) and len(right) and np.median(left) > 0:
            yield difference(name, left, right)


def _values(run: SavedRun, name: str) -> np.ndarray:
    found = [repetition.get(name) for repetition in run.repetitions]
    return np.array([value for value in found if value is not None], np.float64)


def difference(name: str, left: np.ndarray, right: np.ndarray) -> Difference:
    """Return how a figure changed between two sets of repetitions, by bootstrapping medians."""
    before, after = float(np.median(left)), float(np.median(right))
    change = after / before - 1
    low = high = None
    if min(len(left), len(right)) > 1:
        random = np.random.default_rng(_SEED)
        lefts = np.median(random.choice(left, (_RESAMPLES, len(left))), axis=1)
        rights = np.median(random.choice(right, (_RESAMPLES, len(right))), axis=1)
        changes = rights / np.maximum(lefts, 1e-12) - 1
        low, high = (float(end) for end in np.percentile(changes, [_LOW, _HIGH]))
    return Difference(name, before, after, change, low, high, _verdict(name, change, low, high))


def _verdict(name: str, change: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "one run each cannot rule out chance: use --repeat"
    if low <= 0 <= high:
        return "no significant change"
    worse = change > 0 if is_latency(name) else change < 0
    word = "slower" if worse else "faster"
    margin = (high - low) / 2
    return f"{word} by {abs(change):.1%} ± {margin:.1%}"
