"""What parallel workers begin with: Spark, then the files that take longest."""

from __future__ import annotations

from tests.architecture.source import ROOT
from tests.duration import SECONDS, SPARK, SPARK_PROCESSES, longest


def test_every_file_that_takes_long_exists() -> None:
    files = SECONDS.keys() - {SPARK, SPARK_PROCESSES}
    assert [path for path in files if not (ROOT / path).is_file()] == []


def test_spark_is_begun_first_then_what_takes_longest_then_the_rest_in_order() -> None:
    waiting = ["tests/a.py", "tests/b.py", *sorted(SECONDS)]
    begun = []
    while waiting:
        begun.append(longest(waiting))
        waiting.remove(begun[-1])
    assert begun[:2] == [SPARK, SPARK_PROCESSES]
    assert [SECONDS[path] for path in begun[:-2]] == sorted(SECONDS.values(), reverse=True)
    assert begun[-2:] == ["tests/a.py", "tests/b.py"]
