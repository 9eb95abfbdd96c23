"""A month of a fleet: hundreds of thousands of small segments, within 1 GB of driver memory.

Sessions of a day, one segment a minute, are links to one that was written. Read are all of them,
then one segment more; printed are times, bytes read and the most memory that was resident.
`NATSTUI_BENCH_SEGMENTS` may give another number of segments than 400,000.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from benchmarks._fleet import Fault, Plan
from benchmarks._sessions import write_session
from benchmarks.analysis import measured

SEGMENTS_COUNT = int(os.environ.get("NATSTUI_BENCH_SEGMENTS") or 400_000)
OF_A_DAY_COUNT = 1440
MEMORY = "1g"


def write_fleet(root: Path, segments_count: int) -> Path:
    """Write sessions of a day with so many segments in all; return the last of them."""
    # With a finding: a session without any would be judged by Python, as older ones are.
    plan = Plan(2, 2, OF_A_DAY_COUNT, faults=(Fault("no_pull", 1, 100, 300),))
    day = write_session(root / "day", plan, records_per_segment=1, findings=True)
    names = sorted(path.name for path in day.glob("records-*.gz"))[:OF_A_DAY_COUNT]
    for number in range(-(-segments_count // len(names))):
        folder = root / "fleet" / f"20260901T000000Z-server-{number:04d}"
        folder.mkdir(parents=True)
        shutil.copy(day / "session.json", folder)
        for name in names:
            os.link(day / name, folder / name)
    return folder


def main() -> None:
    """Measure the first run, and one after a session has grown."""
    with tempfile.TemporaryDirectory(prefix="natstui-bench-") as place:
        last = write_fleet(Path(place), SEGMENTS_COUNT)
        newest = sorted(last.glob("records-*"))[-1]
        newest.rename(Path(place, "newest"))
        every, out = last.parent / "*", Path(place, "out")
        for title in ("all", "one more"):
            cost = measured(every, out, f"--memory={MEMORY}")
            reads = next(name for name, _, _ in cost.steps if name.startswith("reading "))
            print(f"{title:<9} {cost.wall_s:7.1f} s wall  {cost.cpu_s:7.1f} s CPU"
                  f"  {cost.peak_bytes / 2**20:6.0f} MiB resident: {reads}")  # fmt: skip
            for (name, begin_s, _), (_, end_s, _) in zip(cost.steps, cost.steps[1:], strict=False):
                if end_s - begin_s > 1:
                    print(f"  {name:<60} {end_s - begin_s:7.1f} s", flush=True)
            if title == "all":
                Path(place, "newest").rename(newest)


if __name__ == "__main__":
    main()
