"""An analysis by two trees in turn: this one, and another that NATSTUI_BENCH_BASE names.

    git worktree add ../base COMMIT
    cd ../base && python -m venv .venv && .venv/bin/pip install -e '.[spark]'
    cd - && NATSTUI_BENCH_BASE=../base python -m benchmarks paired

Each of the two runs in its own environment, on the same recordings, and they take turns at being
the first. Printed are medians of wall clock, CPU and resident memory, and the ratio of this tree
to the other. `NATSTUI_BENCH_SIZES` may name some of the sizes; `NATSTUI_BENCH_TEN` the folder of a
session of ten hours made before.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from benchmarks.analysis import MANY_COUNT, SMALL, TEN_HOURS, Cost, measured
from natstui.values import replace

HERE = Path(__file__).parents[1]
MEMORY_LIMIT_RATIO = 1.2


class Size(Struct, frozen=True):
    """What is analysed, how often, and how much slower than the other tree this one may be."""

    write: Callable[[Path], Path]
    """Writes the recordings into a folder; returns the pattern that names them."""
    runs_count: int
    limit_ratio: float


def _many(root: Path) -> Path:
    for number in range(MANY_COUNT):
        write_session(root / f"{number:04d}", replace(SMALL, seed=number + 1))
    return root / "*"


def _ten_hours(root: Path) -> Path:
    made = os.environ.get("NATSTUI_BENCH_TEN")
    return Path(made) if made else write_session(root / "ten", TEN_HOURS, findings=True)


SIZES = {
    "small": Size(lambda root: write_session(root / "small", SMALL), 3, 1.6),
    "many": Size(_many, 3, 1.5),
    "hour": Size(lambda root: write_session(root / "hour", Plan(), findings=True), 3, 1.0),
    "ten": Size(_ten_hours, 1, 1.0),
}


def pairs(size: Size, base: Path, root: Path) -> Iterator[tuple[Cost, Cost]]:
    """Yield the costs of this tree and of the base, run after run."""
    folder = size.write(root / "sessions")
    for number in range(size.runs_count):
        trees = (HERE, base) if number % 2 else (base, HERE)
        costs = {}
        for tree in trees:
            out = root / f"out-{number}-{'here' if tree == HERE else 'base'}"
            costs[tree] = measured(folder, out, tree=tree)
        yield costs[HERE], costs[base]


def _print_ratios(name: str, limit_ratio: float, costs: list[tuple[Cost, Cost]]) -> None:
    figures: dict[str, tuple[Callable[[Cost], float], str]] = {
        "wall s": (lambda cost: cost.wall_s, f"(limit {limit_ratio})"),
        "CPU s": (lambda cost: cost.cpu_s, ""),
        "MiB": (lambda cost: cost.peak_bytes / 2**20, f"(limit {MEMORY_LIMIT_RATIO})"),
    }
    for what, (of, limit) in figures.items():
        here, base = (statistics.median(map(of, side)) for side in zip(*costs, strict=True))
        print(f"{name:<6} {what:<7} {here:8.1f} {base:8.1f}  {here / base:5.2f} times  {limit}",
              flush=True)  # fmt: skip


def base_tree() -> Path | None:
    """Return the tree that NATSTUI_BENCH_BASE names; None, with a message, if it is not set."""
    given = os.environ.get("NATSTUI_BENCH_BASE")
    if not given:
        print("left out: NATSTUI_BENCH_BASE names no other tree")
        return None
    base = Path(given).resolve()
    if not (base / "natstui").is_dir():
        sys.exit(f"{base} is not a tree of natstui")
    return base


def main() -> None:
    """Measure all sizes, or those named."""
    base = base_tree()
    if base is None:
        return
    with tempfile.TemporaryDirectory(prefix="natstui-bench-") as place:
        root = Path(place)
        session = write_session(root / "warm", SMALL)
        # Whatever a tree prepares once, it has prepared then.
        for number, tree in enumerate((HERE, base)):
            measured(session, root / f"warm-{number}", tree=tree)
        print("size   what        here     base  ratio")
        for name in (os.environ.get("NATSTUI_BENCH_SIZES") or ",".join(SIZES)).split(","):
            size = SIZES[name]
            _print_ratios(name, size.limit_ratio, list(pairs(size, base, root / name)))


if __name__ == "__main__":
    main()
