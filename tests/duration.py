"""How long the files with the longest tests take: parallel workers begin with those."""

from __future__ import annotations

from collections.abc import Iterable

SPARK = "spark"
"""Stands for all files that start Spark, which run one after the other in one worker."""
SECONDS = {
    SPARK: 1300,
    "tests/bench/test_sizes.py": 126,
    "tests/engine/test_advisory_fuzz.py": 106,
    "tests/jetstream/test_cluster_faults.py": 98,
    "tests/tui/test_every_key.py": 86,
    "tests/tui/test_forms.py": 75,
    "tests/tui/test_pictures.py": 64,
    "tests/cli/test_messages_copy.py": 63,
    "tests/cli/test_backup.py": 62,
    "tests/cli/test_bench_failures.py": 62,
    "tests/tui/test_benchmark_screen.py": 49,
    "tests/tui/test_hostile.py": 48,
    "tests/jetstream/test_slow_link_matrix.py": 45,
    "tests/bench/test_truth.py": 45,
    "tests/session/test_kill.py": 43,
    "tests/tui/test_asked_again.py": 43,
    "tests/bench/test_coming_back.py": 37,
    "tests/bench/test_failures.py": 37,
    "tests/cli/test_bench.py": 36,
    "tests/tui/test_export_screen.py": 36,
    "tests/tui/test_messages.py": 33,
    "tests/tui/test_stores_screen.py": 32,
}
"""Measured with two workers on two cores, to the second; only the order matters."""


def longest(scopes: Iterable[str]) -> str:
    """Return what takes longest; of those that are not listed, the first."""
    return max(scopes, key=lambda scope: SECONDS.get(scope, 0))
