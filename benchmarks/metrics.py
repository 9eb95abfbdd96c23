"""What a scrape of `natstui metrics` costs, against the Python client for Prometheus.

Both make the text of 1,000 streams and 5,000 consumers; interleaved rounds, medians.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from benchmarks._fleet import Plan
from benchmarks._sessions import records
from natstui.cli.metrics.exposition import Exposition
from natstui.model.live.state import State

STREAMS_COUNT, CONSUMERS_COUNT = 1_000, 5_000
ROUNDS_COUNT = 7
LIMIT_MS = 100


class Same(Collector):
    """Gives the same metrics to the client for Prometheus, as its documentation says."""

    def __init__(self, text: str) -> None:
        self._families = list(text_string_to_metric_families(text))

    def collect(self) -> list[GaugeMetricFamily]:
        """Return every metric, made anew as from new numbers."""
        found = []
        for family in self._families:
            names = sorted(family.samples[0].labels)
            gauge = GaugeMetricFamily(family.name, family.documentation, labels=names)
            for sample in family.samples:
                gauge.add_metric([sample.labels[name] for name in names], sample.value)
            found.append(gauge)
        return found


def cpu_ms(work: Callable[[], object]) -> float:
    """Return the processor time of one run."""
    begun = time.process_time()
    work()
    return (time.process_time() - begun) * 1000


def main() -> None:
    """Print both, and their ratio."""
    state = State()
    for record in records(Plan(STREAMS_COUNT, CONSUMERS_COUNT, 3)):
        state = state.after(record)
    ours, now_us = Exposition(), state.now_mono_us
    first_ms = cpu_ms(lambda: ours.text(state, now_us))
    text = ours.text(state, now_us)
    registry = CollectorRegistry()
    registry.register(Same(text))
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(ROUNDS_COUNT):
        times["ours"].append(cpu_ms(lambda: ours.text(state, now_us)))
        times["theirs"].append(cpu_ms(lambda: generate_latest(registry)))
    mine, client = statistics.median(times["ours"]), statistics.median(times["theirs"])
    print(f"{STREAMS_COUNT} streams, {CONSUMERS_COUNT} consumers, {text.count(chr(10))} lines")
    print(f"first scrape        {first_ms:7.0f} ms of CPU")
    print(f"later scrapes       {mine:7.0f} ms of CPU  (limit {LIMIT_MS} ms)")
    print(f"prometheus_client   {client:7.0f} ms of CPU  ratio {client / mine:.1f}×")


if __name__ == "__main__":
    main()
