"""What the analysis costs, start included: a small session, 200 of them, one hour and ten.

The hour has 200 streams and 1,000 consumers at 1 Hz: 3.6 million samples. It holds its findings,
as recordings do. Each time is the median of three runs. `NATSTUI_BENCH_TEN` may name the folder of
a session of ten hours made before (`benchmarks._sessions`), or be 0: then ten hours are left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from natstui.values import replace

TICK_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
HOUR_SAMPLES_COUNT = 3600 * 1000
RUNS_COUNT = 3
WALL_LIMIT_S = {HOUR_SAMPLES_COUNT: 40, 10 * HOUR_SAMPLES_COUNT: 200}
MANY_COUNT = 200
MANY_LIMIT_S = 60
ONE_MORE_LIMIT_S = 20
SMALL_LIMIT_S = 15
AGAIN_LIMIT_S = 1
MEMORY_LIMIT_MIB = 2048
BRONZE_LIMIT_US = 2.5
GOLD_LIMIT_TIMES = 9
SMALL = Plan(6, 8, 40)
TEN_HOURS = Plan(ticks_count=36_000, seed=2)
_GOLD_BEGINS = "stream rate"


@dataclass
class Cost:
    """What a run took."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    steps: list[tuple[str, float, float]] = field(default_factory=list)
    """Name, wall clock and CPU at its beginning."""

    def between(self, first: str, after: str | None) -> tuple[float, float]:
        """Return (wall, CPU) from the beginning of a step to that of another, or the end."""
        marks = {name: (wall, cpu) for name, wall, cpu in reversed(self.steps)}
        end = marks[after] if after else (self.wall_s, self.cpu_s)
        return end[0] - marks[first][0], end[1] - marks[first][1]


class _Meter:
    """Watches every process of one session: CPU used, memory resident."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._cpu_s: dict[int, float] = {}
        self.peak_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @property
    def cpu_s(self) -> float:
        """CPU of all of them so far."""
        return sum(self._cpu_s.values())

    def end(self) -> None:
        """Stop watching."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            resident_bytes, known = 0, set(self._cpu_s)
            for path in Path("/proc").glob("[0-9]*/stat"):
                try:
                    parts = path.read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(parts[3]) == self._leader:
                    self._cpu_s[int(path.parent.name)] = (int(parts[11]) + int(parts[12])) / TICK_S
                    # A program the JVM starts shows all of the JVM's memory at its first moment.
                    if int(path.parent.name) in known:
                        resident_bytes += int(parts[21]) * PAGE_BYTES
            self.peak_bytes = max(self.peak_bytes, resident_bytes)


