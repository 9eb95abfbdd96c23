"""What the generator itself costs at a fixed rate, and how punctual it is, against its limits.

50,000 messages a second to a subject that nobody reads: its own CPU, and how long after it was
due each message was begun. Every round is printed, and the median of them is judged.
"""

from __future__ import annotations

import asyncio
from statistics import median

from natstui.bench.plan.flags import core_plan, with_changes
from natstui.bench.run.controller import Benchmark
from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.result import BenchmarkResult
from natstui.model.records.record import Record

RATE_PER_S, DURATION_S, ROUNDS = 50_000, 5, 5
MOST_CPU_RATIO, MOST_LATE_NS = 0.30, 1_000_000


class _Nobody:
    """A sink that forgets."""

    def add(self, record: Record) -> None:
        """Forget a record."""


def measured(url: str) -> BenchmarkResult:
    """Run once."""
    changes = {"rate": str(RATE_PER_S), "duration": f"{DURATION_S}s"}
    plan = with_changes(core_plan("generator", pubs=1), changes)
    return asyncio.run(Benchmark(plan, Connection(servers=(url,)), _Nobody()).run())


def main() -> None:
    """Measure and print."""
    cpu_ratios, late_ns = list[float](), list[int]()
    print("round  CPU of a core  late p50 ms  p99 ms  p99.9 ms  missed")
    with Broker() as broker:
        for number in range(ROUNDS):
            result = measured(broker.url)
            late = result.latencies.late
            cpu_ratios.append(result.workers[0].cpu_ratio or 0.0)
            late_ns.append(late.percentile_ns(99) or 0)
            shown = [(late.percentile_ns(percent) or 0) / 1e6 for percent in (50, 99, 99.9)]
            print(
                f"{number + 1:>5}{cpu_ratios[-1]:>15.1%}{shown[0]:>13.3f}{shown[1]:>8.3f}"
                f"{shown[2]:>10.3f}{result.accounting.missed_msgs:>8}"
            )
    cpu_ratio, p99_ns = median(cpu_ratios), median(late_ns)
    good = cpu_ratio < MOST_CPU_RATIO and p99_ns < MOST_LATE_NS
    print(
        f"median: CPU {cpu_ratio:.1%} (limit {MOST_CPU_RATIO:.0%}), due to begun p99"
        f" {p99_ns / 1e6:.3f} ms (limit {MOST_LATE_NS / 1e6:g} ms): {'ok' if good else 'OVER'}"
    )


if __name__ == "__main__":
    main()
