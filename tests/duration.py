"""How long the files with the longest tests take: parallel workers begin with those."""

from __future__ import annotations

from collections.abc import Iterable

SPARK = "spark"
"""Stands for all files that use a session of Spark: one after the other, in one worker."""
SPARK_PROCESSES = "spark processes"
"""Stands for all files that start Spark in processes of its own, one after the other too."""
SECONDS = {
    SPARK: 560,
    SPARK_PROCESSES: 540,
    "tests/tui/test_every_key.py": 197,
    "tests/cli/test_watch.py": 134,
    "tests/tui/test_forms.py": 125,
    "tests/engine/test_advisory_fuzz.py": 108,
    "tests/session/test_damage.py": 106,
    "tests/tui/test_messages.py": 105,
    "tests/cli/test_bench_failures.py": 102,
    "tests/cli/test_messages_copy.py": 94,
    "tests/tui/test_servers_screen.py": 93,
    "tests/tui/test_pictures.py": 88,
    "tests/jetstream/test_cluster_faults.py": 88,
    "tests/cli/test_health.py": 84,
    "tests/cli/test_backup.py": 82,
    "tests/tui/test_keys.py": 78,
    "tests/cli/test_bench.py": 74,
    "tests/bench/test_no_false_findings.py": 73,
    "tests/looks/test_looks.py": 72,
    "tests/tui/test_stores_screen.py": 69,
    "tests/cli/test_recordings.py": 69,
    "tests/tui/test_several_systems.py": 69,
    "tests/bench/test_sizes.py": 67,
    "tests/tui/test_accounts_beside.py": 66,
    "tests/tui/test_sessions_screen.py": 57,
    "tests/tui/test_connections_screen.py": 56,
    "tests/bench/test_coming_back.py": 56,
    "tests/bench/test_patterns.py": 55,
    "tests/bench/test_failures.py": 55,
    "tests/tui/test_benchmark_screen.py": 54,
    "tests/cli/test_manage.py": 52,
    "tests/jetstream/test_holders.py": 52,
    "tests/jetstream/test_bulk.py": 47,
}
"""Measured room by room with four workers on two cores, to the second; only the order matters."""


def longest(scopes: Iterable[str]) -> str:
    """Return what takes longest; of those that are not listed, the first."""
    return max(scopes, key=lambda scope: SECONDS.get(scope, 0))
