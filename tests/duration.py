"""How long the files with the longest tests take: parallel workers begin with those."""

from __future__ import annotations

from collections.abc import Iterable

SPARK = "spark"
"""Stands for all files that start Spark, which run one after the other in one worker."""
SECONDS = {
    SPARK: 1384,
    "tests/tui/test_every_key.py": 158,
    "tests/tui/test_forms.py": 137,
    "tests/engine/test_advisory_fuzz.py": 111,
    "tests/jetstream/test_cluster_faults.py": 88,
    "tests/cli/test_health.py": 87,
    "tests/cli/test_backup.py": 83,
    "tests/tui/test_stores_screen.py": 83,
    "tests/cli/test_bench_failures.py": 75,
    "tests/tui/test_hostile.py": 74,
    "tests/bench/test_no_false_findings.py": 73,
    "tests/tui/test_messages.py": 72,
    "tests/tui/test_pictures.py": 72,
    "tests/bench/test_sizes.py": 67,
    "tests/cli/test_messages_copy.py": 64,
    "tests/bench/test_coming_back.py": 56,
    "tests/tui/test_benchmark_screen.py": 56,
    "tests/bench/test_patterns.py": 55,
    "tests/bench/test_failures.py": 55,
    "tests/jetstream/test_holders.py": 52,
    "tests/tui/test_keys.py": 51,
    "tests/tui/test_asked_again.py": 51,
    "tests/tui/test_connections_screen.py": 49,
    "tests/jetstream/test_bulk.py": 47,
    "tests/session/test_kill.py": 46,
}
"""Measured with three workers on two cores, to the second; only the order matters."""


def longest(scopes: Iterable[str]) -> str:
    """Return what takes longest; of those that are not listed, the first."""
    return max(scopes, key=lambda scope: SECONDS.get(scope, 0))
