"""Compares two benchmarks: the differences of their medians, with confidence intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct

from natstui.bench.result.assertions import is_latency
from natstui.bench.result.library import SavedRun
from natstui.model.bench.latency import COMPARED_PERCENTILES

_RESAMPLES_COUNT = 4000
_RANDOM_SEED = 20
_LOW_PERCENTILE, _HIGH_PERCENTILE = 2.5, 97.5
_COMPARED_FIGURES = ("publish_rate", "receive_rate", "fairness")


class Difference(Struct, frozen=True):
    """The change of one figure; its ratios are relative changes: 0.05 is 5 % more."""

    metric: str
    before: float
    after: float
    change_ratio: float
    low_ratio: float | None
    """Lower end of the 95 % interval of the change; None with a single repetition."""
    high_ratio: float | None
    verdict: str

    @property
    def unit(self) -> str:
        """Return the unit of both values."""
        if is_latency(self.metric):
            return "ns"
        return "ratio" if self.metric == "fairness" else "msgs_per_s"


def compare(before: SavedRun, after: SavedRun) -> list[Difference]:
    """Return the differences of all figures that both runs have."""
    return list(_differences(before, after))


def _differences(before: SavedRun, after: SavedRun) -> Iterator[Difference]:
    latencies = [
        name
        for name in before.metrics
        if is_latency(name) and name.rpartition(".")[2] in COMPARED_PERCENTILES
    ]
    for name in (*_COMPARED_FIGURES, *latencies):
        before_values, after_values = _figure_values(before, name), _figure_values(after, name)
        if len(before_values) and len(after_values) and np.median(before_values) > 0:
            yield compute_difference(name, before_values, after_values)


def _figure_values(run: SavedRun, name: str) -> np.ndarray:
    values = [repetition.get(name) for repetition in run.repetitions]
    return np.array([value for value in values if value is not None], np.float64)


def compute_difference(
    name: str, before_values: np.ndarray, after_values: np.ndarray
) -> Difference:
    """Return the change of the median of a figure, with its confidence interval by bootstrapping.

    `before_values` and `after_values` have one value per repetition.
    """
    before, after = float(np.median(before_values)), float(np.median(after_values))
    change_ratio = after / before - 1
    low_ratio = high_ratio = None
    if min(len(before_values), len(after_values)) > 1:
        rng = np.random.default_rng(_RANDOM_SEED)
        before_medians = np.median(
            rng.choice(before_values, (_RESAMPLES_COUNT, len(before_values))), axis=1
        )
        after_medians = np.median(
            rng.choice(after_values, (_RESAMPLES_COUNT, len(after_values))), axis=1
        )
        change_ratios = after_medians / np.maximum(before_medians, 1e-12) - 1
        low_ratio, high_ratio = (
            float(bound)
            for bound in np.percentile(change_ratios, [_LOW_PERCENTILE, _HIGH_PERCENTILE])
        )
    return Difference(
        name,
        before,
        after,
        change_ratio,
        low_ratio,
        high_ratio,
        _verdict(name, change_ratio, low_ratio, high_ratio),
    )


def _verdict(
    name: str, change_ratio: float, low_ratio: float | None, high_ratio: float | None
) -> str:
    if low_ratio is None or high_ratio is None:
        return "one run each cannot rule out chance: use --repeat"
    if low_ratio <= 0 <= high_ratio:
        return "no significant change"
    is_worse = change_ratio > 0 if is_latency(name) else change_ratio < 0
    direction = "slower" if is_worse else "faster"
    margin_ratio = (high_ratio - low_ratio) / 2
    return f"{direction} by {abs(change_ratio):.1%} ± {margin_ratio:.1%}"