def measured(folder: Path, out: Path, *words: str, tree: Path | None = None) -> Cost:
    """Run the pipeline in a process of its own and measure it.

    `tree` is another one than this, with an environment of its own.
    """
    cost, start_s = Cost(), time.monotonic()
    python = str(tree / ".venv" / "bin" / "python") if tree else sys.executable
    command = [python, "-m", "natstui.analysis.job", str(folder), "--pipe"]
    child = subprocess.Popen(
        [*command, f"--out={out}", "--master=local[2]", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=tree,
    )
    meter = _Meter(child.pid)
    assert child.stdout is not None and child.stdin is not None
    seen = ""
    for line in child.stdout:
        told = json.loads(line)
        if told["kind"] == "failed":
            sys.exit(told["text"])
        if told["kind"] == "progress" and told["text"] != seen:
            seen = told["text"]
            cost.steps.append((seen, time.monotonic() - start_s, meter.cpu_s))
    cost.wall_s = time.monotonic() - start_s
    child.wait()
    meter.end()
    child.stdin.close()
    child.stdout.close()
    cost.cpu_s, cost.peak_bytes = meter.cpu_s, meter.peak_bytes
    return cost


def bronze_us(folder: Path, samples_count: int) -> float:
    """Return the CPU (µs) of parsing and checking one consumer sample, in a warm JVM."""
    code = _BRONZE.format(folder=str(folder), samples_count=samples_count)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(ran.stdout.split()[-1])


_BRONZE = """
import os
from pathlib import Path
import tempfile
from natstui.analysis.bronze.build import read_lines
from natstui.analysis.spark.session import SparkSettings, open_session
spark = open_session(SparkSettings(Path(tempfile.mkdtemp()), "local[2]"))
pid = spark.sparkContext._gateway.proc.pid
def cpu():
    parts = Path(f"/proc/{{pid}}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
lines = read_lines(spark, [str(path) for path in Path("{folder}").glob("records-*")])
best = 1e9
for _ in range(3):
    before = cpu()
    lines.write.format("noop").mode("overwrite").save()
    best = min(best, (cpu() - before) / {samples_count} * 1e6)
spark.stop()
print(best)
"""


def median_of(run: Callable[[int], Cost]) -> Cost:
    """Return the cost of the run with the median wall clock; `run` is given its number."""
    costs = sorted(map(run, range(RUNS_COUNT)), key=lambda cost: cost.wall_s)
    return costs[RUNS_COUNT // 2]


def _tell(name: str, cost: Cost, samples_count: int) -> tuple[float, float]:
    gold = cost.between(_GOLD_BEGINS, None)
    print(f"{name}: {samples_count / 1e6:.1f} M consumer samples, load {os.getloadavg()[0]:.1f}")
    limit = f"  (limit {WALL_LIMIT_S[samples_count]} s)"
    print(f"  whole pipeline   {cost.wall_s:6.1f} s wall  {cost.cpu_s:6.1f} s CPU{limit}")
    for title, first, after in (
        ("start of Spark", "starting Spark", "checking the segments"),
        ("bronze → silver", "checking the segments", _GOLD_BEGINS),
        ("silver → gold", _GOLD_BEGINS, None),
    ):
        wall_s, cpu_s = cost.between(first, after)
        print(f"    {title:<16} {wall_s:6.1f} s wall  {cpu_s:6.1f} s CPU")
    print(f"  memory           {cost.peak_bytes / 2**20:6.0f} MiB at most"
          f"  (limit {MEMORY_LIMIT_MIB} MiB)", flush=True)  # fmt: skip
    return gold


def _many(root: Path) -> None:
    """Analyse many small sessions, and one more."""
    for number in range(MANY_COUNT):
        write_session(root / "many" / f"{number:04d}", replace(SMALL, seed=number + 1))
    every = root / "many" / "*"
    all_ = median_of(lambda run: measured(every, root / f"out200-{run}"))
    write_session(root / "many" / "more", replace(SMALL, seed=MANY_COUNT + 1))
    more = median_of(lambda run: measured(every, root / f"out200-{run}"))
    files_count = sum(1 for _ in (root / "out200-0").rglob("*.parquet"))
    print(f"{MANY_COUNT} sessions of 40 s: {all_.wall_s:.1f} s wall  {all_.cpu_s:.1f} s CPU"
          f"  (limit {MANY_LIMIT_S} s), {files_count:,} Parquet files")  # fmt: skip
    print(f"  and one more     {more.wall_s:6.1f} s wall  {more.cpu_s:6.1f} s CPU"
          f"  (limit {ONE_MORE_LIMIT_S} s)", flush=True)  # fmt: skip


def main() -> None:
    """Measure all of it."""
    with tempfile.TemporaryDirectory(prefix="natstui-bench-") as place:
        root = Path(place)
        session = write_session(root / "small", SMALL)
        small = median_of(lambda run: measured(session, root / f"out0-{run}"))
        print(f"40 s of 8 consumers: {small.wall_s:.1f} s wall"
              f"  {small.cpu_s:.1f} s CPU  (limit {SMALL_LIMIT_S} s)", flush=True)  # fmt: skip
        _many(root)
        hour = write_session(root / "hour", Plan(), findings=True)
        samples_count = HOUR_SAMPLES_COUNT
        print(f"bronze: {bronze_us(hour, samples_count):.2f} µs of CPU per consumer sample"
              f"  (limit {BRONZE_LIMIT_US})", flush=True)  # fmt: skip
        cost = median_of(lambda run: measured(hour, root / f"out1-{run}"))
        one = _tell("1 h", cost, samples_count)
        again = median_of(lambda run: measured(hour, root / f"out1-{run}"))
        print(f"  again, nothing new {again.wall_s:4.1f} s wall  {again.cpu_s:6.1f} s CPU"
              f"  (limit {AGAIN_LIMIT_S} s)")  # fmt: skip
        if os.environ.get("NATSTUI_BENCH_TEN") != "0":
            _ten_hours(root, one)


def _ten_hours(root: Path, one: tuple[float, float]) -> None:
    made = Path(os.environ.get("NATSTUI_BENCH_TEN") or root / "ten")
    session = made if made.is_dir() else write_session(root / "ten", TEN_HOURS, findings=True)
    cost = median_of(lambda run: measured(session, root / f"out10-{run}"))
    ten = _tell("10 h", cost, 10 * HOUR_SAMPLES_COUNT)
    print(f"  gold             {ten[0] / one[0]:6.1f} times the wall of 1 h, "
          f"{ten[1] / one[1]:.1f} times its CPU  (limit {GOLD_LIMIT_TIMES} times)"
    )  # fmt: skip


if __name__ == "__main__":
    main()
