"""Run the suite until one may trust it: `make stable`, more than an hour.

Three times alone, twice beside four busy processes, then the fifty tests that wait longest twenty
times each beside them. Prints one line for each run, and what failed; exits 1 if anything did.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

ALONE_COUNT = 3
BESIDE_COUNT = 2
BUSY_COUNT = 4
LONGEST_COUNT = 50
REPEATED_COUNT = 20
ROOT = Path(__file__).parents[1]


class Case(Struct, frozen=True):
    """One test of a run."""

    nodeid: str
    taken_s: float
    failed: bool


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep so many processes computing meanwhile."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_tests(title: str, command: list[str], options: str) -> list[Case]:
    """Run a command that runs tests, print one line on them, and return them.

    `options` is what the last word of the command begins with; pytest gets its report added.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        words = f"{options}--junitxml={report}"
        done = subprocess.run(
            [*command, words], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if not report.is_file():
            raise SystemExit(f"{title}: no report\n{done.stdout}\n{done.stderr}")
        cases = read_report(report)
    failed = [case.nodeid for case in cases if case.failed]
    print(f"{title}: {len(cases)} tests, {len(failed)} failed", flush=True)
    if failed:
        print(done.stdout, flush=True)
    elif done.returncode:
        raise SystemExit(f"{title}: ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return cases


def run_suite(title: str) -> list[Case]:
    """Run what `make check` runs."""
    return run_tests(title, ["make", "-s", "test", f"PYTHON={sys.executable}"], "PYTEST_FLAGS=")


def run_chosen(title: str, names: Path) -> list[Case]:
    """Run the tests that a file names."""
    parallel = ["-n", "4", "--dist", "loadgroup"]
    return run_tests(title, [sys.executable, "-m", "pytest", "-q", *parallel, f"@{names}"], "")


def read_report(report: Path) -> list[Case]:
    """Return the tests of a report of pytest."""
    return [
        Case(
            nodeid(case.get("classname", ""), case.get("name", "")),
            float(case.get("time") or 0),
            case.find("failure") is not None or case.find("error") is not None,
        )
        for case in ElementTree.parse(report).iter("testcase")
    ]


def nodeid(module: str, name: str) -> str:
    """Return what pytest calls a test of a report; after its name may stand its xdist group."""
    if name.rfind("@") > name.rfind("]"):
        name = name.rpartition("@")[0]
    return f"{module.replace('.', '/')}.py::{name}"


def longest(cases: list[Case]) -> list[str]:
    """Return the tests that wait longest, by the shortest time that each took.

    Other processes slow down what computes, and not what waits.
    """
    taken_s: dict[str, float] = {}
    for case in cases:
        taken_s[case.nodeid] = min(case.taken_s, taken_s.get(case.nodeid, case.taken_s))
    return sorted(taken_s, key=lambda nodeid: -taken_s[nodeid])[:LONGEST_COUNT]


def main() -> None:
    """Run everything; exit 1 if a test has failed."""
    cases: list[Case] = []
    for number in range(1, ALONE_COUNT + 1):
        cases += run_suite(f"alone, {number} of {ALONE_COUNT}")
    with busy_processes(BUSY_COUNT), tempfile.TemporaryDirectory() as folder:
        for number in range(1, BESIDE_COUNT + 1):
            cases += run_suite(f"beside {BUSY_COUNT} busy processes, {number} of {BESIDE_COUNT}")
        names = Path(folder, "names.txt")
        names.write_text("\n".join(longest(cases)), encoding="utf-8")
        for number in range(1, REPEATED_COUNT + 1):
            cases += run_chosen(
                f"the {LONGEST_COUNT} longest, {number} of {REPEATED_COUNT}", names
            )
    failed = sorted({case.nodeid for case in cases if case.failed})
    print(f"{len(cases)} runs of tests; failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
