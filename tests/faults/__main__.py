"""Runs the fault lab: `python -m tests.faults [NAME…]`, a situation's key or a ground's name."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

import tests.faults.stories.accounts
import tests.faults.stories.clusters
import tests.faults.stories.consumers
import tests.faults.stories.fine
import tests.faults.stories.servers
import tests.faults.stories.streams  # noqa: F401
from natstui.values import replace
from tests.faults.grounds import GROUPS, Plan, SharedStage
from tests.faults.healthy import report_of, run_healthy
from tests.faults.judge import Seen
from tests.faults.lab import Run, Times, run_plans
from tests.faults.observers import compare_gold, read_recording, seen_of_json
from tests.faults.report import rows_of, table, write_results


def chosen(names: list[str]) -> list[tuple[Plan, ...]]:
    """Return the grounds of the situations or grounds of some names, all without any."""
    groups = []
    for group in GROUPS:
        plans = []
        for plan in group:
            keys = tuple(key for key in plan.keys if not names or {key, plan.name} & set(names))
            if keys:
                is_shared = plan.stage is SharedStage
                plans.append(replace(plan, keys=keys) if is_shared else plan)
        if plans:
            groups.append(tuple(plans))
    return groups


async def recorded_findings_of(runs: list[Run]) -> dict[str, tuple[Seen, ...]]:
    """Return what each system's recording says, by the system's name."""
    recorded = {}
    for run in runs:
        for system in run.stage.systems:
            if system.polls:
                judged = await read_recording(system)
                recorded[system.name] = seen_of_json(judged["findings"])
    return recorded


def main() -> int:
    """Run what the command line names and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path, help="folder of the results and recordings")
    parser.add_argument("--spark", action="store_true", help="analyse all recordings in one run")
    parser.add_argument("--healthy", type=float, default=Times().healthy_s, metavar="SECONDS")
    parser.add_argument(
        "--workloads", type=float, metavar="SECONDS",
        help="run the healthy workloads instead, for so long: 900 is what counts",
    )  # fmt: skip
    parser.add_argument("--fixed", type=float, default=Times().fixed_s, metavar="SECONDS")
    given = parser.parse_args()
    folder = given.out or Path(tempfile.mkdtemp(prefix="natstui-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty: recordings of another run would be judged with it")
    groups = chosen(given.names)
    if not groups:
        parser.error("no situation and no ground has this name")
    began_s = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began_s:5.0f} s  {text}", file=sys.stderr, flush=True)

    if given.workloads:
        quarter = asyncio.run(run_healthy(folder, given.workloads, say))
        print(report_of(quarter))
        return 1 if quarter.false_findings() else 0
    times = Times(healthy_s=given.healthy, fixed_s=given.fixed)

    said: list[str] = []

    async def run() -> tuple[list[Run], dict[str, tuple[Seen, ...]]]:
        runs = await run_plans(groups, times, folder, say)
        say("judging the recordings")
        recorded = await recorded_findings_of(runs)
        if given.spark:
            say("analysing the recordings")
            said.append(await compare_gold(folder, recorded))
        return runs, recorded

    runs, recorded = asyncio.run(run())
    rows = rows_of(runs, recorded)
    held_up_s = max(run.held_up_s for run in runs)
    said.append(f"the machine held up the lab's own clients for at most {held_up_s:.1f} s")
    say(f"results are in {write_results(folder, rows, runs)}")
    print("\n".join((table(rows), *said)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
